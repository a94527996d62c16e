"""Stored runs of the study as one table, and what pairs of arms come to."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chunked_td.lab.statistics import (
    Estimate,
    bootstrap_interquartile_means,
    estimate_from,
    interquartile_estimate,
    interquartile_mean,
)
from chunked_td.lab.store.tables import load_table
from chunked_td.lab.studies.deep.criteria import FIXED, compared, moonshot
from chunked_td.lab.studies.deep.results import DeepResults, collect_runs, task_estimates
from chunked_td.lab.studies.luck.protocol import ADDED, PLAIN, luck_protocols
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_SHOWN

if TYPE_CHECKING:
    import polars as pl

    from chunked_td.lab.store.batch_store import Store


class Pair(NamedTuple):
    """An arm beside the same λ without luck or maturity: means over tasks, and on how many it is better or worse."""

    status: str
    ours: Estimate
    theirs: Estimate
    better: int
    worse: int

    @property
    def text(self) -> str:
        """The means, and on how many tasks they differ."""
        return f"{self.ours.value:.3f} against {self.theirs.value:.3f} (tasks {self.better} ▲ {self.worse} ▼)"

    @property
    def visible(self) -> float:
        """The difference that intervals of this width would show."""
        return self.ours.half_width + self.theirs.half_width


def COLLECT(store: Store) -> pl.DataFrame:
    """One row per run."""
    return collect_runs(store, luck_protocols)


def LOAD(folder: Path) -> LuckResults:
    """The results in a folder with runs.parquet."""
    return LuckResults(load_table(folder / "runs.parquet"))


class LuckResults(DeepResults):
    """Results of the study of maturity and luck."""

    needed = frozenset({*map(str, FIXED), *PLAIN, *ADDED})

    @cached_property
    def pairs(self) -> dict[str, dict[str, Pair]]:
        """agent → arm → pair."""
        return {agent: {arm: judge_pair(tasks, arm) for arm in ADDED} for agent, tasks in self.scores.items()}

    @cached_property
    def verdicts(self) -> dict[str, Any]:
        """Scores, pairs and moonshot of every agent."""
        return {
            agent: {
                "tasks": task_estimates(tasks),
                "pairs": {arm: pair._asdict() for arm, pair in self.pairs[agent].items()},
                "moonshot": moonshot(tasks, ADDED),
            }
            for agent, tasks in self.scores.items()
        }


def judge_pair(tasks: dict[str, dict[str, np.ndarray]], arm: str, plain: str = "") -> Pair:
    """The rule for a pair. Args: tasks: task → arm → scores. plain: the other arm; by default the λ without more."""
    plain = plain or arm.partition("-")[0]
    ours, theirs = _mean(tasks, arm), _mean(tasks, plain)
    said = [compared(*(interquartile_estimate(runs[name]) for name in (arm, plain))) for runs in tasks.values()]
    better, worse = said.count("better"), said.count("worse")
    status = NOT_SHOWN
    if theirs.above(ours):
        status = FAILS
    elif not worse and (better or ours.above(theirs)):
        status = HOLDS if ours.above(theirs) else IN_PART
    return Pair(status, ours, theirs, better, worse)


def _mean(tasks: dict[str, dict[str, np.ndarray]], arm: str) -> Estimate:
    """An arm's mean over tasks; seeds are resampled within tasks."""
    value = np.mean([interquartile_mean(runs[arm]) for runs in tasks.values()])
    return estimate_from(float(value), np.mean([bootstrap_interquartile_means(r[arm]) for r in tasks.values()], 0))
