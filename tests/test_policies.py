"""Policies: probabilities, ties, masks and draws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chunked_td.policies import draw, epsilon_greedy, only_legal, uniform_legal
from chunked_td.seeding import Draws
from helpers.streams import Given

values = st.sampled_from([-1.0, 0.0, 0.5, 2.0])


@given(st.lists(st.tuples(values, values, st.booleans()), min_size=1, max_size=5), st.floats(0, 1))
def test_epsilon_greedy_on_the_sum_of_components(actions, epsilon):
    q, legal = np.array([a[:2] for a in actions]), np.array([a[2] for a in actions])
    assume(legal.any())
    out = np.full(len(actions), np.nan)
    epsilon_greedy(q, legal, epsilon, out)
    total = q.sum(axis=1)
    best = total[legal].max()
    greedy = [a for a in range(len(actions)) if legal[a] and total[a] == best]
    for a in range(len(actions)):
        expected = 0.0
        if legal[a]:
            expected = epsilon / legal.sum() + (1 - epsilon) / len(greedy) * (a in greedy)
        assert out[a] == pytest.approx(expected)
    assert out.sum() == pytest.approx(1.0)


def test_values_far_below_zero_still_have_a_best():
    out = np.zeros(2)
    epsilon_greedy(np.array([[-1e300], [-2e300]]), np.ones(2, bool), 0.0, out)
    assert out.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("legal", "only"), [([1, 0, 0], 0), ([0, 0, 1], 2), ([1, 0, 1], -1), ([1], 0)])
def test_only_legal(legal, only):
    assert only_legal(np.array(legal, bool)) == only


def test_uniform_legal():
    out = np.full(3, np.nan)
    uniform_legal(np.array([True, False, True]), out)
    assert out.tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize(("u", "action"), [(0.0, 0), (0.19, 0), (0.2, 2), (0.69, 2), (0.7, 3), (0.999, 3)])
def test_draw_inverts_the_distribution_function(u, action):
    numbers = Given(u)
    assert numbers.in_python(draw)(np.array([0.2, 0.0, 0.5, 0.3]), None) == action
    assert numbers.taken == 1


def test_draw_takes_no_number_without_a_choice():
    numbers = Given(0.5)
    assert numbers.in_python(draw)(np.array([0.0, 1.0, 0.0]), None) == 1
    assert numbers.taken == 0


def test_draw_survives_a_sum_short_of_one():
    assert Given(0.99999999).in_python(draw)(np.array([0.5, 0.4999999, 0.0]), None) == 1


def test_frequencies_of_draws_among_ties():
    """χ² with 2 degrees of freedom, error rate 1e-4 (18.4)."""
    probabilities, rng = np.zeros(3), Draws.of(np.random.SeedSequence(5)).stream
    epsilon_greedy(np.array([[1.0], [0.0], [1.0]]), np.ones(3, bool), 0.3, probabilities)
    n = 5000
    counts = np.bincount([draw(probabilities, rng) for _ in range(n)], minlength=3)
    assert ((counts - n * probabilities) ** 2 / (n * probabilities)).sum() < 18.4


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_values_that_are_no_numbers_still_give_a_policy(epsilon):
    """Learning that has diverged must not draw an action that does not exist."""
    out, legal = np.zeros(3), np.array([True, False, True])
    epsilon_greedy(np.array([[np.nan], [0.0], [1.0]]), legal, epsilon, out)
    assert out.tolist() == [epsilon / 2, 0.0, 1.0 - epsilon / 2]
    epsilon_greedy(np.full((3, 1), np.nan), legal, epsilon, out)
    assert out.tolist() == [0.5, 0.0, 0.5]
    epsilon_greedy(np.full((3, 1), np.inf), legal, epsilon, out)
    assert out.tolist() == [0.5, 0.0, 0.5]
