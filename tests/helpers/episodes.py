"""Every episode of a short problem, one by one: plain definitions of what exact analysis must give."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np


class Moment(NamedTuple):
    """Transition t of an episode. `end` is 0, 1 (terminated) or 2 (cut); b is None where no action is drawn."""

    s: int
    a: int
    r: float
    x: int
    b: int | None
    end: int


def all_episodes(table, pi):
    """(probability, [Moment, …]) of every episode."""

    def follow(weight, s, a, story):
        for p, (x,), (r,), ended in table.outcomes((s,), a):
            end = 1 if ended else 2 if len(story) + 1 == table.limit else 0
            if end:
                yield weight * p, [*story, Moment(s, a, r, x, None, end)]
                continue
            for b in np.flatnonzero(pi[x]).tolist():
                yield from follow(weight * p * pi[x, b], x, b, [*story, Moment(s, a, r, x, b, 0)])

    for p0, (s,) in table.starts:
        for a in np.flatnonzero(pi[s]).tolist():
            yield from follow(p0 * pi[s, a], s, a, [])


class Enumerated:
    """What follows from all episodes of a table under a policy. A λ here is a function of an episode and of t ≥ 1."""

    def __init__(self, table, pi, learner, discount):
        self.table, self.pi, self.learner, self.discount = table, pi, learner, discount
        self.episodes = list(all_episodes(table, pi))
        self.visits, self.ways, self.pair_ways = defaultdict(float), defaultdict(float), defaultdict(float)
        for p, story in self.episodes:
            for m in story:
                self.visits[m.s] += p
                self.ways[m.s, m.x] += p
                if m.b is not None:
                    self.pair_ways[m.s, m.a, m.x, m.b] += p

    def row(self, m):
        return m.s if self.learner == "td" else m.s * self.table.n_actions + m.a

    def error(self, values, m):
        """δ."""
        A = self.table.n_actions
        ahead = 0.0
        if m.end != 1:
            q = None if self.learner == "td" else values[m.x * A : (m.x + 1) * A]
            if self.learner == "td":
                ahead = values[m.x]
            elif self.learner == "sarsa" and m.b is not None:
                ahead = q[m.b]
            elif self.learner == "q_learning":
                ahead = max(q[b] for b in range(A) if self.pi[m.x, b] > 0)
            else:
                ahead = sum(self.pi[m.x, b] * q[b] for b in range(A) if self.pi[m.x, b] > 0)
        return m.r + self.discount * ahead - values[self.row(m)]

    def targets(self, values, lambda_):
        """(probability, row, U) of every visit: U_t = δ_t + γ λ_{t+1} U_{t+1}."""
        for p, story in self.episodes:
            u = 0.0
            for t in range(len(story) - 1, -1, -1):
                passed = lambda_(story, t + 1) * u if t + 1 < len(story) else 0.0
                u = self.error(values, story[t]) + self.discount * passed
                yield p, self.row(story[t]), u

    def mean_update(self, values, lambda_):
        """E[Σ_t δ_t e_t], by traces."""
        total = np.zeros(values.size)
        for p, story in self.episodes:
            trace = np.zeros(values.size)
            for t, m in enumerate(story):
                trace *= self.discount * (lambda_(story, t) if t else 0.0)
                trace[self.row(m)] += 1.0
                total += p * self.error(values, m) * trace
        return total

    # ---- λ, from the definitions

    def backward(self, story, t):
        before, now = story[t - 1], story[t]
        if self.learner != "sarsa":
            return self.ways[before.s, now.s] / sum(w for (_, x), w in self.ways.items() if x == now.s)
        into = sum(w for (_, _, x, b), w in self.pair_ways.items() if (x, b) == (now.s, now.a))
        return self.pair_ways[before.s, before.a, now.s, now.a] / into

    def likely(self, s, weights):
        """Σ_a weights(a) P(·|s, a), float64[S]."""
        p = np.zeros(self.table.n_states)
        for a in np.flatnonzero(weights):
            for chance, (x,), _, _ in self.table.outcomes((s,), int(a)):
                p[x] += weights[a] * chance
        return p

    def expected(self, policy_noise):
        def lambda_(story, t):
            m, A = story[t], self.table.n_actions
            if policy_noise and self.learner == "sarsa":
                p = self.likely(m.s, np.eye(A)[m.a])
                squares = [(self.pi[x] ** 2).sum() or 1.0 for x in range(self.table.n_states)]
                return float((p**2) @ squares)
            if not policy_noise and self.learner == "td":
                return sum(self.pi[m.s, b] * (self.likely(m.s, np.eye(A)[b]) ** 2).sum() for b in range(A))
            weights = self.pi[m.s] if policy_noise else np.eye(A)[m.a]
            return float((self.likely(m.s, weights) ** 2).sum())

        return lambda_

    def forward(self, policy_noise):
        def lambda_(story, t):
            m = story[t]
            if policy_noise and self.learner == "sarsa":
                chosen = 1.0 if m.b is None else self.pi[m.x, m.b]
                return chosen * self.likely(m.s, np.eye(self.table.n_actions)[m.a])[m.x]
            weights = self.pi[m.s] if policy_noise else np.eye(self.table.n_actions)[m.a]
            return self.likely(m.s, weights)[m.x]

        return lambda_

    def value_kernel(self, truth, width, policy_noise):
        """λ of the value kernel at the true values; τ² is width² times the mean square of the TD errors there."""
        A = self.table.n_actions
        moments = [(p, m) for p, story in self.episodes for m in story]
        square = sum(p * self.error(truth, m) ** 2 for p, m in moments) / sum(p for p, _ in moments)
        worth = truth if self.learner == "td" else (self.pi * truth.reshape(-1, A)).sum(axis=1)
        apart = (self.discount * (worth[:, None] - worth[None])) ** 2
        near = np.exp(-apart / (2 * width**2 * square))

        def alike(s, weights):
            p = self.likely(s, weights)
            return float(p @ near @ p)

        def lambda_(story, t):
            m = story[t]
            if self.learner == "sarsa" or (self.learner != "td" and not policy_noise):
                return alike(m.s, np.eye(A)[m.a])
            if policy_noise:
                return alike(m.s, self.pi[m.s])
            return sum(self.pi[m.s, b] * alike(m.s, np.eye(A)[b]) for b in range(A))

        return lambda_

    def greedy(self, truth):
        """e²/(e² + Var) of the returns from a state or pair, with e = 0: they are those of the values."""
        found = defaultdict(list)
        by_pair = self.learner == "sarsa"
        A = self.table.n_actions
        worth = truth if self.learner == "td" else (self.pi * truth.reshape(-1, A)).sum(axis=1)
        for p, story in self.episodes:
            g = worth[story[-1].x] if story[-1].end == 2 else 0.0
            for m in reversed(story):
                g = m.r + self.discount * g
                found[(m.s, m.a) if by_pair else m.s].append((p, g))

        def lambda_(story, t):
            p, g = np.array(found[(story[t].s, story[t].a) if by_pair else story[t].s]).T
            return 0.0 if np.average((g - np.average(g, weights=p)) ** 2, weights=p) > 1e-10 else 1.0

        return lambda_
