"""Adaptive TD: bootstrap, unless the value lies outside the confidence interval of the returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from chunked_td._checks import check_not_negative, check_unit
from chunked_td._link import kernel
from chunked_td.bootstraps import SARSA, STATE
from chunked_td.lambdas.base import LambdaSource, Settled
from chunked_td.lambdas.episode import MOMENTS, add_returns, column_of
from chunked_td.lambdas.names import OTHER
from chunked_td.lambdas.step import present_value


@dataclass(frozen=True)
class AdaptiveLambda(LambdaSource):
    """Adaptive TD (Penedones, Riquelme, Vincent, Maennel, Mann, Barreto, Gelly and Neu 2019).

        λ(x) = 0 if |m − B(x)| ≤ c √(v / (n − 1)), else 1

    where m and v are mean and variance of the n returns observed from x: bootstrap if the value lies within the
    confidence interval of the Monte-Carlo estimate. For SARSA x is the state–action pair. λ is 0 if fewer than two
    returns are known, because the interval then has no bounds. Differences from the paper: intervals come from running
    means in tables, in the paper from an ensemble of networks fitted to a batch of returns. Outside the interval the
    target is the return, in the paper a number from the interval. Reward components are summed.

    Args:
      standard_errors: c, half the width of the interval in standard errors of the mean.
      least_weight: minimum weight of a new return in mean and variance; see `GreedyLambda`. It limits n to
        2/least_weight − 1, the number of equally weighted returns with that variance of the mean.
    """

    id, label, group, color = "adaptive", "Adaptive TD", OTHER, "#8C564B"
    by_default = False

    standard_errors: float = 2.0
    least_weight: float = 0.0

    arrays = MOMENTS
    after_episode = kernel(add_returns)
    checks: ClassVar = {"standard_errors": check_not_negative, "least_weight": check_unit}

    def asks(self, bootstrap: int) -> tuple[str, ...]:
        """B(x), if it depends on the policy."""
        return () if bootstrap in (STATE, SARSA) else ("present_value",)

    def settled(self, known: Settled) -> Mapping[str, Any]:
        """Raise ValueError: the interval shrinks as fast as m − B(x), so λ keeps changing between 0 and 1."""
        raise self.no_limit("they have no limit: the interval shrinks as fast as the error that it is compared with")

    @kernel
    def lambda_t(source, step, i):
        """0 within the interval, 1 outside."""
        s, a = step.state, column_of(step.bootstrap, step.action)
        number = source.number[s, a]
        if source.least_weight > 0.0:
            number = min(number, 2.0 / source.least_weight - 1.0)
        if number < 2.0:
            return 0.0
        error = source.mean[s, a]
        for k in range(step.tables.values.shape[1]):
            error -= present_value(step, k)
        bound = source.standard_errors * source.standard_errors * source.variance[s, a] / (number - 1.0)
        return 0.0 if error * error <= bound else 1.0
