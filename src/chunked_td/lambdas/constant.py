"""Fixed λ: TD(λ), SARSA(λ), Expected-SARSA(λ) (§2.1)."""

from __future__ import annotations

from dataclasses import dataclass

from chunked_td._checks import check_unit
from chunked_td._link import kernel
from chunked_td.lambdas.base import LambdaSource
from chunked_td.lambdas.names import FIXED


@dataclass(frozen=True)
class ConstantLambda(LambdaSource):
    """Fixed λ, the same at every step.

        λ_t = λ

    λ = 0 is TD(0), λ = 1 is Monte Carlo.
    """

    id, label, group, color = "constant", "Fixed λ", FIXED, "#0072B2"

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", check_unit("lambda", self.value))

    @kernel
    def lambda_t(source, step, i):
        """λ."""
        return source.value
