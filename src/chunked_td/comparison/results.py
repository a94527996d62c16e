"""Results of a comparison: the runs of every arm, arms with the same runs as one, and all of them judged together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.comparison.arms import BOOTSTRAPS, ERRORS, FIXED, KINDS, LEARNED, PLANS, RANDOM, Candidate
from chunked_td.comparison.facts import Facts
from chunked_td.comparison.ranking import ERROR, LEAST, PairedFamily, chosen_sizes, own_interval
from chunked_td.comparison.settings import LARGEST, Settings
from chunked_td.statistics import Estimate

if TYPE_CHECKING:
    import polars as pl

_KEY = ("step_size", "seed", "episode")


@dataclass(frozen=True, eq=False)
class Outcome:
    """Runs of an arm.

    Attributes:
      step_sizes: float64[K], in order. marks: int64[T], checkpoints.
      mean_return, mean_lambda: float64[K, seeds, T], since the last checkpoint.
      lost: bool[K, seeds], whether a run diverged.
      same: outcomes of other arms with identical runs.
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
        """Select the runs of an arm from the table of all runs."""
        import polars as pl

        own = table.filter(pl.col("arm") == arm.name).sort(*_KEY)
        sizes, seeds, marks = (own[name].unique().sort().to_numpy() for name in _KEY)
        names, shape = ("mean_return", "mean_lambda", "diverged"), (sizes.size, seeds.size, marks.size)
        returns, lambdas, lost = (own[name].to_numpy().reshape(shape) for name in names)
        return cls(arm, sizes, marks, returns, lambdas, lost[..., 0].astype(bool))

    @cached_property
    def all_scores(self) -> np.ndarray:
        """float64[K, seeds]: mean return of all episodes; −∞ for runs that diverged."""
        episodes = np.diff(self.marks, prepend=0)
        with np.errstate(invalid="ignore"):
            return np.where(self.lost, -np.inf, self.mean_return @ episodes / self.marks[-1])

    @cached_property
    def chosen(self) -> np.ndarray:
        """int64[seeds]: index of every seed's step size, selected on the other half of the seeds."""
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
        """Whether a run at a chosen step size diverged. If so, the arm is not ranked."""
        return not np.isfinite(self.scores).all()

    @property
    def best_step_size(self) -> float:
        """The best step size on all seeds: for the recipe, not for scoring."""
        return float(self.step_sizes[int(self.all_scores.mean(axis=1).argmax())])

    @property
    def step_size_text(self) -> str:
        """The chosen step sizes; two if the halves of the seeds selected different ones."""
        return " and ".join(f"{self.step_sizes[place]:.4g}" for place in np.unique(self.chosen))

    @property
    def at_edge(self) -> tuple[bool, bool]:
        """Whether the smallest, and the largest, step size was chosen and is better than the one next to it."""
        places, last = np.unique(self.chosen), self.step_sizes.size - 1
        if last == 0:
            return True, bool(self.step_sizes[0] < LARGEST)
        means = self.all_scores.mean(axis=1)
        low = means[0] > means[1] or np.isneginf(means[0])  # all diverged: smaller ones may not
        high = means[-1] > means[-2] and self.step_sizes[-1] < LARGEST
        return bool(0 in places and low), bool(last in places and high)

    @property
    def arms(self) -> tuple[Candidate, ...]:
        """The arm, and the arms with identical runs."""
        return (self.arm, *(one.arm for one in self.same))

    def same_runs(self, other: Outcome) -> bool:
        """Whether another arm has the same returns at every checkpoint, except in runs that diverged in both."""
        alike = self.arm.bootstrap == other.arm.bootstrap and np.array_equal(self.step_sizes, other.step_sizes)
        if not alike or not np.array_equal(self.lost, other.lost):
            return False
        return np.array_equal(self.mean_return[~self.lost], other.mean_return[~other.lost], equal_nan=True)


def merged(outcomes: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """Merge arms with identical runs, under the name of the simplest."""
    found: list[Outcome] = []
    for one in sorted(outcomes, key=lambda one: KINDS.index(one.arm.kind)):
        place = next((k for k, other in enumerate(found) if other.same_runs(one)), None)
        if place is None:
            found.append(one)
        else:
            found[place] = replace(found[place], same=(*found[place].same, one))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Learners compared on a problem; printing it shows the answer.

    Attributes:
      settings: with the numbers of episodes and seeds filled in.
      outcomes: one per arm; arms with identical runs are one.
      random: runs of a policy that acts at random.
      looks: number of interim analyses at most, as seeds are added.
      facts: facts of the problem; None if its states cannot be counted.
      how: place and kind of execution, in words.
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
        ranked = [one.scores for one in self.outcomes if not one.diverged]
        return PairedFamily.of(np.array([*ranked, self.random.scores]), len(ranked), ERROR / self.looks)

    @cached_property
    def _places(self) -> dict[Outcome, int]:
        ranked = (one for one in self.outcomes if not one.diverged)
        return {one: place for place, one in enumerate((*ranked, self.random))}

    @property
    def diverged(self) -> list[Outcome]:
        """Arms that are not ranked."""
        return [one for one in self.outcomes if one.diverged]

    @cached_property
    def rows(self) -> list[Outcome]:
        """The ranking, best mean first, without arms that plan."""
        return [one for one in self._ranking if one.arm.kind != PLANS]

    @cached_property
    def planning(self) -> list[Outcome]:
        """Arms that plan, best mean first."""
        return [one for one in self._ranking if one.arm.kind == PLANS]

    @cached_property
    def _ranking(self) -> list[Outcome]:
        ranked = [one for one in self._places if one is not self.random]
        return sorted(ranked, key=lambda one: -self.seeds_of(one).mean())

    def seeds_of(self, one: Outcome) -> np.ndarray:
        """float64[seeds]: the scores of a ranked arm."""
        return self.family.scores[self._places[one]]

    def score(self, one: Outcome) -> Estimate:
        """The mean score of a ranked arm with its own interval."""
        scores = self.family.scores
        return own_interval(self.seeds_of(one), float(scores.min()), float(scores.max()))

    def lead(self, one: Outcome, other: Outcome) -> Estimate:
        """By how much an arm is better than another; positive if it is ahead."""
        return self.family.lead(self._places[one], self._places[other])

    def beats_random(self, one: Outcome) -> bool:
        """Whether an arm is shown to be better than acting at random."""
        return self.lead(one, self.random).low > 0.0

    @cached_property
    def recommended(self) -> Outcome | None:
        """The learner to use, or None.

        The best fixed λ; instead of it a learned λ, and instead of that expected TD errors, if shown to be better; and
        only if shown to beat acting at random. An arm that plans if no other beats it.
        """
        if self.seeds < LEAST:
            return None
        used: Outcome | None = None
        for kind in (FIXED, LEARNED, ERRORS):
            best = next((one for one in self.rows if one.arm.kind == kind and self.beats_random(one)), None)
            if best is not None and (used is None or self.lead(best, used).low > 0.0):
                used = best
        return used or next((one for one in self.planning if self.beats_random(one)), None)

    @property
    def best_fixed(self) -> Outcome | None:
        """The fixed λ with the best mean."""
        return next((one for one in self.rows if one.arm.kind == FIXED), None)

    def name(self, arm: Candidate) -> str:
        """Name of an arm in tables and sentences; with its bootstrap if there are several."""
        if len(set(self.settings.bootstraps)) == 1 or arm.kind == RANDOM:
            return arm.label
        return f"{arm.label} ({BOOTSTRAPS[arm.bootstrap]})"

    @property
    def headline(self) -> str:
        """The recommendation and its evidence, in one to three sentences."""
        from chunked_td.comparison.answer import headline

        return headline(self)

    @property
    def python(self) -> str | None:
        """A Python script that trains the recommended learner."""
        from chunked_td.comparison.recipe import script

        return None if self.recommended is None else script(self.recommended, self.settings)

    @property
    def command(self) -> str | None:
        """The `chunked-td train` line that trains it."""
        from chunked_td.comparison.recipe import command

        return None if self.recommended is None else command(self.recommended, self.settings)

    def save(self, folder: str | Path) -> list[Path]:
        """Write compare.html, compare.svg, compare.png and compare.parquet into a folder."""
        from chunked_td.comparison.page import write

        return write(self, Path(folder))

    def __str__(self) -> str:
        from chunked_td.comparison.page import text

        return text(self)

    __repr__ = __str__
