"""Table and figure: the share of episodes with treasure, by length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chunked_td.lab.report.page import write_parts
from chunked_td.lab.results.tables import markdown
from chunked_td.lab.statistics import mean_and_interval
from chunked_td.lab.studies.linear_key_to_door.protocol import ALWAYS, ARMS, FALLING, GRADIENT, RULE
from chunked_td.lab.studies.linear_key_to_door.results import Treasures

PUBLISHED = (
    "Meulemans et al. (2023) run networks with policy gradients on this problem. They report that the "
    "COCOA forms collect the treasure at all lengths, and their rivals less often the longer it is."
)
BEST = {FALLING: 0.2 * (1 - 0.75 + 0.75**2 / 3) + 0.8, ALWAYS: (1 - 0.1 * 0.75) ** 2, GRADIENT: 1.0}
"""Best possible shares: the mean of (1 − ¾ε)² over episodes, for both choices that matter."""


def PAGE(folder: Path, results: Treasures) -> Path:
    """Write tables/shares.md, tables/sure.md and figures/shares.svg; returns the path of the first."""
    texts = {"shares": shares_table(results)}
    if results.lengths(True):
        texts["sure"] = shares_table(results, True)
    write_parts(folder, texts, {"shares": _draw(results)})
    return folder / "tables" / "shares.md"


def shares_table(results: Treasures, sure: bool = False) -> str:
    """Share of all episodes, and of the last ones, by arm and length."""
    lengths = results.lengths(sure)
    rows = []
    for group, best in BEST.items():
        for arm in (arm for arm in ARMS if arm.group == group and (lengths[0], sure, arm.id) in results.runs):
            cells = [
                ", ".join(f"{results.shares(n, arm.id, x, sure).mean():.2f}" for x in ("share", "last"))
                if (n, sure, arm.id) in results.runs
                else "not run"
                for n in lengths
            ]
            rows.append((arm.label, f"{group}, at best {best:.2f}", *cells))
    return markdown(("all episodes, last 1,000", "exploring", *(f"L = {n}" for n in lengths)), rows)


def _draw(results: Treasures) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    lengths = results.lengths()
    names = [arm.label for arm in ARMS if arm.group != ALWAYS]
    palette = ("0.8", "0.65", "0.45", "0.25", "#56B4E9", "#009E73", "#E69F00", "#0072B2", "0.25", "#CC79A7", "#D55E00")
    colours = dict(zip(names, palette, strict=True))
    for axis, (group, best) in zip(figure.subplots(1, 3, sharey=True), BEST.items(), strict=True):
        arms = [arm for arm in ARMS if arm.group == group]
        for arm in arms:
            colour = colours[arm.label]
            there = [n for n in lengths if (n, False, arm.id) in results.runs]
            shares = [results.shares(n, arm.id) for n in there]
            ends = [mean_and_interval(share) for share in shares]
            wide = arm.id.startswith(RULE)
            axis.plot(
                there, [x.mean() for x in shares], "o-", ms=3, lw=2.2 if wide else 1.2, color=colour, label=arm.label
            )
            axis.fill_between(there, [e.low for e in ends], [e.high for e in ends], color=colour, alpha=0.15, lw=0)
        axis.axhline(best, color="0.6", lw=0.8, ls=":")
        axis.set_title(f"{group}; dotted: best possible", fontsize=9)
        axis.set_xlabel("L, cells")
        axis.set_xticks(lengths)
    figure.axes[0].set_ylim(0.0, 1.02)
    figure.supylabel("share of episodes with treasure", fontsize=9)
    found = [axis.get_legend_handles_labels() for axis in figure.axes[::2]]
    handles, labels = [*found[0][0], *found[1][0]], [*found[0][1], *found[1][1]]
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure
