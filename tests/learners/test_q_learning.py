"""Q-learning and Watkins' Q(λ): the max bootstrap against a plain definition, in the simulation, saved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chunked_td as ctd
from chunked_td.envs.dynamics import SkewedSplit
from chunked_td.simulation import simulate
from helpers.faces import SCALAR, VECTOR, check_both_faces, check_saving
from helpers.naive import EXPECTED_SARSA, ForwardView, Naive
from helpers.worlds import World, side_by_side


class Greedy:
    """B(x') = Q(s', a*), a* the first of the legal actions with the greatest sum of components."""

    def ahead(self, s2, a2):
        q = np.where(self.acted_in[s2], self.values[s2].sum(axis=1), -np.inf)
        return self.values[s2, int(np.argmax(q))].copy()


class NaiveQ(Greedy, Naive):
    """Online, with dense traces."""


class OfflineQ(Greedy, ForwardView):
    """λ-returns at the end of an episode."""


@pytest.mark.uncompiled
@settings(max_examples=60)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["watkins", "constant"]),
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(1, 3),
    st.booleans(),
)
def test_q_lambda_is_its_definition(seed, name, lambda_, epsilon, rewards, offline):
    world = World(seed, (6,), 3, rewards, sudden=0.1)
    source = {"watkins": ctd.WatkinsLambda, "constant": ctd.ConstantLambda}[name](lambda_)
    common = {"epsilon": epsilon, "seed": seed % 100}
    agent = ctd.QLambda(
        world, lambda_source=source, discount=0.9, step_size=0.3, view="offline" if offline else "traces", **common
    )
    cls = OfflineQ if offline else NaiveQ
    reference = cls(world, EXPECTED_SARSA, (name, lambda_), gamma=0.9, alpha=0.3, **common)
    side_by_side(agent, reference, world, episodes=6)


class RecencyBounded(Greedy, Naive):
    """Trajectory-aware RBIS (Daley et al. 2023), visit by visit: β_t = min(λ^(t − k), β_{t−1} ρ_t) for the visit at k.

    The target policy is greedy, ties shared evenly, and ρ_t its ratio to the policy that acted.
    """

    def start(self, s, legal):
        self.past = []
        return super().start(s, legal)

    def learn(self, lambda_t, reward, bootstrap, ended):
        best = self.pi == self.pi.max()
        ratio = best[self.a] / best.sum() / self.pi[self.a]
        t = len(self.past)
        self.past = [(row, k, min(lambda_t[0] ** (t - k), beta * ratio)) for row, k, beta in self.past]
        self.past.append((self.place, t, 1.0))
        delta, values = reward + self.gamma * bootstrap - self.values[self.place], self.values.copy()
        for row, k, beta in self.past:
            values[row] += self.alpha * self.gamma ** (t - k) * beta * delta
        self.values = values


@pytest.mark.uncompiled
@settings(max_examples=40)
@given(st.integers(0, 10**6), st.floats(0, 1), st.floats(0, 1))
def test_recency_bounded_traces_of_the_greedy_policy_are_watkins(seed, lambda_, epsilon):
    """ρ_t is 0 after an exploratory action and at least 1 otherwise, so that the bound is always λ^(t − k) or 0."""
    world = World(seed, (6,), 3, sudden=0.1)
    common = {"epsilon": epsilon, "seed": seed % 100}
    agent = ctd.QLambda(world, lambda_=lambda_, discount=0.9, step_size=0.3, **common)
    reference = RecencyBounded(world, EXPECTED_SARSA, ("constant", lambda_), gamma=0.9, alpha=0.3, **common)
    side_by_side(agent, reference, world, episodes=5)


def test_watkins_is_the_default_and_lambda_zero_is_q_learning():
    world = World(3, (6,), 3)
    assert ctd.QLambda(world).lambda_source == ctd.WatkinsLambda(0.9)
    assert ctd.QLambda(world, lambda_=0.5).lambda_source == ctd.WatkinsLambda(0.5)
    with pytest.raises(ValueError, match="lambda_ and lambda_source both"):
        ctd.QLambda(world, lambda_=0.5, lambda_source=0.3)


def test_the_fixed_point_is_that_of_the_best_policy_whatever_is_explored():
    """Sutton and Barto's difference of Q-learning and SARSA: exploration does not lower what is learned."""
    world = World(5, (6,), 3, acyclic=True, masked=False)
    best, explored = np.zeros((6, 3)), np.zeros((6, 3))
    for s in range(4, -1, -1):
        for a in range(3):
            best[s, a] = sum(p * (r.mean() + best[t].max()) for p, t, r in world.table[s, a])
            explored[s, a] = sum(p * (r.mean() + explored[t].mean()) for p, t, r in world.table[s, a])
    agent = ctd.QLambda(world, lambda_=0.0, epsilon=1.0, discount=1.0, step_size=0.005)
    rng = np.random.default_rng(0)
    agent.start(0)
    for _ in range(60_000):  # transitions drawn from the table, every state a start
        s = agent.state
        outcomes = world.table[s, agent.action]
        _, t, rewards = outcomes[rng.choice(len(outcomes), p=[p for p, *_ in outcomes])]
        agent.step(float(rewards[rng.integers(2), 0]), t, t == 5)
        if t == 5:
            agent.start(int(rng.integers(5)))
    np.testing.assert_allclose(agent.tables.values[:18, 0].reshape(6, 3), best, atol=0.2)
    assert abs(best - explored).max() > 0.5


@pytest.mark.parametrize("dynamics", [SCALAR, VECTOR], ids=["scalar", "vector"])
def test_both_faces(dynamics):
    check_both_faces(ctd.QLambda, "q_learning", dynamics, source=ctd.WatkinsLambda(0.8))


def test_saved_and_resumed(tmp_path):
    agent = ctd.QLambda(World(11, (9,), 3, masked=False), lambda_=0.7, epsilon=0.4, seed=2)
    check_saving(agent, World(11, (9,), 3, masked=False), tmp_path / "q.ctd")


def test_sampled_chunks_are_refused():
    with pytest.raises(ValueError, match=r"view='sampled' requires state values or SARSA .* got Q-learning"):
        simulate(SkewedSplit.make(), learner="q_learning", view="sampled", step_sizes=0.1, seeds=0, episodes=1)
