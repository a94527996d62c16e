"""Tables of the study, from its stored rows: success and sequences needed against N. Needs Polars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def success_table(rows: Any, task: str) -> str:
    """Per arm and N, at its best step size: share of seeds that solved it, and the median sequences they needed.

    Args:
      rows: a Polars table of the study's comparison. task: which middle.
    """
    import polars as pl

    rows = rows.filter(pl.col("task") == task)
    lengths = sorted(rows["n"].unique().to_list())
    lines = ["| network | " + " | ".join(f"N = {n:,}" for n in lengths) + " |", "|---|" + "---|" * len(lengths)]
    arms = rows.select("arm", "cell").unique(maintain_order=True).rows()
    for arm, cell in sorted(arms):
        some = rows.filter((pl.col("arm") == arm) & (pl.col("cell") == cell))
        entries = [_entry(some.filter(pl.col("n") == n)) for n in lengths]
        lines.append(f"| {_label(arm, cell)} | {' | '.join(entries)} |")
    return "\n".join(lines)


def _label(arm: str, cell: str) -> str:
    names = {"compressor": "compressor", "truncated": "one network, truncated", "full": "one network, full BPTT"}
    return f"{names.get(arm, arm)}, {'gated' if cell == 'gru' else 'plain'}"


def _entry(rows: Any) -> str:
    """Share solved and median sequences of the step size with most solved, then fewest sequences."""
    best = (-1.0, 0.0)
    for rate in rows["learning_rate"].unique().to_list():
        some = rows.filter(rows["learning_rate"] == rate)
        solved = some["solved"].to_numpy()
        median = float(np.median(some["sequences"].to_numpy()[solved])) if solved.any() else np.inf
        best = max(best, (float(solved.mean()), -median))
    share, median = best[0], -best[1]
    return "0 %" if share == 0 else f"{share:.0%} in {median:,.0f}".replace("%", " %")


def cost_table(rows: Any) -> str:
    """Training cost per symbol against N."""
    each = [(n, 1e6 * s) for n, s in zip(rows["n"].to_list(), rows["seconds_per_symbol"].to_list(), strict=True)]
    head = "| N | " + " | ".join(f"{n:,}" for n, _ in each) + " |\n|---|" + "---|" * len(each)
    return f"{head}\n| µs per symbol | " + " | ".join(f"{s:.0f}" for _, s in each) + " |"


def all_tables(folder: Path) -> dict[str, str]:
    """Every table of the guide by name, from a folder with the study's Parquet files."""
    import polars as pl

    comparison, costs = (pl.read_parquet((folder / f"{name}.parquet").read_bytes()) for name in ("comparison", "costs"))
    tables = {f"{task}": success_table(comparison, task) for task in comparison["task"].unique(maintain_order=True)}
    return {**tables, "costs": cost_table(costs)}


def main(folder: str) -> None:
    """Write every table to FOLDER/tables: `python -m chunked_td.compression.tables FOLDER`."""
    target = Path(folder) / "tables"
    target.mkdir(exist_ok=True)
    for name, text in all_tables(Path(folder)).items():
        (target / f"{name}.md").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    import sys

    main(sys.argv[1])
