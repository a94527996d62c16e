"""Stored runs as one table, and the longest corridors that arms solve."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chunked_td.lab.results.runs import per_run, stored_arms
from chunked_td.lab.statistics import reach
from chunked_td.lab.store.tables import load_table
from chunked_td.lab.studies.memory_marks.protocol import BUDGETS, JUDGED, NETWORKS, SEEN, protocols

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
        about, column, episodes, network = protocol.environment.arguments, "mean_return", runs.length, ""
        if "slots" not in about:  # networks; their lengths are in steps
            column, episodes = "returns", runs.length // (about["corridor"] + 1)
            network = f"{next(name for name in NETWORKS if protocol.id.endswith(name))}-"
        named = {"maze": "active" if about.get("active") else "passive", "corridor": about["corridor"]}
        named |= {"memory": about.get("slots", 1) > 0, "arm": network + arm, "episodes": episodes}
        frames.append(per_run(runs, named, mean_return=runs.columns[column][:, :, -1]))
    return pl.concat(frames).sort("memory", "maze", "corridor", "arm", "step_size", "seed")


def LOAD(folder: Path) -> MemoryMarks:
    """The results in a folder with runs.parquet."""
    return MemoryMarks(load_table(folder / "runs.parquet"))


@dataclass(frozen=True)
class MemoryMarks:
    """Results of the study. Args: frame: runs.parquet."""

    frame: Any

    def shares(self, maze: str, arm: str, memory: bool = True) -> dict[int, float]:
        """{L: share of judged seeds that solved it}, of the lengths that were run at full size."""
        import polars as pl

        rows = self.frame.filter(maze=maze, arm=arm, memory=memory).filter(pl.col("seed") >= SEEN)
        found = {}
        for (length,), some in rows.group_by("corridor", maintain_order=True):
            full = len(some) == JUDGED and some["episodes"][0] == BUDGETS[maze].get(length)
            if full:
                found[int(length)] = float((some["mean_return"].fill_nan(-1.0) >= SOLVED).mean())
        return dict(sorted(found.items()))

    def reach(self, maze: str, arm: str) -> int:
        """The greatest L up to which enough seeds solve the maze at every length; 0 for none."""
        return reach(self.shares(maze, arm), SHARE)
