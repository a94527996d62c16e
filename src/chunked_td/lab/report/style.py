"""How figures look, and how they become files: colours, markers, type, and SVG, PDF and PNG.

Colours are the Okabe–Ito palette and viridis (for a grid of λ); arms also differ in markers and dashes. Figures are at
most as wide as a page of text (6.75 in), with type of 7 points or more. The same runs give the same bytes: no dates or
random ids in the files.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.lab.results.runs import ArmResults
from chunked_td.lab.store.directory import write_or_explain
from chunked_td.lab.wording import SUPERSCRIPTS
from chunked_td.lambdas import SOURCES
from chunked_td.lambdas.names import current_id

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAGE = 6.75  # inches
FORMATS = ("svg", "pdf", "png")
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY = "#666666"
DASHES: dict[str, Any] = {"solid": "-", "dash": (0, (4, 1.5)), "dot": (0, (1, 1.2))}
"""Dashes as Plotly and as matplotlib call them."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "d")

_RC = {
    "font.family": "DejaVu Sans",
    "font.size": 7.5,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "legend.frameon": False,
    "figure.dpi": 200,  # the same as when saving, so that the layout fits the text to the pixel
    "savefig.dpi": 200,
    "svg.hashsalt": "chunked-td",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "figure.constrained_layout.use": True,
}


@dataclass(frozen=True)
class Style:
    """How an arm is drawn, in print and on the page: `dash` is "solid", "dash" or "dot"."""

    color: str
    dash: str
    marker: str
    width: float


def styles(arms: Sequence[ArmResults]) -> dict[str, Style]:
    """A style per arm id: fixed λ by its value, the others by where λ comes from (colour) and which model (dash)."""
    fixed = [arm.id for arm in arms if arm.fixed_lambda is not None]
    networks = any(arm.kind == "network" for arm in arms)
    dashes = {"counts": "dash" if networks else "solid", "oracle": "dot"}
    found: dict[str, Style] = {}
    for place, arm in enumerate(arms):
        marker = MARKERS[place % len(MARKERS)]
        if arm.fixed_lambda is not None:
            found[arm.id] = Style(_grid_color(fixed.index(arm.id), len(fixed)), "solid", marker, 1.0)
        else:
            source = SOURCES.get(current_id(arm.lambda_source))
            found[arm.id] = Style(GREY if source is None else source.color, dashes.get(arm.kind, "solid"), marker, 1.8)
    return found


def _grid_color(rank: int, count: int) -> str:
    """Colour of one of `count` fixed λs."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    few = (BLUE, GREEN, ORANGE)
    return few[rank] if count <= len(few) else to_hex(colormaps["viridis"](0.9 * rank / (count - 1)))


@contextlib.contextmanager
def house_style() -> Iterator[None]:
    """Our matplotlib settings, for the time of a `with` block."""
    import matplotlib as mpl

    settings: Any = {**mpl.rcParamsDefault, **_RC, "backend": mpl.rcParams["backend"]}
    with mpl.rc_context(settings):
        yield


def new_figure(
    width: float, height: float, panels: int = 1, rows: int = 1, **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure of `width` × `height` inches with `panels` axes side by side, in rows; no pyplot: nothing stays open."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, panels, squeeze=False, **options)
    return figure, axes.ravel().tolist()


def legend_below(figure: Figure, columns: int) -> None:
    """One legend for all axes of a figure, below them; every label once."""
    shown = {
        label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if shown:
        figure.legend(
            shown.values(), shown.keys(), loc="outside lower center", ncols=columns, frameon=False, fontsize=8
        )


def thousands(axis: Any) -> None:
    """Tick labels like 20,000."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def powers_of_ten(axis: Any) -> None:
    """Tick labels like 10⁻³ on a logarithmic axis; round numbers where it spans less than one power of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if high < 10 * low:
        axis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 7)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        names = {0: "1", 1: "10"}
        axis.set_major_formatter(
            FuncFormatter(lambda x, _: names.get(j := round(np.log10(x)), "10" + str(j).translate(SUPERSCRIPTS)))
        )
    axis.set_minor_formatter(NullFormatter())


def render(figure: Figure, kind: str) -> bytes:
    """The bytes of a figure: the same for the same figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.BytesIO()
    resolution = figure.dpi
    with house_style():  # straight to the backends: `savefig` draws everything once more to find its size
        if kind == "svg":
            FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": "chunked-td"})
        elif kind == "pdf":
            nameless = {"CreationDate": None, "Creator": "chunked-td", "Producer": None}
            FigureCanvasPdf(figure).print_pdf(buffer, metadata=nameless)
        else:
            FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
    figure.dpi = resolution
    return buffer.getvalue()


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write `folder/name.svg`, `.pdf` and `.png`, each atomically."""
    with house_style():  # one layout for all formats
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    paths = []
    for kind in FORMATS:
        path = folder / f"{name}.{kind}"
        write_or_explain(path, render(figure, kind))
        paths.append(path)
    return paths
