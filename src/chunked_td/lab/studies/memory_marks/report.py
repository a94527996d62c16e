"""Table and figure: the share of seeds that solved each length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chunked_td.lab.report.page import write_parts
from chunked_td.lab.results.tables import markdown
from chunked_td.lab.studies.memory_marks.protocol import ARMS, BUDGETS, NETWORK_ARMS, PUBLISHED
from chunked_td.lab.studies.memory_marks.results import SHARE, MemoryMarks

ROWS = (*ARMS, *NETWORK_ARMS)


def PAGE(folder: Path, results: MemoryMarks) -> Path:
    """Write tables/ and figures/reach.svg; returns the path of the table of the reaches."""
    texts = {maze: solved_table(results, maze) for maze in BUDGETS} | {"reach": reach_table(results)}
    write_parts(folder, texts, {"reach": _draw(results)})
    return folder / "tables" / "reach.md"


def reach_table(results: MemoryMarks) -> str:
    """The longest corridor per arm and maze, beside the longest published."""
    rows: list[tuple[str, ...]] = [("published: transformer with DQN", f"{PUBLISHED['passive']:,}", "does not help")]
    for arm in ROWS:
        cells = []
        for maze in BUDGETS:
            tried = results.shares(maze, arm.id)
            reach = results.reach(maze, arm.id)
            cells.append(f"{f'{reach:,}' if reach else 'none'}; tried up to {max(tried):,}" if tried else "not run")
        if set(cells) != {"not run"}:
            rows.append((arm.label, *cells))
    return markdown(("", *BUDGETS), rows)


def solved_table(results: MemoryMarks, maze: str) -> str:
    """The share of judged seeds that solved each length, an arm per row."""
    every = {arm.label: results.shares(maze, arm.id) for arm in ROWS}
    shares = {label: found for label, found in every.items() if found}
    lengths = sorted({length for found in shares.values() for length in found})
    rows = [
        (label, *(f"{100 * found[n]:.0f} %" if n in found else "" for n in lengths)) for label, found in shares.items()
    ]
    return markdown(("share of seeds that solved it", *(f"{n:,}" for n in lengths)), rows)


def _draw(results: MemoryMarks) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.2), layout="constrained")
    colours = {"sarsa-0": "0.7", "sarsa-0.9": "0.3", "chunked": "#0072B2"}
    for axis, maze in zip(figure.subplots(1, 2, sharey=True), BUDGETS, strict=True):
        for arm in ARMS:
            name, way = arm.id.rsplit("-", 1)
            if not (found := results.shares(maze, arm.id)):
                continue
            style = {"bonus": "o-", "strong": "^-", "stay": "D-", "quarter": "v-"}.get(way, "s--")
            axis.plot(
                list(found),
                list(found.values()),
                style,
                color="#009E73" if "stay" in arm.label else colours[name],
                ms=4,
                label=arm.label,
            )
        axis.axhline(SHARE, color="0.8", lw=0.8)
        axis.axvline(PUBLISHED[maze], color="#D55E00", lw=0.8, ls=":")
        axis.set_xscale("log")
        ticks = [n for n in BUDGETS[maze] if n not in (750, 1_250, 1_500)]
        axis.set_xticks(ticks, [f"{n:,}" for n in ticks], fontsize=8)
        axis.minorticks_off()
        axis.set_title(f"{maze} T-maze; dotted: longest published", fontsize=9)
        axis.set_xlabel("L, steps from start to junction")
    figure.supylabel("share of seeds that solved it", fontsize=9)
    shown = {
        label: handle for axis in figure.axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure
