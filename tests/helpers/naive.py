"""Alg. 1 to 4 and Eq. 4 written down plainly: dense arrays, dicts of counts, nothing of ours but the forward view.

Conventions that the package documents and this reference shares: a_{t+1} is drawn before the update at t for SARSA and
state values, after it for the others (unless `early`); π(·|x_t) in λ is the policy as it was when a_t was drawn; on
truncation SARSA bootstraps from Σ_a π(a|s) Q(s,a); one uniform number per action drawn, none where there is no choice.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from chunked_td.returns import chunked_targets, lambda_returns

V, SARSA, EXPECTED_SARSA = "v", "sarsa", "expected-sarsa"


class Naive:
    """Online learning with dense traces.

    Args:
      source: ("constant", λ), ("watkins", λ), ("factored", groups) or (name,) of the other λ sources.
      literal: actions never tried in a state count as impossible.
      policy_noise: whether the policy's own randomness is part of λ.
    """

    early = False

    def __init__(
        self,
        world,
        bootstrap,
        source,
        *,
        gamma,
        alpha,
        epsilon,
        seed,
        replacing=False,
        cutoff=0.0,
        percept="state",
        prior=0.0,
        policy=None,
        literal=False,
        policy_noise=True,
    ):
        self.world, self.bootstrap, self.source = world, bootstrap, source
        self.gamma, self.alpha, self.epsilon = gamma, alpha, epsilon
        self.replacing, self.cutoff, self.percept, self.prior = replacing, cutoff, percept, prior
        self.given, self.literal, self.policy_noise = policy, literal, policy_noise
        S, A, d = world.states, world.actions, world.rewards
        self.values = np.zeros((S, d) if bootstrap == V else (S, A, d))
        self.rows = S if bootstrap == V else S * A
        self.counts = defaultdict(lambda: defaultdict(int))
        self.acted_in = {}
        draws, coins = np.random.SeedSequence(seed).spawn(2)
        self.draws, self.coins = np.random.default_rng(draws), np.random.default_rng(coins)

    # ---- policy

    def greedy_policy(self, s, legal):
        q = self.values[s].sum(axis=1)
        greedy = legal & (q == q[legal].max())
        return self.epsilon * legal / legal.sum() + (1 - self.epsilon) * greedy / greedy.sum()

    def probabilities(self, s, legal):
        self.acted_in[s] = legal
        if self.bootstrap != V:
            return self.greedy_policy(s, legal)
        weights = np.where(legal, 1.0 if self.given is None else self.given[s], 0.0)
        return weights / weights.sum()

    def draw(self, policy):
        if np.count_nonzero(policy) == 1:
            return int(np.argmax(policy))
        u, total = self.draws.random(), 0.0
        for a, p in enumerate(policy):
            total += p
            if p > 0 and u < total:
                return a
        raise AssertionError("the policy does not sum to one")

    # ---- count model

    def estimate(self, origin, target, outcomes):
        n = self.counts[origin]
        total = sum(n.values()) + self.prior * outcomes
        return (n[target] + self.prior) / total if total > 0 else 0.0

    def mixture_weights(self, s, part=()):
        """π(·|s), or what is left of it where actions were never tried."""
        if self.prior or self.literal:
            return self.pi
        tried = np.array([bool(self.counts[(s, b, *part)]) for b in range(self.world.actions)])
        return np.where(tried, self.pi, 0.0) / self.pi[tried].sum()

    def support(self, origins):
        """Every outcome that may have a probability above zero."""
        seen = {x for origin in origins for x in self.counts[origin]}
        return seen | set(range(self.world.states)) if self.prior else seen

    def known(self, s, a, x):
        """Whether x counts as an outcome of (s, a), rather than as a share of the prior."""
        return bool(self.counts[s, a].get(x))

    def group_of(self, members, s):
        digits = np.unravel_index(s, self.world.nvec)
        return tuple(int(digits[j]) for j in members)

    def percept_of(self, reward, s):
        return s if self.percept == "state" else (*reward, s)

    def count(self, s, a, reward, s2, a2):
        kind = self.source[0]
        if kind == "backward" and self.bootstrap != SARSA:
            self.counts[s2][s] += 1
        elif kind == "backward" and a2 is not None:
            self.counts[s2, a2][s, a] += 1
        elif kind == "factored":
            for i, members in enumerate(self.source[1]):
                self.counts[s, a, i][self.group_of(members, s2)] += 1
        elif kind != "backward":
            self.counts[s, a][self.percept_of(reward, s2)] += 1

    # ---- λ, from the table of sources

    def lambda_now(self, s, a, reward, s2, a2):
        """λ_t, one per reward component."""
        world, pi, kind = self.world, self.pi, self.source[0]
        S, A, d = world.states, world.actions, world.rewards
        if kind == "constant":
            return np.full(d, self.source[1])
        if kind == "watkins":
            return np.full(d, self.source[1] if pi[a] == pi.max() else 0.0)
        if kind == "visit":
            return np.full(d, 1 / sum(sum(self.counts[s, b].values()) for b in range(A)))
        if kind == "factored":
            out = []
            for i, members in enumerate(self.source[1]):
                outcomes = np.prod([world.nvec[j] for j in members])
                value = self.group_of(members, s2)
                weights = self.mixture_weights(s, (i,)) if self.policy_noise else np.eye(A)[a]
                out.append(sum(weights[b] * self.estimate((s, b, i), value, outcomes) for b in range(A)))
            return np.array(out)
        if kind == "backward":
            if self.previous is None:
                return np.zeros(d)
            origin, target = ((s, a), self.previous) if self.bootstrap == SARSA else (s, self.previous[0])
            return np.full(d, self.estimate(origin, target, S * A if self.bootstrap == SARSA else S))
        if kind == "forward":
            x2 = self.percept_of(reward, s2)
            if not self.policy_noise:
                return np.full(d, self.estimate((s, a), x2, S))
            if self.bootstrap == SARSA:
                factor = 1.0 if a2 is None else self.next_pi[a2]
                return np.full(d, self.estimate((s, a), x2, S) * factor)
            weights = self.mixture_weights(s)
            return np.full(d, sum(weights[b] * self.estimate((s, b), x2, S) for b in range(A)))
        assert kind == "expected"
        return np.full(d, self.expected(s, a))

    def expected(self, s, a):
        S, A, total = self.world.states, self.world.actions, 0.0
        if not self.policy_noise:
            weights = self.mixture_weights(s) if self.bootstrap == V else np.eye(A)[a]
            each = [sum(self.estimate((s, b), x, S) ** 2 for x in self.support([(s, b)])) for b in range(A)]
            return float(weights @ np.array(each))
        if self.bootstrap != SARSA:
            outcomes = self.support([(s, b) for b in range(A) if self.pi[b] > 0])
            weights = self.mixture_weights(s)
            return sum(sum(weights[b] * self.estimate((s, b), x, S) for b in range(A)) ** 2 for x in outcomes)
        for x in range(S):
            factor = 1.0
            if self.known(s, a, x) and x in self.acted_in:
                factor = (self.greedy_policy(x, self.acted_in[x]) ** 2).sum()
            total += self.estimate((s, a), x, S) ** 2 * factor
        return total

    # ---- learning

    def start(self, s, legal):
        self.s, self.previous = s, None
        self.pi = self.probabilities(s, legal)
        self.a = self.draw(self.pi)
        self.trace = np.zeros_like(self.values)
        return self.a

    def step(self, reward, s2, ended, legal):
        a2, late = None, self.bootstrap not in (V, SARSA) and not self.early
        if ended != 1:
            self.next_pi = self.probabilities(s2, legal)
            a2 = self.draw(self.next_pi) if ended == 0 and not late else None
        self.count(self.s, self.a, reward, s2, a2)
        lambda_t = self.lambda_now(self.s, self.a, reward, s2, a2)
        bootstrap = self.ahead(s2, a2) if ended != 1 else np.zeros(self.world.rewards)
        self.learn(lambda_t, reward, bootstrap, ended)
        if late and ended == 0:
            self.next_pi = self.probabilities(s2, legal)
            a2 = self.draw(self.next_pi)
        self.previous, self.s, self.a = (self.s, self.a), s2, a2
        self.pi = None if ended == 1 else self.next_pi
        return a2

    def ahead(self, s2, a2):
        if self.bootstrap == V:
            return self.values[s2].copy()
        if self.bootstrap == SARSA and a2 is not None:
            return self.values[s2, a2].copy()
        return sum(p * q for p, q in zip(self.next_pi, self.values[s2], strict=True))

    @property
    def place(self):
        return self.s if self.bootstrap == V else (self.s, self.a)

    def learn(self, lambda_t, reward, bootstrap, ended):
        self.trace *= self.gamma * lambda_t
        self.trace[np.abs(self.trace).max(axis=-1) <= self.cutoff] = 0.0
        if self.replacing:
            self.trace[self.place] = 1.0
        else:
            self.trace[self.place] += 1.0
        delta = reward + self.gamma * bootstrap - self.values[self.place]
        self.values += self.alpha * delta * self.trace


class TrueModel(Naive):
    """The same with the world's own probabilities in place of counts."""

    def estimate(self, origin, target, outcomes):
        return sum(p for p, s2, _ in self.world.table[origin] if s2 == target)

    def mixture_weights(self, s, part=()):
        return self.pi

    def support(self, origins):
        return set(range(self.world.states))

    def known(self, s, a, x):
        return True


class ForwardView(Naive):
    """Eq. 2 and 4: values stand still during the episode and move towards λ-returns at its end.

    Alg. 3 does not add up to Eq. 4 with B = Σ_a π(a|s)Q(s,a), because its TD errors subtract Q(s,a). It adds up to

        G_t = r_{t+1} + γ[B_{t+1} + λ_{t+1}(G_{t+1} − Q(s_{t+1},a_{t+1}))],

    which is Eq. 4 with γλ_{t+1}(B_{t+1} − Q(s_{t+1},a_{t+1})) added to the reward.

    Args:
      chunks: use n-step targets of sampled chunks (§3.1) instead.
    """

    def __init__(self, *args, chunks=False, **settings):
        super().__init__(*args, **settings)
        self.chunks = chunks

    def start(self, s, legal):
        self.story = []
        return super().start(s, legal)

    def learn(self, lambda_t, reward, bootstrap, ended):
        self.story.append((self.place, lambda_t, reward, bootstrap, 0.0 if ended == 1 else self.gamma))
        if not ended:
            return
        old = self.values.copy()
        targets = self.targets()
        for (place, *_), target in zip(self.story, targets, strict=True):
            self.values[place] += self.alpha * (target - old[place])

    def targets(self, keep=None):
        """float[T, d]: targets of the states at 0..T−1; keep: bool[T, d] for the states at 1..T."""
        _, lambdas, rewards, bootstraps, discounts = (list(column) for column in zip(*self.story, strict=True))
        T = len(lambdas)
        leaving = np.array([*lambdas[1:], np.zeros(self.world.rewards)])  # λ of the states at 1..T
        if self.chunks and keep is None:
            coins = self.coins.random(T - 1)
            keep = np.vstack([coins[:, None] >= leaving[:-1], np.ones((1, self.world.rewards), bool)])
        rewards = np.array(rewards)
        if self.bootstrap == EXPECTED_SARSA:
            for t in range(T - 1):
                place = self.story[t + 1][0]
                rewards[t] += discounts[t] * leaving[t] * (bootstraps[t] - self.values[place])
        columns = []
        for i in range(self.world.rewards):
            r, v = rewards[:, i], np.array(bootstraps)[:, i]
            if keep is None:
                columns.append(lambda_returns(r, np.array(discounts), v, leaving[:, i]))
            else:
                columns.append(chunked_targets(r, np.array(discounts), v, keep[:, i]))
        return np.array(columns).T
