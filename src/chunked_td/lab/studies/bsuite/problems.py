"""Problems of bsuite (Osband et al. 2020), from their description: two Gymnasium environments, a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from chunked_td.envs.table import TransitionTable

HORIZONS = (1, 3, 10, 30, 100)
"""When the chains of `discounting_chain` pay."""


class _Problem(gym.Env[np.ndarray, Any]):
    """What both share.

    Args:
      numbers: of an observation. most: the largest of them.
    Attributes:
      mistakes: episodes so far that ended with −1.
    """

    def __init__(self, numbers: int, most: float):
        self.observation_space = spaces.Box(-1.0, most, (numbers,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.mistakes, self.time = 0, 0


class MemoryChain(_Problem):
    """Repeat one of the bits that were shown at the start. Observation: time left, which bit is asked for, the bits.

    The bits, each −1 or 1, are shown while the time left is 1: in the first two observations, since the first step
    takes no time. The bit that is asked for is shown one step before the end. Only the last action counts: 1 if it is
    the bit (0 for −1), else −1.

    Args:
      memory_length: steps that take time. num_bits: how many bits there are.
    """

    def __init__(self, memory_length: int, num_bits: int = 1):
        super().__init__(num_bits + 2, float(num_bits))
        self.length, self.bits = memory_length, np.zeros(num_bits, np.int64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Draw the bits, and the one that will be asked for."""
        super().reset(seed=seed)
        self.bits, self.query = self.np_random.integers(2, size=self.bits.size), self.np_random.integers(self.bits.size)
        self.time = 0
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Wait, or answer."""
        shown, ended = self._observation(), self.time == self.length
        self.time += 1
        right = action == self.bits[self.query]
        self.mistakes += ended and not right
        return shown, (1.0 if right else -1.0) if ended else 0.0, bool(ended), False, {}

    def _observation(self) -> np.ndarray:
        shown = np.zeros(self.bits.size + 2, np.float32)
        shown[0] = 1 - self.time / self.length
        if self.time == self.length - 1:
            shown[1] = self.query
        if self.time == 0:
            shown[2:] = 2 * self.bits - 1
        return shown


class UmbrellaChain(_Problem):
    """The first action decides the last reward; the others are coins. Observation: rain, umbrella, time left, coins.

    Args:
      chain_length: steps. n_distractor: coins in every observation.
    """

    def __init__(self, chain_length: int, n_distractor: int = 20):
        super().__init__(3 + n_distractor, 1.0)
        self.length, self.coins = chain_length, n_distractor
        self.rain = self.has = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Draw the weather, and an umbrella that the first action replaces."""
        super().reset(seed=seed)
        self.time, (self.rain, self.has) = 0, self.np_random.integers(2, size=2)
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Take the umbrella or leave it, first; then wait."""
        self.has = action if self.time == 0 else self.has
        self.time += 1
        ended, right = self.time == self.length, self.has == self.rain
        self.mistakes += ended and not right
        lucky = right if ended else self.np_random.random() < 0.5
        return self._observation(), 1.0 if lucky else -1.0, bool(ended), False, {}

    def _observation(self) -> np.ndarray:
        coins = self.np_random.random(self.coins) < 0.5
        return np.concatenate([[self.rain, self.has, 1 - self.time / self.length], coins]).astype(np.float32)


def discounting_chain(mapping_seed: int) -> TransitionTable:
    """The first action chooses a chain, each of which pays 1 once, early or late; one pays 1.1.

    States are (chain, time), with chain −1 before the choice. Args: mapping_seed: says which chain pays more.
    """
    best = mapping_seed % len(HORIZONS)

    def outcomes(state: tuple[int, int], action: int) -> list[tuple[float, tuple[int, int], float, bool]]:
        chain, time = (action if state[1] == 0 else state[0]), state[1] + 1
        paid = (1.1 if chain == best else 1.0) if time == HORIZONS[chain] else 0.0
        return [(1.0, (chain, time), paid, time == HORIZONS[-1])] if time <= HORIZONS[-1] else []

    wrong = [chain for chain in range(len(HORIZONS)) if chain != best]
    return TransitionTable.from_outcomes(outcomes, starts=[(-1, 0)], n_actions=len(HORIZONS), bad_first=wrong)


def numbers_by_time(length: int, numbers: int) -> Callable[[np.ndarray], np.ndarray]:
    """Features of `UmbrellaChain`: 1 and the numbers of an observation as −1 and 1, in the places of its time.

    Rain and umbrella make the value of later states together, by being equal; no sum of these features is that value.

    Args:
      length: steps of an episode. numbers: of an observation.
    Returns:
      a function from an observation to float64[length × numbers].
    """

    def features(observation: np.ndarray) -> np.ndarray:
        found = np.zeros((length, numbers))
        time = length - round(length * float(observation[2]))
        if time < length:
            found[time] = 2.0 * observation - 1.0
            found[time, 2] = 1.0
        return found.ravel()

    return features
