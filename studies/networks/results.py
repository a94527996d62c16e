"""What stored runs come to: chosen step sizes, scores and verdicts. The rules are in `criteria`, `hidden` and
`expected_errors`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl

from chunked_td.statistics import interquartile_estimate, interquartile_mean
from studies.networks.criteria import FIXED, GATE, TWIN, USUAL, best_fixed, compared, gate, moonshot
from studies.runner.criteria import NOT_RUN, Verdict

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
SETS = {"ours": TASKS, "others": OTHERS}
SEEDS = 20
"""Seeds that are judged; ten others choose the step size."""
LEARNED = ("value-kernel", "value-kernel-1", "expected", "realised", "lambda-greedy", "meta-gradient")
"""Learned sources, in the order of the tables."""
TRUE = (*GATE, "true-kernel-1", "true-per-action", "true-realised")
"""Arms with λ from the true model."""

Chosen = dict[str, dict[str, dict[str, dict[str, np.ndarray]]]]
"""agent → task → arm → judged runs at the chosen step size: score, final and step_size."""
Scores = dict[str, dict[str, dict[str, np.ndarray]]]
"""agent → task → arm → scores of judged runs."""


@dataclass(frozen=True)
class AgentResults:
    """What the three parts have in common. Args: frame: the runs of a part."""

    frame: pl.DataFrame

    @cached_property
    def too_small(self) -> Verdict | None:
        """The verdict on every claim where runs are of a tiny size."""
        seeds = self.frame.filter(pl.col("judged"))["seed"].n_unique()
        return Verdict(NOT_RUN, f"{seeds} judged seeds, the study has {SEEDS}") if seeds < SEEDS else None


class DeepResults(AgentResults):
    """Results of the study of deep learners."""

    needed: ClassVar[frozenset[str]] = frozenset({*map(str, FIXED), *GATE})
    tasks: ClassVar[tuple[str, ...]] = tuple(task for members in SETS.values() for task in members)

    @cached_property
    def chosen(self) -> Chosen:
        """The judged runs of every arm at the step size that its tuning seeds choose; tasks of ours first.

        Tasks on which an agent lacks an arm that is needed, a fixed λ or one of the gate, are left out.
        """
        found: Chosen = {}
        for (agent, task, arm), rows in self.frame.group_by("agent", "task", "arm", maintain_order=True):
            columns = chosen_columns(rows, ("score", "final", "step_size"))
            found.setdefault(agent, {}).setdefault(task, {})[arm] = columns
        whole = {
            a: {t: tasks[t] for t in self.tasks if self.needed <= tasks.get(t, {}).keys()} for a, tasks in found.items()
        }
        return {agent: tasks for agent, tasks in whole.items() if tasks}

    @cached_property
    def scores(self) -> Scores:
        """The scores among those runs."""
        return {
            agent: {task: {arm: runs["score"] for arm, runs in arms.items()} for task, arms in tasks.items()}
            for agent, tasks in self.chosen.items()
        }

    @cached_property
    def verdicts(self) -> dict[str, Any]:
        """Gate, comparisons and moonshot of every agent, by `criteria`."""
        return {agent: judge_agent(tasks) for agent, tasks in self.scores.items()}

    def missing(self, agent: str) -> Verdict | None:
        """The verdict on a claim about an agent that has no runs, or too few."""
        return self.too_small or (None if agent in self.scores else Verdict(NOT_RUN, f"no runs of {agent}"))


def chosen_columns(rows: Any, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Columns of the judged runs of an arm at the step size with the greatest score over its tuning seeds.

    Scores are rounded, so that the last bits of a sum, which differ between processors, break no tie.
    """
    step_size, judged, score = (rows[name].to_numpy() for name in ("step_size", "judged", "score"))
    best = max(
        np.unique(step_size), key=lambda s: round(float(interquartile_mean(score[~judged & (step_size == s)])), 12)
    )
    return {name: rows[name].to_numpy()[judged & (step_size == best)] for name in names}


def judge_agent(tasks: dict[str, dict[str, np.ndarray]]) -> dict[str, Any]:
    """Gate, comparisons and moonshot of one agent. Args: tasks: task → arm → scores."""
    sources = tuple(s for s in LEARNED if any(s in runs for runs in tasks.values()))
    whole = {task: runs for task, runs in tasks.items() if all(s in runs for s in sources)}
    result: dict[str, Any] = {
        "tasks": {task: judge_cell(runs, (*sources, *TRUE), GATE) for task, runs in tasks.items()},
        "moonshot": moonshot(whole, sources),
        "moonshot over": list(whole),
        "sets": {},
    }
    for name, members in {**SETS, "without the twin": tuple(task for task in tasks if task != TWIN)}.items():
        part = {task: runs for task, runs in whole.items() if task in members}
        if part:
            result["sets"][name] = {"moonshot": moonshot(part, sources), "moonshot over": list(part)}
    return result


def judge_cell(runs: dict[str, np.ndarray], sources: tuple[str, ...], true: tuple[str, ...]) -> dict[str, Any]:
    """The gate and the comparisons of an agent on a task. Args: runs: arm → scores. true: arms of the gate."""
    found = {arm: interquartile_estimate(values) for arm, values in runs.items()}
    best = best_fixed(found)
    return {
        "gate": gate(found, true),
        "best fixed": best,
        "against 0.95": {s: compared(found[s], found[str(USUAL)]) for s in sources if s in found},
        "against best fixed": {s: compared(found[s], found[best]) for s in sources if s in found},
        "scores": {arm: estimate._asdict() for arm, estimate in found.items()},
    }


def task_estimates(tasks: dict[str, dict[str, np.ndarray]]) -> dict[str, Any]:
    """task → "scores" → arm → its estimate, as JSON values."""
    return {
        task: {"scores": {arm: interquartile_estimate(values)._asdict() for arm, values in runs.items()}}
        for task, runs in tasks.items()
    }


def best_arms(means: dict[str, dict[str, float]]) -> tuple[str, str]:
    """The best source and the best fixed λ by their means over tasks, as text."""
    values = {arm: estimate["value"] for arm, estimate in means.items()}
    fixed = [str(x) for x in FIXED]
    sources = [arm for arm in values if arm not in fixed]
    source, rival = (max(arms, key=lambda arm: values[arm]) for arms in (sources, fixed))
    return f"{source} {values[source]:.3f}", f"{rival} {values[rival]:.3f}"
