"""Stored runs as one table, and the longest corridors that arms solve."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.lab.results.runs import stored_arms
from chunked_td.lab.store.tables import load_table
from chunked_td.lab.studies.memory_marks.protocol import ARMS, BUDGETS, JUDGED, TUNING, protocols

if TYPE_CHECKING:
    import polars as pl

    from chunked_td.lab.store.batch_store import Store

SOLVED, SHARE = 0.95, 0.9
"""The mean return from which a run has solved its maze; the share of seeds from which a length counts."""


def COLLECT(store: Store) -> pl.DataFrame:
    """One row per run: the mean return of its last episodes."""
    import polars as pl

    frames = []
    for protocol, arm, runs in stored_arms(store, protocols):
        about = protocol.environment.arguments
        last = runs.columns["mean_return"][:, :, -1]
        named = {"maze": "active" if about["active"] else "passive", "corridor": about["corridor"]}
        named |= {"memory": about["slots"] > 0, "arm": arm, "episodes": int(runs.episodes[-1])}
        columns = {name: np.full(last.size, value) for name, value in named.items()}
        columns["step_size"] = np.repeat(runs.step_sizes, len(runs.seeds))
        columns["seed"] = np.tile(runs.seeds, len(runs.step_sizes))
        frames.append(pl.DataFrame({**columns, "mean_return": last.reshape(-1)}))
    return pl.concat(frames).sort("memory", "maze", "corridor", "arm", "step_size", "seed")


def LOAD(folder: Path) -> MemoryMarks:
    """The results in a folder with runs.parquet."""
    return MemoryMarks(load_table(folder / "runs.parquet"))


@dataclass(frozen=True)
class MemoryMarks:
    """Results of the study. Args: frame: runs.parquet."""

    frame: Any

    @cached_property
    def full(self) -> bool:
        """Whether every published length of both mazes has its full budget and enough judged seeds."""
        here = self._mean_returns(True)
        return all(
            (maze, L, arm.id) in here and here[maze, L, arm.id][1].shape[1] == JUDGED
            for maze, lengths in BUDGETS.items()
            for L in lengths
            for arm in ARMS
        )

    def shares(self, maze: str, arm: str, memory: bool = True) -> dict[int, float]:
        """{L: share of judged seeds that solved it}, at the step size that the other seeds chose."""
        here = {L: found for (m, L, a), found in self._mean_returns(memory).items() if (m, a) == (maze, arm)}
        if not here:
            return {}
        k = int(np.argmax(np.mean([(t >= SOLVED).mean(1) + 1e-6 * t.mean(1) for t, _ in here.values()], 0)))
        return {L: float((judged[k] >= SOLVED).mean()) for L, (_, judged) in sorted(here.items())}

    def reach(self, maze: str, arm: str) -> int:
        """The greatest L up to which enough seeds solve the maze at every length; 0 for none."""
        longest = 0
        for length, share in self.shares(maze, arm).items():
            if share < SHARE:
                break
            longest = length
        return longest

    def _mean_returns(self, memory: bool) -> dict[tuple[str, int, str], tuple[np.ndarray, np.ndarray]]:
        """{(maze, L, arm): mean returns of the seeds that tune and of those judged, each [step sizes, seeds]}."""
        import polars as pl

        found = {}
        rows = self.frame.filter(pl.col("memory") == memory)
        for (maze, length, arm), some in rows.group_by("maze", "corridor", "arm", maintain_order=True):
            each = [part["mean_return"].to_numpy() for _, part in some.group_by("step_size", maintain_order=True)]
            means = np.nan_to_num(np.array(each), nan=-1.0)  # a run that diverged
            some_judged = means.shape[1] > TUNING
            tuning, judged = (means[:, :TUNING], means[:, TUNING:]) if some_judged else (means, means)
            found[str(maze), int(length), str(arm)] = (tuning, judged)
        return found
