"""A memory for learners with tables: the last percepts that were not expected."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from chunked_td._checks import check_unit, check_whole
from chunked_td.models.counts import Counts, increment, probability
from chunked_td.observations import make_indexer


class KeptPercepts(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Show each percept together with the last ones that were not expected: the compressed history as a memory.

    A percept x' is kept if the counts of earlier transitions gave it too little,

        n(x, a, x') / n(x, a) < threshold,

    where the transition itself is counted afterwards. What was never seen has probability 0. The first percept of
    an episode is always kept, and the memory is empty before it. This is the history compressor's rule
    with the simplest predictor there is: it looks back one percept. The counts are kept
    over episodes; the memory starts anew with each.

    Observations are `MultiDiscrete([n] + [n + 1] * slots)`, where n is the number of percepts: the percept, and then
    what was kept, newest first, each as 1 + its number; 0 is an empty slot. With a `clock` there is one component more:
    the steps since a percept was last kept, at most so many. `clock=1` tells a percept that was just kept from one that
    looks the same later on.

    Where k percepts look alike in a row, each is predicted with probability (k − 1)/k. Near the threshold such percepts
    are sometimes kept and push out what matters: for 0.75 that is k = 4.

    Args:
      env: an environment whose percepts can be counted (discrete spaces), with `Discrete` actions.
      slots: how many percepts are remembered.
      threshold: a percept is kept if its probability was below this.
      clock: up to how many steps since the latest kept percept are counted; 0 for no clock.
      percepts: the most different percepts, where the space does not say: each gets its number on first sight. Learners
        then take `indexer=make_indexer()`.

    Attributes:
      learning: whether transitions are counted. While they are, the same seed need not give the same observations,
        because a seed does not forget the counts; set it to False to look at what was learned.
    """

    def __init__(
        self, env: gym.Env[Any, Any], slots: int = 4, threshold: float = 0.75, clock: int = 0, percepts: int = 0
    ):
        gym.utils.RecordConstructorArgs.__init__(self, slots=slots, threshold=threshold, clock=clock, percepts=percepts)
        super().__init__(env)
        self.learning = True
        self._slots, self._threshold = check_whole("slots", slots, 1), check_unit("threshold", threshold)
        self._clock, self._since = check_whole("clock", clock, 0), 0
        if not isinstance(env.action_space, spaces.Discrete):
            raise ValueError(f"env must have a Discrete action space, got {env.action_space}")
        self._indexer = make_indexer(None if percepts else env.observation_space)
        if not (percepts or self._indexer.fixed):
            raise ValueError(f"env must have a space of percepts that can be counted, got {env.observation_space}")
        n = check_whole("percepts", percepts, 0) or self._indexer.size
        self.observation_space = spaces.MultiDiscrete([n] + [n + 1] * self._slots + [clock + 1] * (clock > 0))
        self._n_actions, self._first_action = int(env.action_space.n), int(env.action_space.start)
        self._counts = Counts.empty(n * self._n_actions)
        self._percept = 0
        self._kept = np.zeros(self._slots, np.int64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode: its first percept is kept, and nothing else."""
        percept, info = self.env.reset(seed=seed, options=options)
        self._percept = self._indexer(percept)
        self._kept[:] = 0
        self._kept[0], self._since = 1 + self._percept, 0
        return self._observation(), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action; what comes is kept if it was not expected."""
        percept, reward, terminated, truncated, info = self.env.step(action)
        arrived = self._indexer(percept)
        if self._counts.room < 1:
            self._counts = self._counts.grown(self._counts.head.size, 2 * self._counts.pairs.shape[0])
        origin = self._percept * self._n_actions + int(action) - self._first_action
        self._since = min(self._since + 1, self._clock)
        if probability(self._counts, origin, arrived) < self._threshold:
            self._kept[1:] = self._kept[:-1].copy()
            self._kept[0], self._since = 1 + arrived, 0
        if self.learning:
            increment(self._counts, origin, arrived)
        self._percept = arrived
        return self._observation(), reward, terminated, truncated, info

    def _observation(self) -> np.ndarray:
        return np.concatenate([[self._percept], self._kept, [self._since] * (self._clock > 0)]).astype(np.int64)
