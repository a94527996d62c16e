"""The paper's λ averaged over outcomes: it leaves V^π as the fixed point."""

from __future__ import annotations

from dataclasses import dataclass

from chunked_td._checks import check_flag
from chunked_td._numba import code, kernel
from chunked_td.bootstraps import SARSA
from chunked_td.lambdas.base import LambdaSource, Needs
from chunked_td.lambdas.step import WHOLE, expected_choice, expected_mixture, tried


@dataclass(frozen=True)
class ExpectedLambda(LambdaSource):
    """Expected probability of what will happen: depends on the state (and action) alone.

        state values, Expected-SARSA:  λ(x) = Σ_{x'} P̂^π(x'|x)²
        SARSA:                         λ(x, a) = Σ_{x'} P̂(x'|x,a)² Σ_{a'} π(a'|x')²

    Such a λ leaves the true values as the fixed point, whatever the model says.

    Args:
      literal: actions never tried in a state count as impossible; see `ForwardLambda`.
    """

    literal: bool = False

    needs = Needs.OUTCOMES | Needs.POLICY

    def __post_init__(self) -> None:
        check_flag("literal", self.literal)

    def needs_with(self, bootstrap: int) -> Needs:
        """SARSA's λ has the policy at the next states in it."""
        return Needs.OUTCOMES | Needs.LEGAL if bootstrap == SARSA else self.needs

    def device_question(self, bootstrap: int) -> tuple[str, bool] | None:
        """One number."""
        return ("sarsa" if bootstrap == SARSA else "expected_sarsa"), True

    @staticmethod
    @kernel
    def lambda_t(source, step, i):
        """The probability that is expected of what will happen."""
        if code(step.bootstrap) == SARSA:
            return expected_choice(step)
        known = tried(step) if source.literal else 1.0
        return expected_mixture(step, WHOLE) * known * known
