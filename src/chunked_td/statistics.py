"""Statistics of sweeps, as pure functions on one array shape.

    scores: float64[arms, step sizes, seeds]

NaN marks a missing run (an arm without that step size, an unfinished batch). Functions of one group of
runs take float64[..., seeds], work along the last axis and leave NaNs out. Resampling always uses the same random
numbers, so that the same runs give the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

RESAMPLES = 2_000
LEAST_SEEDS = 20
"""With fewer seeds nothing is chosen on one half of them and scored on the other."""
SEPARATION = 4.0
"""Standard errors by which the best and the worst fixed λ of a problem must differ, for its scores to be normalised."""


class Estimate(NamedTuple):
    """A number and the ends of its 95 % interval, NaN without one; or arrays of them."""

    value: Any
    low: Any
    high: Any

    def above(self, other: Estimate) -> bool:
        """Whether this interval lies above the other."""
        return self.low > other.high

    @property
    def shown(self) -> bool:
        """Whether a difference is more than chance explains: its interval does not contain 0."""
        return self.low > 0.0 or self.high < 0.0

    @property
    def half_width(self) -> float:
        """The difference from 0 that an interval of this width would have shown."""
        return (self.high - self.low) / 2

    def text(self, spec: str = ".2f") -> str:
        """Return "0.93 [0.88, 0.97]". Args: spec: format of the numbers."""
        return f"{self.value:{spec}} [{self.low:{spec}}, {self.high:{spec}}]".replace("-", "−")

    def span(self, sign: str = "") -> str:
        """Return "0.93 (0.88 to 0.97)", with two digits of the interval's width; the number alone without an interval.

        Args: sign: "+" for "+0.93 (+0.88 to +0.97)".
        """
        if np.isnan(self.low):
            return f"{self.value:{sign}.4g}".replace("-", "−")
        spec, ends = f"{sign}.4g", list(self)
        if 1e-9 < self.high - self.low < 1e9:  # beyond, all places would be a line of zeros
            spec, ends = f"{sign}.{self.places}f", [round(end, self.places) + 0.0 for end in self]  # no "−0.00"
        return "{:{f}} ({:{f}} to {:{f}})".format(*ends, f=spec).replace("-", "−")

    @property
    def places(self) -> int:
        """Decimal places that show two digits of the width; up to two more if the number, or the nearer end of an
        interval without 0, would look like 0."""
        width = self.high - self.low
        fewest = max(0, 1 - int(np.floor(np.log10(width)))) if 1e-9 < width < 1e9 else 3
        seen = [self.value, *((self.low, self.high) if self.shown else ())]
        most = range(fewest, fewest + 2)
        return next((n for n in most if all(round(one, n) or not one for one in seen)), fewest + 2)

    def __neg__(self) -> Estimate:
        return Estimate(-self.value, -self.high, -self.low)


def mean_sd(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (n − 1) along the last axis; the deviation of a single run is NaN."""
    scores = np.asarray(scores, dtype=np.float64)
    count = np.sum(~np.isnan(scores), axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(scores, axis=-1) / count
        square = np.nansum((scores - mean[..., None]) ** 2, axis=-1)
        return mean, np.sqrt(square / np.where(count > 1, count - 1, np.nan))


def interquartile_mean(scores: np.ndarray) -> np.ndarray:
    """Mean of the middle half of the runs along the last axis; runs at the quartiles count in part."""
    scores = np.asarray(scores, dtype=np.float64)
    if np.isnan(scores).any():
        rows = scores.reshape(-1, scores.shape[-1])
        there = [row[~np.isnan(row)] for row in rows]
        found = [float(interquartile_mean(row)) if row.size else float("nan") for row in there]
        return np.reshape(found, scores.shape[:-1])
    # Value i fills the interval [i, i+1] of [0, n]; its weight is the part inside the middle half [n/4, 3n/4].
    n = scores.shape[-1]
    weights = np.diff(np.clip(np.arange(n + 1), 0.25 * n, 0.75 * n))
    return np.sort(scores, axis=-1) @ (weights / weights.sum())


def bootstrap_interquartile_means(values: np.ndarray, seed: int = 0) -> np.ndarray:
    """Interquartile means of bootstrap samples of runs, float64[RESAMPLES]."""
    values = np.asarray(values, np.float64)
    rng = np.random.default_rng(seed)
    return interquartile_mean(values[rng.integers(values.size, size=(RESAMPLES, values.size))])


def interquartile_estimate(values: np.ndarray, seed: int = 0) -> Estimate:
    """Interquartile mean of runs with its percentile bootstrap interval."""
    return estimate_from(float(interquartile_mean(values)), bootstrap_interquartile_means(values, seed))


def estimate_from(value: float, draws: np.ndarray) -> Estimate:
    """A number with the 95 % percentile interval of its bootstrap draws."""
    low, high = np.quantile(draws, [0.025, 0.975])
    return Estimate(value, float(low), float(high))


def detectable_mean(values: np.ndarray, *, tests: int = 1, level: float = 0.05, power: float = 0.8) -> float:
    """The smallest mean that a two-sided t-test would distinguish from 0 with this power, given the spread of `values`.

    Args:
      values: float64[runs]: differences over common seeds, or distances from a limit; NaNs are left out.
      tests: number of tests in the family (Holm's first step).
    """
    from scipy.stats import t

    values = np.asarray(values, dtype=np.float64)
    values = values[np.isfinite(values)]
    if values.size < 2:
        return float("inf")
    freedom = values.size - 1
    reach = t.ppf(1 - level / (2 * tests), freedom) + t.ppf(power, freedom)
    return float(reach * values.std(ddof=1) / np.sqrt(values.size))


def bootstrap_weights(runs: int, draws: int = RESAMPLES, size: int | None = None) -> np.ndarray:
    """Number of times that each run is in each bootstrap sample: int64[draws, runs], the same for the same arguments.

    Args:
      runs: number of runs.
      draws: number of samples.
      size: runs per sample, drawn with replacement; `runs` by default.
    """
    return np.random.default_rng(0).multinomial(size or runs, np.full(runs, 1 / runs), size=draws)


def mean_and_interval(values: np.ndarray, level: float = 0.95, resamples: int = RESAMPLES) -> Estimate:
    """Mean over runs and its percentile bootstrap interval, for many columns at once.

    Args:
      values: float64[runs, ...]. Runs are resampled whole, so the columns of a curve stay together. Columns may lack
        different runs (NaN).
    Returns:
      arrays float64[...]; NaN without runs. One run gives an interval of zero width.
    """
    values = np.asarray(values, dtype=np.float64)
    flat = values.reshape(len(values), -1)
    there = ~np.isnan(flat)
    weights = bootstrap_weights(len(flat), resamples)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (weights @ np.where(there, flat, 0.0)) / (weights @ there)
    low, high = np.full(flat.shape[1], np.nan), np.full(flat.shape[1], np.nan)
    some = there.any(axis=0)
    tail = (1 - level) / 2
    if some.any():
        low[some], high[some] = np.nanquantile(means[:, some], [tail, 1 - tail], axis=0)
    shape = values.shape[1:]
    return Estimate(mean_sd(np.moveaxis(values, 0, -1))[0], low.reshape(shape), high.reshape(shape))


def probability_of_improvement(ours: np.ndarray, theirs: np.ndarray, *, smaller_is_better: bool = True) -> float:
    """Chance that a run of ours beats a run of theirs, seeds drawn independently; ties count half.

    Args:
      ours, theirs: float64[seeds], not necessarily of one length.
    """
    ours, theirs = (np.asarray(values, dtype=np.float64) for values in (ours, theirs))
    difference = ours[~np.isnan(ours)][:, None] - theirs[~np.isnan(theirs)][None, :]
    if smaller_is_better:
        difference = -difference
    return float(np.mean((difference > 0) + 0.5 * (difference == 0)))


def paired_test(
    ours: np.ndarray, theirs: np.ndarray, *, rng: np.random.Generator | None = None, resamples: int = 20_000
) -> float:
    """Two-sided p-value that two arms have the same mean score, by flipping signs of differences over common seeds.

    Exact (all sign patterns) up to 14 seeds that differ; sampled with `rng` beyond.

    Args:
      ours, theirs: float64[seeds], the same seeds in the same order; seeds that either lacks are left out.
    """
    difference = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    difference = difference[~np.isnan(difference)]
    difference = difference[difference != 0]
    n = difference.size
    if n == 0:
        return 1.0
    observed = abs(difference.sum())
    slack = 1e-12 * np.abs(difference).sum()  # sums that differ by rounding only count as equal
    if n <= 14:
        signs = 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        return float(np.mean(np.abs(signs @ difference) >= observed - slack))
    rng = np.random.default_rng(0) if rng is None else rng
    signs = rng.choice((-1.0, 1.0), size=(resamples, n))
    return float((1 + np.sum(np.abs(signs @ difference) >= observed - slack)) / (resamples + 1))


def holm(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Holm's step-down correction: adjusted p-values, in the order given; NaN (no test) is left out of the count."""
    p = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(p.shape, np.nan)
    order = [int(i) for i in np.argsort(p, kind="stable") if not np.isnan(p[i])]
    largest = 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p[i]))
        adjusted[i] = largest
    return adjusted


def reach(shares: Mapping[int, float], least: float) -> int:
    """The greatest length up to which the share of solved runs is at least `least` at every length; 0 if none is."""
    longest = 0
    for length in sorted(shares):
        if shares[length] < least:
            break
        longest = length
    return longest


def cross_fitted(
    runs: Mapping[str, np.ndarray], fixed: Sequence[str]
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Scores whose choices were made on other seeds: two-fold cross-validation over the halves of the seeds.

    Args:
      runs: {method: float64[step sizes, seeds]}. fixed: the methods that are fixed λs.
    Returns:
      scores by seed of all methods at step sizes chosen on the other half, and of the best and the worst fixed λ.
    """
    seeds = next(iter(runs.values())).shape[1]
    scored = {name: np.zeros(seeds) for name in runs}
    best, worst = np.zeros(seeds), np.zeros(seeds)
    first, second = slice(0, seeds // 2), slice(seeds // 2, seeds)
    for chosen, test in ((first, second), (second, first)):
        means = {name: each[:, chosen].mean(1) for name, each in runs.items()}
        for name, each in runs.items():
            scored[name][test] = each[int(means[name].argmax()), test]
        known = {name: means[name].max() for name in fixed}
        best[test] = scored[max(known, key=lambda name: known[name])][test]
        worst[test] = scored[min(known, key=lambda name: known[name])][test]
    return scored, best, worst


def normalised(runs: Mapping[str, np.ndarray], fixed: Sequence[str]) -> dict[str, np.ndarray] | None:
    """`cross_fitted` scores by seed, the worst fixed λ at 0 and the best at 1; None if they do not clearly differ."""
    scored, best, worst = cross_fitted(runs, fixed)
    gap = best - worst
    if not gap.mean() > SEPARATION * gap.std(ddof=1) / np.sqrt(gap.size):
        return None
    return {name: (each - worst) / gap.mean() for name, each in scored.items()}


def nested_estimate(groups: Sequence[Sequence[np.ndarray]], draws: int = 2_000) -> Estimate:
    """Mean over groups of means over their members; the interval is over groups, members and runs.

    Args:
      groups: per group, say a family, float64[runs] of each member, say a setting.
    """
    means = [np.mean([runs.mean() for runs in members]) for members in groups]
    weights = _nested_weights(tuple(tuple(runs.size for runs in members) for members in groups), draws)
    drawn = weights @ np.concatenate([runs for members in groups for runs in members])
    return estimate_from(float(np.mean(means)), drawn)


@lru_cache(maxsize=2)
def _nested_weights(sizes: tuple[tuple[int, ...], ...], draws: int) -> np.ndarray:
    """Weights of the runs in each bootstrap sample of groups, then members, then runs: float64[draws, runs].

    Args:
      sizes: runs of every member of every group.
    """
    rng = np.random.default_rng(0)
    flat = [size for members in sizes for size in members]
    firsts = np.cumsum([0, *flat])
    begins = np.cumsum([0, *map(len, sizes)])
    found = np.zeros((draws, firsts[-1]))
    for row in found:
        for group in rng.integers(len(sizes), size=len(sizes)):
            members = sizes[group]
            for member in rng.integers(len(members), size=len(members)):
                size, first = members[member], firsts[begins[group] + member]
                drawn = np.bincount(rng.integers(size, size=size), minlength=size)
                row[first : first + size] += drawn / (size * len(members) * len(sizes))
    return found
