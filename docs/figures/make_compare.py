"""Draw docs/figures/compare-taxi.png from results/compare/taxi-every-arm.parquet, as `chunked-td compare` does.

Run: python docs/figures/make_compare.py
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from chunked_td.cli.compare import draw_ranking
from chunked_td.lab.comparison.arms import ComparisonSettings, arms_of
from chunked_td.lab.comparison.sweep import ArmOutcome, Comparison, Curves

RUNS = Path(__file__).parents[2] / "results" / "compare" / "taxi-every-arm.parquet"


def stored_comparison() -> Comparison:
    """The comparison that the stored runs are of."""
    runs = pl.read_parquet(RUNS)
    settings = ComparisonSettings("Taxi-v4", episodes=runs["episode"].max())  # type: ignore[arg-type]
    arms, outcomes = {arm.label: arm for arm in arms_of(settings)}, []
    for (label,), rows in runs.group_by("arm", maintain_order=True):
        curves = {}
        for (size,), part in rows.group_by("step_size", maintain_order=True):
            columns = [part[name].to_numpy().reshape(-1, settings.marks.size) for name in _COLUMNS]
            curves[size] = Curves(columns[0], columns[1][:, -1], columns[2])
        outcomes.append(ArmOutcome(arms[label], curves, settings.weights))  # type: ignore[index, arg-type]
    return Comparison(settings, tuple(outcomes), how="")


_COLUMNS = ("mean_return", "diverged", "mean_lambda")


if __name__ == "__main__":
    draw_ranking(Path(__file__).with_name("compare-taxi.png"), stored_comparison())
