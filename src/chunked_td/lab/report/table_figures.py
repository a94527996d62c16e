"""Tables as figures for print: scores and selected step sizes, the paper's beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chunked_td.lab.report.style import GREY, PAGE, new_figure
from chunked_td.lab.results.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = 7.0  # points


def table_figure(table: Table) -> Figure:
    """A table with rules above, below the heads and at the end; columns as wide as their text needs."""
    heads = [wrap(head) for head in table.columns]
    depth = 0.8 * max(head.count("\n") for head in heads) + 1
    widths = [
        max(*(len(line) for line in head.split("\n")), *(len(row[i]) for row in table.rows))
        for i, head in enumerate(heads)
    ]
    total = sum(widths) + 2.5 * (len(widths) - 1)
    height = 0.165 * (len(table.rows) + depth) + 0.25
    width = min(PAGE * 1.35, max(2.0, total * SIZE * 0.0079))
    figure, (axes,) = new_figure(width, height)
    axes.axis("off")
    lines = len(table.rows) + depth
    axes.set(xlim=(0, total), ylim=(lines + 0.2, -0.2))
    left = 0.0
    for i, size in enumerate(widths):
        x, align = (left, "left") if i == 0 else (left + size / 2, "center")
        axes.text(x, depth - 0.25, heads[i], ha=align, va="baseline", fontsize=SIZE, weight="bold", linespacing=1.05)
        for place, row in enumerate(table.rows):
            faint = row[i].startswith(("not run", "reduced", "–"))
            axes.text(x, depth + place + 0.55, row[i], ha=align, va="center", fontsize=SIZE,
                      color=GREY if faint else "black")  # fmt: skip
        left += size + 2.5
    for y, weight in ((-0.1, 0.9), (depth, 0.6), (lines + 0.1, 0.9)):
        axes.plot([0, total], [y, y], color="black", linewidth=weight, clip_on=False)
    return figure


def wrap(head: str, limit: int = 14) -> str:
    """A head in lines of about `limit` characters."""
    lines = [""]
    for word in head.split():
        if lines[-1] and len(lines[-1]) + len(word) + 1 > limit:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)
