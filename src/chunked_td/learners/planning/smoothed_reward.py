"""The reward of the TD error, read off the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chunked_td._checks import check_flag
from chunked_td._link import kernel
from chunked_td._settings import KernelSettings
from chunked_td.models.counts import FOLLOWING, NUMBER, find


@dataclass(frozen=True)
class SmoothedReward(KernelSettings):
    """The mean reward so far, the present one included, in place of the reward that came.

        δ_t = r̂(s_t,a_t,s_{t+1}) + γ B(x_{t+1}) − Q(s_t,a_t),   or with r̂(s_t,a_t)

    Noise in the reward is averaged before λ passes it back. Where the reward depends on the state that is reached, the
    mean over all of them (`per_transition=False`) takes away what λ < 1 would have learned from the outcome.

    For state values r̂ is r̂(s_t,s_{t+1}) or r̂(s_t), under the policy as it was followed. A transition that the model
    has not counted (`chunked_td.models.errors`) keeps its own reward.

    Args:
      per_transition: the mean of (s, a, s'); otherwise that of (s, a).
    """

    per_transition: bool = True

    checks: ClassVar = {"per_transition": check_flag}

    @kernel
    def read(source, planning, step, row, i):
        """The mean reward; the reward that came where the model has none."""
        counts, sums = planning.world.counts, planning.world.rewards
        if source.per_transition:
            pair = find(counts, row, step.next_state)
            return sums[pair, i] / counts.pairs[pair, NUMBER] if pair >= 0 else step.reward[i]
        if counts.total[row] == 0:
            return step.reward[i]
        total = 0.0
        pair = counts.head[row]
        while pair >= 0:
            total += sums[pair, i]
            pair = counts.pairs[pair, FOLLOWING]
        return total / counts.total[row]
