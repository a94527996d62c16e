"""Stored runs as one table, and bsuite's scores of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.lab.results.runs import stored_arms
from chunked_td.lab.store.tables import load_table
from chunked_td.lab.studies.bsuite.protocol import EPISODES, SETTINGS, STUDY

if TYPE_CHECKING:
    import polars as pl

    from chunked_td.lab.store.batch_store import Store

MOST_MISTAKES = {"memory_len": 0.375, "memory_size": 0.375, "umbrella_length": 0.25}
"""A setting is solved if the share of mistaken episodes lies below this."""


def COLLECT(store: Store) -> pl.DataFrame:
    """One row per run: the share of its episodes that were mistaken."""
    import polars as pl

    frames = []
    for protocol, arm, runs in stored_arms(store, STUDY.protocols):
        about, episodes = protocol.environment.arguments, int(runs.episodes[-1])
        settings = about["settings"]
        frames.append(
            pl.DataFrame(
                {
                    "experiment": [about["name"]] * len(runs.seeds),
                    "arm": arm,
                    "episodes": episodes,
                    "setting": [settings[seed % len(settings)] for seed in runs.seeds],
                    "seed": runs.seeds,
                    "mistakes": runs.columns["score"][0, :, -1] / episodes,
                }
            )
        )
    return pl.concat(frames).sort("experiment", "arm", "seed")


def LOAD(folder: Path) -> BsuiteResults:
    """The results in a folder with runs.parquet."""
    return BsuiteResults(load_table(folder / "runs.parquet"))


@dataclass(frozen=True)
class BsuiteResults:
    """Results of the study. Args: frame: runs.parquet."""

    frame: Any

    def mistakes(self, experiment: str, arm: str) -> np.ndarray:
        """float64[repeats, settings], of repeats that are whole and at full length; 1 where a run diverged."""
        rows = self.frame.filter(experiment=experiment, arm=arm, episodes=EPISODES.get(experiment, 10_000)).sort("seed")
        n, found = len(SETTINGS[experiment]), rows["mistakes"].to_numpy()
        whole = len(found) // n if np.array_equal(rows["seed"], np.arange(len(found))) else 0
        return np.minimum(np.nan_to_num(found[: whole * n], nan=1.0), 1.0).reshape(whole, n)

    def scores(self, experiment: str, arm: str) -> np.ndarray:
        """bsuite's score of every repeat, float64[repeats]."""
        mistakes = self.mistakes(experiment, arm)
        if experiment in MOST_MISTAKES:
            return (mistakes < MOST_MISTAKES[experiment]).mean(axis=1)
        return np.clip(1.0 - mistakes.mean(axis=1), 0.0, 1.0)
