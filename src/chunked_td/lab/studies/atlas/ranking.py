"""Methods ranked over problems, with intervals: pure functions of the map.

Intervals are percentile bootstraps over families, settings and seeds: every sample draws families with replacement,
settings within each, and seeds within each problem, the same for all methods. The settings of a family are alike, so
problems are not independent; families are the unit. (The spread between problems contains that between seeds, so these
intervals are wide rather than narrow. With few families, four for wrong models, they are rough.) The step sizes and the
two fixed λs that a score refers to stay as chosen. A relative score counts as `FLOOR` where it is lower. The same runs
give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chunked_td.lab.results.tables import markdown
from chunked_td.lab.statistics import LEAST_SEEDS, RESAMPLES, Estimate, estimate_from, nested_estimate, normalised
from chunked_td.lab.studies.atlas.methods import FIXED_IDS
from chunked_td.lab.studies.atlas.protocol import ProblemKey
from chunked_td.lab.studies.atlas.results import FLOOR, CreditMap, runs_by_step_size

if TYPE_CHECKING:
    import polars as pl

GOOD_ENOUGH = 0.75
"""A method loses a problem where its interval lies below this relative score."""


def score_text(value: float) -> str:
    """A relative score: two decimals; "diverged" for −∞."""
    if np.isnan(value):
        return "–"
    return "diverged" if value == -np.inf else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def estimate_text(found: Sequence[float]) -> str:
    """A relative score with its interval: "0.93 [0.88, 0.97]"."""
    value, low, high = map(score_text, found)
    return f"{value} [{low}, {high}]"


@dataclass(frozen=True)
class RankedMethod:
    """What one method is worth over all problems.

    Attributes:
      method: id.
      mean, rank: relative score and rank among the methods, over problems. worst: lowest relative score, on `worst_at`.
      regret: mean over problems of the best method's relative score minus this one's.
      wins, losses: problems on which the interval over seeds lies above 1, or below `GOOD_ENOUGH`.
    """

    method: str
    mean: Estimate
    worst: float
    worst_at: ProblemKey
    rank: Estimate
    regret: float
    wins: tuple[ProblemKey, ...]
    losses: tuple[ProblemKey, ...]


class AtlasBootstrap:
    """Bootstrap samples of relative scores over families, their settings, and seeds.

    Args:
      atlas: the map.
      draws: how many samples.
    """

    def __init__(self, atlas: CreditMap, draws: int = RESAMPLES):
        self.atlas = atlas
        self.draws = draws
        self._seeds: dict[tuple[int, int], np.ndarray] = {}

    def mean(self, method: str, problems: Sequence[ProblemKey]) -> Estimate:
        """Mean relative score over problems."""
        return self._estimate(self.atlas.relative(method, problems), self.samples(method, problems))

    def difference(self, one: str, other: str, problems: Sequence[ProblemKey]) -> Estimate:
        """Mean over problems of the relative score of one method minus another's."""
        values = self.atlas.relative(one, problems) - self.atlas.relative(other, problems)
        return self._estimate(values, self.samples(one, problems) - self.samples(other, problems))

    def ranks(self, methods: Sequence[str], problems: Sequence[ProblemKey]) -> list[Estimate]:
        """Mean over problems of the rank of each method among them; 1 is the best, ties share their mean rank."""
        from scipy.stats import rankdata

        values = rankdata([-self.atlas.relative(method, problems) for method in methods], axis=0)
        samples = rankdata([-self.samples(method, problems) for method in methods], axis=0)
        return [self._estimate(v, s) for v, s in zip(values, samples, strict=True)]

    def samples(self, method: str, problems: Sequence[ProblemKey]) -> np.ndarray:
        """Relative scores of the problems that each sample draws, at least FLOOR: float64[places, draws].

        A problem that is drawn twice has two samples of its seeds. NaN where a sample has fewer problems than places.
        """
        values = [self.atlas.cells[key, method].by_seed for key in problems]
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

    @staticmethod
    def _estimate(values: np.ndarray, samples: np.ndarray) -> Estimate:
        return estimate_from(float(values.mean()), np.nanmean(samples, axis=0))


def ranked(atlas: CreditMap, problems: Sequence[ProblemKey], bootstrap: AtlasBootstrap) -> list[RankedMethod]:
    """Every method that was run on all of these problems, best mean first."""
    methods = atlas.ranking(problems)
    best = np.max([atlas.relative(method, problems) for method in methods], axis=0)
    found = []
    for method, rank in zip(methods, bootstrap.ranks(methods, problems), strict=True):
        cells = [atlas.cells[key, method] for key in problems]
        scores = atlas.relative(method, problems)
        found.append(
            RankedMethod(
                method=method,
                mean=bootstrap.mean(method, problems),
                worst=float(scores.min()),
                worst_at=problems[int(scores.argmin())],
                rank=rank,
                regret=float((best - scores).mean()),
                wins=tuple(key for key, cell in zip(problems, cells, strict=True) if cell.low > 1.0),
                losses=tuple(key for key, cell in zip(problems, cells, strict=True) if cell.high < GOOD_ENOUGH),
            )
        )
    return found


def best_single_fixed(atlas: CreditMap, problems: Sequence[ProblemKey]) -> str:
    """Id of the fixed λ with the best mean over problems."""
    there = [method for method in FIXED_IDS if atlas.has(method, problems)]
    return max(there, key=lambda method: atlas.mean(method, problems))


def cross_fitted_scores(frame: pl.DataFrame) -> tuple[dict[str, list[dict[str, np.ndarray]]], list[str]]:
    """{family: [{method: float64[seeds]} of each setting]} of problems that tell fixed λs apart, and the others."""
    import polars as pl

    found: dict[str, list[dict[str, np.ndarray]]] = {}
    unclear = []
    main = frame.filter(~pl.col("control"))
    for (family, setting), part in main.group_by("family", "setting", maintain_order=True):
        runs = {str(name): runs_by_step_size(rows)[1] for (name,), rows in part.group_by("method", maintain_order=True)}
        if (scores := normalised(runs, [name for name in FIXED_IDS if name in runs])) is None:
            unclear.append(f"{family} {setting}")
        else:
            relative = {name: np.maximum(each, FLOOR) for name, each in scores.items()}
            found.setdefault(str(family), []).append(relative)
    return found, unclear


def cross_fitted_table(frame: pl.DataFrame, label: Callable[[str], str]) -> str:
    """Mean relative scores over families, best first, each less the best single fixed λ; methods run everywhere."""
    if frame["seed"].n_unique() < LEAST_SEEDS:
        return f"Fewer than {LEAST_SEEDS} seeds: too few to choose on one half of them and score on the other."
    cells, unclear = cross_fitted_scores(frame)
    settings = [cell for family in cells.values() for cell in family]
    if not settings:
        return "No problem tells its fixed λs apart."
    methods = set.intersection(*(set(cell) for cell in settings))
    means = {m: float(np.mean([np.mean([c[m].mean() for c in family]) for family in cells.values()])) for m in methods}
    fixed = max((name for name in FIXED_IDS if name in methods), key=lambda name: means[name])
    columns, rows = ("method", "mean over families", "worst problem", f"less {label(fixed)}"), []
    for method in sorted(methods, key=lambda name: -means[name]):
        gap = nested_estimate([[cell[method] - cell[fixed] for cell in family] for family in cells.values()], 500)
        worst = min(float(cell[method].mean()) for cell in settings)
        against = gap.text("+.2f") if method != fixed else ""
        rows.append((label(method), f"{means[method]:.2f}", f"{worst:.2f}", against))
    left_out = f"Left out, because their fixed λs are not told apart: {', '.join(unclear) or 'none'}."
    return f"{markdown(columns, rows)}\n\n{left_out}".replace(" -0", " −0").replace(" -1", " −1")
