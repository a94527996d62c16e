"""Pictures of a comparison: every learner minus the recommended one; learning curves, λ and step sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td._figures import BLUE, GREEN, GREY, ORANGE, PAGE, house_style, new_figure
from chunked_td.comparison.answer import verdict
from chunked_td.comparison.arms import ERRORS, FIXED, LEARNED, PLANS, RANDOM
from chunked_td.comparison.results import Comparison, Outcome
from chunked_td.statistics import Estimate, mean_and_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOP = 10
"""Rows of the table and of the picture; the rest is folded away."""
SHORT = 20
"""Characters of a name that fits above a column of numbers and below the picture."""
SCORE = "mean return of all training episodes, exploration included"
COLORS = {FIXED: BLUE, LEARNED: GREEN, ERRORS: ORANGE, PLANS: GREY, RANDOM: GREY}
_KINDS = {FIXED: "fixed λ", LEARNED: "learned λ", ERRORS: "TD errors from a model", PLANS: "planning, acting at random"}


def ranked(found: Comparison) -> list[Outcome]:
    """The recommended learner, then the others, best first; arms that plan are not among them."""
    return sorted(found.rows, key=lambda one: one is not found.recommended)


def apart(found: Comparison) -> list[Outcome]:
    """Planning and acting at random: references, not candidates for λ."""
    return [*found.planning, found.random]


def ranking_figure(found: Comparison) -> Figure:
    """Each learner minus the recommended one, with the intervals that verdicts are made by; a dot is a seed."""
    from matplotlib.lines import Line2D

    rows, used = [*ranked(found)[:TOP], *apart(found)], found.recommended
    base = found.seeds_of(used) if used else np.zeros(found.seeds)
    gaps = [found.lead(one, used) if used else found.score(one) for one in rows]
    if used:
        gaps[rows.index(used)] = Estimate(0.0, np.nan, np.nan)
    with house_style():
        figure = new_figure(PAGE, 0.9 + 0.27 * len(rows))
        axes = figure.subplots()
        low, high = _limits(rows, gaps)
        for y, (one, gap) in enumerate(zip(rows, gaps, strict=True)):
            color, own = COLORS[one.arm.kind], found.seeds_of(one) - base
            inside = own[(own >= low) & (own <= high)]
            axes.plot(inside, np.full(inside.size, y + 0.24), ".", color=color, alpha=0.35, ms=2.5, mew=0)
            if np.isfinite(gap.low):
                axes.plot([gap.low, gap.high], [y, y], color=color, lw=2.2, solid_capstyle="butt", alpha=0.75)
            axes.plot([gap.value], [y], "o", color=color, ms=4.5, zorder=3)
            axes.text(1.01, y, verdict(found, one), transform=axes.get_yaxis_transform(), va="center", fontsize=7.5)
        if used:
            axes.axvline(0.0, color="#1a1a1a", lw=0.9, zorder=1)
        axes.axhline(len(rows) - len(apart(found)) - 0.5, color="#bbbbbb", lw=0.7)
        axes.set(xlim=(low, high), ylim=(len(rows) - 0.4, -0.6))
        axes.set_yticks(range(len(rows)), [found.name(one.arm) for one in rows])
        axes.get_yticklabels()[0].set_fontweight("bold" if used else "normal")
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", visible=False)
        first = found.name(used.arm) if used else ""
        minus = f"mean return minus that of {first if len(first) <= SHORT else 'the first row'}"
        axes.set_xlabel(f"← worse     {minus}     better →" if used else "mean return")
        axes.set_title(f"{found.settings.env}, {found.seeds} seeds", loc="left")
        kinds = [kind for kind in _KINDS if any(one.arm.kind == kind for one in rows)]
        lines = [Line2D([], [], color=COLORS[kind], marker="o", ms=4, lw=2) for kind in kinds]
        figure.legend(lines, [_KINDS[kind] for kind in kinds], loc="outside lower center", ncols=4)
    return figure


def _limits(rows: list[Outcome], gaps: list[Estimate]) -> tuple[float, float]:
    """Ends of the axis: every mean and interval of the learners; acting at random, the last, only if it is near."""
    ends = [end for one, gap in zip(rows, gaps, strict=True) if one.arm.kind != RANDOM for end in gap]
    ends = [end for end in ends if np.isfinite(end)]
    low, high = min(ends, default=-1.0), max(ends, default=1.0)
    if 2 * low - high <= gaps[-1].value and high > low:
        low = min(low, gaps[-1].value)
    margin = 0.06 * (high - low) or 1.0
    return low - margin, high + margin


def details_figure(found: Comparison) -> Figure:
    """Learning curves, λ over training and step sizes of the best of each kind."""
    first: dict[str, Outcome] = {}
    for one in (*ranked(found), *found.planning):
        first.setdefault(one.arm.kind, one)
    with house_style():
        figure = new_figure(PAGE, 2.5)
        curves, lambdas, sizes = figure.subplots(1, 3)
        for kind, one in first.items():
            look = {"color": COLORS[kind], "label": found.name(one.arm)}
            _band(curves, one.marks, one.at_chosen(one.mean_return), **look)
            _band(lambdas, one.marks, one.at_chosen(one.mean_lambda), **look)
            there = np.isfinite(one.all_scores).all(axis=1)
            _band(sizes, one.step_sizes[there], one.all_scores[there].T, **look)
        curves.set(xlabel="episode", ylabel="return since the last point")
        lambdas.set(xlabel="episode", ylabel="mean λ", ylim=(-0.03, 1.03))
        sizes.set(xlabel="step size α", ylabel="mean return", xscale="log")
        handles, labels = curves.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def _band(axes: Any, x: np.ndarray, values: np.ndarray, **look: Any) -> None:
    """A mean with its 95 % interval. Args: values: float64[seeds, points]."""
    there = np.isfinite(values).any(axis=0)
    mean, low, high = mean_and_interval(values[:, there])
    axes.fill_between(x[there], low, high, color=look["color"], alpha=0.15, lw=0)
    axes.plot(x[there], mean, marker="." if x.size < 12 else None, **look)
