"""Figures: one style for all studies, and the plots that several share. The same runs give the same bytes.

Colours are the Okabe–Ito palette, and viridis for a grid of fixed λs; arms also differ in markers.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from chunked_td import _figures
from chunked_td._figures import BLUE, GREEN, ORANGE, PAGE, VERMILION
from chunked_td.statistics import mean_and_interval
from studies.runner.arrays import ArmRuns, Results
from studies.runner.text import SUPERSCRIPTS, step_size_text

SKY, PURPLE, BLACK, GREY = "#56B4E9", "#CC79A7", "#000000", "#666666"
PALETTE = (VERMILION, PURPLE, SKY, BLACK, ORANGE, GREEN, BLUE)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "d")
CROWDED = 6
"""A plot with more lines than this has the fixed λs in a panel of their own."""

SMALL = {"xtick.labelsize": 7, "ytick.labelsize": 7, "legend.fontsize": 7, "svg.fonttype": "none"}
"""Changes to the style of the library's figures: smaller labels, and text as text."""


class Look(NamedTuple):
    """Style of an arm."""

    color: str
    marker: str
    width: float


@contextlib.contextmanager
def house_style() -> Iterator[None]:
    """Our matplotlib settings, for the time of a `with` block."""
    with _figures.house_style(), mpl.rc_context(SMALL):  # type: ignore[arg-type]
        yield


def svg(figure: Figure) -> bytes:
    """The bytes of a figure as SVG: the same for the same figure."""
    buffer = io.BytesIO()
    with house_style():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "chunked-td"})
    return buffer.getvalue()


def new_figure(panels: int = 1, *, height: float = 2.6, width: float = PAGE, **options: Any) -> tuple[Figure, Any]:
    """A figure with axes side by side, as wide as a page of text; a list of axes for more than one panel."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False, **options).ravel().tolist()
    return figure, axes[0] if panels == 1 else axes


def legend_below(figure: Figure, columns: int = 4) -> None:
    """One legend for all axes of a figure, below them; every label once."""
    shown = {
        label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if shown:
        figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=columns)


def looks(results: Results) -> dict[str, Look]:
    """A look per arm: fixed λs by their value, the others by colour."""
    found = {}
    fixed = [arm for arm in results.labels if arm in results.fixed]
    others = [arm for arm in results.labels if arm not in results.fixed]
    for place, arm in enumerate(results.labels):
        marker = MARKERS[place % len(MARKERS)]
        if arm in fixed:
            found[arm] = Look(grid_color(fixed.index(arm), len(fixed)), marker, 1.0)
        else:
            found[arm] = Look(PALETTE[others.index(arm) % len(PALETTE)], marker, 1.8)
    return found


def grid_color(rank: int, count: int) -> str:
    """Colour of one of `count` fixed λs."""
    few = (BLUE, GREEN, ORANGE)
    return few[rank] if count <= len(few) else to_hex(mpl.colormaps["viridis"](0.9 * rank / (count - 1)))


def line(
    axes: Axes, x: Any, values: np.ndarray, label: str, look: Look, *, band: bool = True, marker: bool = False
) -> None:
    """A mean over runs with the band of its interval. Args: values: float64[runs, points]."""
    mean, low, high = mean_and_interval(values)
    shape = look.marker if marker else None
    axes.plot(x, mean, color=look.color, marker=shape, linewidth=0.8 * look.width, label=label)
    if band:
        axes.fill_between(x, low, high, color=look.color, alpha=0.18, linewidth=0)


def level(axes: Axes, y: float | None, text: str, color: str = GREY) -> None:
    """A dashed line across a plot, with a text."""
    if y is not None:
        axes.axhline(y, color=color, linestyle=(0, (4, 1.5)), linewidth=1.0)
        axes.annotate(text, (1, y), xycoords=("axes fraction", "data"), ha="right", va="bottom", color=color)


def thousands(axis: Any) -> None:
    """Tick labels like 20,000."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def powers_of_ten(axis: Any) -> None:
    """Tick labels like 10⁻³ on a logarithmic axis."""
    names = {0: "1", 1: "10"}

    def text(x: float, _: Any) -> str:
        return names.get(j := round(np.log10(x)), "10" + str(j).translate(SUPERSCRIPTS))

    axis.set_major_formatter(FuncFormatter(text))
    axis.set_minor_formatter(NullFormatter())


def thinned(episodes: np.ndarray, until: int) -> np.ndarray:
    """Checkpoints to draw, bool[K]: those up to `until`, thinned if some are much closer than others."""
    inside = episodes <= until
    gaps = np.diff(episodes[inside], prepend=0)
    if gaps.max() <= 3 * gaps.min():
        return inside
    keep, last = inside.copy(), 0
    for k in range(int(inside.sum()) - 1):
        keep[k] = episodes[k] - last >= gaps.max()
        last = episodes[k] if keep[k] else last
    return keep


def curves(
    axes: Axes, results: Results, *, until: int | None = None, step_sizes: Mapping[str, float] | None = None
) -> None:
    """The score of every arm over training, at its selected step size or those given."""
    styles, last, chosen = looks(results), until or results.length, step_sizes or results.selected
    for arm, runs in results.arms.items():
        if runs.length >= last:
            inside = thinned(runs.episodes, last)
            label = f"{results.labels[arm]}, α = {step_size_text(chosen[arm])}"
            line(axes, runs.episodes[inside], runs.of_size(chosen[arm])[:, inside], label, styles[arm])
    axes.set(xlabel="episodes", ylabel=results.score)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    thousands(axes.xaxis)


def errors(axes: Axes, results: Results, truth: float, *, labelled: bool = True) -> None:
    """Root mean squared error of the score at the end of training against the step size."""
    styles = looks(results)
    for arm in results.present:
        runs, look = results.arms[arm], styles[arm]
        mean, low, high = map(np.sqrt, mean_and_interval((runs.at().T - truth) ** 2))
        axes.plot(
            runs.step_sizes, mean, color=look.color, marker=look.marker, label=results.labels[arm] if labelled else None
        )
        axes.fill_between(runs.step_sizes, low, high, color=look.color, alpha=0.18, linewidth=0)
    axes.set(xscale="log", yscale="log", xlabel="step size α", ylabel="root mean squared error")
    powers_of_ten(axes.xaxis)


def sweep_lines(axes: Axes, results: Results, arms: Sequence[str], *, bands: bool = True) -> None:
    """Mean score against the step size; the paper's means as crosses at the step sizes that it selected."""
    styles = looks(results)
    for arm in arms:
        runs = results.arms[arm]
        line(axes, runs.step_sizes, runs.at().T, results.labels[arm], styles[arm], band=bands, marker=True)
        if (number := results.paper.get(arm)) is not None and number.mean is not None:
            axes.plot(number.step_size, number.mean, "X", color=styles[arm].color, markersize=7)
    axes.set(xscale="log", xlabel="step size α")
    powers_of_ten(axes.xaxis)


def sweep_figure(results: Results) -> Figure:
    """Scores against the step size: fixed λs in a panel of their own, if there are many lines."""
    fixed = [arm for arm in results.present if arm in results.fixed]
    models = [arm for arm in results.present if arm not in results.fixed]
    crowded = len(results.present) > CROWDED and models
    groups = [("fixed λ", fixed), ("λ from a model", models)] if crowded else [("", list(results.present))]
    figure, axes = new_figure(len(groups), height=3.2, sharey=True)
    axes = axes if crowded else [axes]
    for panel, (title, arms) in zip(axes, groups, strict=True):
        sweep_lines(panel, results, arms, bands=arms != fixed)
        panel.set_title(title, loc="left")
        level(panel, results.best, "" if results.best is None else f"best possible {results.best:,g}")
    axes[0].set_ylabel(results.score)
    thousands(axes[0].yaxis)
    legend_below(figure)
    return figure


def both_signs_figure(results: Mapping[str, Results], chosen: Sequence[str]) -> Figure:
    """The same arms on two problems, a panel each; fixed λs are thin grey lines."""
    figure, axes = new_figure(len(results), height=3.2, sharey=True)
    for panel, (title, part) in zip(axes, results.items(), strict=True):
        for arm in part.present:
            if arm in part.fixed:
                mean = mean_and_interval(part.arms[arm].at().T).value
                panel.plot(part.arms[arm].step_sizes, mean, color="#9a9a9a", linewidth=0.7, label="fixed λs")
        sweep_lines(panel, part, [arm for arm in chosen if arm in part.present])
        panel.set_title(title, loc="left")
        level(panel, part.best, "" if part.best is None else f"best possible {part.best:,g}")
    axes[0].set_ylabel(next(iter(results.values())).score)
    thousands(axes[0].yaxis)
    legend_below(figure)
    return figure


def networks_figure(results: Mapping[str, Results]) -> Figure:
    """The networks of each problem, a row each: λ and loss over training at the selected step size, and calibration."""
    figure = Figure(figsize=(PAGE, 0.4 + 2.1 * len(results)), layout="constrained")
    rows = figure.subplots(len(results), 3, squeeze=False)
    for axes, (title, part) in zip(rows, results.items(), strict=True):
        styles = looks(part)
        for arm, runs in part.arms.items():
            if "loss" not in runs.columns:
                continue
            color, label = styles[arm].color, part.labels[arm]
            for name, dash in (("predictable", "-"), ("noisy", (0, (4, 1.5)))):
                mean = mean_and_interval(runs.of_size(part.selected[arm], f"lambda_{name}")).value
                axes[0].plot(runs.episodes, mean, color=color, linestyle=dash, label=f"{label}, {name} steps")
            axes[1].plot(runs.episodes, mean_and_interval(runs.of_size(part.selected[arm], "loss")).value, color=color)
            predicted, observed, count = calibration(runs)
            axes[2].scatter(predicted, observed, 12 + 60 * count / count.max(), color=color, alpha=0.6, linewidths=0)
        axes[2].plot([0, 1], [0, 1], color=GREY, linestyle=(0, (4, 1.5)), linewidth=1.0, zorder=0)
        axes[0].set_title(title, loc="left")
        axes[0].set(xlabel="episodes", ylabel="λ", ylim=(0, 1.02))
        axes[1].set(xlabel="episodes", ylabel="loss", ylim=(0, None))
        axes[2].set(xlabel="predicted probability", ylabel="observed frequency")
        for panel in axes[:2]:
            thousands(panel.xaxis)
    legend_below(figure, 2)
    return figure


def calibration(runs: ArmRuns) -> tuple[np.ndarray, ...]:
    """Predicted probability, observed frequency and count, float64[bins], at the end of training, over all runs."""
    counts, sums = np.zeros(10), np.zeros((2, 10))
    for k in range(10):
        count, *found = (runs.at(None, f"calibration_{name}_{k}") for name in ("count", "predicted", "observed"))
        counts[k], sums[:, k] = np.nansum(count), [np.nansum(count * each) for each in found]
    with np.errstate(invalid="ignore"):
        return *(sums / counts), counts


def seeds_figure(results: Results) -> Figure:
    """One dot per seed at the selected step size, a row per arm; bars are means."""
    styles, rows = looks(results), results.present
    figure, axes = new_figure(height=0.7 + 0.24 * len(rows))
    for row, arm in enumerate(rows):
        values = results.arms[arm].of_size(results.selected[arm])[:, -1]
        values = values[~np.isnan(values)]
        axes.plot(values, row + spread(values), ".", color=styles[arm].color, alpha=0.65, markersize=3)
        axes.plot([values.mean()] * 2, [row - 0.38, row + 0.38], color=styles[arm].color, linewidth=2.5)
    if results.best is not None:
        axes.axvline(results.best, color=GREY, linestyle=(0, (4, 1.5)), linewidth=1.0)
    axes.set_yticks(range(len(rows)), [results.labels[arm] for arm in rows])
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlabel=results.score)
    axes.grid(False, axis="y")
    thousands(axes.xaxis)
    return figure


def spread(values: np.ndarray, height: float = 0.32) -> np.ndarray:
    """Offsets that keep dots of nearly equal value apart: each takes the next place above or below the last one."""
    order = np.argsort(values, kind="stable")
    reach = (values.max() - values.min()) / 40 or 1.0
    offsets, group = np.zeros(len(values)), 0
    for place, index in enumerate(order):
        near = place > 0 and values[index] - values[order[place - 1]] < reach
        group = group + 1 if near else 0
        offsets[index] = (group + 1) // 2 * (1 if group % 2 else -1)
    return height * offsets / max(4.0, float(np.max(np.abs(offsets))))
