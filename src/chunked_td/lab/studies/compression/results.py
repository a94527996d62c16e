"""Stored runs of the study as one table, and the longest sequences that networks solve."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.lab.results.runs import stored_arms
from chunked_td.lab.store.tables import load_table
from chunked_td.lab.studies.compression.criteria import Table, solved_at
from chunked_td.lab.studies.compression.protocol import compression_protocols

if TYPE_CHECKING:
    import polars as pl

    from chunked_td.lab.store.batch_store import Store


def COLLECT(store: Store) -> pl.DataFrame:
    """One row per run: when it was solved, and what the last check found."""
    import polars as pl

    frames = []
    for protocol, arm, runs in stored_arms(store, compression_protocols):
        about, task, runner = protocol.arm(arm), protocol.environment.arguments, protocol.batch_runner
        checks = {name: x.reshape(-1, x.shape[-1]) for name, x in runs.columns.items()}
        named = {"arm": about.learner, "cell": about.lambda_source, "variant": about.options.get("variant", "")}
        named |= {"task": task["name"], "n": task["n"], "parameters": int(checks["parameters"][0, 0])}
        columns = {name: np.full(len(checks["score"]), value) for name, value in named.items()}
        columns["learning_rate"] = np.repeat(runs.step_sizes, len(runs.seeds))
        columns["seed"] = np.tile(runs.seeds, len(runs.exponents))
        per_check, done = runner.check_every * runner.batch, int(np.sum(~np.isnan(checks["score"][0])))  # type: ignore[union-attr]
        for prefix, q in (("", checks["score"]), ("lowest_", checks["q_lowest"])):
            at = solved_at(q)
            columns[f"{prefix}solved"] = at >= 0
            columns[f"{prefix}sequences"] = np.where(at >= 0, (at + 1) * per_check, -1)
        last = {"q": "score", "q_lowest": "q_lowest", "bits": "bits", "received": "received"}
        columns |= {name: checks[column][:, done - 1] for name, column in last.items()}
        frames.append(pl.DataFrame({**columns, "seen": np.full(len(checks["score"]), done * per_check)}))
    return pl.concat(frames)


def LOAD(folder: Path) -> CompressionResults:
    """The results in a folder with comparison.parquet; older ones have the variants in a file of their own."""
    import polars as pl

    frame = load_table(folder / "comparison.parquet")
    if "variant" in frame.columns:
        frame = frame.filter(pl.col("variant") == "")
    costs = folder / "costs.parquet"
    return CompressionResults(frame, load_table(costs) if costs.is_file() else None)


@dataclass(frozen=True)
class CompressionResults:
    """Results of the study. Args: frame: comparison.parquet without the variants. costs: costs.parquet, or None."""

    frame: Any
    costs: Any = None

    @property
    def table(self) -> Table:
        """The columns as arrays, for `criteria`."""
        return {column.name: column.to_numpy() for column in self.frame}
