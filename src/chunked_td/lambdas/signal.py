"""Signal against noise: news passes, noise stops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chunked_td._checks import check_unit
from chunked_td._link import kernel
from chunked_td.lambdas.base import MANY, LambdaSource, Settled
from chunked_td.lambdas.episode import MOMENTS, add_to_moments, column_of
from chunked_td.lambdas.names import OTHER


@dataclass(frozen=True)
class SignalLambda(LambdaSource):
    """Signal against noise in the TD errors (our own; not in the paper).

        λ(x) = m² / (m² + v),   m and v = running mean and variance of the TD errors of transitions that leave x

    Where errors have a mean, values are wrong and the news is passed on; where they only scatter, credit stops. For
    SARSA x stands for the pair of state and action. It is 1 before the first error is known, and where m and v are 0.
    λ_t does not see δ_t. Reward components are summed.

    Args:
      least_weight: of a new error in m and v. They must forget, because values change: 0 would keep all errors.
    """

    id, label, group, color = "signal", "Signal against noise", OTHER, "#7F7F00"
    by_default = False

    least_weight: float = 0.1

    arrays = MOMENTS

    checks: ClassVar = {"least_weight": check_unit}

    def settled(self, known: Settled) -> Mapping[str, Any]:
        """All errors: their mean vanishes, so λ is 0. Where no error is left, v falls as 1/n and m² as 1/n²."""
        if self.least_weight > 0.0:
            raise self.no_limit("with least_weight above 0 mean and variance go on changing")
        mean, variance = known.errors
        return {"number": MANY, "mean": mean, "variance": np.maximum(variance, 1.0 / MANY)}

    @kernel
    def lambda_t(source, step, i):
        """m² / (m² + v)."""
        s, a = step.state, column_of(step.bootstrap, step.action)
        square = source.mean[s, a] * source.mean[s, a]
        total = square + source.variance[s, a]
        return square / total if total > 0.0 else 1.0

    @kernel
    def after_step(source, step, reward, td_error, ended):
        """Add the TD error."""
        error = 0.0
        for i in range(td_error.size):
            error += td_error[i]
        s, a = step.state, column_of(step.bootstrap, step.action)
        add_to_moments(source.number, source.mean, source.variance, s, a, error, source.least_weight)
