"""Watkins' Q(λ): fixed λ, 0 after exploratory actions."""

from __future__ import annotations

from dataclasses import dataclass

from chunked_td._checks import check_unit
from chunked_td._link import kernel
from chunked_td.lambdas.base import LambdaSource
from chunked_td.lambdas.names import OTHER


@dataclass(frozen=True)
class WatkinsLambda(LambdaSource):
    """Fixed λ, 0 if the action taken in the state was exploratory.

        λ_t = λ if π(a_t|x_t) = max_a π(a|x_t), else 0

    An action is exploratory if another one was more probable when it was sampled; with ε = 1 none is.
    """

    id, label, group, color = "watkins", "Watkins", OTHER, "#444488"
    by_default = False

    value: float

    def asks(self, bootstrap: int) -> tuple[str, ...]:
        """The policy."""
        return ("policy",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", check_unit("lambda", self.value))

    @kernel
    def lambda_t(source, step, i):
        """λ, or 0 after an exploratory action."""
        for b in range(step.n_actions):
            if step.policy[b] > step.policy[step.action]:
                return 0.0
        return source.value
