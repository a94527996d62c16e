"""The TD error with the luck of the draw taken out, by the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from chunked_td._checks import check_not_negative, check_unit
from chunked_td._numba import kernel
from chunked_td._settings import KernelSettings
from chunked_td.learners.planning.backups import expected_backup


@dataclass(frozen=True, repr=False)
class ExpectedError(KernelSettings):
    """The TD error replaced, in part, by its expectation under the count model, along the episode as it goes.

        δ̄_t = Σ_{s'} P̂(s'|s_t,a_t) [r̂(s_t,a_t,s') + γ B(s')] − Q(s_t,a_t)
        δ_t ← ρ δ̄_t + (1 − ρ) δ_t

    Where chance enters, a cut of λ stops credit; this passes the credit on and takes the chance out of it. What is left
    are the errors of Q under the learned model, which vanish at its solution. A model that is wrong pulls Q towards its
    own solution with weight ρ. B is the expectation over the behaviour policy, for SARSA too.

    For state values P̂ is that of the process under the policy as it was followed. A pair that the model has not
    counted (`chunked_td.models.errors`) keeps its own error.

    With a guard g a row keeps its own errors while |Σ d| > g √Σ d², where d = δ_t − δ̄_t at the visits of the row so
    far: with a right model d has mean 0, so that the left side is about g standard errors of their sum.

    Args:
      weight: ρ, from 0 (the error as it came) to 1 (its expectation).
      guard: g, such as 2; 0 for none.
    """

    weight: float = 0.5
    guard: float = field(default=0.0, repr=False)

    checks: ClassVar = {"weight": check_unit, "guard": check_not_negative}

    @property
    def arrays(self) -> dict[str, str]:  # type: ignore[override]
        """Σ d and Σ d² of every row, where there is a guard."""
        return {"gap": f"float64[{'rows' if self.guard else 1}, 2]"}

    @kernel
    def expect(source, agent, row, epsilon):
        """δ_t ← ρ δ̄_t + (1 − ρ) δ_t."""
        planning, error, values = agent.planning, agent.memory.delta_t, agent.tables.values
        if planning.world.counts.total[row] > 0:
            expected_backup(agent, row, epsilon)
            weight, apart = source.weight, 0.0
            for i in range(error.size):
                apart += error[i] - (planning.target[i] - values[row, i])
            if source.guard > 0.0:
                source.gap[row, 0] += apart
                source.gap[row, 1] += apart * apart
                if source.gap[row, 0] * source.gap[row, 0] > source.guard * source.guard * source.gap[row, 1]:
                    weight = 0.0
            for i in range(error.size):
                error[i] += weight * (planning.target[i] - values[row, i] - error[i])
