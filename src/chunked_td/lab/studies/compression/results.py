"""Stored runs of the study as one table, and the longest sequences that networks solve."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.lab.results.runs import load_protocol
from chunked_td.lab.studies.compression.criteria import Table, solved_at
from chunked_td.lab.studies.compression.protocol import compression_protocols

if TYPE_CHECKING:
    import polars as pl

    from chunked_td.lab.store.batch_store import Store


def COLLECT(store: Store) -> pl.DataFrame:
    """One row per run: when it was solved, and what the last check found."""
    import polars as pl

    stored, frames = set(store.directory.protocol_ids), []
    protocols = {p.id: p for profile in ("smoke", "paper") for p in compression_protocols(profile)}
    for protocol in (p for p in protocols.values() if p.id in stored):
        per_check = protocol.batch_runner.check_every * protocol.batch_runner.batch  # type: ignore[union-attr]
        for arm in load_protocol(store, protocol.id).arms:
            if arm.runs is None:
                continue
            about, task = protocol.arm(arm.id), protocol.environment.arguments
            checks = {name: x.reshape(-1, x.shape[-1]) for name, x in arm.runs.columns.items()}
            named = {"arm": about.learner, "cell": about.lambda_source, "variant": about.options.get("variant", "")}
            named |= {"task": task["name"], "n": task["n"], "parameters": int(checks["parameters"][0, 0])}
            rows = len(checks["score"])
            columns = {name: np.full(rows, value) for name, value in named.items()}
            columns["learning_rate"] = np.repeat(arm.runs.step_sizes, len(arm.runs.seeds))
            columns["seed"] = np.tile(arm.runs.seeds, len(arm.runs.exponents))
            for prefix, q in (("", checks["score"]), ("lowest_", checks["q_lowest"])):
                at = solved_at(q)
                columns[f"{prefix}solved"] = at >= 0
                columns[f"{prefix}sequences"] = np.where(at >= 0, (at + 1) * per_check, -1)
            done = int(np.sum(~np.isnan(checks["score"][0])))
            columns["seen"] = np.full(rows, done * per_check)
            last = {"q": "score", "q_lowest": "q_lowest", "bits": "bits", "received": "received"}
            columns |= {name: checks[stored_as][:, done - 1] for name, stored_as in last.items()}
            frames.append(pl.DataFrame(columns))
    return pl.concat(frames)


def LOAD(folder: Path) -> CompressionResults:
    """The results in a folder with comparison.parquet; older ones have the variants in a file of their own."""
    import polars as pl

    frame = pl.read_parquet((folder / "comparison.parquet").read_bytes())
    if "variant" in frame.columns:
        frame = frame.filter(pl.col("variant") == "")
    costs = folder / "costs.parquet"
    return CompressionResults(frame, pl.read_parquet(costs.read_bytes()) if costs.is_file() else None)


@dataclass(frozen=True)
class CompressionResults:
    """Results of the study. Args: frame: comparison.parquet without the variants. costs: costs.parquet, or None."""

    frame: Any
    costs: Any = None

    @property
    def table(self) -> Table:
        """The columns as arrays, for `criteria`."""
        return {column.name: column.to_numpy() for column in self.frame}
