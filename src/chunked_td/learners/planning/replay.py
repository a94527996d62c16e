"""Experience replay with the budget of Dyna: past steps drawn evenly, so that rows come by their visits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chunked_td._checks import check_count, check_flag
from chunked_td._link import kernel
from chunked_td.learners.planning.base import Planner
from chunked_td.learners.planning.dyna import update_sampled
from chunked_td.seeding import uniform


@dataclass(frozen=True)
class Replay(Planner):
    """n updates a step, of transitions drawn evenly from the last ones (Lin 1992).

        Q(s,a) ← Q(s,a) + α [r̂(s,a,s') + γ (1 − share of ends) B(s') − Q(s,a)],   (s,a) of a past step, s' ~ P̂(·|s,a)

    What differs from a buffer of transitions: the buffer holds rows; the outcome is drawn from all that followed the
    row, and the reward is the mean of that transition. Dyna draws rows evenly instead, however seldom they came.

    Args:
      steps: updates after each real step.
      capacity: how many past steps are drawn from.
      direct: make the real step's own TD update, too.
    """

    steps: int = 10
    capacity: int = 10_000

    checks: ClassVar = {"steps": check_count, "capacity": check_count, "direct": check_flag}

    @property
    def arrays(self) -> Mapping[str, str]:  # type: ignore[override]
        """The rows of the past, and how many steps there have been."""
        return {"past": f"int64[{self.capacity}]", "number": "int64[1]"}

    @kernel
    def plan(planner: Any, agent: Any, row: int, epsilon: float, step_size: float, over: bool) -> None:
        """Remember the row; `steps` updates."""
        world, rng = agent.planning.world, agent.planning.rng
        planner.past[planner.number[0] % planner.past.size] = row
        planner.number[0] += 1
        for _ in range(planner.steps):
            k = planner.past[int(uniform(rng) * min(planner.number[0], planner.past.size))]
            if k < world.counts.total.size and world.counts.total[k] > 0:  # a wrong model may not have looked
                update_sampled(agent, k, epsilon, step_size)
