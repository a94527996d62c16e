"""The ranking with step sizes, best and worst fixed λ chosen on other seeds than those scored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chunked_td.lab.results.tables import Table
from chunked_td.lab.statistics import cross_fitted, nested_estimate
from chunked_td.lab.studies.atlas.methods import FIXED, fixed_id
from chunked_td.lab.studies.atlas.results import FLOOR, runs_by_step_size

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

TOLD_APART = 4.0
"""Standard errors by which the best and the worst fixed λ of a problem must differ."""
LEAST_SEEDS = 20


def relative_scores(frame: pl.DataFrame) -> tuple[dict[str, list[dict[str, np.ndarray]]], list[str]]:
    """{family: [{method: float64[seeds]} of each setting]} of problems that tell fixed λs apart, and the others."""
    import polars as pl

    found: dict[str, list[dict[str, np.ndarray]]] = {}
    unclear = []
    main = frame.filter(~pl.col("control"))
    for (family, setting), part in main.group_by("family", "setting", maintain_order=True):
        runs = {str(name): runs_by_step_size(rows)[1] for (name,), rows in part.group_by("method", maintain_order=True)}
        fixed = [name for value in FIXED if (name := fixed_id(value)) in runs]
        scored, best, worst = cross_fitted(runs, fixed)
        gap = best - worst
        if not gap.mean() > TOLD_APART * gap.std(ddof=1) / np.sqrt(gap.size):
            unclear.append(f"{family} {setting}")
            continue
        relative = {name: np.maximum((each - worst) / gap.mean(), FLOOR) for name, each in scored.items()}
        found.setdefault(str(family), []).append(relative)
    return found, unclear


def ranking_table(frame: pl.DataFrame, label: Callable[[str], str]) -> str:
    """Mean relative scores over families, best first, each less the best single fixed λ; methods run everywhere."""
    if frame["seed"].n_unique() < LEAST_SEEDS:
        return f"Fewer than {LEAST_SEEDS} seeds: too few to choose on one half of them and score on the other."
    cells, unclear = relative_scores(frame)
    settings = [cell for family in cells.values() for cell in family]
    if not settings:
        return "No problem tells its fixed λs apart."
    methods = set.intersection(*(set(cell) for cell in settings))
    means = {m: float(np.mean([np.mean([c[m].mean() for c in family]) for family in cells.values()])) for m in methods}
    fixed = max((fixed_id(value) for value in FIXED if fixed_id(value) in methods), key=lambda name: means[name])
    columns, rows = ("method", "mean over families", "worst problem", f"less {label(fixed)}"), []
    for method in sorted(methods, key=lambda name: -means[name]):
        gap = nested_estimate([[cell[method] - cell[fixed] for cell in family] for family in cells.values()], 500)
        worst = min(float(cell[method].mean()) for cell in settings)
        against = f"{gap.value:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]" if method != fixed else ""
        rows.append((label(method), f"{means[method]:.2f}", f"{worst:.2f}", against))
    table = Table("cross-fitted", "", columns, tuple(rows)).markdown()
    left_out = f"Left out, because their fixed λs are not told apart: {', '.join(unclear) or 'none'}."
    return f"{table}\n{left_out}".replace(" -0", " −0").replace("[-", "[−").replace(" -1", " −1")
