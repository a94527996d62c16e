"""λ-greedy: trades the bias of the present value against the variance of the return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from chunked_td._checks import check_unit
from chunked_td._link import kernel
from chunked_td.bootstraps import SARSA, STATE
from chunked_td.lambdas.base import MANY, LambdaSource, Settled
from chunked_td.lambdas.episode import MOMENTS, add_returns, column_of
from chunked_td.lambdas.names import OTHER
from chunked_td.lambdas.step import present_value


@dataclass(frozen=True)
class GreedyLambda(LambdaSource):
    """λ-greedy (White and White 2016, "A Greedy Approach to Adapting the Trace Parameter for TD Learning").

        λ(x) = e² / (e² + Var),   e = (mean of the returns from x) − B(x),   Var = variance of the returns from x

    For SARSA x is the state–action pair. λ is 1 if fewer than two returns are known, or if both e and Var are 0.
    Differences from the paper: mean and variance are those of the returns of past episodes (every visit), in the paper
    both are learned online with TD and λ = 1. There are no importance ratios. Reward components are summed, so all
    share one λ.

    Args:
      least_weight: minimum weight of a new return in mean and variance. 0: plain averages; more: returns of older
        policies are forgotten.
    """

    id, label, group, color = "greedy", "λ-greedy", OTHER, "#E69F00"

    least_weight: float = 0.0

    arrays = MOMENTS
    after_episode = kernel(add_returns)
    checks: ClassVar = {"least_weight": check_unit}

    def asks(self, bootstrap: int) -> tuple[str, ...]:
        """B(x), if it depends on the policy."""
        return () if bootstrap in (STATE, SARSA) else ("present_value",)

    def settled(self, known: Settled) -> Mapping[str, Any]:
        """Moments of all returns: λ is 0 if their variance is positive and B(x) is their mean, 1 if it is 0."""
        if self.least_weight > 0.0:
            raise self.no_limit("with least_weight above 0 mean and variance have no limit")
        mean, variance = known.returns
        return {"number": MANY, "mean": mean, "variance": variance}

    @kernel
    def lambda_t(source, step, i):
        """e² / (e² + Var)."""
        s, a = step.state, column_of(step.bootstrap, step.action)
        if source.number[s, a] < 2.0:
            return 1.0
        error = source.mean[s, a]
        for k in range(step.tables.values.shape[1]):
            error -= present_value(step, k)
        total = error * error + source.variance[s, a]
        return error * error / total if total > 0.0 else 1.0
