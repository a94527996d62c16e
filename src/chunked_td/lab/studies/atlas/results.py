"""From runs to the map: the score of every method on every problem, relative to the fixed λs.

0 is the worst and 1 the best fixed λ in hindsight, each method at its best step size:

    relative(method) = (score(method) − min_λ score(λ)) / (max_λ score(λ) − min_λ score(λ))

Step sizes are chosen on the runs that are scored, for every method alike. Intervals are percentile bootstraps over
seeds, with the step sizes as chosen; seeds are the same for all methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.lab.statistics import bootstrap_weights
from chunked_td.lab.store.tables import load_table
from chunked_td.lab.studies.atlas.families import FAMILIES
from chunked_td.lab.studies.atlas.methods import FIXED_IDS
from chunked_td.lab.studies.atlas.protocol import ProblemKey
from chunked_td.lambdas.names import OLD_IDS

if TYPE_CHECKING:
    import polars as pl

    from chunked_td.lab.store.batch_store import Store
    from chunked_td.lab.studies.atlas.ranking import AtlasBootstrap

SCORES = "scores.parquet"
"""Name of the table of runs in a run directory."""
FLOOR = -1.0
"""Relative scores below it (a method that diverges, say) count as this much."""


def COLLECT(store: Store) -> pl.DataFrame:
    """One row per run: family, setting, control, method, exponent, seed, score and transitions of the whole run.

    Runs that were stored before transitions were counted have null for them.
    """
    import polars as pl

    frames = []
    for key in map(key_of, store.directory.protocol_ids):
        table = store.table(key.id)
        steps = pl.col("steps") if "steps" in table.columns else pl.lit(None)
        last = table.filter(pl.col("episode") == pl.col("episode").max().over("arm"))
        frames.append(
            last.select(
                pl.lit(key.family).alias("family"),
                pl.lit(str(key.setting)).alias("setting"),
                pl.lit(key.control).alias("control"),
                pl.col("arm").alias("method"),
                pl.col("exponent").cast(pl.Int8),
                pl.col("seed").cast(pl.Int16),
                pl.col("score").cast(pl.Float32),
                steps.cast(pl.Int32).alias("steps"),
            )
        )
    return pl.concat(frames)


def key_of(protocol_id: str) -> ProblemKey:
    """The problem of a protocol."""
    keys = (ProblemKey(f.id, s, control) for f in FAMILIES.values() for s in f.settings for control in (False, True))
    return next(key for key in keys if key.id == protocol_id)


@dataclass(frozen=True)
class AtlasResults:
    """What claims and the page read: the table of runs, the map, and its bootstrap."""

    frame: pl.DataFrame
    atlas: CreditMap
    bootstrap: AtlasBootstrap


def LOAD(folder: Path) -> AtlasResults:
    """The results in a folder with the table of runs."""
    from chunked_td.lab.studies.atlas.ranking import AtlasBootstrap

    frame = read_scores(Path(folder) / SCORES)
    atlas = make_atlas(frame)
    return AtlasResults(frame, atlas, AtlasBootstrap(atlas))


@dataclass(frozen=True)
class Cell:
    """A method on a problem: relative score with its 95 % interval, and the raw numbers behind it.

    Attributes:
      relative, low, high: mean over seeds and its interval; −∞ where a run diverged at every step size.
      score: mean raw score. by_seed: relative scores, float64[seeds].
      exponent: the best step size is 2^exponent. at_edge: whether that is the largest or the smallest tried.
    """

    relative: float
    low: float
    high: float
    score: float
    exponent: int
    at_edge: bool
    by_seed: np.ndarray


@dataclass(frozen=True)
class CreditMap:
    """The map.

    Attributes:
      problems: in order. methods: ids, in order.
      cells: {(problem, method id)}, of those that were run.
      best_fixed: {problem: id of the best fixed λ in hindsight}.
      runs: how many.
    """

    problems: tuple[ProblemKey, ...]
    methods: tuple[str, ...]
    cells: dict[tuple[ProblemKey, str], Cell]
    best_fixed: dict[ProblemKey, str]
    runs: int

    def relative(self, method: str, problems: Sequence[ProblemKey] | None = None) -> np.ndarray:
        """Relative scores of a method, at least FLOOR."""
        chosen = self.problems if problems is None else problems
        return np.array([max(self.cells[key, method].relative, FLOOR) for key in chosen])

    def mean(self, method: str, problems: Sequence[ProblemKey] | None = None) -> float:
        """Mean relative score; a score above 1 (better than the best fixed λ) counts as it is."""
        return float(self.relative(method, problems).mean())

    def worst(self, method: str, problems: Sequence[ProblemKey] | None = None) -> float:
        """The lowest relative score."""
        return float(self.relative(method, problems).min())

    def has(self, method: str, problems: Sequence[ProblemKey] | None = None) -> bool:
        """Whether a method was run on all of these problems."""
        return all((key, method) in self.cells for key in (self.problems if problems is None else problems))

    def same_runs(self, one: str, other: str, key: ProblemKey) -> bool:
        """Whether two methods have the same scores on a problem, seed by seed, at the same best step size."""
        a, b = self.cells[key, one], self.cells[key, other]
        return a.exponent == b.exponent and np.array_equal(a.by_seed, b.by_seed)

    def ranking(self, problems: Sequence[ProblemKey] | None = None) -> list[str]:
        """The methods that were run on all of these problems, by their mean relative score, best first."""
        there = [method for method in self.methods if self.has(method, problems)]
        return sorted(there, key=lambda method: -self.mean(method, problems))

    def main(self) -> tuple[ProblemKey, ...]:
        """The problems that are no controls."""
        return tuple(key for key in self.problems if not key.control)

    def held_out(self, held_out: bool) -> tuple[ProblemKey, ...]:
        """Those of the families that were not run during design, or the others."""
        return tuple(key for key in self.main() if FAMILIES[key.family].held_out == held_out)


def _key_of(row: Any) -> ProblemKey:
    family, setting, control = row
    known = {str(value): value for value in FAMILIES[family].settings}
    return ProblemKey(family, known[setting], control)


def read_scores(path: Path) -> pl.DataFrame:
    """A stored table of runs, with the present ids of λ sources."""
    import polars as pl

    return load_table(path).with_columns(pl.col("method").replace(OLD_IDS))


def make_atlas(frame: pl.DataFrame) -> CreditMap:
    """The map from the table of runs that `COLLECT` gives."""
    problems = [_key_of(row) for row in frame.select("family", "setting", "control").unique(maintain_order=True).rows()]
    methods = frame["method"].unique(maintain_order=True).to_list()
    cells, best_fixed = {}, {}
    for key in problems:
        part = frame.filter(family=key.family, setting=str(key.setting), control=key.control)
        found = {str(name): _best(rows) for (name,), rows in part.group_by("method", maintain_order=True)}
        means = {name: float(found[name][0].mean()) for name in FIXED_IDS if name in found}
        finite = [value for value in means.values() if np.isfinite(value)]
        low, high = min(finite), max(finite)
        best_fixed[key] = max(means, key=lambda name: means[name])
        for method, (scores, exponent, at_edge) in found.items():
            cells[key, method] = _cell(scores, low, high, exponent, at_edge)
    return CreditMap(tuple(problems), tuple(methods), cells, best_fixed, frame.height)


def runs_by_step_size(part: pl.DataFrame) -> tuple[list[int], np.ndarray]:
    """Exponents, and scores, float64[exponents, seeds], −∞ where a run has none."""
    exponents = sorted(part["exponent"].unique().to_list())
    table = np.full((len(exponents), part["seed"].n_unique()), -np.inf)
    seeds = {seed: i for i, seed in enumerate(sorted(part["seed"].unique().to_list()))}
    for exponent, seed, score in part.select("exponent", "seed", "score").rows():
        if score is not None and np.isfinite(score):
            table[exponents.index(exponent), seeds[seed]] = score
    return exponents, table


def _best(part: pl.DataFrame) -> tuple[np.ndarray, int, bool]:
    """Scores by seed at the best step size, its exponent, and whether it lies at the edge of the grid."""
    exponents, table = runs_by_step_size(part)
    best = int(np.argmax(table.mean(axis=1)))
    return table[best], exponents[best], best in (0, len(exponents) - 1)


@lru_cache(maxsize=8)
def _weights(runs: int) -> np.ndarray:
    """The bootstrap's samples, drawn once for all cells with as many runs."""
    return bootstrap_weights(runs)


def _cell(scores: np.ndarray, low: float, high: float, exponent: int, at_edge: bool) -> Cell:
    relative = (scores - low) / (high - low) if high > low else np.ones_like(scores)
    if not np.isfinite(relative).all():
        return Cell(-np.inf, -np.inf, -np.inf, -np.inf, exponent, at_edge, np.full(scores.size, -np.inf))
    resampled = _weights(relative.size) @ relative / relative.size
    ends = np.quantile(resampled, (0.025, 0.975))
    low, high = float(ends[0]), float(ends[1])
    return Cell(float(relative.mean()), low, high, float(scores.mean()), exponent, at_edge, relative)


CRITERION = (
    "A mean relative score of at least 0.95 and of at least 0.75 on every problem, while no single fixed λ reaches "
    "0.75 on average."
)
"""When one λ source is good enough everywhere; written down before the full run."""


@dataclass(frozen=True)
class WrittenVerdict:
    """Whether one method is good enough everywhere, by the `CRITERION`."""

    method: str
    mean: float
    worst: float
    best_fixed_mean: float

    MEAN, WORST, FIXED_MEAN = 0.95, 0.75, 0.75

    @property
    def reached(self) -> bool:
        """Whether the criterion is met."""
        return self.mean >= self.MEAN and self.worst >= self.WORST and self.best_fixed_mean < self.FIXED_MEAN


def verdict(atlas: CreditMap, method: str, problems: Sequence[ProblemKey] | None = None) -> WrittenVerdict:
    """Judge a method on some problems."""
    chosen = atlas.main() if problems is None else problems
    fixed = max(atlas.mean(method, chosen) for method in FIXED_IDS if method in atlas.methods)
    return WrittenVerdict(method, atlas.mean(method, chosen), atlas.worst(method, chosen), fixed)


@dataclass(frozen=True)
class ControlPair:
    """A method on a problem and on its control.

    It wins a problem if its interval lies above 1. A win does not survive if the relative score on the control lies
    below that of the best fixed λ there, which is 1.
    """

    method: str
    problem: ProblemKey
    plain: Cell
    control: Cell

    @property
    def wins(self) -> bool:
        """Whether the method beats the best fixed λ on the problem."""
        return self.plain.low > 1.0

    @property
    def lost(self) -> bool:
        """Whether it wins, and the win does not survive the control."""
        return self.wins and self.control.relative < 1.0

    @property
    def clearly_lost(self) -> bool:
        """Whether moreover the whole interval on the control lies below 1."""
        return self.lost and self.control.high < 1.0


def control_pairs(atlas: CreditMap) -> list[ControlPair]:
    """Every method on every problem that has a control, where both were run."""
    found = []
    for key in atlas.main():
        control = replace(key, control=True)
        found += [
            ControlPair(method, key, atlas.cells[key, method], atlas.cells[control, method])
            for method in atlas.methods
            if atlas.has(method, [key]) and (control, method) in atlas.cells
        ]
    return found
