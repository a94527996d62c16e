"""Lineage traces and expected TD errors, against plain definitions, theorems and exact values."""

from __future__ import annotations

import itertools
from collections import Counter
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chunked_td as ctd
from chunked_td.envs.dynamics import TransitionTable
from chunked_td.observations import HashedIndexer
from helpers.episodes import Enumerated
from helpers.faces import check_both_faces, check_saving
from helpers.naive import EXPECTED_SARSA, SARSA, Naive, V
from helpers.naive_planning import Planned
from helpers.random_tables import random_outcomes
from helpers.worlds import World, side_by_side
from studies.wrong_models.errors import PermutedModel

CLASSES = {V: ctd.TDLambda, SARSA: ctd.SarsaLambda, EXPECTED_SARSA: ctd.ExpectedSarsaLambda}


@st.composite
def cases(draw):
    """A cyclic world, a bootstrap, a λ and settings."""
    bootstrap = draw(st.sampled_from([V, SARSA, EXPECTED_SARSA]))
    world = World(draw(st.integers(0, 10**6)), (5,), draw(st.integers(1, 3)), draw(st.integers(1, 2)), sudden=0.1)
    common = {"epsilon": draw(st.floats(0, 1)), "seed": draw(st.integers(0, 99))}
    return world, bootstrap, draw(st.sampled_from([1.0, 0.7])), draw(st.floats(0.1, 1)), draw(st.floats(0, 1)), common


def both(case, reference, **options):
    world, bootstrap, lambda_, alpha, gamma, common = case
    agent = CLASSES[bootstrap](world, lambda_=lambda_, discount=gamma, step_size=alpha, **options, **common)
    return agent, reference(world, bootstrap, ("constant", lambda_), gamma=gamma, alpha=alpha, **common), world


class NaiveLineage(Naive):
    """The definition: shares are counted anew from the whole history for every row and every step."""

    kept, zero = 1.0, False

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.history = []

    def start(self, s, legal):
        self.history.append([])
        return super().start(s, legal)

    def learn(self, lambda_t, reward, bootstrap, ended):
        now = self.history[-1]
        now.append((self.s, self.place, lambda_t))
        t, values = len(now) - 1, self.values.copy()
        delta = reward + self.gamma * bootstrap - self.values[self.place]
        for row in {place for _, place, _ in now}:
            latest = max(i for i, (_, place, _) in enumerate(now) if place == row)
            weights = [self.passed(row, k) for k in range(latest + 1, t + 1)]
            self.trace[row] = self.gamma ** (t - latest) * (np.min(weights, axis=0) if weights else 1.0)
            values[row] = values[row] + self.alpha * delta * self.trace[row]
        self.values = values

    def passed(self, row, k):
        """λ_k C(row, x_k) / (n(x_k) + prior), as it was at time k of this episode."""
        past = [*self.history[:-1], self.history[-1][: k + 1]]
        x, _, lambda_k = past[-1][-1]
        firsts = sum(self.is_first(row, x, episode, j) for episode in past for j in range(len(episode)))
        number = sum(state == x for episode in past for state, *_ in episode)
        stopped = self.zero and not self.is_first(row, x, past[-1], k)
        return 0.0 * lambda_k if stopped else lambda_k * firsts / (number + self.kept)

    def is_first(self, row, x, episode, j):
        """Whether the arrival at j is one at x, the first since `row` was visited in the episode."""
        visits = [i for i in range(j) if episode[i][1] == row]
        return episode[j][0] == x and bool(visits) and all(episode[i][0] != x for i in range(visits[-1] + 1, j))


class NaiveCut(NaiveLineage):
    """Nothing passes a return, and first values do not count."""

    kept, zero = 0.0, True


class NaiveSteps(NaiveLineage):
    """What passes is the share of the step just made, the same for all rows."""

    def passed(self, row, k):
        """λ_k N(row_{k−1}, x_k) / (n(x_k) + prior), as it was at time k of this episode."""
        past = [*self.history[:-1], self.history[-1][: k + 1]]
        x, _, lambda_k = past[-1][-1]
        steps = [(a[1], b[0]) for episode in past for a, b in itertools.pairwise(episode)]
        number = sum(state == x for episode in past for state, *_ in episode)
        stopped = self.zero and not self.is_first(row, x, past[-1], k)
        return 0.0 * lambda_k if stopped else lambda_k * steps.count((past[-1][-2][1], x)) / (number + self.kept)


class NaiveStepsCut(NaiveSteps):
    """The same, but nothing passes a return, and first values do not count."""

    kept, zero = 0.0, True


@pytest.mark.uncompiled
@settings(max_examples=40)
@given(cases())
def test_lineage_of_single_steps_is_its_definition(case):
    side_by_side(*both(case, NaiveSteps, view=ctd.Lineage(counts="steps")), episodes=4, check_steps=True)


@pytest.mark.uncompiled
@settings(max_examples=15)
@given(cases())
def test_lineage_of_single_steps_that_stops_at_returns_is_its_definition(case):
    view = ctd.Lineage(prior=0.0, returns="zero", counts="steps")
    side_by_side(*both(case, NaiveStepsCut, view=view), episodes=4, check_steps=True)


@pytest.mark.uncompiled
@settings(max_examples=40)
@given(cases())
def test_lineage_is_its_definition(case):
    side_by_side(*both(case, NaiveLineage, view="lineage"), episodes=4, check_steps=True)


@pytest.mark.uncompiled
@settings(max_examples=20)
@given(cases())
def test_lineage_that_stops_at_returns_is_its_definition(case):
    side_by_side(*both(case, NaiveCut, view=ctd.Lineage(prior=0.0, returns="zero")), episodes=4, check_steps=True)


@pytest.mark.uncompiled
def test_where_one_row_leads_to_each_state_lineage_without_prior_is_monte_carlo():
    """In a chain C/n = 1: every row has had all that came to the states behind it."""
    plain, lineage = (
        ctd.TDLambda(World(1, (5,), 1), lambda_=1.0, discount=0.9, step_size=0.3, **options)
        for options in ({}, {"view": ctd.Lineage(prior=0.0)})
    )
    rng = np.random.default_rng(0)
    for _ in range(20):
        paid = rng.normal(size=3)
        for agent in (plain, lineage):
            agent.start(0)
            for s in range(3):
                agent.step(paid[s], s + 1, s == 2)
    np.testing.assert_allclose(lineage.tables.values, plain.tables.values, rtol=1e-12)


@pytest.mark.uncompiled
def test_a_row_that_is_new_bootstraps_where_others_have_been():
    """0 → 2 nine times, then 1 → 2: row 1 has one of ten arrivals at 2, so a surprise there is hardly its own."""
    agent = ctd.TDLambda(World(1, (5,), 1), lambda_=1.0, discount=1.0, step_size=0.5, view=ctd.Lineage(prior=0.0))
    for first, paid in (*[(0, 0.0)] * 9, (1, 1.0)):
        agent.start(first)
        agent.step(0.0, 2, False)
        agent.step(paid, 3, True)
    np.testing.assert_allclose(agent.tables.values[:3, 0], [0.0, 0.5 * 0.1, 0.5])


# ---- the TD error that the model expects


class NaiveExpectedError(Planned):
    """The TD error mixed with that of the mean target of all transitions seen from here."""

    weight = 0.7

    def learn(self, lambda_t, reward, bootstrap, ended):
        self.story.setdefault(self.place, []).append((self.seen, np.array(reward), ended == 1))
        target = self.weight * self.backup(self.place) + (1 - self.weight) * (reward + self.gamma * bootstrap)
        Naive.learn(self, lambda_t, target, 0.0 * bootstrap, ended)


@pytest.mark.uncompiled
@settings(max_examples=40)
@given(cases())
def test_the_expected_error_is_its_definition(case):
    world, bootstrap, lambda_, alpha, gamma, common = case
    case = world, bootstrap, lambda_, 0.3 * alpha, gamma, common  # accumulating traces of revisited rows may diverge
    options = {"reward_source": ctd.ExpectedError(0.7)}
    side_by_side(*both(case, NaiveExpectedError, **options), episodes=4, check_steps=True)


class NaiveGuarded(NaiveExpectedError):
    """All differences of a row are kept; where their sum is far from 0, the error stays as it came."""

    def learn(self, lambda_t, reward, bootstrap, ended):
        self.story.setdefault(self.place, []).append((self.seen, np.array(reward), ended == 1))
        came, expected = reward + self.gamma * bootstrap, self.backup(self.place)
        kept = self.__dict__.setdefault("gaps", {}).setdefault(self.place, [])
        kept.append((came - expected).sum())
        weight = 0.0 if abs(sum(kept)) > 1.5 * np.linalg.norm(kept) else self.weight
        target = weight * expected + (1 - weight) * came
        Naive.learn(self, lambda_t, target, 0.0 * bootstrap, ended)


@pytest.mark.uncompiled
@settings(max_examples=25)
@given(cases())
def test_a_guarded_error_is_its_definition(case):
    world, bootstrap, lambda_, alpha, gamma, common = case
    case = world, bootstrap, lambda_, 0.3 * alpha, gamma, common
    options = {"reward_source": ctd.ExpectedError(0.7, guard=1.5)}
    side_by_side(*both(case, NaiveGuarded, **options), episodes=4, check_steps=True)


@pytest.mark.uncompiled
def test_a_guard_notices_a_model_that_is_wrong(tmp_path):
    """A certain step, of which the model believes something else: after a few visits the errors are the row's own."""
    world = World(11, (9,), 3, masked=False)
    options = {"lambda_": 1.0, "epsilon": 0.4, "seed": 2, "reward_source": ctd.ExpectedError(1.0, guard=2.0)}
    agent = ctd.ExpectedSarsaLambda(world, model=PermutedModel(1.0), **options)
    twin = check_saving(agent, World(11, (9,), 3, masked=False), tmp_path / "a.ctd", model=PermutedModel(1.0))
    gap = agent._state.planning.reward_source.gap
    np.testing.assert_array_equal(gap, twin._state.planning.reward_source.gap)
    assert gap.any()
    noticed = []
    for wrong in (None, PermutedModel(1.0)):
        chain = ctd.ExpectedSarsaLambda(World(1, (5,), 1), model=wrong, **options)
        for _ in range(30):
            chain.start(0)
            for s in range(3):
                chain.step(1.0, s + 1, s == 2)
        gap = chain._state.planning.reward_source.gap
        noticed.append(bool((gap[:, 0] ** 2 > 4.0 * gap[:, 1] + 1e-9).any()))  # 1e-9: rounding
    assert noticed == [False, True]


@pytest.mark.uncompiled
def test_without_weight_the_error_is_the_one_that_came():
    case = World(3, (5,), 2, sudden=0.1), EXPECTED_SARSA, 0.9, 0.2, 0.9, {"epsilon": 0.3, "seed": 1}
    side_by_side(*both(case, Naive, reward_source=ctd.ExpectedError(0.0)), episodes=6, check_steps=True)


# ---- both together


RULE = {"view": ctd.Lineage(), "reward_source": ctd.ExpectedError(0.5)}


STEPS = RULE | {"view": ctd.Lineage(counts="steps")}


@pytest.mark.parametrize("options", [RULE, STEPS])
def test_lineage_with_expected_errors_on_both_faces(options):
    check_both_faces(ctd.ExpectedSarsaLambda, "expected_sarsa", source=ctd.ConstantLambda(1.0), **options)


@pytest.mark.parametrize("options", [RULE, STEPS])
def test_lineage_with_expected_errors_is_saved(tmp_path, options):
    agent = ctd.ExpectedSarsaLambda(World(11, (9,), 3, masked=False), lambda_=1.0, epsilon=0.4, seed=2, **options)
    twin = check_saving(agent, World(11, (9,), 3, masked=False), tmp_path / "a.ctd")
    assert (twin.view, twin.reward_source) == (options["view"], options["reward_source"])
    np.testing.assert_array_equal(*(np.unique(each.trace.shared, axis=0) for each in (twin, agent)))
    np.testing.assert_array_equal(twin.trace.arrivals, agent.trace.arrivals)


@pytest.mark.uncompiled
def test_the_named_learner_is_that_combination():
    lake, values = gym.make("FrozenLake-v1"), []
    whole = {**RULE, "reward_source": ctd.ExpectedError(1.0)}
    for cls, options in ((ctd.LineageExpectedSarsa, {}), (ctd.ExpectedSarsaLambda, {"lambda_": 1.0, **whole})):
        agent = cls(lake, epsilon=0.4, step_size=0.3, seed=3, **options)
        agent.learn(lake, episodes=200, progress=False)
        values.append(agent.tables.values.copy())
    assert values[0].any()
    np.testing.assert_array_equal(*values)


@pytest.mark.uncompiled
@pytest.mark.parametrize(("counts", "pairs"), [("pairs", 150 * 151 // 2), ("steps", 150)])
def test_lineage_grows_with_the_states_and_the_pairs(counts, pairs):
    """A chain longer than any first room: each row's share of each later state is 1/2 in the first episode."""
    view = ctd.Lineage(counts=counts)
    agent = ctd.TDLambda(World(1, (5,), 1), lambda_=1.0, indexer=HashedIndexer(), view=view, discount=1.0)
    agent.start("start")
    for k in range(150):
        agent.step(0.0, k, False)
    agent.step(1.0, "end", True)
    assert agent.trace.clock[1] == pairs
    np.testing.assert_allclose(agent.tables.values[:151, 0], [*[0.05] * 150, 0.1])


@pytest.mark.uncompiled
@pytest.mark.parametrize("options", [{"view": "lineage"}, {"view": ctd.Lineage(0.0, "zero")}, RULE, STEPS])
def test_the_fixed_point_is_the_true_value(options):
    """A loop with a slip, γ = 1: from 0 to 1, from 1 back to 0 with probability 1/2, else out, 1 paid per step.

    V(1) = 1 + V(0)/2, V(0) = 1 + V(1): V(0) = 4, V(1) = 3. The mean over the last episodes has a standard error of
    about √(α Var(G)/2 / (α n)) = √(8/(2·6000)) = 0.026; the bound is four of them.
    """
    agent = ctd.TDLambda(World(1, (5,), 1), lambda_=1.0, discount=1.0, step_size=0.02, **options)
    rng = np.random.default_rng(7)
    mean, episodes = np.zeros(2), 8000
    for episode in range(episodes):
        agent.start(0)
        out = False
        while not out:
            agent.step(1.0, 1, False)
            out = bool(rng.random() < 0.5)
            agent.step(1.0, 2 if out else 0, out)
        if episode >= 2000:
            mean += agent.tables.values[:2, 0] / (episodes - 2000)
    np.testing.assert_allclose(mean, [4.0, 3.0], atol=0.11)


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="prior must"):
        ctd.Lineage(prior=-1)
    with pytest.raises(ValueError, match=r"returns must be one of .*'share'.*, got 'keep'"):
        ctd.Lineage(returns="keep")
    with pytest.raises(ValueError, match=r"counts must be one of .*'steps'.*, got 'rows'"):
        ctd.Lineage(counts="rows")
    with pytest.raises(ValueError, match=r"weight must be a number in \[0, 1\], got 2"):
        ctd.ExpectedError(2)
    with pytest.raises(ValueError, match="replacing=True requires view='traces', got view=Lineage"):
        ctd.SarsaLambda(World(1), view="lineage", replacing=True)


@pytest.mark.uncompiled
def test_a_table_of_pairs_that_could_be_searched_without_end_is_refused():
    trace = ctd.Lineage().empty(10, 1, 4)
    good = {"shared": trace.shared, "clock": trace.clock, "visited": trace.visited}
    trace.check_saved(good)
    full, twice = np.ones((1024, 2), np.int64) * np.arange(1, 1025)[:, None], np.zeros((1024, 2), np.int64)
    twice[:2, 0] = 7
    for shared, keys in ((full, 1024), (full[:3], 0), (twice[:512], 1), (twice, 1), (twice, 2)):
        with pytest.raises(ValueError, match="trace_shared"):
            trace.check_saved(good | {"shared": shared, "clock": np.array([0, keys])})


# ---- exactly, over all episodes


def limit_of_updates(every, values, zero, cut=1.0):
    """E[Σ δ_t e_t] of lineage once C/n has settled: by all episodes, one by one; λ = 1, or P of what came."""
    first, arrivals = Counter(), Counter()
    for p, story in every.episodes:
        for t, m in enumerate(story):
            arrivals[m.s] += p
            for row in {every.row(past) for past in story[:t]}:
                latest = max(k for k in range(t) if every.row(story[k]) == row)
                first[row, m.s] += p * all(past.s != m.s for past in story[latest + 1 : t])
    total = np.zeros(values.size)
    for p, story in every.episodes:
        trace = {}
        for t, m in enumerate(story):
            passed = cut if cut == 1.0 else every.forward(True)(story, t)
            for row in trace:
                latest = max(k for k in range(t) if every.row(story[k]) == row)
                is_return = any(past.s == m.s for past in story[latest + 1 : t])
                share = 0.0 if zero and is_return else first[row, m.s] / arrivals[m.s]
                weight, faded = trace[row]
                trace[row] = (
                    min(every.discount * weight, every.discount * faded * passed * share),
                    every.discount * faded,
                )
            trace[every.row(m)] = 1.0, 1.0
            for row, (weight, _) in trace.items():
                total[row] += p * every.error(values, m) * weight
    return total


@pytest.mark.parametrize("learner", ["td", "sarsa", "expected_sarsa"])
@pytest.mark.parametrize("zero", [False, True])
def test_lineage_settles_at_the_true_values_and_nowhere_else(learner, zero):
    """Cyclic problem, every episode by its probability: the mean update vanishes at V^π or Q^π and is regular there."""
    table = TransitionTable.from_outcomes(
        random_outcomes(np.random.default_rng(1), 3, 2, branching=2, stop=0.3, masks=False), starts=[0, 1, 2], horizon=4
    )
    pi = np.array([[0.3, 0.7], [0.5, 0.5], [0.9, 0.1]])
    every = Enumerated(table, pi, learner, 0.9)
    truth = ctd.fixed_point(table, 0.5, learner=learner, discount=0.9, policy=pi).truth[:, 0]
    mean = partial(limit_of_updates, every, zero=zero)
    np.testing.assert_allclose(mean(truth), 0.0, atol=1e-12)
    slopes = np.array([mean(truth + unit) for unit in np.eye(truth.size)])
    assert np.linalg.eigvals(slopes).real.max() < -0.01  # so the iteration is drawn there, from anywhere
    assert np.abs(limit_of_updates(every, truth, zero, cut=0.0)).max() > 1e-3  # a λ that sees what came moves it
