"""Rules for advantages and trained policies; they were written before the data (`registered.md`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from chunked_td.statistics import Estimate, mean_and_interval
from studies.runner.criteria import FAILS, HOLDS, IN_PART, NOT_SHOWN
from studies.tokens.arms import CRITICS, FIXED, TASKS, TRAINED

ByTask = dict[str, dict[str, np.ndarray]]
"""Scores, {task: {arm: float64[step sizes, seeds]}}."""


@dataclass(frozen=True)
class Judged:
    """Scores judged by one rule: the screening test, or training with one critic.

    Args:
      scores: of all arms. permuted: of arms with a control, with their λs permuted.
    """

    scores: ByTask
    permuted: ByTask

    def best_fixed(self, task: str) -> np.ndarray:
        """Score of the best fixed λ, float64[seeds], chosen with its step size on the half that a seed is not in."""
        return chosen(self.fixed(task))

    def fixed(self, task: str) -> np.ndarray:
        """Scores of all fixed λ with all their step sizes, float64[candidates, seeds]."""
        return np.concatenate([self.scores[task][arm] for arm in FIXED])

    def mean(self, task: str, arm: str) -> Estimate:
        """An arm's score."""
        return mean_of(chosen(self.scores[task][arm]))

    def gain(self, task: str, arm: str) -> Estimate:
        """An arm's score minus that of the best fixed λ."""
        return mean_of(chosen(self.scores[task][arm]) - self.best_fixed(task))

    def order(self, task: str, arm: str) -> Estimate | None:
        """An arm's score minus that of its own λs permuted; None without such a control."""
        control = self.permuted.get(task, {}).get(arm)
        return None if control is None else mean_of(chosen(self.scores[task][arm]) - chosen(control))

    def judge(self, task: str, arm: str) -> str:
        """The verdict on an arm and task, by the rule that was written before the data."""
        gain, order = self.gain(task, arm), self.order(task, arm)
        above = (gain.low > 0, order is not None and order.low > 0)
        if gain.high < 0:
            return FAILS
        return HOLDS if all(above) else IN_PART if any(above) else NOT_SHOWN


def chosen(candidates: np.ndarray) -> np.ndarray:
    """Scores float64[seeds] of the candidate that is best on the other half (even or odd) of the seeds.

    Args:
      candidates: float64[candidates, seeds]. A single seed, of a quick run, chooses for itself.
    """
    place = np.arange(candidates.shape[1])
    others = [(place % 2 != half) | (place.size == 1) for half in (0, 1)]
    best = [candidates[:, each].mean(axis=1).argmax() for each in others]
    return candidates[np.array(best)[place % 2], place]


def mean_of(values: np.ndarray) -> Estimate:
    """Mean over seeds, with its interval."""
    return Estimate(*map(float, mean_and_interval(values)))


def loaded(table: pl.DataFrame) -> dict[str, Judged]:
    """The scores of a table of runs: "gate", by critic, and "confirmed"; without a part that was not run."""
    of_gate = pl.col("task").is_in(list(TASKS))
    gate = table.filter(of_gate)
    found = {"gate": Judged(_by_task(gate, "score"), _by_task(gate, "permuted"))} if len(gate) else {}
    trained = table.filter(~of_gate)
    for critic in CRITICS:
        prefix, scores, permuted = f"{critic}-", {}, {}
        for task, arms in _by_task(trained.filter(pl.col("task").str.starts_with(prefix)), "score").items():
            task = task.removeprefix(prefix)
            permuted[task] = {arm.removesuffix("-permuted"): x for arm, x in arms.items() if arm.endswith("-permuted")}
            scores[task] = {arm: x for arm, x in arms.items() if not arm.endswith("-permuted")}
        found[critic] = Judged({task: scores[task] for task in TRAINED if task in scores}, permuted)
    again = _by_task(trained.filter(pl.col("task").str.starts_with("confirm-")), "score")
    found["confirmed"] = Judged({task.removeprefix("confirm-"): arms for task, arms in again.items()}, {})
    return found


def _by_task(table: pl.DataFrame, column: str) -> ByTask:
    """Means over checkpoints."""
    keys, found = ("task", "arm", "exponent", "seed"), {}
    means = table.group_by(keys).agg(pl.col(column).mean()).sort(keys)
    for (task, arm), rows in means.group_by("task", "arm", maintain_order=True):
        sizes = rows["exponent"].n_unique()
        found.setdefault(str(task), {})[str(arm)] = rows[column].to_numpy().reshape(sizes, -1)
    return found


def numbers(judged: Judged, arm: str) -> str:
    """Verdict and differences on every task."""
    texts = []
    for task in judged.scores:
        baselines = {"the best fixed λ": judged.gain(task, arm), "its own λs permuted": judged.order(task, arm)}
        parts = (f"minus {name} {signed(estimate)}" for name, estimate in baselines.items() if estimate)
        texts.append(f"{task}: {judged.judge(task, arm)} ({', '.join(parts)})")
    return "; ".join(texts)


def signed(estimate: Estimate) -> str:
    """Text like "+0.014 [−0.001, +0.030]"."""
    return f"{estimate.value:+.3f} [{estimate.low:+.3f}, {estimate.high:+.3f}]".replace("-", "−")
