"""Tables of the study of the history compressor: success and sequences needed against N."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from chunked_td.lab.report.page import write_parts
from chunked_td.lab.results.tables import markdown
from chunked_td.lab.studies.compression.results import CompressionResults

_NAMES = {"compressor": "compressor", "truncated": "one network, truncated", "full": "one network, full BPTT"}


def PAGE(folder: Path, results: CompressionResults) -> Path:
    """Write tables/; returns the table of the paper's task."""
    write_parts(folder, all_tables(results))
    return folder / "tables" / "known.md"


def all_tables(results: CompressionResults) -> dict[str, str]:
    """Every table by name."""
    tasks = results.frame["task"].unique(maintain_order=True)
    tables = {task: success_table(results.frame.filter(results.frame["task"] == task)) for task in tasks}
    return tables if results.costs is None else {**tables, "costs": cost_table(results.costs)}


def success_table(frame: Any) -> str:
    """Per arm and N, at its best step size: share of seeds that solved it, and the median sequences they needed."""
    lengths = sorted(frame["n"].unique().to_list())
    rows = []
    for (arm, cell), runs in sorted(frame.group_by("arm", "cell"), key=lambda group: group[0]):
        entries = (_entry(runs.filter(runs["n"] == n)) for n in lengths)
        rows.append((f"{_NAMES.get(arm, arm)}, {'gated' if cell == 'gru' else 'plain'}", *entries))
    return markdown(("network", *(f"N = {n:,}" for n in lengths)), rows)


def _entry(rows: Any) -> str:
    """Share solved and median sequences of the step size with most solved, then fewest sequences."""
    best = (-1.0, 0.0)
    for _, some in rows.group_by("learning_rate"):
        solved = some["solved"].to_numpy()
        median = float(np.median(some["sequences"].to_numpy()[solved])) if solved.any() else np.inf
        best = max(best, (float(solved.mean()), -median))
    share, median = best[0], -best[1]
    return "0 %" if share == 0 else f"{share:.0%} in {median:,.0f}".replace("%", " %")


def cost_table(costs: Any) -> str:
    """Training cost per symbol against N."""
    seconds = [f"{1e6 * s:.0f}" for s in costs["seconds_per_symbol"].to_list()]
    return markdown(("N", *(f"{n:,}" for n in costs["n"].to_list())), [("µs per symbol", *seconds)])
