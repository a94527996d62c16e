"""Scores relative to the fixed λs of a problem, and their means over problems.

    relative(method) = (score(method) − min_λ score(λ)) / (max_λ score(λ) − min_λ score(λ))

0 is the worst and 1 the best fixed λ in hindsight, each method at its best step size. Step sizes are chosen on the runs
that are scored; those, and the two fixed λs that a score refers to, stay as chosen in all intervals. Means are over
families, settings and seeds: every sample draws families with replacement, settings within each, and seeds within each
problem, the same for all methods. With four families the intervals are rough. A mean counts as `FLOOR` if it is lower.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from chunked_td.statistics import RESAMPLES, Estimate, estimate_from

FLOOR = -1.0
Problem = tuple[str, str]
"""Family and setting."""


class RelativeScores:
    """Relative scores of every method on every problem, by seed. Args: table: one row per run. fixed: the fixed λs."""

    def __init__(self, table: pl.DataFrame, fixed: Sequence[str]):
        self.by_seed: dict[tuple[Problem, str], np.ndarray] = {}
        self.problems: list[Problem] = table.select("family", "setting").unique(maintain_order=True).rows()
        for family, setting in self.problems:
            part = table.filter(family=family, setting=setting)
            best = {str(arm): at_best(rows) for (arm,), rows in part.group_by("arm", maintain_order=True)}
            means = [mean for mean in (float(best[arm].mean()) for arm in fixed) if np.isfinite(mean)]
            low, high = min(means), max(means)
            for arm, scores in best.items():
                relative = (scores - low) / (high - low) if high > low else np.ones_like(scores)
                lost = not np.isfinite(relative).all()
                self.by_seed[(family, setting), arm] = np.full(scores.size, -np.inf) if lost else relative
        self._seeds: dict[tuple[int, int], np.ndarray] = {}

    def mean(self, arm: str) -> Estimate:
        """Mean relative score over problems."""
        return estimate(self._floored(arm), self._samples(arm))

    def difference(self, one: str, other: str) -> Estimate:
        """Mean over problems of the relative score of one method minus another's."""
        return estimate(self._floored(one) - self._floored(other), self._samples(one) - self._samples(other))

    def losses(self, one: str, other: str) -> dict[Problem, float]:
        """{problem: relative score of one method minus another's}."""
        means = {arm: [float(self.by_seed[problem, arm].mean()) for problem in self.problems] for arm in (one, other)}
        return {problem: a - b for problem, a, b in zip(self.problems, means[one], means[other], strict=True)}

    def _floored(self, arm: str) -> np.ndarray:
        return np.array([max(float(self.by_seed[problem, arm].mean()), FLOOR) for problem in self.problems])

    def _samples(self, arm: str) -> np.ndarray:
        """Relative scores of the problems that each sample draws, at least FLOOR: float64[places, RESAMPLES].

        A problem that is drawn twice has two samples of its seeds. NaN where a sample has fewer problems than places.
        """
        values = [self.by_seed[problem, arm] for problem in self.problems]
        sizes = np.array([len(row) if np.isfinite(row).all() else 0 for row in values])
        drawn = self._drawn()
        found = np.where(drawn < 0, np.nan, FLOOR)
        for size in set(sizes.tolist()) - {0}:
            table = np.array([row if n == size else np.zeros(size) for row, n in zip(values, sizes, strict=True)])
            for place, chosen in enumerate(drawn):
                means = (self._shares(place, size) * table[chosen]).sum(axis=1)
                there = (chosen >= 0) & (sizes[chosen] == size)
                found[place] = np.where(there, np.maximum(means, FLOOR), found[place])
        return found

    def _drawn(self) -> np.ndarray:
        """The problem at each place of each sample, or −1: int64[families · most settings, RESAMPLES]."""
        families: dict[str, list[int]] = {}
        for i, (family, _) in enumerate(self.problems):
            families.setdefault(family, []).append(i)
        sizes = np.array([len(listed) for listed in families.values()])
        count, most = len(sizes), int(sizes.max())
        members = np.array([listed + [-1] * (most - len(listed)) for listed in families.values()])
        rng = np.random.default_rng((2, count, most))
        family = np.repeat(rng.integers(count, size=(count, RESAMPLES)), most, axis=0)
        setting = (rng.random(family.shape) * sizes[family]).astype(np.int64)
        there = np.tile(np.arange(most), count)[:, None] < sizes[family]
        return np.where(there, members[family, setting], -1)

    def _shares(self, place: int, seeds: int) -> np.ndarray:
        """The share of each seed at this place of each sample: float64[RESAMPLES, seeds]."""
        if (place, seeds) not in self._seeds:
            rng = np.random.default_rng((1, place, seeds))
            self._seeds[place, seeds] = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=RESAMPLES) / seeds
        return self._seeds[place, seeds]


def estimate(values: np.ndarray, samples: np.ndarray) -> Estimate:
    """Mean over problems, with the interval of its samples."""
    return estimate_from(float(values.mean()), np.nanmean(samples, axis=0))


def at_best(rows: pl.DataFrame) -> np.ndarray:
    """Scores by seed at the best step size, float64[seeds]; −∞ where a run has none."""
    sizes, seeds = sorted(rows["step_size"].unique()), sorted(rows["seed"].unique())
    table = np.full((len(sizes), len(seeds)), -np.inf)
    e, s = np.searchsorted(sizes, rows["step_size"].to_numpy()), np.searchsorted(seeds, rows["seed"].to_numpy())
    scores = rows["score"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    table[e, s] = np.where(np.isfinite(scores), scores, -np.inf)
    return table[int(np.argmax(table.mean(axis=1)))]
