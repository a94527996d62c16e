"""Results of a comparison: the runs of every arm, arms with the same runs as one, and all of them judged together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.comparison.arms import BOOTSTRAPS, ERRORS, FIXED, LEARNED, PLANS, RANDOM, Candidate
from chunked_td.comparison.facts import Facts
from chunked_td.comparison.ranking import ERROR, LEAST, PairedFamily, chosen_sizes, own_interval
from chunked_td.comparison.settings import LARGEST, Settings
from chunked_td.statistics import Estimate

if TYPE_CHECKING:
    import polars as pl

ORDER = (FIXED, LEARNED, ERRORS, PLANS, RANDOM)
_KEY = ("step_size", "seed", "episode")


@dataclass(frozen=True)
class Outcome:
    """Runs of an arm.

    Attributes:
      step_sizes: float64[K], in order. marks: int64[T], checkpoints.
      mean_return, mean_lambda: float64[K, seeds, T], since the last checkpoint.
      lost: bool[K, seeds], whether a run diverged.
      same: runs of other arms that are the very same.
    """

    arm: Candidate
    step_sizes: np.ndarray
    marks: np.ndarray
    mean_return: np.ndarray
    mean_lambda: np.ndarray
    lost: np.ndarray
    same: tuple[Outcome, ...] = ()

    @classmethod
    def of(cls, arm: Candidate, table: pl.DataFrame) -> Outcome:
        """The runs of an arm from those of all."""
        import polars as pl

        own = table.filter(pl.col("arm") == arm.name).sort(*_KEY)
        sizes, seeds, marks = (own[name].unique().sort().to_numpy() for name in _KEY)
        shape = sizes.size, seeds.size, marks.size
        returns, lambdas, lost = (
            own[name].to_numpy().reshape(shape) for name in ("mean_return", "mean_lambda", "diverged")
        )
        return cls(arm, sizes, marks, returns, lambdas, lost[..., 0].astype(bool))

    @cached_property
    def all_scores(self) -> np.ndarray:
        """float64[K, seeds]: mean return of all episodes; −∞ for runs that diverged."""
        stretches = np.diff(self.marks, prepend=0)
        with np.errstate(invalid="ignore"):
            return np.where(self.lost, -np.inf, self.mean_return @ stretches / self.marks[-1])

    @cached_property
    def chosen(self) -> np.ndarray:
        """int64[seeds]: the place of every seed's step size, chosen on the other half of the seeds."""
        return chosen_sizes(self.all_scores)

    @cached_property
    def scores(self) -> np.ndarray:
        """float64[seeds] at the chosen step sizes."""
        return self.at_chosen(self.all_scores)

    def at_chosen(self, values: np.ndarray) -> np.ndarray:
        """Values [K, seeds, …] at the chosen step sizes: [seeds, …]."""
        return values[self.chosen, np.arange(self.chosen.size)]

    @property
    def diverged(self) -> bool:
        """Whether a run at a chosen step size diverged: then the arm is not ranked."""
        return not np.isfinite(self.scores).all()

    @property
    def best_step_size(self) -> float:
        """The best on all seeds: for use, not for scoring."""
        return float(self.step_sizes[int(self.all_scores.mean(axis=1).argmax())])

    @property
    def step_size_text(self) -> str:
        """The chosen step sizes; two if the halves of the seeds chose differently."""
        return " and ".join(f"{self.step_sizes[place]:.4g}" for place in np.unique(self.chosen))

    @property
    def at_edge(self) -> tuple[bool, bool]:
        """Whether the smallest, and the largest, step size tried was chosen and is better than the one beside it."""
        places, last = np.unique(self.chosen), self.step_sizes.size - 1
        low = 0 in places and self._is_better(0, 1)
        return low, last in places and self._is_better(-1, -2) and self.step_sizes[-1] < LARGEST

    def _is_better(self, edge: int, beside: int) -> bool:
        if self.step_sizes.size == 1:
            return True
        means = self.all_scores.mean(axis=1)
        return bool(means[edge] > means[beside] or (np.isneginf(means[edge]) and edge == 0))

    @property
    def arms(self) -> tuple[Candidate, ...]:
        """The arm, and those with the same runs."""
        return (self.arm, *(one.arm for one in self.same))

    def same_runs(self, other: Outcome) -> bool:
        """Whether another arm has the same returns at every checkpoint."""
        alike = self.arm.bootstrap == other.arm.bootstrap and np.array_equal(self.step_sizes, other.step_sizes)
        return alike and np.array_equal(self.mean_return, other.mean_return, equal_nan=True)


def merged(outcomes: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """Arms with the same runs as one, under the name of the simplest."""
    found: list[Outcome] = []
    for one in sorted(outcomes, key=lambda one: ORDER.index(one.arm.kind)):
        place = next((k for k, other in enumerate(found) if other.same_runs(one)), None)
        if place is None:
            found.append(one)
        else:
            found[place] = replace(found[place], same=(*found[place].same, one))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Row:
    """An arm in the ranking. Args: score: its mean return. place: its place in the family."""

    outcome: Outcome
    score: Estimate
    place: int

    @property
    def arm(self) -> Candidate:
        """The arm."""
        return self.outcome.arm


@dataclass(frozen=True, eq=False)
class Comparison:
    """Learners compared on a problem; printing it shows the answer.

    Attributes:
      settings: with the numbers of episodes and seeds filled in.
      outcomes: one per arm; arms with the same runs are one.
      random: runs of a policy that acts at random.
      looks: how often the arms are judged, at most, as seeds are added.
      facts: what the problem is like; None if its states cannot be counted.
      how: where runs executed.
      runs: every run and checkpoint, as a Polars table.
    """

    settings: Settings
    outcomes: tuple[Outcome, ...]
    random: Outcome
    looks: int
    facts: Facts | None
    how: str
    runs: Any = None

    @property
    def seeds(self) -> int:
        """Seeds per arm and step size."""
        return self.random.chosen.size

    @cached_property
    def family(self) -> PairedFamily:
        """All arms that did not diverge, judged together; acting at random is the last."""
        ranked = [one.scores for one in self._ranked]
        return PairedFamily.of(np.array([*ranked, self.random.scores]), len(ranked), ERROR / self.looks)

    @cached_property
    def _ranked(self) -> list[Outcome]:
        return [one for one in self.outcomes if not one.diverged]

    @property
    def diverged(self) -> list[Outcome]:
        """Arms that are not ranked."""
        return [one for one in self.outcomes if one.diverged]

    @cached_property
    def rows(self) -> list[Row]:
        """The ranking, best mean first; those that plan are apart."""
        return [row for row in self._all if row.arm.kind != PLANS]

    @cached_property
    def planning(self) -> list[Row]:
        """Arms that plan, best mean first."""
        return [row for row in self._all if row.arm.kind == PLANS]

    @cached_property
    def reference(self) -> Row:
        """Acting at random."""
        return self._row(self.random, len(self._ranked))

    @cached_property
    def _all(self) -> list[Row]:
        rows = [self._row(one, place) for place, one in enumerate(self._ranked)]
        return sorted(rows, key=lambda row: -row.score.value)

    def _row(self, one: Outcome, place: int) -> Row:
        scores = self.family.scores
        return Row(one, own_interval(scores[place], float(scores.min()), float(scores.max())), place)

    def lead(self, row: Row, other: Row) -> Estimate:
        """By how much a learner is better than another: above 0 if it is ahead."""
        return self.family.lead(row.place, other.place)

    def beats_random(self, row: Row) -> bool:
        """Whether a learner is shown to be better than acting at random."""
        return self.lead(row, self.reference).low > 0.0

    @cached_property
    def recommended(self) -> Row | None:
        """The learner to use, or None.

        The best fixed λ; instead of it a learned λ, and instead of that expected TD errors, if shown to be better; and
        only what is shown to beat acting at random. One that plans if nothing else does.
        """
        if self.seeds < LEAST:
            return None
        used: Row | None = None
        for kind in (FIXED, LEARNED, ERRORS):
            best = next((row for row in self.rows if row.arm.kind == kind and self.beats_random(row)), None)
            if best is not None and (used is None or self.lead(best, used).low > 0.0):
                used = best
        return used or next((row for row in self.planning if self.beats_random(row)), None)

    @property
    def best_fixed(self) -> Row | None:
        """The fixed λ with the best mean."""
        return next((row for row in self.rows if row.arm.kind == FIXED), None)

    def name(self, arm: Candidate) -> str:
        """An arm in tables and sentences; its bootstrap is named if there are several."""
        if len(set(self.settings.bootstraps)) == 1 or arm.kind == RANDOM:
            return arm.label
        return f"{arm.label} ({BOOTSTRAPS[arm.bootstrap]})"

    @property
    def headline(self) -> str:
        """What to use, and how sure that is."""
        from chunked_td.comparison.answer import headline

        return headline(self)

    @property
    def python(self) -> str | None:
        """A Python script that trains the recommended learner."""
        from chunked_td.comparison.recipe import script

        return None if self.recommended is None else script(self.recommended.outcome, self.settings)

    @property
    def command(self) -> str | None:
        """The `chunked-td train` line for it."""
        from chunked_td.comparison.recipe import command

        return None if self.recommended is None else command(self.recommended.outcome, self.settings)

    def save(self, folder: str | Path) -> list[Path]:
        """Write compare.html, compare.svg, compare.png and compare.parquet into a folder."""
        from chunked_td.comparison.page import write

        return write(self, Path(folder))

    def __str__(self) -> str:
        from chunked_td.comparison.screen import text

        return text(self)

    __repr__ = __str__
