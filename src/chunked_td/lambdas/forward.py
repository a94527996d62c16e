"""The paper's λ: the probability of what happened under a forward model (Eq. 4, Alg. 1 to 3)."""

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
    """The probability of what happened under a forward model.

        state values, Expected-SARSA:  λ_t = P̂^π(x'|x) = Σ_a π(a|x) P̂(x'|x,a)   (Alg. 1, 3)
        SARSA:                         λ_t = P̂(x'|x,a) π(a'|x')                  (Alg. 2)

    It depends on the outcome of the very transition whose TD error it weighs, so the two are correlated, and the fixed
    point is not V^π even with a perfect model. `ExpectedLambda` does not have that bias.

    Args:
      literal: actions never tried in a state count as impossible, as the sum reads. By default the sum goes over the
        actions that were tried, and is divided by their probability, so that a deterministic world has λ = 1.
      policy_noise: whether the policy's own randomness lowers λ. False leaves it out, for every learner:
        λ_t = P̂(x'|x,a), of the action taken. A deterministic world has λ = 1 then, however much the policy explores.
    """

    id, label, group, color = "forward", "Chunked (the paper)", CHUNKED, "#D55E00"
    means = "λ is the model's probability of what happened at a step"

    literal: bool = False
    policy_noise: bool = field(default=True, repr=False)

    checks: ClassVar = {"literal": check_flag, "policy_noise": check_flag}

    def asks(self, bootstrap: int) -> tuple[str, ...]:
        """SARSA asks about the action taken alone, and so does a λ without the policy."""
        return ("mixture",) if self.policy_noise and bootstrap != SARSA else ("chance",)

    @kernel
    def lambda_t(source, step, i):
        """The probability of what happened."""
        if not source.policy_noise:
            return chance(step, step.action, WHOLE)
        if step.bootstrap == SARSA:
            return chance(step, step.action, WHOLE) * choice(step)
        return mixture(step, WHOLE) * (tried(step) if source.literal else 1.0)
