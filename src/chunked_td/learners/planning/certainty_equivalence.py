"""Certainty equivalence: dynamic programming on the learned model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from chunked_td._checks import check_count, check_flag, check_not_negative
from chunked_td._link import kernel
from chunked_td.learners.planning.backups import expected_backup
from chunked_td.learners.planning.base import Planner


@dataclass(frozen=True)
class CertaintyEquivalence(Planner):
    """Set the values to the solution of the learned model at the end of every episode.

        Q(s,a) = T(s,a) for every visited (s,a)

    T uses the ε-greedy policy on Q itself, so the solution is the best ε-greedy policy under the model. For state
    values it is the estimate to which TD(0) converges on repeated presentations of the same episodes (Sutton 1988).
    Solved by in-place sweeps over the visited rows, last added first. The step size is not used, and the TD update of
    the real step is omitted unless `direct`.

    Args:
      sweeps: maximum number of sweeps. With γ = 1 a learned model may have cycles without termination.
      tolerance: sweeps stop when no value changes by more.
      every_step: solve after every step, not only at the end of an episode.
      direct: also make the TD update of the real step.
    """

    sweeps: int = 1000
    tolerance: float = 1e-8
    every_step: bool = False
    direct: bool = field(default=False, kw_only=True)

    checks: ClassVar = {
        "sweeps": check_count,
        "tolerance": check_not_negative,
        "every_step": check_flag,
        "direct": check_flag,
    }

    @kernel
    def plan(planner, agent, row, epsilon, step_size, over):
        """Sweep until no value changes by more than `tolerance`."""
        if not (over or planner.every_step):
            return
        world, values, target = agent.planning.world, agent.tables.values, agent.planning.target
        for _ in range(planner.sweeps):
            largest = 0.0
            for j in range(world.tried_number[0] - 1, -1, -1):
                k = world.tried[j]
                expected_backup(agent, k, epsilon)
                for i in range(target.size):
                    largest = max(largest, abs(target[i] - values[k, i]))
                    values[k, i] = target[i]
            if largest <= planner.tolerance:
                return
