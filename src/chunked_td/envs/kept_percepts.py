"""A memory for tabular learners: the last unexpected percepts."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from chunked_td._checks import check_unit, check_whole
from chunked_td.models.counts import Counts, increment, probability
from chunked_td.observations import make_indexer


class KeptPercepts(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Wrapper that shows each percept together with the last unexpected ones: the compressed history as a memory.

    A percept x' is kept if the counts of earlier transitions predict it with too low a probability,

        n(x, a, x') / n(x, a) < threshold.

    The transition itself is counted afterwards; an outcome that was never observed has probability 0. The first percept
    of an episode is always kept. This is the history compressor's rule with the simplest predictor, one that depends on
    one percept. The counts persist over episodes; the memory is cleared at the start of each.

    Observations are `MultiDiscrete([n] + [n + 1] * slots)` for n percepts. The first component is the percept, the
    others are the kept percepts, newest first, each as 1 + its number; 0 is an empty slot. With a `clock` there is one
    component more: the steps since a percept was kept, at most `clock`. With `clock=1` a percept that was just kept
    differs from an equal one later.

    In a run of k equal percepts, each is predicted with probability (k − 1)/k. If that is near the threshold, such
    percepts are sometimes kept and displace relevant ones: k = 4 for a threshold of 0.75.

    Args:
      env: an environment with a finite number of percepts (discrete spaces) and `Discrete` actions.
      slots: number of percepts in memory.
      threshold: a percept is kept if its probability was below this.
      clock: largest number of steps that the clock counts; 0 for no clock.
      percepts: largest number of different percepts, if the space does not define it: percepts are numbered on first
        sight. Learners then need `indexer=make_indexer()`.

    Attributes:
      learning: whether transitions are counted. If so, the same seed need not give the same observations, because
        `reset(seed=…)` keeps the counts; set it to False to evaluate.
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
            raise ValueError(
                f"env must have a finite observation space, or pass percepts=n; got {env.observation_space}"
            )
        n = check_whole("percepts", percepts, 0) or self._indexer.size
        self.observation_space = spaces.MultiDiscrete([n] + [n + 1] * self._slots + [clock + 1] * (clock > 0))
        self._n_actions, self._first_action = int(env.action_space.n), int(env.action_space.start)
        self._counts = Counts.empty(n * self._n_actions)
        self._percept = 0
        self._kept = np.zeros(self._slots, np.int64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with its first percept as the only kept one."""
        percept, info = self.env.reset(seed=seed, options=options)
        self._percept = self._indexer(percept)
        self._kept[:] = 0
        self._kept[0], self._since = 1 + self._percept, 0
        return self._observation(), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action; the next percept is kept if it was unexpected."""
        percept, reward, terminated, truncated, info = self.env.step(action)
        next_percept = self._indexer(percept)
        if self._counts.room < 1:
            self._counts = self._counts.grown(self._counts.head.size, 2 * self._counts.pairs.shape[0])
        origin = self._percept * self._n_actions + int(action) - self._first_action
        self._since = min(self._since + 1, self._clock)
        if probability(self._counts, origin, next_percept) < self._threshold:
            self._kept[1:] = self._kept[:-1].copy()
            self._kept[0], self._since = 1 + next_percept, 0
        if self.learning:
            increment(self._counts, origin, next_percept)
        self._percept = next_percept
        return self._observation(), reward, terminated, truncated, info

    def _observation(self) -> np.ndarray:
        return np.concatenate([[self._percept], self._kept, [self._since] * (self._clock > 0)]).astype(np.int64)
