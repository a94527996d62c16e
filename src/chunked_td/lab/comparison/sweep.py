"""`compare`: every arm with every step size and seed, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from chunked_td._checks import check_whole
from chunked_td.lab.comparison.arms import BOOTSTRAPS, ComparisonSettings, LearnerArm, arms_of
from chunked_td.lab.comparison.ranking import PairedFamily, chosen_sizes
from chunked_td.lab.comparison.running import ArmRuns, CompiledRuns, Curves, GymnasiumRuns, runs_for
from chunked_td.lab.statistics import mean_and_interval

LARGEST = 1.0
"""Grids of step sizes do not extend beyond it."""


@dataclass(frozen=True)
class ArmOutcome:
    """What an arm did.

    Attributes:
      curves: by step size.
      chosen: the step size of every seed, chosen on the other half of the seeds.
    """

    arm: LearnerArm
    curves: dict[float, Curves]
    weights: np.ndarray

    @cached_property
    def step_sizes(self) -> tuple[float, ...]:
        """In order."""
        return tuple(sorted(self.curves))

    @cached_property
    def all_scores(self) -> np.ndarray:
        """float64[step sizes, seeds]: mean return over all episodes; −∞ for runs that diverged."""
        rows = [self.curves[size] for size in self.step_sizes]
        return np.array([np.where(row.diverged, -np.inf, row.means @ self.weights) for row in rows])

    @cached_property
    def chosen(self) -> np.ndarray:
        """int64[seeds]: places among `step_sizes`."""
        return chosen_sizes(self.all_scores)

    @cached_property
    def scores(self) -> np.ndarray:
        """float64[seeds] at the chosen step sizes."""
        return self.all_scores[self.chosen, np.arange(self.chosen.size)]

    @cached_property
    def means(self) -> np.ndarray:
        """float64[seeds, checkpoints] at the chosen step sizes."""
        return np.array([self.curves[self.step_sizes[place]].means[seed] for seed, place in enumerate(self.chosen)])

    @cached_property
    def lambdas(self) -> np.ndarray:
        """float64[seeds, checkpoints] at the chosen step sizes: mean λ; NaN where no step had one."""
        return np.array([self.curves[self.step_sizes[place]].lambdas[seed] for seed, place in enumerate(self.chosen)])

    @property
    def diverged(self) -> bool:
        """Whether a run at a chosen step size diverged."""
        return not np.isfinite(self.scores).all()

    @property
    def step_size_text(self) -> str:
        """The chosen step sizes; two where the halves of the seeds chose differently."""
        return " and ".join(f"{self.step_sizes[place]:.4g}" for place in np.unique(self.chosen))

    @property
    def best_step_size(self) -> float:
        """The best on all seeds: for use, not for scoring."""
        return self.step_sizes[int(self.all_scores.mean(axis=1).argmax())]

    def beyond(self, grid: tuple[float, ...]) -> list[float]:
        """Step sizes to try next: one factor below or above, where a half of the seeds prefers the grid's edge.

        Args:
          grid: as it was given; its first and last factors go on. A single size goes on by factors of two.
        """
        sizes, place = self.step_sizes, np.unique(self.chosen)
        ordered = sorted(grid)
        factors = (ordered[1] / ordered[0], ordered[-1] / ordered[-2]) if len(ordered) > 1 else (2.0, 2.0)
        found = []
        if 0 in place and self._is_better(0, 1):
            found.append(sizes[0] / factors[0])
        if len(sizes) - 1 in place and self._is_better(-1, -2) and sizes[-1] < LARGEST:
            found.append(min(sizes[-1] * factors[1], LARGEST))
        return found

    def _is_better(self, edge: int, neighbour: int) -> bool:
        """Whether the edge of the grid does better than the size next to it; ties are no reason to go on."""
        if len(self.step_sizes) == 1:
            return True
        edge_mean, other = self.all_scores[edge].mean(), self.all_scores[neighbour].mean()
        return bool(edge_mean > other or (np.isneginf(edge_mean) and edge == 0))


@dataclass(frozen=True)
class Comparison:
    """Results.

    Attributes:
      settings: with the number of seeds filled in.
      outcomes: one per arm.
      how: where the runs were executed.
    """

    settings: ComparisonSettings
    outcomes: tuple[ArmOutcome, ...]
    how: str

    @property
    def seeds(self) -> int:
        """Runs per arm and step size."""
        return self.outcomes[0].chosen.size

    @cached_property
    def overall(self) -> Standings:
        """All arms."""
        return Standings.of("all arms", self.outcomes)

    @cached_property
    def groups(self) -> list[Standings]:
        """The λ sources within each bootstrap."""
        return [
            Standings.of(BOOTSTRAPS[name], [one for one in self.outcomes if one.arm.bootstrap == name])
            for name in dict.fromkeys(one.arm.bootstrap for one in self.outcomes)
        ]

    @property
    def at_edge(self) -> list[ArmOutcome]:
        """Arms whose best step size may lie beyond the grid."""
        return [one for one in self.outcomes if one.beyond(self.settings.step_sizes)]


@dataclass(frozen=True)
class Standing:
    """An arm in a ranking: mean return with its 95 % bootstrap interval, and how far it is behind the best."""

    outcome: ArmOutcome
    mean: float
    low: float
    high: float
    place: int
    """Among the rows of the family."""


@dataclass(frozen=True)
class Standings:
    """A ranking, best first. Arms that diverged are not ranked."""

    title: str
    rows: list[Standing]
    diverged: list[ArmOutcome]
    family: PairedFamily

    @classmethod
    def of(cls, title: str, outcomes: Any) -> Standings:
        """Rank some arms."""
        there = [one for one in outcomes if not one.diverged]
        rows = []
        for place, one in enumerate(there):
            mean, interval = mean_and_interval(one.scores)
            rows.append(Standing(one, float(mean), float(interval.low), float(interval.high), place))
        seeds = len(outcomes[0].scores)
        family = PairedFamily.of(np.array([one.scores for one in there]).reshape(len(there), seeds))
        rows.sort(key=lambda row: -row.mean)
        return cls(title, rows, [one for one in outcomes if one.diverged], family)

    def tied(self, row: Standing) -> bool:
        """Whether it cannot be told apart from the best."""
        return not self.family.gap(row.place).shown

    @property
    def tied_rows(self) -> list[Standing]:
        """The best, and all that cannot be told apart from it."""
        return [row for row in self.rows if self.tied(row)]


def compare(settings: ComparisonSettings, say: Any = print) -> Comparison:
    """Run every arm with every step size and seed; extend the grid of an arm whose best step size is at its edge.

    Args:
      say: called with a sentence about what is being done.
    """
    check_whole("extend", settings.extend, 0)
    arms, grid = arms_of(settings), tuple(sorted(dict.fromkeys(map(float, settings.step_sizes))))
    if not grid:
        raise ValueError("step_sizes must be one number at least, got none")
    runs = runs_for(settings)
    seeds = runs.seeds if settings.seeds is None else check_whole("seeds", settings.seeds, 1)
    settings = replace(settings, seeds=seeds, step_sizes=grid)
    jobs = [ArmRuns(arm, grid) for arm in arms]
    first = runs.check(jobs)
    say(
        f"{len(arms)} arms × {len(grid)} step sizes × {seeds} seeds, {settings.episodes:,} episodes each; "
        f"{runs.describe()}{f'. {first}' if first else ''}"
    )
    found: dict[LearnerArm, dict[float, Curves]] = {arm: {} for arm in arms}
    outcomes: tuple[ArmOutcome, ...] = ()
    for round_ in range(settings.extend + 1):
        _run(runs, jobs, seeds, found)
        outcomes = tuple(ArmOutcome(arm, found[arm], settings.weights) for arm in arms)
        jobs = [ArmRuns(one.arm, tuple(more)) for one in outcomes if (more := one.beyond(grid))]
        if not jobs:
            break
        if round_ < settings.extend:
            sizes = sorted({size for job in jobs for size in job.step_sizes})
            say(
                f"the best step size of {len(jobs)} arms is at the edge of the grid: trying "
                f"{', '.join(f'{size:.4g}' for size in sizes)} for them, too"
            )
    return Comparison(settings, outcomes, runs.describe())


def _run(
    runs: CompiledRuns | GymnasiumRuns, jobs: list[ArmRuns], seeds: int, found: dict[LearnerArm, dict[float, Curves]]
) -> None:
    for job, curves in zip(jobs, runs.run(jobs, seeds), strict=True):
        found[job.arm].update(curves)
