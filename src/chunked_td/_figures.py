"""House style of figures, and their bytes as SVG and PNG: the same figure gives the same bytes.

Colours are the Okabe–Ito palette. Type is 7 points or more at a width of 6.75 inches, a page of text.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from chunked_td._loading import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = 6.75
"""Inches."""
BLUE, VERMILION, GREEN, ORANGE, GREY = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#767676"

_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 7.5,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
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
    "figure.dpi": 200,
    "savefig.dpi": 200,
    "svg.hashsalt": "chunked-td",
    "svg.fonttype": "path",
}


@contextlib.contextmanager
def house_style() -> Iterator[None]:
    """Matplotlib settings for a `with` block."""
    require("a picture", "matplotlib")
    import matplotlib as mpl

    settings: Any = {**mpl.rcParamsDefault, **_STYLE, "backend": mpl.rcParams["backend"]}
    with mpl.rc_context(settings):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure without a window, in inches; make it and draw on it inside `house_style`."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def as_svg(figure: Figure) -> str:
    """A figure as an SVG document."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer, dpi = io.StringIO(), figure.dpi
    with house_style():
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": "chunked-td"})
    figure.set_dpi(dpi)  # SVG sets its own, 72, which would make a PNG of the same figure coarse
    return buffer.getvalue()


def as_png(figure: Figure) -> bytes:
    """A figure as a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    buffer = io.BytesIO()
    with house_style():
        FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
    return buffer.getvalue()
