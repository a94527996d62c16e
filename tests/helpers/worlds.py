"""Small random worlds for the tests: cyclic or acyclic, with masks, vector rewards and truncation."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

TERMINATED, TRUNCATED = 1, 2


class World:
    """A random MDP over `nvec` states. Terminal states have no outgoing transitions; state 0 is the start.

    Every (s, a) leads to up to three states, each with two possible reward vectors, so that the percept (R, S) says
    more than S. In an acyclic world the next state has a larger number. With probability `sudden` a transition
    terminates in a state that is no terminal one, and may have a value.
    """

    def __init__(self, seed, nvec=(5,), actions=2, rewards=1, acyclic=False, masked=True, sudden=0.0):
        rng = np.random.default_rng(seed)
        self.nvec, self.actions, self.rewards = tuple(nvec), actions, rewards
        self.states = S = int(np.prod(nvec))
        self.terminal = np.zeros(S, bool)
        self.terminal[-1] = True
        if S > 3 and not acyclic:
            self.terminal[rng.integers(1, S)] = True
        self.table = {}
        for s in range(S):
            for a in range(actions):
                low = s + 1 if acyclic else 0
                targets = rng.choice(np.arange(low, S), size=min(3, S - low), replace=False) if low < S else []
                chances = rng.dirichlet(np.ones(len(targets))) if len(targets) else []
                self.table[s, a] = [
                    (p, int(t), rng.normal(size=(2, rewards))) for p, t in zip(chances, targets, strict=True)
                ]
        self.legal = np.ones((S, actions), bool)
        if masked and actions > 1:
            self.legal = rng.random((S, actions)) < 0.7
            self.legal[np.arange(S), rng.integers(actions, size=S)] = True
        multi = len(self.nvec) > 1
        self.observation_space = spaces.MultiDiscrete(self.nvec) if multi else spaces.Discrete(S)
        self.action_space = spaces.Discrete(actions)
        if rewards > 1:
            self.reward_space = spaces.Box(-np.inf, np.inf, (rewards,))
        self.limit, self.sudden = 12, sudden
        self.rng = np.random.default_rng(seed + 1)

    @property
    def unwrapped(self):
        return self

    def observe(self, s):
        return np.array(np.unravel_index(s, self.nvec)) if len(self.nvec) > 1 else s

    def info(self, s):
        return {"action_mask": self.legal[s].astype(np.int8)}

    def reset(self):
        self.state, self.time = 0, 0
        return self.state

    def step(self, a):
        """The reward vector, the next state, and whether it goes on (0), terminated (1) or was truncated (2)."""
        assert self.legal[self.state, a]
        outcomes = self.table[self.state, a]
        _, self.state, rewards = outcomes[self.rng.choice(len(outcomes), p=[p for p, *_ in outcomes])]
        self.time += 1
        if self.terminal[self.state] or (self.sudden and self.rng.random() < self.sudden):
            return rewards[self.rng.integers(2)], self.state, TERMINATED
        cut = self.time >= self.limit or self.rng.random() < 0.05
        return rewards[self.rng.integers(2)], self.state, TRUNCATED if cut else 0


def side_by_side(agent, reference, world, episodes, *, check_steps=False):
    """Drive a learner and a reference through the same episodes; they must choose the same actions."""
    for _ in range(episodes):
        s = world.reset()
        action = agent.start(world.observe(s), world.info(s))
        assert action == reference.start(s, world.legal[s])
        ended = 0
        while not ended:
            reward, s, ended = world.step(action)
            paid = reward if world.rewards > 1 else float(reward[0])
            action = agent.step(paid, world.observe(s), ended == TERMINATED, ended == TRUNCATED, world.info(s))
            assert action == reference.step(reward, s, ended, world.legal[s])
            if check_steps:
                assert_same_values(agent, reference)
        assert_same_values(agent, reference)


def assert_same_values(agent, reference):
    learned = agent.tables.values[: reference.rows]
    np.testing.assert_allclose(learned, reference.values.reshape(learned.shape), rtol=1e-9, atol=1e-11)
