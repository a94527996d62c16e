"""A choice of figures for experiments whose score is an estimate of a known value: the score over training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chunked_td.lab.report.choice import Drawing, FigureChoice, Plot
from chunked_td.lab.report.curves import draw_curves
from chunked_td.lab.report.plots import axis, curve_traces, error_plot, layout, level
from chunked_td.lab.report.style import GREY, PAGE, label_ends, new_figure
from chunked_td.lab.results.runs import ArmResults, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def over_training(truth: float) -> FigureChoice:
    """The score of every arm over training at its selected step size, beside `truth`, and its error per step size."""

    def drawings(study: Results, _: Results | None) -> list[Drawing]:
        return [Drawing(f"{study.id}-curves", study.id, _caption(study, truth), curve_figure(study, truth))]

    def plots(study: Results, _: Results | None) -> list[Plot]:
        return [curve_plot(study, truth), error_plot(study, truth)]

    return FigureChoice(drawings, plots)


def curve_figure(study: Results, truth: float) -> Figure:
    """The curves for print."""
    figure, (axes,) = new_figure(0.72 * PAGE, 2.4)
    ends = draw_curves(axes, _selected(study), study.length, study)
    axes.axhline(truth, color=GREY, dashes=(4, 2), linewidth=0.9, zorder=1)
    axes.set_ylabel(study.about.score_label)
    label_ends(axes, [*ends, (truth, "truth", GREY)])
    return figure


def curve_plot(study: Results, truth: float) -> Plot:
    """The curves as an interactive plot."""
    traces = curve_traces(study, _selected(study), study.length)
    form = layout(axis("episodes", tickformat=",d"), axis(study.about.score_label), **level(truth, f"truth {truth:g}"))
    return Plot(f"{study.id}-curves", "Over training", _caption(study, truth), traces, form, ("bands", "logx"))


def _selected(study: Results) -> list[tuple[ArmResults, int]]:
    return [(arm, study.selected[arm.id]) for arm in study.present]


def _caption(study: Results, truth: float) -> str:
    label = study.about.score_label
    return (
        f"{label} over training at the selected step sizes, mean over seeds with 95 % bootstrap intervals. "
        f"Dashed: the true value, {truth:g}."
    )
