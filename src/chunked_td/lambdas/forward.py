"""Forward λ (the paper's): probability of the sampled next state under a forward model (Eq. 4, Alg. 1 to 3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from chunked_td._checks import check_flag
from chunked_td._link import kernel
from chunked_td.bootstraps import SARSA
from chunked_td.lambdas.base import LambdaSource
from chunked_td.lambdas.names import CHUNKED
from chunked_td.lambdas.step import WHOLE, chance, choice, mixture, tried


@dataclass(frozen=True, repr=False)
class ForwardLambda(LambdaSource):
    """Probability of the sampled next state under a forward model.

        state values, Expected-SARSA:  λ_t = P̂^π(x'|x) = Σ_a π(a|x) P̂(x'|x,a)   (Alg. 1, 3)
        SARSA:                         λ_t = P̂(x'|x,a) π(a'|x')                  (Alg. 2)

    It depends on the sampled next state, and so does the TD error of the same transition. The two are correlated, and
    the fixed point is not V^π even with a perfect model. `ExpectedLambda` does not have that bias.

    Args:
      literal: whether actions never tried in a state have probability 0, as in the sum above. By default the sum is
        over the actions tried, divided by their probability, so λ = 1 in a deterministic environment.
      policy_noise: whether the policy's own randomness lowers λ. False excludes it, for every learner:
        λ_t = P̂(x'|x,a) for the action taken. In a deterministic environment λ is then 1 for any exploration rate.
    """

    id, label, group, color = "forward", "Chunked (the paper)", CHUNKED, "#D55E00"
    means = "λ is the model's probability of the sampled next state"

    literal: bool = False
    policy_noise: bool = field(default=True, repr=False)

    checks: ClassVar = {"literal": check_flag, "policy_noise": check_flag}

    def asks(self, bootstrap: int) -> tuple[str, ...]:
        """SARSA and a λ without policy noise need the action taken only."""
        return ("mixture",) if self.policy_noise and bootstrap != SARSA else ("chance",)

    @kernel
    def lambda_t(source, step, i):
        """Probability of the sampled next state."""
        if not source.policy_noise:
            return chance(step, step.action, WHOLE)
        if step.bootstrap == SARSA:
            return chance(step, step.action, WHOLE) * choice(step)
        return mixture(step, WHOLE) * (tried(step) if source.literal else 1.0)
