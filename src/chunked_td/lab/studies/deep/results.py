"""Stored runs of the study as one table, and what they come to: chosen step sizes, scores, verdicts."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from chunked_td.lab.results.runs import RunArrays, RunTable, collector
from chunked_td.lab.studies.deep.criteria import FIXED, GATE, TWIN, USUAL, best_fixed, compared, gate, moonshot
from chunked_td.lab.studies.deep.protocol import OTHERS, SEEDS, TASKS, deep_protocols
from chunked_td.lab.study import NOT_RUN, Protocol, Verdict
from chunked_td.statistics import interquartile_estimate, interquartile_mean

SETS = {"ours": TASKS, "others": OTHERS}
"""Tasks, by who wrote them."""
LEARNED = ("value-kernel", "value-kernel-1", "expected", "realised", "lambda-greedy", "meta-gradient")
"""Learned sources, in the order of the tables."""
TRUE = (*GATE, "true-kernel-1", "true-per-action", "true-realised")
"""Arms with λ from the true model."""

Chosen = dict[str, dict[str, dict[str, dict[str, np.ndarray]]]]
"""agent → task → arm → judged runs at the chosen step size: score, final and step_size."""
Scores = dict[str, dict[str, dict[str, np.ndarray]]]
"""agent → task → arm → scores of judged runs."""


def agent_rows(protocol: Protocol, arm: str, found: RunArrays) -> Any:
    """One row per run of an agent on a task."""
    import polars as pl

    runs, curve = runs_and_curves(found)
    task = protocol.environment.arguments["name"]
    named = {"agent": protocol.arms[0].learner, "task": task, "arm": arm}
    final = {"final": curve["score"][:, -5:], "return": curve["returns"][:, -5:]}
    means = {"score": curve["score"], **final, "mean_lambda": curve["mean_lambda"]}
    columns = {name: np.nanmean(values, 1) for name, values in means.items()}
    named = {name: np.full(len(curve["score"]), value) for name, value in named.items()}
    return pl.DataFrame({**named, **runs, **columns})


def runs_and_curves(found: RunArrays) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Columns step_size, seed and judged of the runs of an arm [R], and their columns per block [R, K]."""
    curve = {name: x.astype(np.float32).reshape(-1, x.shape[-1]) for name, x in found.columns.items()}
    runs = {
        "step_size": np.repeat(found.step_sizes, len(found.seeds)).astype(np.float32),
        "seed": np.tile(found.seeds, len(found.exponents)).astype(np.int16),
        "judged": curve["judged"][:, 0] > 0,
    }
    return runs, curve


class AgentResults(RunTable):
    """What all studies of deep agents have."""

    @cached_property
    def too_small(self) -> Verdict | None:
        """The verdict on every claim where runs are of a tiny size."""
        import polars as pl

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


COLLECT, LOAD = collector(deep_protocols, agent_rows), DeepResults.load
