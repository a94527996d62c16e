"""Draw docs/figures/compare-taxi.png from results/compare/taxi-every-arm.parquet, as `chunked-td compare` does.

Run: python docs/figures/make_compare.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from chunked_td.cli.compare import ranking_png
from chunked_td.lab.comparison.arms import ComparisonSettings, arms_of
from chunked_td.lab.comparison.sweep import ArmOutcome, Comparison
from chunked_td.lab.results.runs import RunArrays

RUNS = Path(__file__).parents[2] / "results" / "compare" / "taxi-every-arm.parquet"


def stored_comparison() -> Comparison:
    """The comparison that the stored runs are of."""
    runs = pl.read_parquet(RUNS)
    settings = ComparisonSettings("Taxi-v4", episodes=runs["episode"].max())  # type: ignore[arg-type]
    arms, outcomes = {arm.label: arm for arm in arms_of(settings)}, []
    for (label,), rows in runs.group_by("arm", maintain_order=True):
        marks, sizes = settings.marks, rows["step_size"].unique(maintain_order=True).to_numpy()
        columns = {name: rows[name].to_numpy().reshape(len(sizes), -1, marks.size) for name in _COLUMNS}
        total = np.cumsum(columns["mean_return"] * np.diff(marks, prepend=0), axis=-1) / marks
        columns["score"] = np.where(columns["diverged"], -np.inf, total)
        seeds = np.arange(total.shape[1])
        found = RunArrays(-np.arange(len(sizes)), sizes, seeds, marks, columns)
        outcomes.append(ArmOutcome(arms[label], found))  # type: ignore[index]
    return Comparison(settings, tuple(outcomes), how="")


_COLUMNS = ("mean_return", "diverged", "mean_lambda")


if __name__ == "__main__":
    Path(__file__).with_name("compare-taxi.png").write_bytes(ranking_png(stored_comparison()))
