"""Stored runs of the study as one table, and what pairs of arms come to."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chunked_td.lab.store.tables import load_table
from chunked_td.lab.studies.deep.criteria import FIXED
from chunked_td.lab.studies.deep.results import DeepResults, collect_runs, task_estimates
from chunked_td.lab.studies.fan_in.protocol import BACKWARD, FORWARD, TASKS, fan_in_protocols
from chunked_td.lab.studies.luck.results import Pair, judge_pair

if TYPE_CHECKING:
    import polars as pl

    from chunked_td.lab.store.batch_store import Store


def COLLECT(store: Store) -> pl.DataFrame:
    """One row per run."""
    return collect_runs(store, fan_in_protocols)


def LOAD(folder: Path) -> FanInResults:
    """The results in a folder with runs.parquet."""
    return FanInResults(load_table(folder / "runs.parquet"))


class FanInResults(DeepResults):
    """Results of the study of backward models."""

    needed = frozenset({*map(str, FIXED), BACKWARD, *FORWARD})
    tasks = TASKS

    @cached_property
    def pairs(self) -> dict[str, dict[str, Pair]]:
        """agent → form of the forward network → the backward network beside it."""
        return {
            agent: {rival: judge_pair(tasks, BACKWARD, rival) for rival in FORWARD}
            for agent, tasks in self.scores.items()
        }

    @cached_property
    def verdicts(self) -> dict[str, Any]:
        """Scores and pairs of every agent."""
        return {
            agent: {
                "tasks": task_estimates(tasks),
                "pairs": {rival: pair._asdict() for rival, pair in self.pairs[agent].items()},
            }
            for agent, tasks in self.scores.items()
        }
