"""One λ per reward component, for decomposed rewards (Alg. 4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from chunked_td._checks import check_flag
from chunked_td._link import kernel
from chunked_td.lambdas.base import LambdaSource
from chunked_td.lambdas.names import CHUNKED
from chunked_td.lambdas.step import chance, mixture, tried


@dataclass(frozen=True, repr=False)
class FactoredLambda(LambdaSource):
    """Probability of the state components that decide a reward component, one λ per reward component (Alg. 4).

        λ_t^i = Σ_a π(a|x) P̂(x'^i|x,a)

    Args:
      components: for each reward component, the state component (an int) or components (a tuple) that decide it.
        By default reward i belongs to state component i, as in the paper.
      literal: whether actions never tried in a state have probability 0; see `ForwardLambda`.
      policy_noise: whether the policy's own randomness lowers λ. False excludes it: λ_t^i = P̂(x'^i|x,a) for the
        action taken.
    """

    id, label, group, color = "factored", "Chunked, factored", CHUNKED, "#CC79A7"

    components: tuple[int | tuple[int, ...], ...] | None = None
    literal: bool = False
    policy_noise: bool = field(default=True, repr=False)

    per_component = True

    checks: ClassVar = {"literal": check_flag, "policy_noise": check_flag}

    def asks(self, bootstrap: int) -> tuple[str, ...]:
        """Without policy noise, the action taken only."""
        return ("mixture",) if self.policy_noise else ("chance",)

    @kernel
    def lambda_t(source, step, i):
        """Probability of the sampled components that decide reward i."""
        if not source.policy_noise:
            return chance(step, step.action, i)
        return mixture(step, i) * (tried(step) if source.literal else 1.0)
