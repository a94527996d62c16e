"""λ sources that learn: against plain definitions with lists of returns and errors, on both faces, saved."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chunked_td as ctd
from chunked_td.simulation import simulate
from helpers.faces import RING, check_both_faces, check_saving
from helpers.naive import EXPECTED_SARSA, SARSA, Naive, V
from helpers.worlds import World, side_by_side

CLASSES = {V: ctd.TDLambda, SARSA: ctd.SarsaLambda, EXPECTED_SARSA: ctd.ExpectedSarsaLambda}


class Remembering(Naive):
    """Keeps every return in lists; each λ is computed from them anew."""

    def __init__(self, *args, rule, **settings):
        super().__init__(*args, **settings)
        self.rule, self.returns = rule, defaultdict(list)

    def key(self, s, a):
        return (s, a) if self.bootstrap == SARSA else s

    def start(self, s, legal):
        self.episode = []
        return super().start(s, legal)

    def count(self, *_):
        pass

    def lambda_now(self, s, a, reward, s2, a2):
        here = self.values[s] if self.bootstrap == V else self.values[s, a]
        if self.bootstrap == EXPECTED_SARSA:
            here = self.pi @ self.values[s]
        return np.full(self.world.rewards, self.rule(self, self.key(s, a), here.sum()))

    def learn(self, lambda_t, reward, bootstrap, ended):
        place = self.key(self.s, self.a)
        super().learn(lambda_t, reward, bootstrap, ended)
        self.episode.append((place, reward.sum()))
        if ended:
            g = bootstrap.sum()
            for visited, paid in reversed(self.episode):
                g = paid + self.gamma * g
                self.returns[visited].append(g)


def weighted(values, least):
    """Mean and variance with weights 1/n, or `least` where that is more, written out as weights of all values."""
    weights = np.ones(0)
    for n in range(1, len(values) + 1):
        w = max(1.0 / n, least)
        weights = np.append(weights * (1.0 - w), w)
    mean = weights @ values
    return mean, weights @ (np.array(values) - mean) ** 2


def greedy(least):
    def rule(self, key, value):
        if len(self.returns[key]) < 2:
            return 1.0
        mean, variance = weighted(self.returns[key], least)
        e = mean - value
        return e**2 / (e**2 + variance) if e or variance else 1.0

    return rule


def adaptive(c):
    def rule(self, key, value):
        returns = self.returns[key]
        if len(returns) < 2:
            return 0.0
        return float(abs(np.mean(returns) - value) > c * np.std(returns, ddof=1) / np.sqrt(len(returns)))

    return rule


META = ctd.MetaGradientLambda(per_state=True)
RULES = {
    "greedy": (ctd.GreedyLambda(), greedy(0.0)),
    "greedy, forgetting": (ctd.GreedyLambda(0.3), greedy(0.3)),
    "adaptive": (ctd.AdaptiveLambda(), adaptive(2.0)),
    "adaptive, narrow": (ctd.AdaptiveLambda(0.5), adaptive(0.5)),
}


@pytest.mark.uncompiled
@settings(max_examples=100)
@given(
    st.sampled_from(list(RULES)),
    st.sampled_from(list(CLASSES)),
    st.integers(0, 10**6),
    st.integers(1, 2),
)
def test_sources_that_learn_are_their_definitions(name, bootstrap, seed, rewards):
    """Truncated and terminated episodes, with revisits; steps are compared one by one."""
    (source, rule), world = RULES[name], World(seed, (5,), 2, rewards, sudden=0.1)
    common = {"epsilon": 0.4, "seed": seed % 100}
    agent = CLASSES[bootstrap](world, lambda_source=source, discount=0.9, step_size=0.3, **common)
    reference = Remembering(world, bootstrap, None, gamma=0.9, alpha=0.3, rule=rule, **common)
    side_by_side(agent, reference, world, episodes=8, check_steps=True)


class NaiveMeta(Naive):
    """Meta-gradient λ with dense arrays: θ[p], e[rows], ∂e/∂θ and z as [rows, p]."""

    def __init__(self, *args, own, **settings):
        super().__init__(*args, **settings)
        self.own, p = own, self.world.states if own.per_state else 1
        self.theta = np.full(p, np.log(own.initial / (1 - own.initial)))
        self.z, self.squares = np.zeros((self.rows, p)), [[] for _ in range(p)]

    def start(self, s, legal):
        self.e, self.slope, self.y = np.zeros(self.rows), np.zeros_like(self.z), np.zeros(self.theta.size)
        return super().start(s, legal)

    def count(self, *_):
        pass

    def lambda_now(self, s, a, reward, s2, a2):
        theta = self.theta[s if self.own.per_state else 0]
        return np.full(self.world.rewards, 1 / (1 + np.exp(-theta)))

    def learn(self, lambda_t, reward, bootstrap, ended):
        row = self.s if self.bootstrap == V else self.s * self.world.actions + self.a
        p, lambda_ = self.s if self.own.per_state else 0, lambda_t[0]
        error = (reward + self.gamma * bootstrap - self.values[self.place]).sum()
        super().learn(lambda_t, reward, bootstrap, ended)
        self.y = self.gamma * self.own.reference * self.y + self.z[row]
        for q, g in enumerate(error * self.y):
            if g:
                self.squares[q].append(g * g)
                rms = np.sqrt(weighted(self.squares[q], 0.01)[0])
                self.theta[q] = np.clip(self.theta[q] + self.own.meta_step_size * g / rms, -6, 6)
        self.z[row] *= self.own.decay
        self.slope *= self.gamma * lambda_
        self.slope[:, p] += self.gamma * lambda_ * (1 - lambda_) * self.e
        self.e *= self.gamma * lambda_
        self.e[row] += 1
        self.z += error * self.slope


@pytest.mark.uncompiled
@settings(max_examples=60)
@given(
    st.sampled_from([V, SARSA]),
    st.integers(0, 10**6),
    st.booleans(),
    st.sampled_from([0.0, 0.9, 1.0]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.floats(0.01, 2),
)
def test_meta_gradient_is_its_definition(bootstrap, seed, per_state, decay, returns, beta):
    world = World(seed, (5,), 2, 1 + seed % 2, sudden=0.1)
    own = ctd.MetaGradientLambda(0.7, beta, returns, decay, per_state)
    common = {"epsilon": 0.4, "seed": seed % 100}
    agent = CLASSES[bootstrap](world, lambda_source=own, discount=0.9, step_size=0.3, **common)
    reference = NaiveMeta(world, bootstrap, None, gamma=0.9, alpha=0.3, own=own, **common)
    side_by_side(agent, reference, world, episodes=8, check_steps=True)
    learned = agent._state.source.theta[: reference.theta.size] + np.log(0.7 / 0.3)
    np.testing.assert_allclose(learned, reference.theta, rtol=1e-8, atol=1e-10)


@pytest.mark.uncompiled
def test_meta_gradient_carries_the_derivative_of_the_updates():
    """With decay 1, z = d/dθ Σ_t δ_t e_t(θ), errors held still: by finite differences over an episode with revisits."""
    path, errors = [0, 1, 2, 1, 0, 3, 1], np.random.default_rng(3).normal(size=7)

    def update(theta):
        lambda_, e, total = 1 / (1 + np.exp(-theta)), np.zeros(5), np.zeros(5)
        for s, error in zip(path, errors, strict=True):
            e *= 0.9 * lambda_
            e[s] += 1
            total += error * e
        return total

    own = ctd.MetaGradientLambda(initial=0.6, meta_step_size=1e-12, decay=1.0)
    agent = ctd.TDLambda(World(3), lambda_source=own, discount=0.9, step_size=1e-12)
    agent.start(0)
    for t, error in enumerate(errors):  # values stay at zero: the reward is the error
        agent.step(float(error), [*path[1:], 4][t], t == 6)
    theta, h = np.log(0.6 / 0.4), 1e-6
    slope = (update(theta + h) - update(theta - h)) / (2 * h)
    np.testing.assert_allclose(agent._state.source.effect[:5, 0], slope, rtol=1e-6, atol=1e-8)


@pytest.mark.uncompiled
@pytest.mark.parametrize(("noise", "expected"), [(0.0, "more"), (3.0, "less")])
def test_meta_gradient_raises_lambda_in_a_corridor_and_lowers_it_in_noise(noise, expected):
    rng = np.random.default_rng(1)
    agent = ctd.TDLambda(
        World(3, (12,)),
        lambda_source=ctd.MetaGradientLambda(meta_step_size=0.02, decay=1.0),
        discount=1.0,
        step_size=0.1,
    )
    for _ in range(40 if noise == 0.0 else 1500):
        agent.start(0)
        for s in range(1, 11):
            agent.step(float(noise * rng.normal()), s, False)
        agent.step(1.0, 11, True)
    theta = agent._state.source.theta[0]
    assert theta > 1.0 if expected == "more" else theta < -1.0


@pytest.mark.parametrize(
    ("cls", "learner", "source", "view"),
    [
        (ctd.ExpectedSarsaLambda, "expected_sarsa", ctd.GreedyLambda(), "traces"),
        (ctd.SarsaLambda, "sarsa", ctd.AdaptiveLambda(1.0), "traces"),
        (ctd.TDLambda, "td", ctd.GreedyLambda(0.1), "offline"),
        (ctd.SarsaLambda, "sarsa", ctd.MetaGradientLambda(), "traces"),
    ],
)
def test_both_faces(cls, learner, source, view):
    agent = check_both_faces(cls, learner, source=source, view=view)
    assert agent._state.source.number.sum() > 50


@pytest.mark.uncompiled
@pytest.mark.parametrize("source", [ctd.GreedyLambda(0.2), ctd.AdaptiveLambda(), META])
def test_saved_in_the_middle_of_an_episode(source, tmp_path):
    world = World(11, (9,), 3, 2, masked=False)
    agent = ctd.ExpectedSarsaLambda(World(11, (9,), 3, 2, masked=False), lambda_source=source, epsilon=0.4, seed=2)
    check_saving(agent, world, tmp_path / "a.ctd")
    assert agent._state.source.number.any()


@pytest.mark.uncompiled
def test_an_abandoned_episode_teaches_nothing():
    agent = ctd.TDLambda(World(3), lambda_source=ctd.GreedyLambda())
    agent.start(0)
    agent.step(1.0, 1, False)
    agent.start(0)
    agent.step(5.0, 4, True)
    assert agent._state.source.number.sum() == 1
    assert agent._state.source.mean[0, 0] == 5.0


@pytest.mark.uncompiled
def test_long_episodes_find_room():
    agent = ctd.TDLambda(World(3), lambda_source=ctd.GreedyLambda(), discount=1.0, step_size=0.01)
    agent.start(0)
    for t in range(1000):
        agent.step(1.0, t % 4, False)
    agent.step(1.0, 4, True)
    assert agent._state.source.number.sum() == 1001
    assert agent._state.source.mean[3, 0] == pytest.approx(np.mean(np.arange(1, 1001, 4)))


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: ctd.GreedyLambda(1.5), r"least_weight must be a number in \[0, 1\], got 1.5"),
        (lambda: ctd.AdaptiveLambda(-1.0), "standard_errors must be a finite number from 0, got -1.0"),
        (lambda: ctd.MetaGradientLambda(1.0), "initial must be between 0 and 1, both excluded, got 1.0"),
        (lambda: ctd.MetaGradientLambda(meta_step_size=0.0), "meta_step_size must be a positive finite number"),
    ],
)
def test_bad_settings(make, match):
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.uncompiled
def test_lambda_greedy_starts_as_monte_carlo_and_adaptive_as_td():
    common = {"learner": "td", "step_sizes": 0.3, "seeds": 5, "episodes": 1, "view": "traces", "keep_values": True}
    runs = {name: simulate(RING, lambda_source=source, **common).values for name, source in FIRST.items()}
    np.testing.assert_array_equal(runs["greedy"], runs["one"])
    np.testing.assert_array_equal(runs["adaptive"], runs["zero"])


FIRST = {"greedy": ctd.GreedyLambda(), "one": 1.0, "adaptive": ctd.AdaptiveLambda(), "zero": 0.0}
