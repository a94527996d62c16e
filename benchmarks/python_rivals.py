"""The rivals in Python: SARSA(λ) as tutorials write it, and with dense tables in NumPy."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np

from chunked_td.seeding import uniform


class DictSarsa:
    """SARSA(λ) with dictionaries: every step walks over every trace. Traces that fall to zero are removed."""

    def __init__(self, actions: int, step_size: float, discount: float, epsilon: float, lambda_: float, seed: int = 0):
        self.actions, self.step_size, self.discount = actions, step_size, discount
        self.epsilon, self.lambda_, self.random = epsilon, lambda_, random.Random(seed)
        self.q: dict = defaultdict(float)
        self.e: dict = defaultdict(float)

    def choose(self, state: int) -> int:
        if self.random.random() < self.epsilon:
            return self.random.randrange(self.actions)
        values = [self.q[state, a] for a in range(self.actions)]
        best = max(values)
        return self.random.choice([a for a in range(self.actions) if values[a] == best])

    def start(self, state: int) -> int:
        self.e.clear()
        self.state, self.action = state, self.choose(state)
        return self.action

    def step(self, reward: float, state: int, terminated: bool, action: int | None = None) -> int:
        """Learn from a transition. `action` dictates the next action (tests)."""
        q, e = self.q, self.e
        if action is None:
            action = self.choose(state)
        ahead = 0.0 if terminated else q[state, action]
        delta = reward + self.discount * ahead - q[self.state, self.action]
        e[self.state, self.action] += 1.0
        for pair in e:
            q[pair] += self.step_size * delta * e[pair]
        if self.discount * self.lambda_ == 0.0:
            e.clear()
        else:
            for pair in e:
                e[pair] *= self.discount * self.lambda_
        self.state, self.action = state, action
        return action


def dense_sarsa(env, draws, policy_draws, episodes: int, epsilon: float, lambda_: float, discount: float, alpha: float):
    """SARSA(λ) (Alg. 2 with a constant λ) with traces over all of |S||A|, in NumPy. Returns Q and the steps taken.

    Args:
      env: dynamics, prepared. draws, policy_draws: Streams.
    """
    kind, strides = type(env), np.append(np.cumprod(env.nvec[:0:-1])[::-1], 1)
    q = np.zeros((int(np.prod(env.nvec)), env.n_actions))
    state, reward, steps = np.zeros(len(env.nvec), np.int64), np.zeros(1), 0

    def choose(s: int) -> int:
        legal = kind.legal(env, state)
        if legal == 1:
            return 0
        values = q[s, :legal]
        greedy = values == values.max()
        policy = epsilon / legal + (1.0 - epsilon) * greedy / greedy.sum()
        return min(int(np.searchsorted(np.cumsum(policy), uniform(policy_draws), side="right")), legal - 1)

    for _ in range(episodes):
        e = np.zeros_like(q)
        kind.reset(env, draws, state)
        s = int(state @ strides)
        a = choose(s)
        ended = False
        while not ended:
            ended = kind.step(env, draws, state, a, reward)
            s2 = int(state @ strides)
            a2 = -1 if ended else choose(s2)
            ahead = 0.0 if ended else q[s2, a2]
            e *= discount * lambda_
            e[s, a] += 1.0
            q += alpha * (reward[0] + discount * ahead - q[s, a]) * e
            s, a = s2, a2
            steps += 1
    return q, steps
