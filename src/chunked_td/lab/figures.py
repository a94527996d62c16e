"""The figures of the paper and of our controls, from stored runs to SVG, PDF and PNG.

`all_figures(studies)` gives every figure that the stored runs allow; each comes from a pure function of one or two
studies. Colours are the Okabe–Ito palette and viridis (for the grid of λ), told apart by markers and dashes as well.
Widths are those of a column (3.25 in) and of a page of text (6.75 in), with type of 7 points or more.
Same runs, same bytes: no dates or random ids in the files.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.lab.directory import write_file
from chunked_td.lab.errors import WriteError
from chunked_td.lab.studies import Arm, Study

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
        """The dash in matplotlib's words."""
        return {"solid": "-", "dash": (0, (4, 1.5)), "dot": (0, (1, 1.2))}[self.dash]


def styles(arms: Sequence[Arm]) -> dict[str, Style]:
    """A style per arm: fixed λ by its value, the others by where λ comes from (colour) and from which model (dash)."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    fixed = [arm for arm in arms if arm.fixed_lambda is not None]
    few = (BLUE, GREEN, ORANGE) if len(fixed) <= 3 else ()
    hues = {"ForwardLambda": VERMILION, "ExpectedLambda": BLACK, "FactoredLambda": PURPLE, "BackwardLambda": SKY}
    dashes = {"network": "solid", "counts": "solid", "oracle": "dot", "fixed": "solid"}
    networks = any(arm.kind == "network" for arm in arms)
    found: dict[str, Style] = {}
    for place, arm in enumerate(arms):
        marker = MARKERS[place % len(MARKERS)]
        if arm.fixed_lambda is not None:
            rank = fixed.index(arm)
            color = few[rank] if few else to_hex(colormaps["viridis"](0.9 * rank / (len(fixed) - 1)))
            found[arm.id] = Style(color, "solid", marker, 1.0)
        else:
            dash = "dash" if networks and arm.kind == "counts" else dashes[arm.kind]
            color = next((hue for name, hue in hues.items() if name in arm.lambda_source), GREY)
            found[arm.id] = Style(color, dash, marker, 1.8)
    return found


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
    """Names beside the right ends of curves, pushed apart as little as keeps them from overlapping.

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
    """Write `folder/name.svg`, `.pdf` and `.png`, each there whole or not at all."""
    with house_style():  # the layout is worked out once, not once per format
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    paths = []
    for kind in FORMATS:
        path = folder / f"{name}.{kind}"
        write_whole(path, render(figure, kind))
        paths.append(path)
    return paths


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under another name and rename it, so that nobody ever sees half of it."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(temporary, content)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise WriteError(f"cannot write {path}: {os.strerror(error.errno or 0)}") from error


@dataclass(frozen=True)
class Drawing:
    """A figure with its file name, the study it belongs to and a caption that says what is to be seen."""

    name: str
    study: str
    caption: str
    figure: Figure


def all_figures(studies: Mapping[str, Study]) -> list[Drawing]:
    """Every figure that the stored runs allow."""
    from chunked_td.lab import figures_curves, figures_network, figures_sweeps, figures_tables

    drawings: list[Drawing] = []
    with house_style():
        for module in (figures_curves, figures_sweeps, figures_tables, figures_network):
            drawings += module.drawings(studies)
    return drawings


def save_all(studies: Mapping[str, Study], folder: Path) -> list[Drawing]:
    """Draw and write every figure; returns what was drawn."""
    drawings = all_figures(studies)
    for drawing in drawings:
        save(drawing.figure, folder, drawing.name)
    return drawings
