"""Paired families: intervals of the definition, error rates, and step sizes chosen on other seeds."""

from __future__ import annotations

import itertools
import statistics

import numpy as np
import pytest

from chunked_td.comparison.ranking import LEAST, PairedFamily, chosen_sizes, own_interval


def test_step_sizes_are_chosen_on_the_other_half_of_the_seeds():
    scores = np.array([[9.0, 0.0, 9.0, 0.0], [1.0, 1.0, 1.0, 1.0]])  # the first is better on even seeds
    assert chosen_sizes(scores).tolist() == [1, 0, 1, 0]
    assert chosen_sizes(np.array([[1.0], [2.0]])).tolist() == [1]


def test_choosing_among_step_sizes_flatters_no_arm():
    """Pure noise: the best of many on the same seeds has a mean well above 0, the cross-chosen one has not."""
    rng = np.random.default_rng(1)
    crossed, same = [], []
    for _ in range(400):
        scores = rng.normal(size=(8, 10))
        crossed.append(scores[chosen_sizes(scores), np.arange(10)].mean())
        same.append(scores.mean(axis=1).max())
    assert abs(np.mean(crossed)) < 4 * np.std(crossed) / 20  # error rate 1 in 16,000, with a fixed seed
    assert np.mean(same) > 0.3


@pytest.mark.parametrize("seeds", [6, 10])
def test_equal_arms_show_a_difference_in_one_family_of_twenty(seeds):
    rng, found = np.random.default_rng(seeds), 0
    for _ in range(200):
        scores = rng.normal(size=(8, seeds)) * rng.exponential(size=(8, 1)) + 5 * rng.normal(size=seeds)
        found += not PairedFamily.of(scores).no_difference
    assert found <= 21  # 200 × 5 % and three standard deviations and a half


def test_intervals_are_those_of_the_definition():
    """Two arms: the critical value lies among those of all sign patterns, and the spread is the sample's."""
    rng = np.random.default_rng(4)
    difference = rng.normal(size=10)
    family = PairedFamily.of(np.stack([difference + 1.0, np.zeros(10)]))
    residuals = difference - difference.mean()
    found = []
    for signs in itertools.product((-1.0, 1.0), repeat=10):
        drawn = np.array(signs) * residuals
        found.append(abs(drawn.mean()) / (statistics.stdev(drawn) / 10**0.5))
    low, high = np.quantile(found, [0.94, 0.96])
    assert low < family.critical < high
    half = family.critical * statistics.stdev(difference) / 10**0.5
    lead = family.lead(0, 1)
    assert lead.value == pytest.approx(difference.mean() + 1.0)  # what is better is ahead
    assert lead.high == pytest.approx(min(difference.mean() + 1.0 + half, family.spread))
    assert lead.low == pytest.approx(difference.mean() + 1.0 - half)
    assert family.lead(1, 0) == pytest.approx((-lead.value, -lead.high, -lead.low))


def test_an_arm_with_outliers_hides_no_difference_between_the_others():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4, 12)) + np.array([[3.0], [0.0], [0.0], [-500.0]])
    scores[3, 5] -= 1e5
    family = PairedFamily.of(scores)
    assert family.best == 0
    assert family.lead(0, 1).low > 0.0
    assert family.lead(2, 0).high < 0.0
    assert not family.lead(2, 1).shown


def test_too_few_seeds_give_no_verdict_and_no_interval():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(3, LEAST - 1)) + np.array([[9.0], [0.0], [-9.0]])
    family = PairedFamily.of(scores)
    assert family.no_difference
    assert np.isnan([family.lead(0, 2).low, family.lead(0, 2).high, *own_interval(scores[0], -9.0, 9.0)[1:]]).all()
    assert PairedFamily.of(np.concatenate([scores, scores[:, :1] + 0.1], axis=1)).lead(0, 2).shown


def test_no_interval_has_zero_width_or_is_wider_than_scores_can_differ():
    family = PairedFamily.of(np.array([[1.0] * 6, [0.0] * 6]))  # the same in every run
    lead = family.lead(0, 1)
    assert lead.shown
    assert 0.0 < lead.low < lead.value == lead.high == 1.0
    _, low, high = own_interval(np.ones(6), 0.0, 1.0)
    assert 0.0 < low < 1.0 == high
    rng = np.random.default_rng(0)
    family = PairedFamily.of(rng.uniform(size=(20, 6)))
    spread = np.ptp(family.scores)
    leads = [family.lead(i, j) for i in range(20) for j in range(i)]
    assert all(-spread <= lead.low < lead.high <= spread for lead in leads)
    same = PairedFamily.of(np.ones((3, 8)))  # nothing differs anywhere: there is nothing to give an interval of
    assert same.no_difference
    assert np.isnan(same.lead(0, 1).low)


def test_a_bound_on_what_was_not_seen_holds_by_simulation():
    """An outcome of probability p is missed by n runs with probability (1 − p)^n; at the bound, that is the error."""
    rng, p = np.random.default_rng(0), 1.0 - 0.05 ** (1 / 6)
    missed = (rng.uniform(size=(20_000, 6)) > p).all(axis=1).mean()
    assert abs(missed - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 20_000)
    assert own_interval(np.ones(6), 0.0, 1.0).low == pytest.approx(1.0 - p)


def test_what_may_be_far_better_or_worse_is_not_equivalent():
    family = PairedFamily.of(np.stack([np.full(20, 10.0), np.linspace(9.99, 10.02, 20), np.zeros(20)]))
    assert family.equivalent(family.lead(0, 1))
    assert family.equivalent(family.lead(1, 0))
    wide = PairedFamily.of(np.stack([np.full(20, 10.0), 10 + 9 * np.resize([-1.0, 1.0], 20), np.zeros(20)]))
    assert not wide.equivalent(wide.lead(0, 1))
    worse = family.lead(2, 0)
    assert not family.equivalent(worse)
    assert not family.equivalent(-worse)
