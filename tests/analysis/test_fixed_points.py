"""Exact fixed points of functions λ(x, a, x', a'), small cases by hand, bad input. The sources have another file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chunked_td as ctd
from chunked_td._link import kernel
from chunked_td.analysis.fixed_points import fixed_point
from chunked_td.envs.dynamics import SkewedSplit, TransitionTable
from helpers.random_tables import random_table

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
    sources = [value, drawn_function(seed, 0)]
    if learner != "td":
        sources.append(drawn_function(seed, 0, 1))
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


@dataclass(frozen=True)
class Plain(ctd.LambdaSource):
    def lambda_t(self, step):
        return 0.5


@dataclass(frozen=True)
class Given(ctd.LambdaSource):
    value: float

    @staticmethod
    @kernel
    def lambda_t(source, step, i):
        return source.value


@pytest.mark.parametrize(
    ("source", "more", "message"),
    [
        (Plain(), {}, r"lambda_source must be compiled, .* got Plain, which is plain Python"),
        (ctd.ForwardLambda, {}, r"did you mean ForwardLambda\(\)\?"),
        (ctd.ValueLambda(), {"learned": {"tau": 1.0}}, r"learned must be one of 'error', 'mass'"),
        (lambda *x: 2.0, {}, r"lambda_source must give numbers in \[0, 1\]"),
        (0.5, {"learner": "q"}, r"learner must be one of"),
        (0.5, {"discount": 2}, r"discount must be a number in \[0, 1\]"),
        (0.5, {"policy": np.ones((2, 2))}, r"policy must have shape"),
        (0.5, {"policy": np.ones((6, 3))}, r"policy must sum to 1 over the legal actions"),
        (0.5, {"policy": "greedy"}, r"policy must be one of 'uniform'"),
        (0.5, {"epsilon": 0.1}, r"values and epsilon must be given together"),
        (0.5, {"values": np.ones(3), "epsilon": 0.1}, r"values must have the shape \(6, 3\), got \(3,\)"),
        (0.5, {"values": np.full((6, 3), np.nan), "epsilon": 0.1}, r"values must be finite where"),
        (0.5, {"values": np.ones((6, 3)) + 1j, "epsilon": 0.1}, r"values must be numbers"),
        (0.5, {"values": [["1"] * 3] * 6, "epsilon": 0.1}, r"values must be numbers"),
        (Given(-0.5), {}, r"lambda_source Given\(value=-0.5\) must give a λ in \[0, 1\], got -0.5"),
        (Given(2.0), {}, r"must give a λ in \[0, 1\], got 2"),
        (Given(np.nan), {}, r"must give a number.*got nan"),
    ],
)
def test_bad_input(source, more, message):
    with pytest.raises(ValueError, match=message):
        fixed_point(random_table(0), source, **more)


def test_a_circle_that_nobody_leaves_has_a_value_up_to_some_horizon():
    """1 / (1 − γ) everywhere; its expected visits in an episode of a million steps are no solution of d = d₀ + dP."""
    circle = {s: {0: [(1.0, (s + 1) % 3, 1.0, False)]} for s in range(3)}
    table = TransitionTable.from_outcomes(circle, starts=0, horizon=1_000)
    np.testing.assert_allclose(fixed_point(table, 0.5, discount=0.9).values, 10.0)
    table = TransitionTable.from_outcomes(circle, starts=0, horizon=1_000_000)
    with pytest.raises(ValueError, match=r"horizon must be at most .* never end, got 1,000,000"):
        fixed_point(table, 0.5, discount=0.9)


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


def test_the_policy_noise_of_the_guide():
    page = (Path(__file__).parents[2] / "docs" / "guide" / "policy-randomness.md").read_text(encoding="utf-8")
    decision = {0: [(1, 3, 0, True)], 1: [(1, 4, 10, True)]}
    chosen = TransitionTable.from_outcomes(
        {0: {0: [(1, 1, 0, False)]}, 1: {0: [(1, 2, 0, False)]}, 2: decision, 3: {}, 4: {}}, starts=0
    )
    policy = np.zeros((5, 2))
    policy[:2, 0], policy[2] = 1, (0.9, 0.1)
    for name, kind in (("chunked", ctd.ForwardLambda), ("expected", ctd.ExpectedLambda)):
        for text, noise in (("the policy in λ", True), ("the policy left out", False)):
            found = [
                fixed_point(problem, kind(policy_noise=noise), policy=pi)
                for problem, pi in ((SkewedSplit.make(length=2), "uniform"), (chosen, policy))
            ]
            cells = " | ".join(f"{each.values[0, 0]:.2f}, {each.variance[0, 0]:.2f}" for each in found)
            assert f"| {name}, {text} | {cells} |" in page
    certain = TransitionTable.from_env(gym.make("FrozenLake-v1", is_slippery=False))
    for noise, end in ((True, " with the policy in it"), (False, " without.")):
        found = fixed_point(certain, ctd.ExpectedLambda(policy_noise=noise), discount=0.99)
        assert f"{found.rate:.3f} and {'a variance of ' * noise}{found.mean_variance:.4f}{end}" in page.replace(
            "\n", " "
        )
