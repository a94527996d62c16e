"""Stored runs as one table, and shares of episodes with treasure at step sizes chosen on other seeds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.lab.results.runs import per_run, stored_arms
from chunked_td.lab.statistics import Estimate, mean_and_interval
from chunked_td.lab.store.tables import load_table
from chunked_td.lab.studies.linear_key_to_door.protocol import CHOOSING, EPISODES, FIXED, JUDGED, protocols

if TYPE_CHECKING:
    import polars as pl

    from chunked_td.lab.store.batch_store import Store


def COLLECT(store: Store) -> pl.DataFrame:
    """One row per run: the shares of all episodes, and of the last ones, that found the treasure."""
    import polars as pl

    frames = []
    for protocol, arm, runs in stored_arms(store, protocols):
        misses, ends = runs.columns["score"], runs.episodes
        last = 1.0 - (misses[:, :, -1] - misses[:, :, -2]) / (ends[-1] - ends[-2])
        named = {name: protocol.environment.arguments[name] for name in ("length", "sure")}
        named |= {"arm": arm, "episodes": runs.length}
        frames.append(per_run(runs, named, share=1.0 - misses[:, :, -1] / ends[-1], last=last))
    return pl.concat(frames)


def LOAD(folder: Path) -> Treasures:
    """The results in a folder with runs.parquet."""
    return Treasures(load_table(folder / "runs.parquet"))


@dataclass(frozen=True)
class Treasures:
    """Results of the study. Args: frame: runs.parquet."""

    frame: Any

    @cached_property
    def runs(self) -> dict[tuple[int, bool, str], dict[str, np.ndarray]]:
        """{(L, sure apples, arm): {"share", "last": float64[step sizes, seeds], "step_size": float64[step sizes]}}."""
        found = {}
        for key, rows in self.frame.group_by("length", "sure", "arm", maintain_order=True):
            rows = rows.sort("step_size", "seed", descending=[True, False])
            sizes = rows["step_size"].unique(maintain_order=True).to_numpy()
            found[key] = {name: rows[name].to_numpy().reshape(sizes.size, -1) for name in ("share", "last")}
            found[key]["step_size"] = sizes
        return found

    @property
    def is_whole(self) -> bool:
        """Whether the runs are those of the paper's size."""
        whole = self.frame["seed"].n_unique() == CHOOSING + JUDGED
        return bool(whole and (self.frame["episodes"] == EPISODES).all())

    @cached_property
    def choosing(self) -> int:
        """How many seeds choose; half of them where there are few."""
        return min(CHOOSING, self.frame["seed"].n_unique() // 2)

    def lengths(self, sure: bool = False) -> list[int]:
        """The lengths that were run."""
        return sorted({length for length, kind, _ in self.runs if kind == sure})

    def chosen(self, length: int, arm: str, sure: bool = False) -> int:
        """Place of the step size with the largest share on the first seeds."""
        return int(self.runs[length, sure, arm]["share"][:, : self.choosing].mean(1).argmax())

    def shares(self, length: int, arm: str, what: str = "share", sure: bool = False) -> np.ndarray:
        """float64[seeds]: what the scored seeds have at the chosen step size."""
        return self.runs[length, sure, arm][what][self.chosen(length, arm, sure), self.choosing :]

    def best_fixed(self, length: int) -> str:
        """The fixed λ with the largest share on the first seeds, with falling ε."""
        first = {arm: self.runs[length, False, arm]["share"][:, : self.choosing].mean(1).max() for arm in FIXED}
        return max(first, key=lambda arm: first[arm])

    def difference(self, length: int, arm: str, other: str) -> Estimate:
        """Paired over seeds."""
        return mean_and_interval(self.shares(length, arm) - self.shares(length, other))
