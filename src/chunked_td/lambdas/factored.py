"""One λ per reward component, for rewards that come decomposed (Alg. 4)."""

from __future__ import annotations

from dataclasses import dataclass

from chunked_td._checks import check_flag
from chunked_td._numba import kernel
from chunked_td.lambdas.base import LambdaSource, Needs
from chunked_td.lambdas.step import mixture, tried


@dataclass(frozen=True)
class FactoredLambda(LambdaSource):
    """The probability of the state components that decide a reward component, for each of them by itself (Alg. 4).

        λ_t^i = Σ_a π(a|x) P̂(x'^i|x,a)

    Args:
      components: for each reward component, the state component (an int) or components (a tuple) that decide it.
        By default reward i belongs to state component i, as in the paper.
      literal: actions never tried in a state count as impossible; see `ForwardLambda`.
    """

    components: tuple[int | tuple[int, ...], ...] | None = None
    literal: bool = False

    needs = Needs.PARTS | Needs.POLICY
    per_component = True

    def __post_init__(self) -> None:
        check_flag("literal", self.literal)

    def device_question(self, bootstrap: int) -> tuple[str, bool] | None:
        """One number per part."""
        return "factored", False

    @staticmethod
    @kernel
    def lambda_t(source, step, i):
        """The probability of what happened to the components that decide reward i."""
        return mixture(step, i) * (tried(step) if source.literal else 1.0)
