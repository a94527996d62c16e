"""Figures of the atlas: the ranking, the heat map, and one panel per family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from chunked_td.lab.report.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    MARKERS,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    Style,
    house_style,
    new_figure,
)
from chunked_td.lab.studies.atlas.families import FAMILIES
from chunked_td.lab.studies.atlas.protocol import ProblemKey
from chunked_td.lab.studies.atlas.ranking import RankedMethod, score_text
from chunked_td.lab.studies.atlas.results import Cell, CreditMap
from chunked_td.lab.study import Arm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GROUP_COLORS = {
    "chunked": VERMILION,
    "fixed λ": GREY,
    "other λ": BLUE,
    "other updates": GREEN,
    "planning": PURPLE,
    "wrong model": ORANGE,
    "yours": BLACK,
}
"""Colour of each group of methods; groups that are not listed are black."""
TOP = 1.5
"""Colours show relative scores from 0 to this."""
PANEL = (-0.35, 1.65)
"""Relative scores that a panel shows; what lies beyond is drawn at its edge."""
_LINES = (VERMILION, ORANGE, PURPLE, BLUE, GREEN, SKY, "#8C6D31", BLACK)
_BAD, _EVEN, _GOOD = (np.array([int(c[i : i + 2], 16) for i in (1, 3, 5)]) for c in ("#C44E00", "#FFFFFF", BLUE))


def group_color(group: str) -> str:
    """Colour of a group of methods."""
    return GROUP_COLORS.get(group, BLACK)


def shade(value: float) -> str:
    """Colour of a relative score: orange at 0, white at 1, blue at 1.5."""
    value = 0.0 if np.isnan(value) else float(np.clip(value, 0.0, TOP))
    end, share = (_BAD, 1.0 - value) if value < 1.0 else (_GOOD, (value - 1.0) / (TOP - 1.0))
    red, green, blue = (round(float(x)) for x in _EVEN + share * (end - _EVEN))
    return f"#{red:02X}{green:02X}{blue:02X}"


def ink(color: str) -> str:
    """Black or white, whichever can be read on a colour."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return "#FFFFFF" if 0.299 * red + 0.587 * green + 0.114 * blue < 140 else "#1A1A1A"


def cell_text(cell: Cell) -> str:
    """A relative score in the heat map; × where every step size diverged."""
    return "×" if cell.relative == -np.inf else score_text(cell.relative)


def plain(label: str) -> str:
    """A label as matplotlib shows it letter by letter: a dollar sign starts no formula."""
    return label.replace("$", r"\$")


def line_styles(methods: Sequence[str]) -> dict[str, Style]:
    """How the lines of panels look; fixed λs are grey and dashed."""
    found: dict[str, Style] = {}
    for method in methods:
        place = len(found)
        fixed = method.startswith("fixed-")
        color = GREY if fixed else _LINES[sum(not name.startswith("fixed-") for name in found) % len(_LINES)]
        found[method] = Style(color, "dash" if fixed else "solid", MARKERS[place % len(MARKERS)], 1.2)
    return found


def ranking_figure(rows: Sequence[RankedMethod], methods: Mapping[str, Arm], problems: int) -> Figure:
    """Mean relative score of every method with its interval, best first, coloured by group."""
    with house_style():
        figure, (axes,) = new_figure(4.2, 0.9 + 0.17 * len(rows))
        for place, row in enumerate(rows):
            color = group_color(methods[row.method].group)
            axes.plot([row.mean.low, row.mean.high], [place, place], color=color, linewidth=2.2, alpha=0.5)
            axes.plot(row.mean.value, place, "o", color=color, markersize=4)
            axes.plot(row.worst, place, "|", color=color, markersize=5)
        axes.axvline(1.0, color=BLACK, linewidth=0.8)
        axes.set_yticks(range(len(rows)), [plain(methods[row.method].label) for row in rows])
        for label, row in zip(axes.get_yticklabels(), rows, strict=True):
            label.set_color(group_color(methods[row.method].group))
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlabel(f"relative score, mean over {problems} problems")
        axes.grid(axis="y", visible=False)
    return figure


def yours_figure(
    method: str, others: Mapping[str, str], atlas: CreditMap, methods: Mapping[str, Arm], problems: Sequence[ProblemKey]
) -> Figure:
    """A method of the user's on every problem with its interval over seeds, beside two others and all the rest in grey.

    Args:
      others: {method: its marker}.
    """
    low, high = PANEL
    with house_style():
        figure, (axes,) = new_figure(5.6, 1.3 + 0.2 * len(problems))
        for place, key in enumerate(problems):
            rest = [atlas.cells[key, name].relative for name in atlas.methods if (key, name) in atlas.cells]
            axes.plot(np.clip(rest, low, high), [place] * len(rest), "|", color="#BBBBBB", markersize=5)
            cell = atlas.cells[key, method]
            axes.plot(np.clip([cell.low, cell.high], low, high), [place, place], color=VERMILION, linewidth=2.0)
            axes.plot(np.clip(cell.relative, low, high), place, "o", color=VERMILION, markersize=5)
            for name, marker in others.items():
                there = np.clip(atlas.cells[key, name].relative, low, high)
                axes.plot(there, place, marker, color=BLUE, markersize=4, fillstyle="none")
        for name, marker in others.items():
            axes.plot([], [], marker, color=BLUE, fillstyle="none", label=plain(methods[name].label))
        axes.plot([], [], "|", color="#BBBBBB", label="every method")
        for level in (0.0, 1.0):
            axes.axvline(level, color=BLACK, linewidth=0.8)
        axes.set_yticks(range(len(problems)), [plain(key.name) for key in problems])
        axes.set_ylim(len(problems) - 0.4, -0.6)
        axes.set_xlim(low, high)
        axes.set_xlabel("relative score (0: worst, 1: best fixed λ)")
        axes.set_title(f"{plain(methods[method].label)} (bar: 95 %, over seeds)", color=VERMILION, loc="left")
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def heat_figure(
    atlas: CreditMap,
    rows: Sequence[Sequence[str]],
    problems: Sequence[ProblemKey],
    methods: Mapping[str, Arm],
    vague: Sequence[ProblemKey],
) -> Figure:
    """Methods (in groups of rows) × problems; the number is the relative score. ~ marks the problems in `vague`."""
    from matplotlib.colors import to_rgb
    from matplotlib.figure import Figure as NewFigure

    listed = [method for group in rows for method in group]
    with house_style():
        figure = NewFigure(figsize=(3.0 + 0.27 * len(problems), 1.6 + 0.17 * len(listed)), layout="constrained")
        axes = figure.subplots()
        colors = np.ones((len(listed), len(problems), 3))
        for y, method in enumerate(listed):
            for x, key in enumerate(problems):
                cell = atlas.cells.get((key, method))
                color = shade(cell.relative) if cell else "#EEEEEE"
                colors[y][x] = to_rgb(color)
                text = "–" if cell is None else cell_text(cell)
                axes.text(x, y, text, ha="center", va="center", fontsize=5.5, color=ink(color))
        axes.imshow(colors, aspect="auto", interpolation="nearest")
        axes.set_yticks(range(len(listed)), [plain(methods[method].label) for method in listed])
        for label, method in zip(axes.get_yticklabels(), listed, strict=True):
            label.set_color(group_color(methods[method].group))
        names = [f"{key.setting} ~" if key in vague else str(key.setting) for key in problems]
        axes.set_xticks(range(len(problems)), names, rotation=90)
        axes.grid(visible=False)
        axes.tick_params(length=0)
        _name_families(axes, problems)
        edges = np.cumsum([len(group) for group in rows])[:-1]
        for edge in edges:
            axes.axhline(edge - 0.5, color=BLACK, linewidth=0.8)
    return figure


def _name_families(axes: Axes, problems: Sequence[ProblemKey]) -> None:
    """Titles of families above their columns, with a line between families; * marks those held out."""
    names = [key.family for key in problems]
    for family in dict.fromkeys(names):
        places = [x for x, name in enumerate(names) if name == family]
        title = FAMILIES[family].title + (" *" if FAMILIES[family].held_out else "")
        axes.text(float(np.mean(places)), -0.8, title, rotation=40, ha="left", va="bottom", fontsize=7)
        axes.axvline(places[-1] + 0.5, color=BLACK, linewidth=0.8)


def draw_family(axes: Axes, atlas: CreditMap, keys: Sequence[ProblemKey], looks: Mapping[str, Style]) -> None:
    """Relative score against the dial, with intervals over seeds, one line per method."""
    shown = [method for method in looks if any(atlas.has(method, [key]) for key in keys)]
    low, high = PANEL
    for place, method in enumerate(shown):
        look, shift = looks[method], 0.5 * (place - (len(shown) - 1) / 2) / max(len(shown), 1)
        there = [(x + shift, atlas.cells[key, method]) for x, key in enumerate(keys) if atlas.has(method, [key])]
        xs = [x for x, _ in there]
        ends = np.clip([(cell.low, cell.high) for _, cell in there], low, high)
        middle = np.clip([cell.relative for _, cell in there], low + 0.02, high - 0.02)
        axes.plot(xs, middle, color=look.color, linestyle=look.linestyle, linewidth=0.7, alpha=0.6)
        axes.vlines(xs, ends[:, 0], ends[:, 1], color=look.color, linewidth=1.0)
        axes.plot(xs, middle, look.marker, color=look.color, markersize=3.5)
    for level in (0.0, 1.0):
        axes.axhline(level, color=BLACK, linewidth=0.8)
    axes.axhline(0.75, color=GREY, linewidth=0.6, linestyle=(0, (1, 2)))
    axes.set_ylim(low, high)
    axes.set_xlim(-0.5, len(keys) - 0.5)
    axes.set_xticks(range(len(keys)), [str(key.setting) for key in keys])
    axes.set_xlabel(FAMILIES[keys[0].family].dial.replace("_", " "))
    axes.grid(axis="x", visible=False)


def family_figure(atlas: CreditMap, keys: Sequence[ProblemKey], looks: Mapping[str, Style]) -> Figure:
    """One panel."""
    with house_style():
        figure, (axes,) = new_figure(3.6, 2.5)
        draw_family(axes, atlas, keys, looks)
        axes.set_ylabel("relative score")
    return figure


def families_figure(
    atlas: CreditMap,
    families: Mapping[str, Sequence[ProblemKey]],
    looks: Mapping[str, Style],
    labels: Mapping[str, str],
) -> Figure:
    """Every family in one figure, with a legend below."""
    from matplotlib.figure import Figure as NewFigure
    from matplotlib.lines import Line2D

    with house_style():
        columns = min(4, len(families))
        lines = -(-len(families) // columns)
        figure = NewFigure(figsize=(2.3 * columns, 1.9 * lines + 0.5), layout="constrained")
        grid = figure.subplots(lines, columns, squeeze=False, sharey=True).ravel()
        for axes, (family, keys) in zip(grid, families.items(), strict=False):
            draw_family(axes, atlas, keys, looks)
            axes.set_title(FAMILIES[family].title + (" *" if FAMILIES[family].held_out else ""))
        for axes in grid[len(families) :]:
            axes.set_axis_off()
        handles = [
            Line2D([], [], color=look.color, linestyle=look.linestyle, marker=look.marker, label=plain(labels[method]))
            for method, look in looks.items()
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=min(4, len(handles)))
        figure.supylabel("relative score", fontsize=8)
    return figure
