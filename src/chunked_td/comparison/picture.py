"""Pictures of a comparison: every learner beside the recommended one; learning curves, λ and step sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td._figures import PAGE, house_style, new_figure
from chunked_td.comparison.answer import verdict
from chunked_td.comparison.arms import COLORS, ERRORS, FIXED, LEARNED, PLANS, RANDOM
from chunked_td.comparison.results import Comparison, Row
from chunked_td.comparison.wording import listed, rounded
from chunked_td.statistics import mean_and_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOP = 10
"""Rows of the table and of the picture; the rest is folded away."""
SCORE = "mean return of all training episodes, exploration included"
_KINDS = {FIXED: "fixed λ", LEARNED: "learned λ", ERRORS: "TD errors from a model", PLANS: "planning, acting at random"}


def ranked(found: Comparison) -> list[Row]:
    """The recommended learner, then the others, best first; those that plan are not among them."""
    return sorted(found.rows, key=lambda row: row is not found.recommended)


def apart(found: Comparison) -> list[Row]:
    """What does not answer which λ to use: planning, and acting at random."""
    return [*found.planning, found.reference]


def ranking_figure(found: Comparison) -> Figure:
    """Each learner minus the recommended one, with the intervals that verdicts are made by; a dot is a seed."""
    rows = [*ranked(found)[:TOP], *apart(found)]
    used, scores = found.recommended, found.family.scores
    with house_style():
        figure = new_figure(PAGE, 0.9 + 0.27 * len(rows))
        axes = figure.subplots()
        base = scores[used.place] if used else np.zeros(found.seeds)
        low, high = _limits(found, rows, base)
        for y, row in enumerate(rows):
            color, own = COLORS[row.arm.kind], scores[row.place] - base
            inside = own[(own >= low) & (own <= high)]
            axes.plot(inside, np.full(inside.size, y + 0.24), ".", color=color, alpha=0.35, ms=2.5, mew=0)
            gap = found.lead(row, used) if used else row.score
            if row is not used and np.isfinite(gap.low):
                axes.plot([gap.low, gap.high], [y, y], color=color, lw=2.2, solid_capstyle="butt", alpha=0.75)
            axes.plot([gap.value], [y], "o", color=color, ms=4.5, zorder=3)
            axes.text(1.01, y, verdict(found, row), transform=axes.get_yaxis_transform(), va="center", fontsize=7.5)
        if used:
            axes.axvline(0.0, color="#1a1a1a", lw=0.9, zorder=1)
        axes.axhline(len(rows) - len(apart(found)) - 0.5, color="#bbbbbb", lw=0.7)
        axes.set(xlim=(low, high), ylim=(len(rows) - 0.4, -0.6))
        axes.set_yticks(range(len(rows)), [found.name(row.arm) for row in rows])
        axes.get_yticklabels()[0].set_fontweight("bold" if used else "normal")
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", visible=False)
        than = f"← worse     mean return minus that of {found.name(used.arm)}     better →" if used else "mean return"
        axes.set_xlabel(than)
        axes.set_title(f"{found.settings.env}, {found.seeds} seeds", loc="left")
        _legend(figure, {row.arm.kind for row in rows})
    return figure


def _limits(found: Comparison, rows: list[Row], base: np.ndarray) -> tuple[float, float]:
    """Ends of the axis: every mean and interval of the learners; acting at random only if it is near."""
    used, ends = found.recommended, []
    for row in rows:
        if row is used:
            ends.append(0.0)
        elif row.arm.kind != RANDOM:
            gap = found.lead(row, used) if used else row.score
            ends += [gap.value, *(end for end in (gap.low, gap.high) if np.isfinite(end))]
    low, high = min(ends, default=-1.0), max(ends, default=1.0)
    random = float((found.family.scores[found.reference.place] - base).mean())
    if high - low > 0 and low - (high - low) <= random:
        low = min(low, random)
    margin = 0.06 * (high - low) or 1.0
    return low - margin, high + margin


def _legend(figure: Figure, kinds: set[str]) -> None:
    from matplotlib.lines import Line2D

    shown = [kind for kind in _KINDS if kind in kinds]
    lines = [Line2D([], [], color=COLORS[kind], marker="o", ms=4, lw=2) for kind in shown]
    figure.legend(lines, [_KINDS[kind] for kind in shown], loc="outside lower center", ncols=4)


def caption(found: Comparison) -> str:
    """Words below the picture."""
    used, left = found.recommended, len(found.rows) - TOP
    random = f" Acting at random: {rounded(found.reference.score.value, 3)}."
    more = f" {left} more in the table below." if left > 0 else ""
    if used is None:
        return f"The {SCORE}, with 95 % intervals; dots are seeds.{more}"
    return (
        f"The {SCORE}, minus that of the first row. A line that does not touch 0 is a difference that is shown; the "
        f"95 % intervals hold for all pairs at once. Dots are seeds.{random}{more}"
    )


def best_of_each_kind(found: Comparison) -> list[Row]:
    """The best row of each kind, the recommended one first."""
    first: dict[str, Row] = {}
    for row in (*ranked(found), *found.planning):
        first.setdefault(row.arm.kind, row)
    return list(first.values())


def details_figure(found: Comparison) -> Figure:
    """Learning curves, λ over training and step sizes of the best of each kind."""
    rows = best_of_each_kind(found)
    with house_style():
        figure = new_figure(PAGE, 2.5)
        curves, lambdas, sizes = figure.subplots(1, 3)
        for row in rows:
            one, look = row.outcome, {"color": COLORS[row.arm.kind], "label": found.name(row.arm)}
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


def alternative(found: Comparison) -> str:
    """The picture in words, for screen readers."""
    names = [found.name(row.arm) for row in ranked(found)[:TOP]]
    return (
        f"Learners on {found.settings.env}, best first: {listed(names, most=TOP)}." if names else "no learner is ranked"
    )
