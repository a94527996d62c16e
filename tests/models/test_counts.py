"""Count models against dicts and brute force."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunked_td._link import link, static
from chunked_td.analysis.fixed_points.weights import Choices
from chunked_td.bootstraps import EXPECTED_SARSA
from chunked_td.lambdas import step as questions
from chunked_td.lambdas.step import WHOLE, Transition, make_step
from chunked_td.models import TableModel
from chunked_td.models.counts import NUMBER, Counts, ForwardCounts, find, increment, probability
from chunked_td.models.predictions import ask_overlaps

ORIGINS, TARGETS = 6, 9
mixture, expected_mixture = (
    link(question, {"model": ForwardCounts}, compiled=False)
    for question in (questions.mixture, questions.expected_mixture)
)
pairs = st.lists(st.tuples(st.integers(0, ORIGINS - 1), st.integers(0, TARGETS - 1)), max_size=40)
priors = st.sampled_from([0.0, 0.0, 0.5, 2.0])


def counted(story, prior=0.0, capacity=64):
    counts = Counts.empty(ORIGINS, prior, TARGETS, capacity)
    for origin, target in story:
        increment(counts, origin, target)
    return counts


def estimate(story, prior, origin, target):
    seen = Counter(story)
    total = sum(n for (o, _), n in seen.items() if o == origin) + prior * TARGETS
    return (seen[origin, target] + prior) / total if total else 0.0


def asked(counts, base, policy, percept=0):
    """A step that leaves the state whose actions have the origins base, base + 1, …"""
    model = ForwardCounts(counts, np.zeros(1, np.int64))
    transition = Transition(base // policy.size, -1, policy, 0, None, percept, -1, -1, 0)
    rule = Choices(static(EXPECTED_SARSA), policy.size, 1.0, static(0))
    return make_step(transition, (policy, policy), policy, policy, 0.0, rule, None, model, None)


@given(pairs, priors)
def test_probabilities_are_relative_frequencies(story, prior):
    counts, seen = counted(story, prior), Counter(story)
    assert counts.size[0] == len(seen)
    for origin in range(ORIGINS):
        assert counts.total[origin] == sum(n for (o, _), n in seen.items() if o == origin)
        each = [estimate(story, prior, origin, target) for target in range(TARGETS)]
        for target in range(TARGETS):
            pair = find(counts, origin, target)
            assert (counts.pairs[pair, NUMBER] if pair >= 0 else 0) == seen[origin, target]
            assert probability(counts, origin, target) == pytest.approx(each[target])
        squares = expected_mixture(asked(counts, origin, np.ones(1)), WHOLE)
        assert squares == pytest.approx(sum(p * p for p in each))


@given(pairs, priors, st.lists(st.sampled_from([0.0, 0.2, 0.5, 1.0]), min_size=3, max_size=3))
def test_mixtures_over_actions(story, prior, weights):
    counts = counted(story, prior)
    policy = np.array(weights) / sum(weights) if sum(weights) else np.array([0.0, 0.0, 1.0])
    for base in (0, 3):
        origins = [base + a for a in range(3)]
        known = [prior > 0 or any(o == origin for o, _ in story) for origin in origins]
        if not policy[known].sum() > 0.0:
            continue  # a step is counted before it is asked about: some action was tried
        share = policy * known / policy[known].sum()  # over the actions that were tried
        mixed = [
            sum(p * estimate(story, prior, o, target) for p, o in zip(share, origins, strict=True))
            for target in range(TARGETS)
        ]
        for target in range(TARGETS):
            assert mixture(asked(counts, base, policy, target), WHOLE) == pytest.approx(mixed[target])
        squares = sum(p * p for p in mixed)
        assert expected_mixture(asked(counts, base, policy), WHOLE) == pytest.approx(squares)


@given(pairs, pairs, st.integers(0, 100))
def test_growing_changes_no_count(before, after, extra):
    counts = counted(before, 0.5).grown(ORIGINS, 64 + extra)
    for origin, target in after:
        increment(counts, origin, target)
    for origin in range(ORIGINS):
        for target in range(TARGETS):
            expected = estimate(before + after, 0.5, origin, target)
            assert probability(counts, origin, target) == pytest.approx(expected)


def test_growing_the_number_of_origins():
    counts = counted([(0, 1), (5, 2)]).grown(20, 64)
    increment(counts, 19, 7)
    assert probability(counts, 19, 7) == 1.0
    assert probability(counts, 5, 2) == 1.0
    assert probability(counts, 12, 2) == 0.0


def test_a_full_table_of_colliding_pairs():
    """As many pairs as there is room for, with keys that share their low bits."""
    counts = Counts.empty(1 << 12, capacity=128)
    story = [((k % 4) << 10, (k // 4) << 16) for k in range(128)]
    for _ in range(2):
        for origin, target in story:
            increment(counts, origin, target)
    assert counts.size[0] == 128
    assert all(counts.pairs[find(counts, o, t), NUMBER] == 2 for o, t in story)
    assert find(counts, 1, 1) == -1


def test_prior_of_origins_that_take_turns():
    """Components with different numbers of values (FactoredLambda): outcomes by origin modulo k."""
    counts = Counts.empty(4, 1.0, [2, 5])
    increment(counts, 0, 1)
    increment(counts, 1, 1)
    assert probability(counts, 0, 1) == pytest.approx(2 / 3)
    assert probability(counts, 1, 1) == pytest.approx(2 / 6)
    assert probability(counts, 3, 0) == pytest.approx(1 / 5)
    assert counts.grown(8, 64).prior.tolist() == [1.0, 2.0, 5.0]


def test_table_model_adds_up_outcomes_that_lead_to_the_same_state():
    table = {0: {0: [(0.25, 1, 0.0, False), (0.25, 1, 1.0, True), (0.5, 2, 0.0, False)], 1: [(1.0, 2, 0.0, True)]}}
    model = TableModel(table, 2)
    assert model.probabilities(0, 1, 0.0).tolist() == [0.5, 0.0]
    assert ask_overlaps(model, 0, 2).tolist() == [[0.5, 0.5], [0.5, 1.0]]
    assert dict(model.distribution(0, 0)) == {1: 0.5, 2: 0.5}


def test_table_models_of_states_that_offer_fewer_actions():
    model = TableModel(
        {0: {0: [(1.0, 1, 0.0, False)], 2: [(1.0, 2, 0.0, True)]}, 1: {1: [(1.0, 2, 0.0, True)]}, 2: {}}, 3
    )
    assert model.probabilities(0, 1, 0.0).tolist() == [1.0, 0.0, 0.0]
    assert model.distribution(2, 0) == model.distribution(0, 1) == {}
    with pytest.raises(ValueError, match=r"n_actions must be .* 3 actions in state 0, got 2"):
        TableModel({0: {2: []}}, 2)
    with pytest.raises(ValueError, match=r"n_actions must be .* no states, got 2"):
        TableModel({}, 2)
