"""`compare`: every arm with every step size and seed through the lab's plan, engine and store, and what comes of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td._checks import check_whole
from chunked_td._durations import duration_text
from chunked_td.lab.comparison.arms import (
    LARGEST,
    PLANS,
    RANDOM,
    VALUES,
    ComparisonSettings,
    arms_of,
    make_arm,
    protocol_of,
)
from chunked_td.lab.comparison.facts import Facts, facts_of
from chunked_td.lab.comparison.ranking import ERROR, LOOKS, PairedFamily, chosen_sizes, own_interval
from chunked_td.lab.comparison.running import ComparisonProblem, check_agents, no_workers_left
from chunked_td.lab.errors import DONE, DirectoryError, LabError
from chunked_td.lab.results.runs import RunArrays, runs_of
from chunked_td.lab.running.plan import SweepOptions, make_plan, record_request
from chunked_td.lab.running.reproduce import RunOptions, run_planned
from chunked_td.lab.store.batch_store import Store
from chunked_td.lab.store.directory import RunDirectory
from chunked_td.lab.store.manifest import Manifest
from chunked_td.lab.store.settings import family_of
from chunked_td.lab.study import Arm, Protocol
from chunked_td.statistics import Estimate

LEARNING = 2e-5
"""Seconds that a learner takes for a step, about; for estimates."""


@dataclass(frozen=True)
class ArmOutcome:
    """What an arm did.

    Attributes:
      runs: by step size, smallest first, seed and checkpoint. Columns: "score", mean return of all episodes so far, −∞
        for runs that diverged; "mean_return" and "mean_lambda" since the last checkpoint; "diverged", 0 or 1.
    """

    arm: Arm
    runs: RunArrays

    @cached_property
    def step_sizes(self) -> tuple[float, ...]:
        """In order."""
        return tuple(self.runs.step_sizes.tolist())

    @cached_property
    def all_scores(self) -> np.ndarray:
        """float64[step sizes, seeds]: mean return over all episodes; −∞ for runs that diverged."""
        return self.runs.at()

    @cached_property
    def lost(self) -> np.ndarray:
        """bool[step sizes, seeds]: which runs diverged."""
        return self.runs.at(column="diverged") > 0

    @cached_property
    def chosen(self) -> np.ndarray:
        """int64[seeds]: the place among `step_sizes` for every seed, chosen on the other half of the seeds."""
        return chosen_sizes(self.all_scores)

    def column(self, name: str) -> np.ndarray:
        """float64[step sizes, seeds, checkpoints]; NaN where nothing was recorded."""
        columns = self.runs.columns
        return columns[name] if name in columns else np.full_like(columns["score"], np.nan)

    def at_chosen(self, name: str) -> np.ndarray:
        """The same at the chosen step sizes, float64[seeds, checkpoints]."""
        return self.column(name)[self.chosen, np.arange(self.chosen.size)]

    @cached_property
    def scores(self) -> np.ndarray:
        """float64[seeds] at the chosen step sizes."""
        return self.all_scores[self.chosen, np.arange(self.chosen.size)]

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

    @property
    def at_edge(self) -> tuple[bool, bool]:
        """Whether a half of the seeds prefers the smallest or the largest step size tried, and it is better."""
        indices = np.unique(self.chosen)
        low = 0 in indices and self._is_better(0, 1)
        high = len(self.step_sizes) - 1 in indices and self._is_better(-1, -2) and self.step_sizes[-1] < LARGEST
        return low, high

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
      random: a policy that acts at random, for reference.
      looks: how often the arms are judged, at most, as seeds are added.
      facts: what the problem is like; None where its states cannot be counted.
    """

    settings: ComparisonSettings
    outcomes: tuple[ArmOutcome, ...]
    how: str
    random: ArmOutcome | None = None
    looks: int = 1
    facts: Facts | None = None

    @property
    def seeds(self) -> int:
        """Runs per arm and step size."""
        return self.outcomes[0].chosen.size

    @cached_property
    def rows(self) -> list[Standing]:
        """The ranking, best first. Arms that diverged are not in it."""
        return sorted((self._standing(k) for k in range(self.family.ranked)), key=lambda row: -row.score.value)

    @property
    def reference(self) -> Standing | None:
        """The random policy, as the rows of the ranking."""
        return self._standing(self.family.ranked) if self.family.ranked < len(self.family.scores) else None

    def _standing(self, place: int) -> Standing:
        scores = self.family.scores
        score = own_interval(scores[place], float(scores.min()), float(scores.max()))
        outcome = self._ranked[place] if place < len(self._ranked) else self.random
        assert outcome is not None
        return Standing(outcome, score, place)

    @cached_property
    def _ranked(self) -> list[ArmOutcome]:
        return [one for one in self.outcomes if not one.diverged]

    @property
    def diverged(self) -> list[ArmOutcome]:
        """Arms that are not ranked."""
        return [one for one in self.outcomes if one.diverged]

    @cached_property
    def family(self) -> PairedFamily:
        """All arms, judged together; the random policy last."""
        rows = [one.scores for one in self._ranked] + ([self.random.scores] if self.random is not None else [])
        scores = np.array(rows).reshape(len(rows), self.seeds)
        return PairedFamily.of(scores, len(self._ranked), ERROR / self.looks)

    def tied(self, row: Standing, other: Standing | None = None) -> bool:
        """Whether it cannot be told apart from another, by default the best."""
        return not self.family.gap(row.place, None if other is None else other.place).shown

    @property
    def at_edge(self) -> list[ArmOutcome]:
        """Arms whose best step size may lie beyond the grid."""
        return [one for one in self.outcomes if any(one.at_edge)]


@dataclass(frozen=True)
class Standing:
    """An arm in a ranking, with its mean score. Args: place: among the rows of the family."""

    outcome: ArmOutcome
    score: Estimate
    place: int

    @property
    def arm(self) -> Arm:
        """The arm."""
        return self.outcome.arm

    @property
    def plans(self) -> bool:
        """Whether the arm makes more updates than its steps."""
        return self.arm.group in PLANS

    @property
    def text(self) -> str:
        """Mean and interval."""
        return self.score.span()


def compare(
    settings: ComparisonSettings,
    out: str | Path | None = None,
    *,
    minutes: float = 5.0,
    overwrite: bool = False,
    how: RunOptions | None = None,
    say: Callable[[str], Any] = print,
) -> Comparison:
    """Run every arm with every step size and seed; extend the grid of an arm whose best step size is at its edge.

    Args:
      out: run directory. Runs that it has are not repeated, so the same call goes on where one was interrupted. None
        keeps nothing.
      minutes: without `settings.seeds`, seeds are added until the answer is clear or this time is used.
      overwrite: remove a comparison with other settings from `out`; it is refused otherwise.
      how: how batches run. say: called with a sentence about what is being done.
    """
    check_whole("extend", settings.extend, 0)
    looks = LOOKS if settings.seeds is None else (check_whole("seeds", settings.seeds, 1),)
    if not settings.step_sizes:
        raise ValueError("step_sizes must be one number at least, got none")
    if not minutes > 0:
        raise ValueError(f"minutes must be positive, got {minutes!r}")
    arms, begun = arms_of(settings), time.monotonic()
    problem = ComparisonProblem.of(settings)
    if settings.question == VALUES:
        _ = problem.exact  # what cannot be known is refused before anything runs
    sweep = _Sweep(settings, arms, problem, how or RunOptions(), say)
    first = sweep.protocol(looks[0])
    check_agents(problem, first.arms, settings.ladder[0])  # before the folder is made: what is refused leaves nothing
    with _open(out) as directory:
        sweep.store = store = Store(directory)
        store.report_findings()
        _keep_apart(store, first, overwrite)
        sizes = len(settings.ladder[1])
        say(
            f"{len(arms)} learners × {sizes} step sizes × {looks[0]} seeds, {settings.episodes:,} episodes each; "
            f"{problem.describe(_plain(arms))}"
        )
        if not directory.protocol_ids and (needed := sweep.seconds(looks[0])) > 60 * minutes:
            say(
                f"this takes about {duration_text(needed)}; fewer --episodes, --bootstraps or --sources shorten it "
                f"(--minutes is for seeds beyond the first {looks[0]}; what is finished is kept)"
            )
        with no_workers_left():
            found = sweep.judged(looks[0], len(looks))
            for seeds in looks[1:]:
                used = (time.monotonic() - begun) / 60
                if found.family.clear or used * seeds / found.seeds > minutes:
                    break
                say(f"not clear with {found.seeds} seeds: going on to {seeds}")
                found = sweep.judged(seeds, len(looks))
    return found


def _plain(arms: Sequence[Arm]) -> list[str]:
    return [arm.label for arm in arms if not arm.lambda_source.is_compiled]


@contextlib.contextmanager
def _open(out: str | Path | None) -> Iterator[RunDirectory]:
    with contextlib.ExitStack() as stack:
        path = stack.enter_context(tempfile.TemporaryDirectory()) if out is None else out
        yield stack.enter_context(RunDirectory.for_writing(path))


def _keep_apart(store: Store, protocol: Protocol, overwrite: bool) -> None:
    """Refuse a folder that holds something else: other experiments, or a comparison with other settings."""
    directory = store.directory
    others = [name for name in directory.protocol_ids if name != protocol.id]
    if others:
        raise DirectoryError(f"{directory.path} holds runs of {', '.join(others)}; choose another --out")
    if protocol.id not in directory.protocol_ids:
        return
    new = {arm.id: family_of(protocol, arm) | {"episodes": protocol.episodes} for arm in protocol.arms}
    differ: set[str] = set()
    for old in store.settings(protocol.id):
        values = {**old.family, "episodes": old.episodes}
        differ |= {key for key, value in new.get(old.arm, values).items() if values.get(key) != value}
    if differ and not overwrite:
        raise DirectoryError(
            f"{directory.path} holds a comparison with other settings ({', '.join(sorted(differ))}); choose another "
            "--out, or add --overwrite to remove it"
        )
    if overwrite:
        shutil.rmtree(store.folder / protocol.id, ignore_errors=True)
        for name in ("manifest.json", "digests.sha256"):
            (directory.path / name).unlink(missing_ok=True)
        directory.manifest = Manifest()
        store.__init__(directory)


@dataclass
class _Sweep:
    """A comparison that is being run."""

    settings: ComparisonSettings
    arms: Sequence[Arm]
    problem: ComparisonProblem
    how: RunOptions
    say: Callable[[str], Any]
    store: Store = field(init=False)

    def __post_init__(self):
        self.indices = {arm.id: set(self.settings.ladder[1]) for arm in self.arms}
        self.random = make_arm(self.arms[0].learner, RANDOM, settings=self.settings)

    @cached_property
    def facts(self) -> Facts | None:
        """What the problem is like; played once."""
        return facts_of(self.settings)

    def seconds(self, seeds: int) -> float:
        """About how long so many seeds take, by the pace and length of random episodes; 0 where runs are compiled."""
        if self.problem.dynamics is not None or self.facts is None:
            return 0.0
        runs = len(self.arms) * len(self.settings.ladder[1]) * seeds
        steps = runs * self.settings.episodes * self.facts.length
        return steps * (self.facts.seconds + LEARNING) / (os.cpu_count() or 1)

    def protocol(self, seeds: int) -> Protocol:
        """The protocol with the step sizes that are asked for so far."""
        indices = {**self.indices, self.random.id: self.settings.ladder[1][:1]}
        arms = [replace(arm, exponents=tuple(-k for k in sorted(indices[arm.id]))) for arm in (*self.arms, self.random)]
        return protocol_of(self.settings, arms, seeds)

    def judged(self, seeds: int, looks: int) -> Comparison:
        """Every arm with so many seeds."""
        while True:
            outcomes = self._outcomes(seeds)
            wider = self._widened([one for one in outcomes if one.arm.group != RANDOM])
            if not wider:
                break
            sizes = sorted({self.settings.ladder[0][place] for place in wider})
            self.say(
                "the best step size of some arms is at the edge of the grid: trying "
                f"{', '.join(f'{size:.4g}' for size in sizes)} for them, too"
            )
        settings = replace(self.settings, seeds=seeds, step_sizes=tuple(sorted(map(float, self.settings.step_sizes))))
        random = None if settings.question == VALUES else outcomes[-1]
        how = self.problem.describe(_plain(self.arms))
        return Comparison(settings, tuple(outcomes[:-1]), how, random, looks, self.facts)

    def _widened(self, outcomes: Sequence[ArmOutcome]) -> set[int]:
        """Ask for step sizes beyond the edge of the grid, where an arm prefers it; returns the new ones."""
        found: set[int] = set()
        for one in outcomes:
            indices, (low, high) = self.indices[one.arm.id], one.at_edge
            more = ({min(indices) - 1} if low else set()) | ({max(indices) + 1} if high else set())
            more &= set(range(len(self.settings.ladder[0])))
            indices |= more
            found |= more
        return found

    def _outcomes(self, seeds: int) -> list[ArmOutcome]:
        """Run what is missing and read all of it."""
        protocol, options = self.protocol(seeds), SweepOptions("paper")
        plan = make_plan([protocol], options, self.store)
        record_request(self.store.directory, plan)
        if plan.batches and run_planned(plan, self.store, self.how) != DONE:
            raise LabError("some arms failed; what is finished is kept, the same command runs the others again")
        return [self._outcome(arm, seeds) for arm in (*self.arms, self.random)]

    def _outcome(self, arm: Arm, seeds: int) -> ArmOutcome:
        import polars as pl

        wanted = self.store.directory.request("compare").arms[arm.id]
        return ArmOutcome(arm, runs_of(self.store.frame([wanted]).filter(pl.col("seed") < seeds)))
