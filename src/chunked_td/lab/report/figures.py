"""Every plot and table of the report as a figure for print.

`draw` understands the part of Plotly's descriptions that `plots` uses: lines with bands, dots, panels side by side,
horizontal and vertical lines with a text.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chunked_td.lab.report.choice import Plot
from chunked_td.lab.report.plots import SYMBOLS
from chunked_td.lab.report.style import DASHES, GREY, PAGE, house_style, new_figure, powers_of_ten, save, thousands
from chunked_td.lab.results.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PER_INCH = 160  # pixels of a plot's height that are an inch in print
SIZE = 7.0  # points, in tables
_LINE, _DOT = 0.625, 0.5  # points per pixel
_MARKERS = {symbol: marker for marker, symbol in SYMBOLS.items()}


def save_all(plots: Mapping[str, Sequence[Plot]], tables: Mapping[str, Sequence[Table]], folder: Path) -> None:
    """Draw and write every plot, and the tables that the paper has numbers for; {study: …} each."""
    for name, figure in all_figures(plots, tables).items():
        save(figure, folder, name)


def all_figures(plots: Mapping[str, Sequence[Plot]], tables: Mapping[str, Sequence[Table]]) -> dict[str, Figure]:
    """Every figure by the name of its file."""
    found = {}
    with house_style():
        for plot in (plot for several in plots.values() for plot in several):
            found |= {name: draw(plot, bands=bands) for name, bands in files_of(plot).items()}
        for table in (table for several in tables.values() for table in several if table.rows):
            found[f"{table.name}-table"] = table_figure(table)
    return found


def files_of(plot: Plot) -> dict[str, bool]:
    """{name of a figure: whether it shows all intervals}: as on the page at first, and with those hidden there."""
    hidden = any(trace.get("meta") == "band" and trace.get("visible") is False for trace in plot.data)
    return {plot.id: False, f"{plot.id}-intervals": True} if hidden else {plot.id: False}


def draw(plot: Plot, *, bands: bool = False, width: float | None = None) -> Figure:
    """A plot for print. Args: bands: show all intervals. width: in inches; by default that of a page, or less."""
    width = width or (PAGE if plot.panels > 1 or not any(map(_named, plot.data)) else 0.8 * PAGE)
    figure, panels = new_figure(width, plot.height / _PER_INCH, plot.panels, sharex=True, sharey=True)
    by_end = {"" if k == 0 else str(k + 1): axes for k, axes in enumerate(panels)}
    handles: dict[str, Any] = {}
    for trace in plot.data:
        band = trace.get("meta") == "band"
        if trace.get("visible", True) is True or (band and bands):
            drawn = _draw_trace(by_end[trace.get("xaxis", "x")[1:]], trace)
            if _named(trace):
                handles[trace["name"]] = drawn
    for end, axes in by_end.items():
        _finish(axes, plot.layout[f"xaxis{end}"], plot.layout[f"yaxis{end}"])
    for shape in plot.layout.get("shapes", ()):
        _draw_shape(by_end, shape)
    for note in plot.layout.get("annotations", ()):
        axes = by_end[note["xref"].removesuffix(" domain")[1:]]
        if note["yref"].endswith("domain"):
            axes.set_title(re.sub("<.*?>", "", note["text"]))
        else:
            axes.annotate(note["text"], (0.985, note["y"]), (0, 2), xycoords=("axes fraction", "data"),
                          textcoords="offset points", ha="right", va="bottom", color=note["font"]["color"])  # fmt: skip
    for axes in panels[1:]:
        axes.set_ylabel("")
    if handles:
        figure.legend(list(handles.values()), list(handles), loc="outside right center", handlelength=2.6)
    return figure


def _named(trace: Mapping[str, Any]) -> bool:
    """Whether a trace has an entry in the legend."""
    return trace.get("showlegend", True)


def _draw_trace(axes: Axes, trace: Mapping[str, Any]) -> Any:
    x, y = ([float("nan") if value is None else value for value in trace[key]] for key in ("x", "y"))
    if trace.get("meta") == "band":
        return axes.fill(x, y, color=_color(trace["fillcolor"]), linewidth=0)[0]
    line, marker = trace.get("line", {}), trace.get("marker", {})
    if trace["mode"] == "markers":
        sizes = marker["size"] if isinstance(marker["size"], list) else [marker["size"]]
        sizes, look = [(_DOT * size) ** 2 for size in sizes], _MARKERS[marker.get("symbol", "circle")]
        return axes.scatter(x, y, s=sizes, color=_color(marker["color"]), marker=look, linewidths=0, clip_on=False)
    width = _LINE * line.get("width", 1.6)
    (drawn,) = axes.plot(x, y, color=line["color"], linestyle=DASHES[line.get("dash", "solid")], linewidth=width,
                         zorder=2 + width)  # fmt: skip
    if "markers" in trace["mode"]:
        drawn.set_marker(_MARKERS[marker["symbol"]])
    return drawn


def _color(text: str) -> Any:
    """A colour of Plotly's as matplotlib takes it."""
    if not text.startswith("rgba"):
        return text
    *rgb, alpha = (float(number) for number in text[5:-1].split(","))
    return (*(channel / 255 for channel in rgb), alpha)


def _draw_shape(by_end: Mapping[str, Axes], shape: Mapping[str, Any]) -> None:
    """A line across one panel or, if it names none, across all."""
    look = {"color": shape["line"].get("color", GREY), "linestyle": DASHES[shape["line"]["dash"]], "linewidth": 0.9}
    end = shape.get("xref", "").removesuffix(" domain")[1:]
    for axes in [by_end[end]] if "xref" in shape else by_end.values():
        if shape["y0"] == shape["y1"]:
            axes.axhline(shape["y0"], zorder=1, **look)
        elif shape["x0"] == shape["x1"]:
            axes.axvline(shape["x0"], zorder=1, **look)
        else:
            axes.plot([shape["x0"], shape["x1"]], [shape["y0"], shape["y1"]], zorder=1, **look)


def _finish(axes: Axes, x: Mapping[str, Any], y: Mapping[str, Any]) -> None:
    """Titles, scales, ticks and limits."""
    from matplotlib.ticker import MaxNLocator

    axes.set(xlabel=x["title"]["text"], ylabel=y["title"]["text"])
    for letter, about in (("x", x), ("y", y)):
        axis = getattr(axes, f"{letter}axis")
        if about.get("type") == "log":
            axes.set(**{f"{letter}scale": "log"})
            powers_of_ten(axis)
        elif "tickvals" in about:
            axis.set_ticks(about["tickvals"], [re.sub("<.*?>", "", text) for text in about["ticktext"]])
            axis.grid(visible=False)
        else:
            axis.set_major_locator(MaxNLocator(5))
        if "tickformat" in about:
            thousands(axis)
        if "range" in about:
            axes.set(**{f"{letter}lim": about["range"]})
        elif about.get("rangemode") == "tozero":
            axes.set(**{f"{letter}lim": (min(0.0, axis.get_view_interval()[0]), None)})


def table_figure(table: Table) -> Figure:
    """A table with rules above, below the heads and at the end; columns as wide as their text needs."""
    heads = [textwrap.fill(head, 14, break_long_words=False, break_on_hyphens=False) for head in table.columns]
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
