"""λ from visits (App. C.2)."""

from __future__ import annotations

from dataclasses import dataclass

from chunked_td._numba import kernel
from chunked_td.lambdas.base import LambdaSource, Needs
from chunked_td.lambdas.step import visits


@dataclass(frozen=True)
class VisitLambda(LambdaSource):
    """1/n(x_t): bootstrap more the better a state is known (App. C.2)."""

    needs = Needs.VISITS

    @staticmethod
    @kernel
    def lambda_t(source, step, i):
        """1/n(x_t)."""
        return 1.0 / max(visits(step), 1)  # a model that was not shown this visit may have none
