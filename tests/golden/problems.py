"""Problems that the golden cases share: small, with cycles, masks, ends, truncation and vector rewards."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces


def random_outcomes(rng, states, actions, *, rewards, masks, stop, branching=3):
    """P[s][a] with cycles; every third outcome or so comes with a second reward."""
    P = {}
    for s in range(states):
        offered = np.flatnonzero(rng.random(actions) < 0.7) if masks else np.arange(actions)
        offered = offered if offered.size else rng.integers(actions, size=1)
        P[s] = {}
        for a in offered.tolist():
            rows = []
            for target in rng.integers(states, size=rng.integers(1, branching + 1)).tolist():
                for _ in range(1 + (rng.random() < 0.3)):
                    reward = rng.normal(size=rewards).round(2).tolist()
                    rows.append((target, reward[0] if rewards == 1 else reward, bool(rng.random() < stop)))
            chances = rng.dirichlet(np.ones(len(rows)))
            P[s][a] = [(float(p), *row) for p, row in zip(chances, rows, strict=True)]
    return P


def table(api, seed=3, states=12, actions=3, horizon=20, nvec=(12,), rewards=1, masks=True, stop=0.1):
    """A random problem as a transition table."""
    P = random_outcomes(np.random.default_rng(seed), states, actions, rewards=rewards, masks=masks, stop=stop)
    settings = {"horizon": horizon, "n_actions": actions, "nvec": nvec, "bad_first": [actions - 1], "bad_end": [1]}
    return api.TransitionTable.from_outcomes(P, starts={0: 0.7, 5: 0.3}, **settings)


def parts_table(api):
    """The same with three state components and as many rewards."""
    return table(api, seed=8, nvec=(2, 3, 2), rewards=3)


def lake(api):
    """FrozenLake."""
    return api.TransitionTable.from_env("FrozenLake-v1")


def behaviour(states, actions):
    """A policy for every state."""
    return np.random.default_rng(1).dirichlet(np.ones(actions), states).round(3) + 1e-3


def normed(policy):
    return policy / policy.sum(axis=1, keepdims=True)


class Words(gym.Env):
    """Tuples of a text and a number, which get ids on first sight, and so many that tables grow."""

    observation_space = spaces.Tuple((spaces.Text(4), spaces.Discrete(500)))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number = int(self.np_random.integers(3))
        return ("a", self.number), {}

    def step(self, action):
        self.number += 1 + action
        return ("b", self.number), 1.0, bool(self.np_random.random() < 0.02 or self.number > 450), False, {}


class Walk(gym.Env):
    """Seven places, a noisy walk. The right end terminates and pays; nine steps truncate; a mask in the middle."""

    observation_space, action_space = spaces.Discrete(7), spaces.Discrete(2, start=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = int(self.np_random.integers(1, 4)), 0
        return self.place, self.info()

    def info(self):
        return {"action_mask": np.array([self.place != 3, True])}

    def step(self, action):
        go = 1 if (action == 2) != (self.np_random.random() < 0.2) else -1
        self.place, self.time = max(self.place + go, 0), self.time + 1
        return self.place, float(self.place == 6), self.place == 6, self.time == 9, self.info()


class Slope(gym.Env):
    """A ball on a slope, whose place and speed are numbers; for tiles, bins, codes and features."""

    observation_space = spaces.Box(np.array([-1.0, -1.0]), np.array([1.0, 1.0]), dtype=np.float64)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.time = np.array([self.np_random.uniform(-0.5, 0.5), 0.0]), 0
        return self.at.copy(), {}

    def step(self, action):
        place, speed = self.at
        speed = float(np.clip(0.95 * speed + 0.1 * (action - 1) - 0.05 * place, -1.0, 1.0))
        place = float(np.clip(place + speed * 0.3 + 0.01 * self.np_random.normal(), -1.0, 1.0))
        self.at, self.time = np.array([place, speed]), self.time + 1
        return self.at.copy(), float(place > 0.9) - 0.01, place > 0.9, self.time == 40, {}
