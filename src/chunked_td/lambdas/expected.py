"""Expected λ: the paper's λ averaged over next states, with V^π as the fixed point."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from chunked_td._checks import check_flag
from chunked_td._link import kernel
from chunked_td.bootstraps import SARSA, STATE
from chunked_td.lambdas.base import LambdaSource
from chunked_td.lambdas.names import CHUNKED
from chunked_td.lambdas.step import WHOLE, expected_choice, expected_mixture, mean_overlap, overlap, tried


@dataclass(frozen=True, repr=False)
class ExpectedLambda(LambdaSource):
    """Expected probability of the next state: depends on the state (and action) alone.

        state values, Expected-SARSA:  λ(x) = Σ_{x'} P̂^π(x'|x)²
        SARSA:                         λ(x, a) = Σ_{x'} P̂(x'|x,a)² Σ_{a'} π(a'|x')²

    With such a λ the true values are the fixed point, even if the model is wrong.

    Args:
      literal: whether actions never tried in a state have probability 0; see `ForwardLambda`.
      policy_noise: whether the policy's own randomness lowers λ. False excludes it:

            action values:  λ(x, a) = Σ_{x'} P̂(x'|x,a)²
            state values:   λ(x) = Σ_a π(a|x) Σ_{x'} P̂(x'|x,a)²

        State values need the mean over actions: a λ that depends on the action moves their fixed point.
    """

    id, label, group, color = "expected", "Expected chunking", CHUNKED, "#000000"
    means = "λ is high if the model predicts the next state"

    literal: bool = False
    policy_noise: bool = field(default=True, repr=False)

    checks: ClassVar = {"literal": check_flag, "policy_noise": check_flag}

    def asks(self, bootstrap: int) -> tuple[str, ...]:
        """SARSA's λ depends on the policy at the next states; action values without policy noise need no policy."""
        if not self.policy_noise:
            return ("mean_overlap",) if bootstrap == STATE else ("overlap",)
        return ("expected_choice",) if bootstrap == SARSA else ("expected_mixture",)

    @kernel
    def lambda_t(source, step, i):
        """Expected probability of the next state."""
        known = tried(step) if source.literal and step.bootstrap != SARSA else 1.0
        if not source.policy_noise:
            if step.bootstrap == STATE:
                return mean_overlap(step, WHOLE) * known
            return overlap(step, step.action, step.action, WHOLE)
        if step.bootstrap == SARSA:
            return expected_choice(step)
        return expected_mixture(step, WHOLE) * known * known
