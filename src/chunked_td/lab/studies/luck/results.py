"""Stored runs of the study as one table, and what pairs of arms come to."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from chunked_td.lab.statistics import (
    Estimate,
    bootstrap_interquartile_means,
    estimate_from,
    interquartile_estimate,
    interquartile_mean,
)
from chunked_td.lab.studies.deep.criteria import FIXED, compared, moonshot
from chunked_td.lab.studies.deep.results import DeepResults, collect_runs, task_estimates
from chunked_td.lab.studies.luck.protocol import ADDED, PLAIN, luck_protocols
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_SHOWN


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


class PairedResults(DeepResults):
    """Results of a study of pairs of arms."""

    beside: ClassVar[tuple[tuple[str, str, str], ...]]
    """Of each pair: its name, the arm, and the arm it is compared with."""
    added: ClassVar[tuple[str, ...]] = ()
    """Arms that are held against every fixed λ."""

    @cached_property
    def pairs(self) -> dict[str, dict[str, Pair]]:
        """agent → name → pair."""
        return {
            agent: {name: judge_pair(tasks, *arms) for name, *arms in self.beside}
            for agent, tasks in self.scores.items()
        }

    @cached_property
    def verdicts(self) -> dict[str, Any]:
        """Scores and pairs of every agent, and the moonshot of the added arms."""
        found = {}
        for agent, tasks in self.scores.items():
            pairs = {name: pair._asdict() for name, pair in self.pairs[agent].items()}
            found[agent] = {"tasks": task_estimates(tasks), "pairs": pairs}
            if self.added:
                found[agent]["moonshot"] = moonshot(tasks, self.added)
        return found


class LuckResults(PairedResults):
    """Results of the study of maturity and luck."""

    needed = frozenset({*map(str, FIXED), *PLAIN, *ADDED})
    beside = tuple((arm, arm, arm.partition("-")[0]) for arm in ADDED)
    added = ADDED


COLLECT, LOAD = partial(collect_runs, protocols=luck_protocols), LuckResults.load


def judge_pair(tasks: dict[str, dict[str, np.ndarray]], arm: str, plain: str) -> Pair:
    """The rule for a pair. Args: tasks: task → arm → scores. plain: the other arm."""
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
