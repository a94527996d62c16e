"""Results of stored runs: for every agent, the judged runs at the step sizes that its tuning seeds chose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from chunked_td.statistics import Estimate, interquartile_estimate, interquartile_mean
from studies.networks.criteria import GATE, TWIN, Moonshot, Scores, moonshot

TASKS = (
    "umbrella",
    "umbrella-distractors",
    "catch",
    "catch-wind",
    "memory",
    "charge",
    "charge-mirrored",
    "cart-pole",
)
"""Tasks of ours."""
OTHERS = ("gymnax-umbrella", "gymnax-umbrella-distractors", "gymnax-catch", "gymnax-cart-pole", "xland-door-key")
"""Tasks written by others."""
SEEDS = 20
"""Seeds that are judged; ten others choose the step size."""
LEARNED = ("value-kernel", "value-kernel-1", "expected", "realised", "lambda-greedy", "meta-gradient")
"""Learned sources, in the order of the tables."""
TRUE = (*GATE, "true-kernel-1", "true-per-action", "true-realised")
"""Arms with λ from the true model."""


@dataclass(frozen=True)
class AgentResults:
    """One agent. Args: runs: task → arm → column → judged runs."""

    runs: dict[Any, dict[str, dict[str, np.ndarray]]]

    @cached_property
    def scores(self) -> Scores:
        """Task → arm → scores."""
        return {task: {arm: each["score"] for arm, each in arms.items()} for task, arms in self.runs.items()}

    @cached_property
    def estimates(self) -> dict[Any, dict[str, Estimate]]:
        """Task → arm → interquartile mean with its interval."""
        return {t: {arm: interquartile_estimate(x) for arm, x in arms.items()} for t, arms in self.scores.items()}

    @cached_property
    def moonshots(self) -> dict[str, Moonshot]:
        """The moonshot of the learned sources over all tasks, without the twin, over others' tasks and over ours."""
        sources = [source for source in LEARNED if any(source in arms for arms in self.runs.values())]
        whole = [task for task, arms in self.runs.items() if set(sources) <= arms.keys()]
        without = tuple(task for task in whole if task != TWIN)
        sets = {"all": tuple(whole), "without the twin": without, "others": OTHERS, "ours": TASKS}
        parts = {name: {task: self.scores[task] for task in whole if task in some} for name, some in sets.items()}
        return {name: moonshot(part, sources) for name, part in parts.items() if part or name == "all"}


def agents_of(frame: pl.DataFrame, needed: set[str]) -> dict[str, AgentResults]:
    """Every agent of a part. Tasks without a required arm are omitted."""
    found: dict[str, Any] = {}
    for (agent, task, arm), rows in frame.group_by("agent", "task", "arm", maintain_order=True):
        found.setdefault(agent, {}).setdefault(task, {})[arm] = judged_runs(rows, ("score", "final", "step_size"))
    every = (*TASKS, *OTHERS)
    whole = {a: {t: tasks[t] for t in every if needed <= tasks.get(t, {}).keys()} for a, tasks in found.items()}
    return {agent: AgentResults(tasks) for agent, tasks in whole.items() if tasks}


def judged_runs(rows: pl.DataFrame, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Columns of the judged runs of an arm at the step size with the greatest score over its tuning seeds.

    Scores are rounded, so that the last bits of a sum, which differ between processors, break no tie.
    """
    step_size, judged, score = (rows[name].to_numpy() for name in ("step_size", "judged", "score"))
    best = max(
        np.unique(step_size), key=lambda s: round(float(interquartile_mean(score[~judged & (step_size == s)])), 12)
    )
    return {name: rows[name].to_numpy()[judged & (step_size == best)] for name in names}
