"""Count model with rewards, for planners.

    P̂(s'|row) = n(row, s') / n(row),   r̂(row, s') = mean reward,   ends(row, s') = number of terminations

A row is a table entry: (s, a), or s for state values; then it is a model of the process under the behaviour policy.
Termination belongs to the transition, not to the state: a state may be reached with and without termination.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from chunked_td._link import zeros
from chunked_td.models.counts import ORIGIN, TARGET, Counts, increment


class TransitionCounts(NamedTuple):
    """Counts of (row → next state), with the rewards and terminations of every counted pair.

    Linked lists store indices plus one; zero means none.
    """

    counts: Counts
    rewards: Annotated[np.ndarray, "float64[capacity, d]"]  # sum of the rewards of a pair
    ends: Annotated[np.ndarray, "int64[capacity] in [0, inf)"]  # how often a pair terminated the episode
    entry: Annotated[np.ndarray, "int64[states], unsaved"]  # the latest new pair that leads into a state
    entering: Annotated[np.ndarray, "int64[capacity], unsaved"]  # the pair before it into the same state
    tried: Annotated[np.ndarray, "int64[rows], unsaved"]  # the rows that were tried, in the order of their first time
    tried_number: Annotated[np.ndarray, "int64[1], unsaved"]

    @classmethod
    def empty(cls, rows: int, states: int, rewards: int, capacity: int = 256) -> TransitionCounts:
        """A model without counts."""
        sizes = {"rows": rows, "states": states, "d": rewards, "capacity": capacity}
        return zeros(cls, sizes, counts=Counts.empty(rows, capacity=capacity))

    @classmethod
    def restored(cls, counts: Counts, rewards: np.ndarray, ends: np.ndarray, states: int) -> TransitionCounts:
        """The model with these counts, and with the rewards and terminations of their pairs."""
        made = cls.empty(counts.head.size, states, rewards.shape[1], counts.pairs.shape[0])._replace(counts=counts)
        size = int(counts.size[0])
        made.rewards[:size], made.ends[:size] = rewards[:size], ends[:size]
        seen: set[int] = set()
        for pair in range(size):
            row = int(counts.pairs[pair, ORIGIN])
            if row not in seen:
                made.tried[len(seen)] = row
                seen.add(row)
            enter(made, pair)
        made.tried_number[0] = len(seen)
        return made

    def grown(self, rows: int, states: int, capacity: int) -> TransitionCounts:
        """The same model with larger arrays for rows, states and distinct pairs."""
        return TransitionCounts.restored(self.counts.grown(rows, capacity), self.rewards, self.ends, states)


def enter(world, pair):
    """Insert a new pair into the list of pairs that lead into its next state."""
    state = world.counts.pairs[pair, TARGET]
    world.entering[pair] = world.entry[state]
    world.entry[state] = pair + 1


def record(world, row, next_state, reward, terminated):
    """Count a transition. The caller ensures room for one pair.

    Args:
      reward: float64[d].
    """
    counts = world.counts
    if counts.total[row] == 0:
        world.tried[world.tried_number[0]] = row
        world.tried_number[0] += 1
    known = counts.size[0]
    pair = increment(counts, row, next_state)
    if pair == known:
        enter(world, pair)
    for i in range(reward.size):
        world.rewards[pair, i] += reward[i]
    if terminated:
        world.ends[pair] += 1
