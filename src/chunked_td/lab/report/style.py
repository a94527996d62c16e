"""How figures look, and how they become files: colours, markers, type, and SVG, PDF and PNG.

Colours are the Okabe–Ito palette and viridis (for a grid of λ); arms also differ in markers and dashes. Widths are
those of a column (3.25 in) and of a page of text (6.75 in), with type of 7 points or more. The same runs give the same
bytes: no dates or random ids in the files.
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
from chunked_td.lambdas import SOURCES
from chunked_td.lambdas.names import current_id

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.25, 6.75  # inches
FORMATS = ("svg", "pdf", "png")
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
GREY = "#666666"
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

    @property
    def linestyle(self) -> Any:
        """The dash as matplotlib takes it."""
        return {"solid": "-", "dash": (0, (4, 1.5)), "dot": (0, (1, 1.2))}[self.dash]


def styles(arms: Sequence[ArmResults]) -> dict[str, Style]:
    """A style per arm id: fixed λ by its value, the others by where λ comes from (colour) and which model (dash)."""
    fixed = [arm.id for arm in arms if arm.fixed_lambda is not None]
    networks = any(arm.about.kind == "network" for arm in arms)
    dashes = {"counts": "dash" if networks else "solid", "oracle": "dot"}
    found: dict[str, Style] = {}
    for place, arm in enumerate(arms):
        marker = MARKERS[place % len(MARKERS)]
        if arm.fixed_lambda is not None:
            found[arm.id] = Style(_grid_color(fixed.index(arm.id), len(fixed)), "solid", marker, 1.0)
        else:
            source = SOURCES.get(current_id(arm.about.lambda_source))
            found[arm.id] = Style(
                GREY if source is None else source.color, dashes.get(arm.about.kind, "solid"), marker, 1.8
            )
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


def new_figure(width: float, height: float, panels: int = 1, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure of `width` × `height` inches with `panels` axes side by side; no pyplot, so nothing stays open."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False, **options)
    return figure, list(axes[0])


def label_ends(axes: Axes, ends: Sequence[tuple[float, str, str]], gap: float = 0.075) -> None:
    """Write names beside the right ends of curves, moved as little as keeps them from overlapping.

    Args:
      ends: (height in data units, text, colour) of each curve.
      gap: least distance between two names, as a part of the height of the axes.
    """
    from scipy.optimize import isotonic_regression

    low, high = axes.get_ylim()
    places = np.array([(y - low) / (high - low) for y, _, _ in ends])
    order, steps = np.argsort(places), gap * np.arange(len(ends))
    nearest = isotonic_regression(np.clip(places[order], 0.02, 0.98) - steps).x  # in order, each a gap above the last
    spread = np.clip(nearest, 0.02, 0.98 - gap * (len(ends) - 1)) + steps
    for height, index in zip(spread, order, strict=True):
        _, text, color = ends[index]
        axes.annotate(
            text, (1.0, height), (4, 0), xycoords="axes fraction", textcoords="offset points", va="center", color=color
        )


def thousands(axis: Any) -> None:
    """Tick labels like 20,000."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def powers_of_ten(axis: Any) -> None:
    """Tick labels like 10⁻³."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    names = {0: "1", 1: "10"}
    axis.set_major_formatter(
        FuncFormatter(lambda x, _: names.get(j := round(np.log10(x)), "10" + str(j).translate(raised)))
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
