"""Kinds of traces: replacing and true-online (dutch), against plain definitions and their theorems."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chunked_td as ctd
from chunked_td.simulation import simulate
from helpers.compilation import uncompiled
from helpers.faces import SCALAR, check_both_faces, check_saving
from helpers.naive import EXPECTED_SARSA, SARSA, Naive, V
from helpers.worlds import World, side_by_side

CLASSES = {V: ctd.TDLambda, SARSA: ctd.SarsaLambda, EXPECTED_SARSA: ctd.ExpectedSarsaLambda}


def test_replacing_traces_in_the_simulation():
    check_both_faces(ctd.SarsaLambda, "sarsa", source=ctd.ConstantLambda(0.8), replacing=True)


@pytest.mark.parametrize("view", ["offline", "sampled"])
def test_replacing_goes_with_traces(view):
    with pytest.raises(ValueError, match="replacing=True requires view='traces', got view"):
        simulate(SCALAR, lambda_source=0.5, view=view, replacing=True, step_sizes=0.1, seeds=0, episodes=1)
    with pytest.raises(ValueError, match="replacing=True requires view='traces', got view"):
        ctd.SarsaLambda(World(1), view=view, replacing=True)


# ---- true online


@st.composite
def cases(draw):
    """A cyclic world, a bootstrap, a λ source and settings."""
    bootstrap = draw(st.sampled_from([V, SARSA, EXPECTED_SARSA]))
    world = World(draw(st.integers(0, 10**6)), (5,), draw(st.integers(1, 3)), draw(st.integers(1, 2)), sudden=0.1)
    source = draw(st.sampled_from([("constant", 0.9), ("constant", 1.0), ("constant", 0.3), ("forward",)]))
    gamma, alpha = draw(st.floats(0, 1)), draw(st.floats(0.01, 1))
    return world, bootstrap, source, gamma, alpha, {"epsilon": draw(st.floats(0, 1)), "seed": draw(st.integers(0, 99))}


def both(case, reference, view):
    world, bootstrap, source, gamma, alpha, common = case
    own = ctd.ConstantLambda(*source[1:]) if source[0] == "constant" else ctd.ForwardLambda()
    agent = CLASSES[bootstrap](world, lambda_source=own, discount=gamma, step_size=alpha, view=view, **common)
    return agent, reference(world, bootstrap, source, gamma=gamma, alpha=alpha, **common), world


class OnlineForwardView(Naive):
    """The online λ-return algorithm: after every step all updates of the episode are made again, from its beginning.

    For the horizon h, G_{h−1} = r_h + γB_h and G_t = r_{t+1} + γ[B_{t+1} + λ_{t+1}(G_{t+1} − C_{t+1})], where B and C
    are the bootstrap and the value of the row visited, as they stood when the step was made. For V and SARSA B = C.
    """

    early = True

    def start(self, s, legal):
        self.first, self.story = self.values.copy(), []
        return super().start(s, legal)

    def step(self, reward, s2, ended, legal):
        self.after = s2
        return super().step(reward, s2, ended, legal)

    def count(self, s, a, reward, s2, a2):
        self.row_ahead = s2 if self.bootstrap == V else (s2, a2)
        super().count(s, a, reward, s2, a2)

    def learn(self, lambda_t, reward, bootstrap, ended):
        ahead = np.zeros(self.world.rewards) if ended else self.values[self.row_ahead].copy()
        self.story.append((self.place, lambda_t, reward, bootstrap, ahead))
        values = self.first.copy()
        for t, (place, *_) in enumerate(self.story):
            values[place] += self.alpha * (self.target(t) - values[place])
        self.values = values

    def target(self, t):
        _, _, reward, bootstrap, value = self.story[t]
        g = reward + self.gamma * bootstrap
        if t + 1 < len(self.story):
            g = g + self.gamma * self.story[t + 1][1] * (self.target(t + 1) - value)
        return g


@pytest.mark.uncompiled
@settings(max_examples=120)
@given(cases())
def test_true_online_is_the_online_lambda_return_algorithm(case):
    """van Seijen et al. (2016), Theorem 1, with a λ per step: the forward view made anew at every step."""
    side_by_side(*both(case, OnlineForwardView, "true_online"), episodes=3, check_steps=True)


class NaiveTrueOnline(Naive):
    """True-online TD(λ) as printed, for one-hot features: dense weights, feature vectors, inner products."""

    def start(self, s, legal):
        self.v_old = 0.0
        self.e = np.zeros((self.rows, self.world.rewards))
        return super().start(s, legal)

    def step(self, reward, s2, ended, legal):
        self.after = s2
        return super().step(reward, s2, ended, legal)

    def learn(self, lambda_t, reward, bootstrap, ended):
        w = self.values.reshape(self.rows, -1)
        phi = np.zeros(self.rows)
        phi[self.place if self.bootstrap == V else np.ravel_multi_index(self.place, self.values.shape[:2])] = 1.0
        v = phi @ w
        delta = reward + self.gamma * bootstrap - v
        decay = self.gamma * lambda_t
        self.e = decay * self.e + phi[:, None] - self.alpha * decay * np.outer(phi, phi @ self.e)
        w = w + self.alpha * (delta + v - self.v_old) * self.e - self.alpha * np.outer(phi, v - self.v_old)
        self.v_old = bootstrap
        self.values = w.reshape(self.values.shape)


@pytest.mark.uncompiled
@settings(max_examples=60)
@given(cases().filter(lambda case: case[1] != EXPECTED_SARSA))
def test_true_online_is_the_printed_algorithm(case):
    side_by_side(*both(case, NaiveTrueOnline, "true_online"), episodes=4, check_steps=True)


@pytest.mark.parametrize(
    ("cls", "learner"),
    [(ctd.SarsaLambda, "sarsa"), uncompiled(ctd.TDLambda, "td")],
)
def test_true_online_on_both_faces(cls, learner):
    agent = check_both_faces(cls, learner, source=ctd.ConstantLambda(0.8), view="true_online")
    plain = check_both_faces(cls, learner, source=ctd.ConstantLambda(0.8))
    assert not np.allclose(agent.tables.values, plain.tables.values)


def test_true_online_is_saved(tmp_path):
    agent = ctd.SarsaLambda(World(11, (9,), 3, 2, masked=False), view="true_online", epsilon=0.4, seed=2)
    twin = check_saving(agent, World(11, (9,), 3, 2, masked=False), tmp_path / "a.ctd")
    np.testing.assert_array_equal(twin.trace.old, agent.trace.old)


def test_true_online_has_traces_of_its_own_kind():
    with pytest.raises(ValueError, match="replacing=True requires view='traces', got view='true_online'"):
        ctd.SarsaLambda(World(1), view="true_online", replacing=True)
    with pytest.raises(ValueError, match=r"view must be one of .*, got 'true-online'; did you mean 'true_online'\?"):
        ctd.SarsaLambda(World(1), view="true-online")
