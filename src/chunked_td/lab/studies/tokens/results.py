"""The gate's table, and verdicts on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from chunked_td.lab.comparison.ranking import chosen_sizes
from chunked_td.lab.statistics import Estimate, mean_and_interval
from chunked_td.lab.store.tables import load_table
from chunked_td.lab.studies.tokens.protocol import AGES, FIXED, TASKS
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, NOT_SHOWN, Verdict

if TYPE_CHECKING:
    import polars as pl

    from chunked_td.lab.store.batch_store import Store


@dataclass(frozen=True)
class Gate:
    """Scores by task: {task: {arm: float64[seeds]}}, mean over ages; `permuted` the same with permuted λs."""

    scores: dict[str, dict[str, np.ndarray]]
    permuted: dict[str, dict[str, np.ndarray]]

    def best_fixed(self, task: str) -> np.ndarray:
        """Score of the best fixed λ, float64[seeds], chosen for each seed on the half that it is not in."""
        fixed = np.stack([self.scores[task][arm] for arm in FIXED])
        return fixed[chosen_sizes(fixed), np.arange(fixed.shape[1])]

    def gain(self, task: str, arm: str) -> Estimate:
        """An arm's score minus that of the best fixed λ."""
        return _mean(self.scores[task][arm] - self.best_fixed(task))

    def order(self, task: str, arm: str) -> Estimate:
        """An arm's score minus that of its own λs permuted."""
        return _mean(self.scores[task][arm] - self.permuted[task][arm])

    def judge(self, task: str, arm: str) -> str:
        """The verdict on an arm and task, by the rule that was written before the data."""
        above = (self.gain(task, arm).low > 0, self.order(task, arm).low > 0)
        if self.gain(task, arm).high < 0:
            return FAILS
        return HOLDS if all(above) else IN_PART if any(above) else NOT_SHOWN


def _mean(values: np.ndarray) -> Estimate:
    return Estimate(*map(float, mean_and_interval(values)))


def COLLECT(store: Store) -> pl.DataFrame:
    """One row per task, arm, seed and age of the critic."""
    import polars as pl

    there = {name.removeprefix("tokens-"): name for name in store.directory.protocol_ids}
    return pl.concat(
        [store.table(there[task]).select(pl.lit(task).alias("task"), pl.all()) for task in TASKS if task in there]
    )


def LOAD(folder: Path) -> Gate | Verdict:
    """The scores of a folder; a verdict where the runs are too small to judge."""
    import polars as pl

    table = load_table(folder / "runs.parquet")
    if set(table["episode"].unique().to_list()) != set(AGES):
        return Verdict(NOT_RUN, "runs are of a tiny size")
    found: list[dict] = []
    for column in ("score", "permuted"):
        means = table.group_by("task", "arm", "seed").agg(pl.col(column).mean()).sort("task", "arm", "seed")
        by_task: dict[str, dict[str, np.ndarray]] = {}
        for (task, arm), rows in means.group_by("task", "arm", maintain_order=True):
            by_task.setdefault(str(task), {})[str(arm)] = rows[column].to_numpy()
        found.append(by_task)
    return Gate(*found)
