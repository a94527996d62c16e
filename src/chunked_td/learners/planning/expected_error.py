"""The TD error with the luck of the draw taken out, by the model."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from chunked_td._checks import check_unit
from chunked_td._numba import by_type, kernel
from chunked_td.learners.planning.backups import expected_backup


@kernel
def _expect_nothing(source, agent, row, epsilon, weight):
    pass


expect_surprise = by_type("expect_surprise", _expect_nothing)
"""The TD error of a maturity (`chunked_td.lambdas.maturity`)."""


@dataclass(frozen=True)
class ExpectedError:
    """The TD error replaced, in part, by its expectation under the count model, along the episode as it goes.

        δ̄_t = Σ_{s'} P̂(s'|s_t,a_t) [r̂(s_t,a_t,s') + γ B(s')] − Q(s_t,a_t)
        δ_t ← ρ δ̄_t + (1 − ρ) δ_t

    Where chance enters, a cut of λ stops credit; this passes the credit on and takes the chance out of it. What is left
    are the errors of Q under the learned model, which vanish at its solution. A model that is wrong pulls Q towards its
    own solution with weight ρ. B is the expectation over the behaviour policy, for SARSA too.

    For state values P̂ is that of the process under the policy as it was followed. A pair that the model has not
    counted (`chunked_td.models.errors`) keeps its own error.

    Args:
      weight: ρ, from 0 (the error as it came) to 1 (its expectation).
    """

    weight: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", check_unit("weight", self.weight))

    def settings(self) -> dict[str, Any]:
        """The settings by name, as plain values."""
        return dataclasses.asdict(self)

    @staticmethod
    @kernel
    def expect(source, agent, row, epsilon):
        """δ_t ← ρ δ̄_t + (1 − ρ) δ_t."""
        planning, error, values = agent.planning, agent.memory.delta_t, agent.tables.values
        if planning.world.counts.total[row] > 0:
            expected_backup(agent, row, epsilon)
            for i in range(error.size):
                error[i] += source.weight * (planning.target[i] - values[row, i] - error[i])
            expect_surprise(agent.source, agent, row, epsilon, source.weight)
