"""Environments that commands find by name: stand-ins for two bsuite problems; a wrapper that sums vector rewards."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class MemoryChain(gym.Env):
    """Stand-in for bsuite's memory_len: a sign at the start, to be remembered until the question at the end."""

    observation_space = spaces.Box(-1.0, 1.0, (1, 3), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.sign, self.time = int(self.np_random.integers(2)), 0
        return self.show(), {}

    def show(self):
        sign = (2 * self.sign - 1) * (self.time == 0)
        return np.array([[1 - self.time / 3, float(self.time == 3), sign]], np.float32)

    def step(self, action):
        self.time += 1
        right = self.time > 3 and action == self.sign
        return self.show(), float(right), self.time > 3, False, {}


class Catch(gym.Env):
    """Stand-in for bsuite's catch: a ball falls down a board of zeros and ones."""

    observation_space = spaces.Box(0.0, 1.0, (5, 3), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.ball, self.row, self.paddle = int(self.np_random.integers(3)), 0, 1
        return self.show(), {}

    def show(self):
        board = np.zeros((5, 3), np.float32)
        board[self.row, self.ball] = board[4, self.paddle] = 1.0
        return board

    def step(self, action):
        self.paddle = int(np.clip(self.paddle + action - 1, 0, 2))
        self.row += 1
        done = self.row == 4
        return self.show(), float(done) * (1.0 if self.paddle == self.ball else -1.0), done, False, {}


def one_reward(env):
    """mo-gymnasium's sum of reward components, with weights."""
    from mo_gymnasium.wrappers import LinearReward

    return LinearReward(env, weight=np.array([1.0, 0.1]))


gym.register("MemoryChain-v0", MemoryChain)
gym.register("Catch-v0", Catch)
