"""Expected TD errors: the TD error averaged over sampled next states, under the learned model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from chunked_td._checks import check_not_negative, check_unit
from chunked_td._link import kernel
from chunked_td._settings import KernelSettings
from chunked_td.learners.planning.backups import expected_backup


@dataclass(frozen=True, repr=False)
class ExpectedError(KernelSettings):
    """Replace a fraction ρ of the TD error by its expectation under the count model, at every step.

        δ̄_t = Σ_{s'} P̂(s'|s_t,a_t) [r̂(s_t,a_t,s') + γ B(s')] − Q(s_t,a_t)
        δ_t ← ρ δ̄_t + (1 − ρ) δ_t

    At a random transition, λ near 0 stops credit. Expected TD errors keep λ and remove the sampling noise instead. The
    remaining error is that of Q under the learned model, which is 0 at the model's solution. A wrong model biases Q
    towards its own solution with weight ρ. B is the expectation over the behaviour policy, also for SARSA.

    For state values P̂ is that of the process under the policy that acted. A pair that the model has not counted
    (`chunked_td.models.errors`) keeps its own error.

    With a guard g a row keeps its own errors while |Σ d| > g √Σ d², where d = δ_t − δ̄_t at the visits of the row so
    far: with a correct model d has mean 0, and the right side is about g standard errors of the sum.

    Args:
      weight: ρ, from 0 (the sampled error) to 1 (its expectation).
      guard: g, such as 2; 0 for none.
    """

    weight: float = 0.5
    guard: float = field(default=0.0, repr=False)

    checks: ClassVar = {"weight": check_unit, "guard": check_not_negative}

    @property
    def arrays(self) -> dict[str, str]:  # type: ignore[override]
        """Σ d and Σ d² of every row, if guarded."""
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
