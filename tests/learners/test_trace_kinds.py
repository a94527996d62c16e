"""Kinds of traces: replacing, true-online (dutch) and expected, against plain definitions and their theorems."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chunked_td as ctd
from chunked_td.indexing import HashedIndexer
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
    with pytest.raises(ValueError, match="replacing goes with view 'traces', got view"):
        simulate(SCALAR, lambda_source=0.5, view=view, replacing=True, step_sizes=0.1, seeds=0, episodes=1)
    with pytest.raises(ValueError, match="replacing goes with view 'traces', got view"):
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
    with pytest.raises(ValueError, match="replacing goes with view 'traces', got view 'true_online'"):
        ctd.SarsaLambda(World(1), view="true_online", replacing=True)
    with pytest.raises(ValueError, match=r"view must be one of .*, got 'true-online'; did you mean 'true_online'\?"):
        ctd.SarsaLambda(World(1), view="true-online")


# ---- expected traces


class NaiveExpected(Naive):
    """Lists of instantaneous traces per row; z is their weighted mean, made anew at every step."""

    mix, beta = 0.3, 0.2

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.z, self.n = {}, {}

    def start(self, s, legal):
        self.y = np.zeros_like(self.values)
        return super().start(s, legal)

    def learn(self, lambda_t, reward, bootstrap, ended):
        here = np.zeros_like(self.values)
        here[self.place] = 1.0
        self.trace = self.gamma * lambda_t * self.trace + here
        n = self.n[self.place] = self.n.get(self.place, 0) + 1
        z = self.z.get(self.place, np.zeros_like(self.values))
        z = self.z[self.place] = z + max(1 / n, self.beta) * (self.trace - z)
        self.y = self.mix * (self.gamma * lambda_t * self.y + here) + (1 - self.mix) * z
        delta = reward + self.gamma * bootstrap - self.values[self.place]
        self.values = self.values + self.alpha * delta * self.y


@pytest.mark.uncompiled
@settings(max_examples=60)
@given(cases())
def test_expected_traces_are_their_definition(case):
    world, bootstrap, source, gamma, alpha, common = case
    case = world, bootstrap, source, gamma, 0.3 * alpha, common  # unmixed traces of revisited rows may diverge
    side_by_side(*both(case, NaiveExpected, ctd.ExpectedTraces(0.3, 0.2)), episodes=4, check_steps=True)


@pytest.mark.uncompiled
@settings(max_examples=30)
@given(cases())
def test_expected_traces_with_all_weight_on_the_instantaneous_one_are_td_lambda(case):
    side_by_side(*both(case, Naive, ctd.ExpectedTraces(mix=1.0)), episodes=4, check_steps=True)


@pytest.mark.uncompiled
def test_the_learned_trace_is_the_exact_expected_trace():
    """A small chain with fan-in: E[e_t | s_t = s] = 1_s + γλ Σ_{s⁻} P(s⁻|s) E[e | s⁻], solved by hand.

    0 → {1 with 0.3, 2 with 0.7} → 3 → end. The mean of n draws has a standard error of √(0.21/n) γ²λ² at most.
    """
    gamma, lambda_, n = 0.9, 0.8, 4000
    exact = np.zeros((4, 4))
    exact[0, 0] = 1.0
    for s in (1, 2):
        exact[s] = gamma * lambda_ * exact[0]
        exact[s, s] += 1.0
    exact[3] = gamma * lambda_ * (0.3 * exact[1] + 0.7 * exact[2])
    exact[3, 3] += 1.0
    rng = np.random.default_rng(5)
    world = World(1, (5,), 1)
    agent = ctd.TDLambda(world, lambda_=lambda_, discount=gamma, step_size=0.1, view="expected_traces")
    for _ in range(n):
        agent.start(0)
        agent.step(0.0, 1 if rng.random() < 0.3 else 2, False)
        agent.step(0.0, 3, False)
        agent.step(1.0, 4, True)
    np.testing.assert_allclose(agent.trace.expected[:4, :4, 0], exact, atol=4 * 0.46 / np.sqrt(n))


@pytest.mark.uncompiled
def test_expected_traces_credit_what_could_have_led_here():
    """The paper's motivation: after one surprise at the join, the branch not taken this time is updated, too."""
    agent = ctd.TDLambda(World(1, (5,), 1), lambda_=1.0, discount=1.0, step_size=0.5, view="expected_traces")
    for branch, paid in ((1, 0.0), (2, 1.0)):
        agent.start(0)
        agent.step(0.0, branch, False)
        agent.step(0.0, 3, False)
        agent.step(paid, 4, True)
    np.testing.assert_allclose(agent.tables.values[:4, 0], [0.5, 0.25, 0.25, 0.5])


def test_expected_traces_on_both_faces():
    check_both_faces(ctd.SarsaLambda, "sarsa", source=ctd.ConstantLambda(0.8), view=ctd.ExpectedTraces(0.3, 0.1))


def test_expected_traces_are_saved(tmp_path):
    view = ctd.ExpectedTraces(0.3, 0.1)
    agent = ctd.SarsaLambda(World(11, (9,), 3, 2, masked=False), view=view, epsilon=0.4, seed=2)
    twin = check_saving(agent, World(11, (9,), 3, 2, masked=False), tmp_path / "a.ctd")
    assert twin.view == view
    np.testing.assert_array_equal(twin.trace.expected, agent.trace.expected)
    np.testing.assert_array_equal(twin.trace.mixed, agent.trace.mixed)


@pytest.mark.uncompiled
def test_expected_traces_grow_with_the_states():
    agent = ctd.TDLambda(World(1, (5,), 1), lambda_=1.0, indexer=HashedIndexer(), view="expected_traces", discount=1.0)
    agent.start("start")
    for k in range(100):
        agent.step(0.0, k, False)
    agent.step(1.0, "end", True)
    assert agent.trace.number.size > 100
    np.testing.assert_allclose(agent.tables.values[:101, 0], 0.1)


def test_expected_traces_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match=r"view 'expected_traces' keeps rows × rows × rewards numbers, at most"):
        ctd.ExpectedTraces().empty(20_000, 1, 8)
    with pytest.raises(ValueError, match=r"mix must be a number in \[0, 1\], got 2"):
        ctd.ExpectedTraces(mix=2)
    with pytest.raises(ValueError, match="replacing goes with view 'traces', got view"):
        ctd.SarsaLambda(World(1), view="expected_traces", replacing=True)


# ---- preferential and emphatic TD


class NaivePreferential(Naive):
    """Anand and Precup (2021): e_t = β(s_t) φ_t + γ (1 − β(s_t)) e_{t−1}, with the preference β = 1 − λ."""

    def learn(self, lambda_t, reward, bootstrap, ended):
        preference = 1 - lambda_t
        here = np.zeros_like(self.values)
        here[self.place] = 1.0
        self.trace = preference * here + self.gamma * (1 - preference) * self.trace
        self.values = self.values + self.alpha * self.trace * (
            reward + self.gamma * bootstrap - self.values[self.place]
        )


class NaiveEmphatic(Naive):
    """Sutton, Mahmood and White (2016), Eq. 17 to 20, with ρ = 1 and interest 1; F is summed up anew at every step."""

    def start(self, s, legal):
        self.times = 0
        return super().start(s, legal)

    def learn(self, lambda_t, reward, bootstrap, ended):
        self.times += 1
        follow_on = sum(self.gamma**k for k in range(self.times))
        emphasis = lambda_t * 1.0 + (1 - lambda_t) * follow_on
        here = np.zeros_like(self.values)
        here[self.place] = 1.0
        self.trace = self.gamma * lambda_t * self.trace + emphasis * here
        delta = reward + self.gamma * bootstrap - self.values[self.place]
        self.values = self.values + self.alpha * delta * self.trace


@pytest.mark.uncompiled
@pytest.mark.parametrize(("view", "reference"), [("preferential", NaivePreferential), ("emphatic", NaiveEmphatic)])
def test_weighted_traces_are_their_definition(view, reference):
    @settings(max_examples=40)
    @given(cases())
    def check(case):
        world, bootstrap, source, gamma, alpha, common = case
        case = world, bootstrap, source, gamma, 0.1 * alpha, common  # emphasis may be as large as the episode is long
        side_by_side(*both(case, reference, view), episodes=4, check_steps=True)

    check()


def test_emphatic_traces_on_both_faces():
    check_both_faces(ctd.SarsaLambda, "sarsa", source=ctd.ConstantLambda(0.6), view="emphatic")


@pytest.mark.uncompiled
def test_emphatic_traces_are_saved(tmp_path):
    agent = ctd.SarsaLambda(World(11, (9,), 3, masked=False), view="emphatic", epsilon=0.4, seed=2, step_size=0.01)
    check_saving(agent, World(11, (9,), 3, masked=False), tmp_path / "a.ctd")


# ---- LSTD(λ)


class NaiveLeastSquares(Naive):
    """A and b of all transitions, solved anew after every step. `ridge` visits of each initial value first."""

    ridge, initial = 0.5, 2.0

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.values += self.initial
        self.A = self.ridge * np.eye(self.rows)
        self.b = np.full((self.rows, self.world.rewards), self.ridge * self.initial)

    def start(self, s, legal):
        self.e = np.zeros(self.rows)
        return super().start(s, legal)

    def ahead(self, s2, a2):
        """Also the weights of the rows in it: what it says of each unit vector."""
        values, rows = self.values, []
        for unit in np.eye(self.rows):
            self.values = np.broadcast_to(unit.reshape(values.shape[:-1])[..., None], values.shape)
            rows.append(super().ahead(s2, a2)[0])
        self.values, self.weights = values, np.array(rows)
        return super().ahead(s2, a2)

    def learn(self, lambda_t, reward, bootstrap, ended):
        here = np.zeros(self.values.shape[:-1])
        here[self.place] = 1.0
        self.e = self.gamma * lambda_t[0] * self.e + here.ravel()
        self.A += np.outer(self.e, here.ravel() - (0.0 if ended == 1 else self.gamma * self.weights))
        self.b += np.outer(self.e, reward)
        self.values = np.linalg.solve(self.A, self.b).reshape(self.values.shape)


@pytest.mark.uncompiled
@settings(max_examples=30)
@given(cases())
def test_least_squares_solve_their_equations(case):
    """The policy is uniform: greedy ones would part where the two ways of solving differ by rounding."""
    world, bootstrap, source, gamma, alpha, common = case
    agent, naive, world = both(
        (world, bootstrap, source, gamma, alpha, common | {"epsilon": 1.0}), NaiveLeastSquares, ctd.LeastSquares(0.5)
    )
    agent.tables.values[:] = NaiveLeastSquares.initial
    side_by_side(agent, naive, world, episodes=3, check_steps=True)


@pytest.mark.uncompiled
def test_least_squares_with_lambda_1_average_returns(tmp_path):
    """Without discount, λ = 1 and hardly a prior, V is the mean return of the visits (Boyan 2002); no step size."""
    agent = ctd.TDLambda(World(1, (9,), 1), lambda_=1.0, discount=1.0, view=ctd.LeastSquares(1e-9), step_size=0.9)
    paid = np.random.default_rng(0).normal(size=(20, 3))
    for rewards in paid:
        agent.start(0)
        for s in range(3):
            agent.step(rewards[s], s + 1, s == 2)
    returns = np.cumsum(paid[:, ::-1], axis=1)[:, ::-1]
    np.testing.assert_allclose(agent.tables.values[:3, 0], returns.mean(axis=0), rtol=1e-6)
    agent = ctd.SarsaLambda(World(11, (9,), 3, masked=False), view="least_squares", epsilon=0.4, seed=2)
    assert check_saving(agent, World(11, (9,), 3, masked=False), tmp_path / "a.ctd").view == ctd.LeastSquares()


def test_least_squares_on_both_faces():
    check_both_faces(ctd.ExpectedSarsaLambda, "expected_sarsa", source=ctd.ConstantLambda(0.6), view="least_squares")


def test_least_squares_refuse_what_they_cannot_do():
    with pytest.raises(ValueError, match="ridge must be"):
        ctd.LeastSquares(0.0)
    with pytest.raises(ValueError, match="λ per reward component; it does not go with view 'least_squares'"):
        ctd.FactoredChunkedExpectedSarsa(World(1, (2, 3), 2, 2), view="least_squares")
