"""Certainty equivalence: the learned model taken for the world, and solved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from chunked_td._checks import check_count, check_flag, check_not_negative
from chunked_td._link import kernel
from chunked_td.learners.planning.backups import expected_backup
from chunked_td.learners.planning.base import Planner


@dataclass(frozen=True)
class CertaintyEquivalence(Planner):
    """At the end of every episode the values become the solution of the learned model.

        Q(s,a) = T(s,a) for every (s,a) that was tried

    T takes the ε-greedy policy on Q itself, so the solution is that of the best policy that still explores. For state
    values it is the estimate to which TD(0) converges when it is shown the same episodes again and again (Sutton 1988).
    Solved by sweeps in place, the rows tried last first. The step size is not used, and the real step's own TD update
    is left out unless `direct`.

    Args:
      sweeps: the most sweeps each time. With γ = 1 a learned model may have loops without an end; this is the limit.
      tolerance: sweeps stop when no value changes by more.
      every_step: solve after every step, not only at the end of an episode.
      direct: make the real step's own TD update, too.
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
        """Sweep until the values stand still."""
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
