"""Exact fixed points: equal to V^π where they must be, and equal to what long simulations settle on."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chunked_td as ctd
from chunked_td.analysis.fixed_points import fixed_point
from chunked_td.envs.dynamics import KeyToDoor, SkewedSplit, TransitionTable
from chunked_td.lambdas.value import ValueLambda
from chunked_td.simulation import simulate

sys.path.append(str(Path(__file__).parents[1] / "envs"))
from random_tables import random_outcomes, random_table

LEARNERS = ("td", "sarsa", "expected_sarsa")


def drawn_function(seed, *reads):
    """A random λ of the given ones among (x, a, x', a')."""

    def lambda_(*transition):
        return np.random.default_rng([seed, *(99 if transition[i] is None else transition[i] for i in reads)]).random()

    return lambda_


problems = st.builds(
    random_table,
    st.integers(0, 10**6),
    states=st.integers(1, 6),
    actions=st.integers(1, 3),
    horizon=st.sampled_from([7, 12, 500]),  # long enough for every state to be acted in
    starts=st.just(1),
    stop=st.sampled_from([0.1, 0.5]),
)


@settings(deadline=None, max_examples=25)
@given(problems, st.sampled_from(LEARNERS), st.floats(0, 1), st.floats(0, 0.99), st.integers(0, 1000))
def test_a_lambda_that_knows_no_outcome_leaves_the_true_values(table, learner, value, discount, seed):
    """λ(x) with every learner, λ(x, a) where the bootstrap is Q: V^π or Q^π, truncated or not, whatever the policy."""
    sources = [value, ctd.ExpectedLambda(), drawn_function(seed, 0)]
    scale = {"learned": {"error": [0.3, 1000.0]}}
    assert fixed_point(table, ValueLambda(), learner=learner, discount=discount, **scale).max_bias < 1e-7
    if learner != "td":
        sources += [drawn_function(seed, 0, 1), ctd.WatkinsLambda(value)]
    greedy = {"values": np.random.default_rng(seed).normal(size=table.legal_actions.shape), "epsilon": 0.3}
    for policy in ({}, {} if learner == "td" else greedy):
        for source in sources:
            found = fixed_point(table, source, learner=learner, discount=discount, **policy)
            assert found.max_bias < 1e-7
            assert found.rate < 1 + 1e-9
            assert np.nanmin(found.variance) > -1e-9


@settings(deadline=None, max_examples=12)
@given(problems, st.sampled_from(LEARNERS), st.integers(0, 1000))
def test_paths_by_hand(table, learner, seed):
    """Short episodes: E[Σ δ e] over all of them, one by one, is zero at the fixed point.

    States that are only met where episodes are cut keep their first value, zero.
    """
    table = table._replace(limit=2)
    lambda_ = drawn_function(seed, 0, 1, 2, 3)
    found = fixed_point(table, lambda_, learner=learner, discount=0.9)
    pi = table.legal_actions / np.maximum(table.legal_actions.sum(axis=1, keepdims=True), 1)
    update = np.zeros(found.values.shape[0])
    values, nothing = np.nan_to_num(found.values[:, 0]), np.zeros(len(update))
    for p0, (s,) in table.starts:
        for a in np.flatnonzero(pi[s]).tolist():
            follow(table, pi, lambda_, learner, values, p0 * pi[s, a], s, a, 0, nothing, update)
    np.testing.assert_allclose(update, 0, atol=1e-9)


def follow(table, pi, lambda_, learner, values, weight, s, a, t, trace, update):
    """Walk through everything that can happen after (s, a); add up weight · δ · e as the algorithm would."""
    A = table.n_actions
    row = s if learner == "td" else s * A + a
    for p, (x,), (r,), ended in table.outcomes((s,), a):
        cut = not ended and t + 1 == table.limit
        q = 0.0 if learner == "td" else values[x * A : (x + 1) * A]
        expected = 0.0 if learner == "td" else float(sum(pi[x, b] * q[b] for b in range(A) if pi[x, b] > 0))
        for b in [None] if ended or cut else np.flatnonzero(pi[x]).tolist():
            ahead = values[x] if learner == "td" else expected if learner == "expected_sarsa" or b is None else q[b]
            e = 0.9 * lambda_(s, a, x, b) * trace
            e[row] += 1
            chance = weight * p * (1.0 if b is None else pi[x, b])
            update += chance * (r + 0.9 * (0.0 if ended else ahead) - values[row]) * e
            if b is not None:
                follow(table, pi, lambda_, learner, values, chance, x, b, t + 1, e, update)


def test_the_smallest_biased_case():
    """0.28 instead of 1; the mirrored problem errs by as much to the other side."""
    biased = fixed_point(SkewedSplit.make(), ctd.ForwardLambda())
    assert biased.values[:2, 0] == pytest.approx([0.28, 1.0])
    assert biased.truth[:2, 0] == pytest.approx([1.0, 1.0])
    assert np.isnan(biased.values[2:]).all()
    mirrored = fixed_point(SkewedSplit.make(reward=-10.0), ctd.ForwardLambda())
    assert mirrored.bias[0, 0] == pytest.approx(-biased.bias[0, 0])
    assert fixed_point(SkewedSplit.make(), ctd.ExpectedLambda()).max_bias < 1e-12


def test_state_values_need_a_lambda_of_the_state_alone():
    """λ(x, a) with V: the fixed point is off by γ Cov_π(λ(x,·), Q(x,·)); with Q it is not."""
    table = TransitionTable.from_outcomes(
        {0: {0: [(1, 1, 0, False)]}, 1: {0: [(1, 2, 1, True)], 1: [(1, 2, -1, True)]}, 2: {}}, starts=0
    )

    def lambda_(x, a, x2, a2):
        return 1.0 if a == 0 else 0.0

    assert fixed_point(table, lambda_).values[0, 0] == pytest.approx(0.5)  # Cov = ½ (1·1 + 0·(−1)) − ½·0
    for learner in ("sarsa", "expected_sarsa"):
        assert fixed_point(table, lambda_, learner=learner).max_bias < 1e-12


def test_rate_and_variance_of_known_cases():
    """A ring that never ends: ρ = γ(1 − λ)/(1 − γλ). One noisy step: the variance is that of its reward."""
    ring = TransitionTable.from_outcomes([[[(1.0, 1, 0.0, False)]], [[(1.0, 0, 1.0, False)]]], starts=0, horizon=10**6)
    for value in (0.0, 0.5, 0.9):
        found = fixed_point(ring._replace(limit=4000), value, discount=0.9)
        assert found.rate == pytest.approx(0.9 * (1 - value) / (1 - 0.9 * value), rel=2e-3)
    noisy = TransitionTable.from_outcomes(
        {0: {0: [(1, 1, 0, False)]}, 1: {0: [(0.25, 2, 4, True), (0.75, 2, 0, True)]}, 2: {}}, starts=0
    )
    for value in (0.0, 0.5, 1.0):
        found = fixed_point(noisy, value)
        assert found.variance[:2, 0] == pytest.approx([3 * value**2, 3])
    assert fixed_point(noisy, 1.0).rate == pytest.approx(0.0)


SOURCES = [0.6, ctd.ForwardLambda(), ctd.ExpectedLambda(), ctd.WatkinsLambda(0.8)]


def check_against_simulation(table, source, learner, seeds=120, episodes=8000, step_size=0.01, discount=0.9):
    """The mean over seeds against the exact fixed point, in rows that are learned well.

    The offline view under a fixed policy is linear with independent episodes, so its mean is the fixed point itself for
    any step size, once the start is forgotten. 5 standard errors: fails by chance once in 10⁴ runs for 100 rows.
    """
    runs = simulate(
        table, learner=learner, lambda_source=source, model="oracle", step_sizes=step_size, seeds=np.arange(seeds),
        epsilon=1.0, discount=discount, episodes=episodes, view="offline", keep_values=True,
    )  # fmt: skip
    found = fixed_point(table, source, learner=learner, discount=discount)
    learned = found.visits * step_size * episodes > 15
    assert learned.sum() >= 4
    values = runs.values[:, learned]
    error = values.std(axis=0, ddof=1) / np.sqrt(seeds)
    assert (np.abs(values.mean(axis=0) - found.values[learned]) < 5 * error + 1e-3 * np.abs(found.truth).max()).all()
    return np.abs(values.mean(axis=0) - found.truth[learned]), error


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_long_simulations_settle_there(source, learner):
    outcomes = random_outcomes(np.random.default_rng(24), 5, 2, stop=0.1, masks=False)
    table = TransitionTable.from_outcomes(outcomes, starts=[0, 1, 2, 3, 4], horizon=8)
    off, error = check_against_simulation(table, source, learner)
    if isinstance(source, ctd.ForwardLambda):
        assert (off / error).max() > 10  # and not on the true values


def test_factored_sources_settle_there():
    table = TransitionTable.from_dynamics(KeyToDoor.make(horizon=3, distractors=1))
    source = ctd.FactoredLambda()
    found = fixed_point(table, source, learner="expected_sarsa")
    assert found.values.shape == (table.n_states * 2, len(table.nvec))
    check_against_simulation(table, source, "expected_sarsa", discount=1.0, step_size=0.05)


@pytest.mark.parametrize(
    ("source", "more", "message"),
    [
        (ctd.VisitLambda(), {}, r"VisitLambda counts or is plain Python"),
        (ctd.BackwardLambda(), {}, r"BackwardLambda counts"),
        (ValueLambda(), {}, r"learned must be given for ValueLambda: its arrays error, mass"),
        (0.5, {"learner": "q_learning"}, r"learner must be one of"),
        (lambda *x: 2.0, {}, r"lambda_source must give numbers in \[0, 1\]"),
        (0.5, {"learner": "q"}, r"learner must be one of"),
        (0.5, {"discount": 2}, r"discount must be a number in \[0, 1\]"),
        (0.5, {"policy": np.ones((2, 2))}, r"policy must have the shape"),
        (0.5, {"policy": np.ones((6, 3))}, r"policy must sum to 1 over the legal actions"),
        (0.5, {"policy": "greedy"}, r"policy must be one of 'uniform'"),
        (0.5, {"epsilon": 0.1}, r"values and epsilon must be given together"),
        (0.5, {"values": np.ones(3), "epsilon": 0.1}, r"values must have the shape \(6, 3\), got \(3,\)"),
    ],
)
def test_bad_input(source, more, message):
    with pytest.raises(ValueError, match=message):
        fixed_point(random_table(0), source, **more)


def test_given_policies_and_sources_that_read_them_elsewhere():
    table = random_table(0)
    policy = table.legal_actions / table.legal_actions.sum(axis=1, keepdims=True)
    same = fixed_point(table, ctd.ForwardLambda(), learner="sarsa", policy=policy)
    np.testing.assert_allclose(same.values, fixed_point(table, ctd.ForwardLambda(), learner="sarsa").values)
    with pytest.raises(ValueError, match=r"policy must be uniform or ε-greedy"):
        fixed_point(table, ctd.ExpectedLambda(), learner="sarsa", policy=policy)


def test_the_numbers_of_the_guide():
    page = (Path(__file__).parents[2] / "docs" / "guide" / "fixed-points.md").read_text(encoding="utf-8")
    lake = TransitionTable.from_env("FrozenLake-v1")
    sources = {
        "λ = 0": 0.0,
        "λ = 0.9": 0.9,
        "λ = 1": 1.0,
        "chunked": ctd.ForwardLambda(),
        "expected": ctd.ExpectedLambda(),
    }
    for name, source in sources.items():
        found = fixed_point(lake, source, discount=0.99)
        assert f"| {name} | {found.mean_variance:.4f} | {found.rate:.3f} |" in page
        assert found.max_bias < 1e-4
