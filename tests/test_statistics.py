"""Statistics against cases worked by hand, other libraries and their stated error rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from chunked_td import statistics as st

NAN = float("nan")


def test_mean_and_deviation_by_hand():
    scores = np.array([[2.0, 4.0, 9.0], [5.0, NAN, NAN], [NAN, NAN, NAN]])
    mean, sd = st.mean_sd(scores)
    np.testing.assert_allclose(mean, [5.0, 5.0, NAN])
    np.testing.assert_allclose(sd, [math.sqrt((9 + 1 + 16) / 2), NAN, NAN])


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (st.Estimate(0.934, 0.88, 0.97), "0.934 (0.880 to 0.970)"),
        (st.Estimate(-12_345.6, -13_000.0, -11_000.0), "−12346 (−13000 to −11000)"),
        (st.Estimate(0.5, NAN, NAN), "0.5"),
        (st.Estimate(1.0, 1.0, 1.0), "1 (1 to 1)"),  # two scores that differ by rounding alone
        (st.Estimate(1e-300, 0.0, 2e-300), "1e−300 (0 to 2e−300)"),
        (st.Estimate(1e300, 0.0, 2e300), "1e+300 (0 to 2e+300)"),
        (st.Estimate(0.0, -math.inf, math.inf), "0 (−inf to inf)"),
    ],
)
def test_an_estimate_is_short_whatever_its_size(estimate, text):
    assert estimate.span() == text


def test_interquartile_mean_by_hand():
    assert st.interquartile_mean(np.array([100.0, 1.0, 2.0, 3.0])) == 2.5  # of 1 2 3 100 the middle half is 2 3
    # Six runs: the middle half is 3 wide. 20 and 50 count half, 30 and 40 whole.
    value = st.interquartile_mean(np.array([10.0, 20, 30, 40, 50, 6000]))
    assert value == pytest.approx((10 + 30 + 40 + 25) / 3)
    assert st.interquartile_mean(np.array([7.0, NAN])) == 7.0


def test_interquartile_mean_agrees_with_scipy_where_quarters_are_whole():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(3, 5, 12))
    np.testing.assert_allclose(st.interquartile_mean(scores), stats.trim_mean(scores, 0.25, axis=-1))


def test_probability_of_improvement_by_hand():
    # pairs (1,2) (1,3) (3,2) (3,3): better, better, worse, tie
    assert st.probability_of_improvement(np.array([1.0, 3.0]), np.array([2.0, 3.0])) == 2.5 / 4
    worse = st.probability_of_improvement(np.array([1.0, 3.0]), np.array([2.0, 3.0]), smaller_is_better=False)
    assert worse == 1.5 / 4
    assert st.probability_of_improvement(np.array([1.0, NAN]), np.array([2.0])) == 1.0


def test_paired_test_by_hand():
    # Differences 1, 2, 3 all of one sign: of 8 sign patterns, two reach |6|.
    assert st.paired_test(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0])) == 2 / 8
    # Differences 1, 2, −3 sum to 0: every pattern does as well.
    assert st.paired_test(np.array([2.0, 4.0, 0.0]), np.array([1.0, 2.0, 3.0])) == 1.0
    assert st.paired_test(np.array([2.0, NAN]), np.array([2.0, 1.0])) == 1.0


def test_paired_test_agrees_with_scipy():
    rng = np.random.default_rng(3)
    ours, theirs = rng.normal(0.5, 1, 10), rng.normal(size=10)
    exact = stats.permutation_test(
        (ours, theirs), lambda x, y, axis: np.mean(x - y, axis=axis), permutation_type="samples", n_resamples=np.inf
    ).pvalue
    assert st.paired_test(ours, theirs) == pytest.approx(exact)
    many, others = rng.normal(0.2, 1, 40), rng.normal(size=40)
    sampled = st.paired_test(many, others, rng=np.random.default_rng(0))
    assert sampled == pytest.approx(stats.ttest_rel(many, others).pvalue, abs=0.03)


def test_paired_test_rejects_as_often_as_it_says():
    """Under no difference, p ≤ 0.05 in 5 % of cases. 2,000 trials: outside 3.5 %..6.5 % once in 450 seeds."""
    rng = np.random.default_rng(11)
    p = [st.paired_test(*rng.normal(size=(2, 9))) for _ in range(2_000)]
    assert 0.035 < np.mean(np.array(p) <= 0.05) < 0.065


def test_holm_by_hand():
    # Sorted 0.01 0.02 0.03 0.04: ×4, ×3, ×2, ×1, then made increasing.
    np.testing.assert_allclose(st.holm([0.04, 0.01, 0.03, 0.02]), [0.06, 0.04, 0.06, 0.06])
    np.testing.assert_allclose(st.holm([0.5, NAN, 0.9]), [1.0, NAN, 1.0])


def test_holm_keeps_the_family_error():
    """Ten true hypotheses: a rejection at 5 % in at most 5 % of families. 3,000 of them: above 6.3 % once in 1,000."""
    p = np.random.default_rng(5).random((3_000, 10))
    assert np.mean([np.nanmin(st.holm(row)) <= 0.05 for row in p]) < 0.063


def test_bootstrap_interval_covers_as_often_as_it_says():
    """Percentile bootstrap of a normal mean, 30 runs: P(|t₂₉| < 1.96·√(29/30)) = 93.6 %, a little short of 95 %.

    1,200 trials have a standard error of 0.7 %: outside 91.4 %..95.8 % (three of them) once in 370 seeds.
    """
    scores = np.random.default_rng(1).normal(size=(1_200, 30))
    interval = st.mean_and_interval(scores.T, resamples=500)
    coverage = np.mean((interval.low <= 0) & (interval.high >= 0))
    assert 0.914 < coverage < 0.958


def test_bootstrap_intervals_agree_with_scipy():
    """Both are percentile intervals of the mean from 2,000 resamples; ends differ by resampling noise only."""
    values = np.random.default_rng(1).gamma(2.0, size=(30, 4))
    mean, low, high = st.mean_and_interval(values)
    rng = np.random.default_rng(2)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=2_000, method="percentile", rng=rng).confidence_interval
    width = theirs.high - theirs.low
    assert np.allclose(mean, values.mean(axis=0))
    assert np.all(np.abs(low - theirs.low) < 0.1 * width)
    assert np.all(np.abs(high - theirs.high) < 0.1 * width)


def test_bootstrap_interval_edge_cases():
    scores = np.array([[4.0, 4.0, 4.0], [1.0, NAN, NAN], [NAN, NAN, NAN]])
    for part in st.mean_and_interval(scores.T):
        np.testing.assert_array_equal(part, [4, 1, NAN])


def test_bootstrap_is_reproducible():
    scores = np.random.default_rng(0).normal(size=(2, 10))
    first, second = (st.mean_and_interval(scores.T) for _ in range(2))
    np.testing.assert_array_equal(first.low, second.low)


def test_nested_intervals_are_over_groups_members_and_runs():
    """Where only one of the three varies, the interval is about that of a mean of independent numbers."""
    rng = np.random.default_rng(0)
    spread = rng.normal(size=30)
    for groups, count in (
        ([[np.full(20, value)] for value in spread], 30),
        ([[np.full(20, value) for value in spread]], 30),
        ([[spread]], 30),
    ):
        found = st.nested_estimate(groups)
        assert found.value == pytest.approx(spread.mean())
        assert found.high - found.low == pytest.approx(2 * 1.96 * spread.std() / np.sqrt(count), rel=0.15)
    noisy = [[3.0 * rng.normal(size=40) + value] for value in spread]
    widths = [
        each.high - each.low for each in map(st.nested_estimate, (noisy, [[np.full(40, x.mean())] for [x] in noisy]))
    ]
    assert widths[0] > widths[1]
