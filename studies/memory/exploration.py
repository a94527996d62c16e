"""Exploration per stay: if many places look alike, ε per step makes a wrong step in almost every corridor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import chunked_td as ctd
from chunked_td.policies import epsilon_greedy


@dataclass(frozen=True)
class EpsilonPerStay(ctd.Exploration):
    """ε-greedy with ε exploring actions per stay in a state, however many steps a stay has.

        ε(s) = ε · m(s)/n(s)

    n(s) counts the actions taken in a state and m(s) its stays: actions that followed one in another state. A corridor
    whose cells look alike is one state and one stay; a small ε per step would leave the states that are passed at once
    unexplored.

    Args:
      epsilon: ε, in [0, 1]; a number or a `Schedule` over episodes.
    """

    epsilon: float | ctd.Schedule = 0.1

    uses_epsilon = False
    arrays: ClassVar[Mapping[str, str]] = {"visits": "int64[S]", "stays": "int64[S]", "latest": "int64[1]"}

    def rate_with(self, epsilon: float | ctd.Schedule) -> float | ctd.Schedule:
        """Its own ε."""
        return self.epsilon

    @ctd.kernel
    def probabilities(exploration, q, state, legal, rate, out):
        """π(·|state)."""
        n = exploration.visits[state]
        epsilon_greedy(q, legal, rate * exploration.stays[state] / n if n > 0 else rate, out)

    @ctd.kernel
    def count_action(exploration, state, action, n_actions):
        """n(state) += 1, and m(state) += 1 where the action before was taken elsewhere."""
        exploration.visits[state] += 1
        if exploration.latest[0] != state + 1:  # 0: nothing yet
            exploration.stays[state] += 1
        exploration.latest[0] = state + 1
