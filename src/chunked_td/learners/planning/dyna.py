"""Dyna (Sutton 1990): model-based updates of randomly sampled rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chunked_td._checks import check_count, check_flag
from chunked_td._link import kernel
from chunked_td.learners.planning.backups import add_bootstrap, expected_backup
from chunked_td.learners.planning.base import Planner
from chunked_td.models.counts import FOLLOWING, NUMBER, TARGET
from chunked_td.seeding import uniform


@dataclass(frozen=True)
class Dyna(Planner):
    """n updates per step, of rows sampled uniformly from the visited rows (Sutton 1990).

        Q(s,a) ← Q(s,a) + α [r̂(s,a,s') + γ (1 − P̂(end|s,a,s')) B(s') − Q(s,a)],   s' ~ P̂(·|s,a)

    Differences from Dyna-Q in Sutton and Barto: s' is sampled from the counts instead of being the latest one, the
    reward is the mean of the transition, and B is that of the ε-greedy policy unless `greedy`.

    Args:
      steps: updates after each real step.
      expected: take the expectation over s' instead of sampling it.
      greedy: back up max_a' Q(s',a') as in Q-learning, instead of the mean under the policy.
      direct: also make the TD update of the real step.
    """

    steps: int = 10
    expected: bool = False
    greedy: bool = False

    checks: ClassVar = {"steps": check_count, "expected": check_flag, "greedy": check_flag, "direct": check_flag}

    @kernel
    def plan(planner, agent, row, epsilon, step_size, over):
        """Make `steps` updates."""
        planning, values = agent.planning, agent.tables.values
        if planning.world.tried_number[0] == 0:
            return
        for _ in range(planner.steps):
            tried = int(uniform(planning.rng) * planning.world.tried_number[0])
            k = planning.world.tried[tried]
            if not planner.expected:
                update_sampled(agent, k, 0.0 if planner.greedy else epsilon, step_size)
                continue
            expected_backup(agent, k, 0.0 if planner.greedy else epsilon)
            for i in range(planning.target.size):
                values[k, i] += step_size * (planning.target[i] - values[k, i])


def update_sampled(agent, row, epsilon, step_size):
    """Update a row towards the target of one outcome, sampled by its count; the newest outcome is first in the list."""
    world, out = agent.planning.world, agent.planning.target
    counts = world.counts
    left = int(uniform(agent.planning.rng) * counts.total[row])
    pair = counts.head[row]
    while left >= counts.pairs[pair, NUMBER]:
        left -= counts.pairs[pair, NUMBER]
        pair = counts.pairs[pair, FOLLOWING]
    number = counts.pairs[pair, NUMBER]
    for i in range(out.size):
        out[i] = world.rewards[pair, i] / number
    going_on = number - world.ends[pair]
    if going_on > 0:
        add_bootstrap(agent, counts.pairs[pair, TARGET], epsilon, going_on / number)
    values = agent.tables.values
    for i in range(out.size):
        values[row, i] += step_size * (out[i] - values[row, i])
