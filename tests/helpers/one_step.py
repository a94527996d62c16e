"""Planted confounds: bootstraps differ, λ does not matter. Episodes are cut off by a time limit before they bootstrap.

In `OneStep` λ has no part in a run. In `CoinFirst` it changes every run, and no expectation.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np


class OneStep(gym.Env):
    """From A, "left" pays 0 and leads to B, where actions pay +10 and −10; "right" pays 1 and leads to C, 8 and 8.

    Episodes are cut off after one step, so values bootstrap there whatever λ is. Q-learning takes B for the better
    place (10 against 8) and goes left; Expected-SARSA knows that it explores (7 against 8 at ε = 0.3) and earns the 1.
    """

    def __init__(self):
        self.observation_space, self.action_space = gym.spaces.Discrete(3), gym.spaces.Discrete(2)
        self.initial_state_distrib = np.array([0.8, 0.1, 0.1])
        self.P = {
            0: {0: [(1.0, 1, 0.0, False)], 1: [(1.0, 2, 1.0, False)]},
            1: {0: [(1.0, 1, 10.0, True)], 1: [(1.0, 1, -10.0, True)]},
            2: {0: [(1.0, 2, 8.0, True)], 1: [(1.0, 2, 8.0, True)]},
        }

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = int(self.np_random.choice(3, p=self.initial_state_distrib))
        return self.state, {}

    def step(self, action):
        [(_, self.state, reward, terminated)] = self.P[self.state][int(action)]
        return self.state, reward, terminated, False, {}


class CoinFirst(OneStep):
    """A coin is tossed on the way to A: it pays +1 or −1, and the action says which side wins.

    What is learned about the coin depends on λ, so the actions there do, and what they pay. A fair coin pays nothing on
    average, whatever the actions are; and the update of A, the last step of its episode, is the same for every λ.
    """

    def __init__(self):
        super().__init__()
        self.observation_space = gym.spaces.Discrete(6)
        self.initial_state_distrib = np.array([0.0, 0.1, 0.1, 0.8, 0.0, 0.0])
        self.P[3] = {a: [(0.5, 4, 1.0 - 2 * a, False), (0.5, 5, 2.0 * a - 1, False)] for a in range(2)}
        self.P[4] = self.P[5] = {a: [(1.0, 0, 0.0, False)] for a in range(2)}

    def reset(self, *, seed=None, options=None):
        gym.Env.reset(self, seed=seed)
        self.state = int(self.np_random.choice(6, p=self.initial_state_distrib))
        return self.state, {}

    def step(self, action):
        outcomes = self.P[self.state][int(action)]
        _, self.state, reward, terminated = outcomes[int(self.np_random.integers(len(outcomes)))]
        return self.state, reward, terminated, False, {}


gym.register("OneStep-v0", OneStep, max_episode_steps=1)
gym.register("CoinFirst-v0", CoinFirst, max_episode_steps=3)
