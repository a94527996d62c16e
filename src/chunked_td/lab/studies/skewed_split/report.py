"""Figures and text of the skewed split: V(s₀) over training, with the true value and the biased fixed point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chunked_td.lab.report.choice import Drawing, FigureChoice, Plot
from chunked_td.lab.report.curves import draw_curves
from chunked_td.lab.report.plots import axis, curve_traces, error_plot, layout, level
from chunked_td.lab.report.style import GREY, PAGE, VERMILION, label_ends, new_figure
from chunked_td.lab.results.runs import ArmResults, Results
from chunked_td.lab.studies.skewed_split.protocol import BIASED_FIXED_POINT, TRUTH

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHED = "Nothing: this experiment is ours. The paper does not discuss the bias that it shows."


def drawings(study: Results, _: Results | None) -> list[Drawing]:
    """V(s₀) over training."""
    caption = (
        "V(s₀) of the skewed split over training, mean of all seeds with 95 % bootstrap intervals, at the smallest "
        "step size. Dashed: the true value, 1. Dotted: the fixed point that the forward λ should have, 0.28."
    )
    return [Drawing(f"{study.id}-value", study.id, caption, value_curves(study))]


def at_smallest_step_size(study: Results) -> list[tuple[ArmResults, int]]:
    """Every arm with the exponent of its smallest step size."""
    return [(arm, int(arm.runs.exponents[-1])) for arm in study.present if arm.runs is not None]


def value_curves(study: Results) -> Figure:
    """V(s₀) over episodes at the smallest step size, with the true value and the biased fixed point."""
    figure, (axes,) = new_figure(0.72 * PAGE, 2.4)
    ends = draw_curves(axes, at_smallest_step_size(study), study.length, study)
    axes.axhline(TRUTH, color=GREY, dashes=(4, 2), linewidth=0.9, zorder=3)
    axes.axhline(BIASED_FIXED_POINT, color=VERMILION, dashes=(1, 1.5), linewidth=0.9, zorder=3)
    axes.set_ylim(0, 1.3)
    axes.set_ylabel(study.about.score_label)
    where = 0.99 * study.length
    axes.text(where, TRUTH + 0.1, f"true value {TRUTH:g}", ha="right", va="bottom", color=GREY)
    axes.text(
        where,
        BIASED_FIXED_POINT - 0.05,
        f"predicted fixed point {BIASED_FIXED_POINT:g}",
        ha="right",
        va="top",
        color=VERMILION,
    )
    label_ends(axes, ends)
    return figure


def plots(study: Results, _: Results | None) -> list[Plot]:
    """V(s₀) over training, and its error for every step size."""
    return [value_plot(study), error_plot(study, TRUTH)]


def value_plot(study: Results) -> Plot:
    """V(s₀) at the smallest step size."""
    traces = curve_traces(study, at_smallest_step_size(study), study.length)
    lines = level(TRUTH, f"true value {TRUTH:g}")
    biased = level(BIASED_FIXED_POINT, f"predicted fixed point {BIASED_FIXED_POINT:g}", VERMILION, "dot")
    both = {key: lines[key] + biased[key] for key in lines}
    form = layout(axis("episodes", tickformat=",d"), axis("V(s₀)", range=[0, 1.35]), **both)
    caption = "V(s₀) at the smallest step size; mean and 95 % bootstrap interval over seeds."
    return Plot(f"{study.id}-value", "Value of the start state", caption, traces, form, ("bands", "logx"))


FIGURES = FigureChoice(drawings, plots)
