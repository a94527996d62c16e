"""The registered bonus: exploration in the units of the problem that does not live on noise.

It came from what is earned, not from TD errors: a bonus by their size is small where a learner's errors are small, so
that it explores by noise after all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import chunked_td as ctd
from chunked_td.policies import optimistic_greedy


@dataclass(frozen=True)
class ReturnBonus(ctd.Exploration):
    """ε-greedy on Q(s,a) + c·σ/√(n(s,a) + 1): a bonus in the units of the problem.

    σ is the standard deviation of the discounted returns of all episodes so far; in the first episode it is 0, in the
    second the absolute return of the first. The bonus decides what is tried, not what is learned. `epsilon` is that of
    the learner.

    Args:
      scale: c, positive.
    """

    scale: float = 1.0

    arrays: ClassVar[Mapping[str, str]] = {
        "visits": "int64[rows]",
        "episode": "float64[2]",  # γ^t, and the return up to t
        "returns": "float64[3]",  # how many, their mean, the sum of squared deviations from it
        "spread": "float64[1]",  # σ
    }

    @ctd.kernel
    def probabilities(exploration, q, state, legal, rate, out):
        """π(·|state)."""
        A = legal.size
        visits = exploration.visits[state * A : (state + 1) * A]
        optimistic_greedy(q, visits, legal, exploration.scale * exploration.spread[0], 1.0, rate, out)

    @ctd.kernel
    def count_action(exploration, state, action, n_actions):
        """n(state, action) += 1."""
        exploration.visits[state * n_actions + action] += 1

    @ctd.kernel
    def count_reward(exploration, reward, discount, first, last):
        """Add to the return of the episode; at its end, to σ."""
        episode, returns = exploration.episode, exploration.returns
        if first:
            episode[0], episode[1] = 1.0, 0.0
        for i in range(reward.size):
            episode[1] += episode[0] * reward[i]
        episode[0] *= discount
        if last:
            returns[0] += 1.0
            apart = episode[1] - returns[1]
            returns[1] += apart / returns[0]
            returns[2] += apart * (episode[1] - returns[1])
            exploration.spread[0] = np.sqrt(returns[2] / returns[0]) if returns[0] > 1.0 else abs(episode[1])
