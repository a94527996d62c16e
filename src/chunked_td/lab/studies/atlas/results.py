"""From runs to the map: the score of every method on every problem, relative to the fixed λs.

0 is the worst and 1 the best fixed λ in hindsight, each method at its best step size:

    relative(method) = (score(method) − min_λ score(λ)) / (max_λ score(λ) − min_λ score(λ))

Step sizes are chosen on the runs that are scored, for every method alike; those, and the two fixed λs that a score
refers to, stay as chosen in all intervals. Those of single scores are percentile bootstraps over seeds, the same for
all methods. Those of means are over families, settings and seeds: every sample draws families with replacement,
settings within each, and seeds within each problem, the same for all methods. The settings of a family are alike, so
problems are not independent; families are the unit. (The spread between problems contains that between seeds, so these
intervals are wide rather than narrow. With few families, four for wrong models, they are rough.) A relative score
counts as `FLOOR` where it is lower. The same runs give the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chunked_td.lab.store.tables import load_table
from chunked_td.lab.studies.atlas.families import FIRST
from chunked_td.lab.studies.atlas.methods import FIXED_IDS
from chunked_td.lab.studies.atlas.protocol import STUDY, ProblemKey
from chunked_td.lambdas.names import OLD_IDS
from chunked_td.statistics import RESAMPLES, Estimate, bootstrap_weights, estimate_from

if TYPE_CHECKING:
    import polars as pl

    from chunked_td.lab.store.batch_store import Store

FLOOR = -1.0
"""Relative scores below it (a method that diverges, say) count as this much."""
_KEYS = {
    (family.id, str(setting), control): ProblemKey(family.id, setting, control)
    for family in FIRST.values()
    for setting in family.settings
    for control in (False, True)
}
"""Every problem, as tables of runs name it."""


def COLLECT(store: Store) -> pl.DataFrame:
    """One row per run: family, setting, control, method, exponent, seed, score and transitions of the whole run."""
    import polars as pl

    frames, by_id = [], {key.id: named for named, key in _KEYS.items()}
    for name in store.directory.protocol_ids:
        table, (family, setting, control) = store.table(name), by_id[name]
        last = table.filter(pl.col("episode") == pl.col("episode").max().over("arm"))
        frames.append(
            last.select(
                pl.lit(family).alias("family"),
                pl.lit(setting).alias("setting"),
                pl.lit(control).alias("control"),
                pl.col("arm").alias("method"),
                pl.col("exponent").cast(pl.Int8),
                pl.col("seed").cast(pl.Int16),
                pl.col("score").cast(pl.Float32),
                pl.col("steps").cast(pl.Int32),
            )
        )
    return pl.concat(frames)


def LOAD(folder: Path) -> CreditMap:
    """The map of a folder with the table of runs, whose λ sources get their present ids."""
    return CreditMap(read_scores(folder / STUDY.table))


def read_scores(path: Path) -> pl.DataFrame:
    """A stored table of runs, with the present ids of λ sources."""
    import polars as pl

    return load_table(path).with_columns(pl.col("method").replace(OLD_IDS))


class Cell(NamedTuple):
    """A method on a problem.

    Attributes:
      relative: mean relative score over seeds with its interval; −∞ where a run diverged at every step size.
      exponent: the best step size is 2^exponent. by_seed: relative scores, float64[seeds].
    """

    relative: Estimate
    exponent: int
    by_seed: np.ndarray


class CreditMap:
    """The map, from the table of runs that `COLLECT` gives.

    Args:
      frame: the table. draws: bootstrap samples of means.
    Attributes:
      problems: in order; main: those that are no controls. methods: ids, in order.
      cells: {(problem, method id)}, of those that were run.
      best_fixed: {problem: id of the best fixed λ in hindsight}.
    """

    def __init__(self, frame: pl.DataFrame, draws: int = RESAMPLES):
        self.frame, self.draws = frame, draws
        named = frame.select("family", "setting", "control").unique(maintain_order=True).rows()
        self.problems = tuple(_KEYS[row] for row in named)
        self.main = tuple(key for key in self.problems if not key.control)
        self.methods: tuple[str, ...] = tuple(frame["method"].unique(maintain_order=True).to_list())
        self.cells: dict[tuple[ProblemKey, str], Cell] = {}
        self.best_fixed: dict[ProblemKey, str] = {}
        for key in self.problems:
            part = frame.filter(family=key.family, setting=str(key.setting), control=key.control)
            found = {str(name): _best(rows) for (name,), rows in part.group_by("method", maintain_order=True)}
            means = {name: float(found[name][0].mean()) for name in FIXED_IDS if name in found}
            finite = [value for value in means.values() if np.isfinite(value)]
            self.best_fixed[key] = max(means, key=lambda name: means[name])
            for method, (scores, exponent) in found.items():
                self.cells[key, method] = _cell(scores, min(finite), max(finite), exponent)
        self._seeds: dict[tuple[int, int], np.ndarray] = {}

    def relative(self, method: str, problems: Sequence[ProblemKey] | None = None) -> np.ndarray:
        """Relative scores of a method, at least FLOOR; by default on all problems that are no controls."""
        chosen = self.main if problems is None else problems
        return np.array([max(self.cells[key, method].relative.value, FLOOR) for key in chosen])

    def mean(self, method: str, problems: Sequence[ProblemKey] | None = None) -> float:
        """Mean relative score; a score above 1 (better than the best fixed λ) counts as it is."""
        return float(self.relative(method, problems).mean())

    def has(self, *methods: str, problems: Sequence[ProblemKey]) -> bool:
        """Whether methods were run on all of these problems."""
        return all((key, method) in self.cells for key in problems for method in methods)

    def common(self, *methods: str) -> list[ProblemKey]:
        """The problems, without controls, on which all of these methods were run."""
        return [key for key in self.main if self.has(*methods, problems=[key])]

    def same_runs(self, one: str, other: str, key: ProblemKey) -> bool:
        """Whether two methods have the same scores on a problem, seed by seed, at the same best step size."""
        a, b = self.cells[key, one], self.cells[key, other]
        return a.exponent == b.exponent and np.array_equal(a.by_seed, b.by_seed)

    def ranking(self, problems: Sequence[ProblemKey]) -> list[str]:
        """The methods that were run on all of these problems, by their mean relative score, best first."""
        there = [method for method in self.methods if self.has(method, problems=problems)]
        return sorted(there, key=lambda method: -self.mean(method, problems))

    @cached_property
    def families(self) -> dict[str, tuple[ProblemKey, ...]]:
        """The problems of each family that was run, without controls."""
        names = dict.fromkeys(key.family for key in self.main)
        return {name: tuple(key for key in self.main if key.family == name) for name in names}

    # ---- means with their intervals

    def mean_estimate(self, method: str, problems: Sequence[ProblemKey]) -> Estimate:
        """Mean relative score over problems."""
        return _estimate(self.relative(method, problems), self.samples(method, problems))

    def difference(self, one: str, other: str, problems: Sequence[ProblemKey]) -> Estimate:
        """Mean over problems of the relative score of one method minus another's."""
        values = self.relative(one, problems) - self.relative(other, problems)
        return _estimate(values, self.samples(one, problems) - self.samples(other, problems))

    def ranks(self, methods: Sequence[str], problems: Sequence[ProblemKey]) -> list[Estimate]:
        """Mean over problems of the rank of each method among them; 1 is the best, ties share their mean rank."""
        from scipy.stats import rankdata

        values = rankdata([-self.relative(method, problems) for method in methods], axis=0)
        samples = rankdata([-self.samples(method, problems) for method in methods], axis=0)
        return [_estimate(v, s) for v, s in zip(values, samples, strict=True)]

    def samples(self, method: str, problems: Sequence[ProblemKey]) -> np.ndarray:
        """Relative scores of the problems that each sample draws, at least FLOOR: float64[places, draws].

        A problem that is drawn twice has two samples of its seeds. NaN where a sample has fewer problems than places.
        """
        values = [self.cells[key, method].by_seed for key in problems]
        sizes = np.array([len(row) if np.isfinite(row).all() else 0 for row in values])
        drawn = self._drawn(problems)
        found = np.where(drawn < 0, np.nan, FLOOR)
        for size in set(sizes.tolist()) - {0}:
            table = np.array([row if n == size else np.zeros(size) for row, n in zip(values, sizes, strict=True)])
            for place, chosen in enumerate(drawn):
                means = (self._shares(place, size) * table[chosen]).sum(axis=1)
                there = (chosen >= 0) & (sizes[chosen] == size)
                found[place] = np.where(there, np.maximum(means, FLOOR), found[place])
        return found

    def _drawn(self, problems: Sequence[ProblemKey]) -> np.ndarray:
        """Which problem stands at each place of each sample, or −1: int64[families · most settings, draws]."""
        families: dict[str, list[int]] = {}
        for i, key in enumerate(problems):
            families.setdefault(key.family, []).append(i)
        sizes = np.array([len(listed) for listed in families.values()])
        count, most = len(sizes), int(sizes.max())
        members = np.array([listed + [-1] * (most - len(listed)) for listed in families.values()])
        rng = np.random.default_rng((2, count, most))
        family = np.repeat(rng.integers(count, size=(count, self.draws)), most, axis=0)
        setting = (rng.random(family.shape) * sizes[family]).astype(np.int64)
        there = np.tile(np.arange(most), count)[:, None] < sizes[family]
        return np.where(there, members[family, setting], -1)

    def _shares(self, place: int, seeds: int) -> np.ndarray:
        """The share of each seed at this place of each sample: float64[draws, seeds]."""
        if (place, seeds) not in self._seeds:
            rng = np.random.default_rng((1, place, seeds))
            self._seeds[place, seeds] = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=self.draws) / seeds
        return self._seeds[place, seeds]


def _estimate(values: np.ndarray, samples: np.ndarray) -> Estimate:
    return estimate_from(float(values.mean()), np.nanmean(samples, axis=0))


def runs_by_step_size(part: pl.DataFrame) -> tuple[list[int], np.ndarray]:
    """Exponents, and scores, float64[exponents, seeds], −∞ where a run has none."""
    exponents = sorted(part["exponent"].unique().to_list())
    table = np.full((len(exponents), part["seed"].n_unique()), -np.inf)
    seeds = {seed: i for i, seed in enumerate(sorted(part["seed"].unique().to_list()))}
    for exponent, seed, score in part.select("exponent", "seed", "score").rows():
        if score is not None and np.isfinite(score):
            table[exponents.index(exponent), seeds[seed]] = score
    return exponents, table


def _best(part: pl.DataFrame) -> tuple[np.ndarray, int]:
    """Scores by seed at the best step size, and its exponent."""
    exponents, table = runs_by_step_size(part)
    best = int(np.argmax(table.mean(axis=1)))
    return table[best], exponents[best]


_weights = cache(bootstrap_weights)
"""The bootstrap's samples, drawn once for all cells with as many runs."""


def _cell(scores: np.ndarray, low: float, high: float, exponent: int) -> Cell:
    relative = (scores - low) / (high - low) if high > low else np.ones_like(scores)
    if not np.isfinite(relative).all():
        return Cell(Estimate(-np.inf, -np.inf, -np.inf), exponent, np.full(scores.size, -np.inf))
    resampled = _weights(relative.size) @ relative / relative.size
    return Cell(estimate_from(float(relative.mean()), resampled), exponent, relative)
