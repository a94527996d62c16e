"""A choice of plots for studies whose score is an estimate of a known value: the score over training."""

from __future__ import annotations

from chunked_td.lab.report.choice import FigureChoice, Plot
from chunked_td.lab.report.plots import curve_plot, error_plot, level
from chunked_td.lab.results.runs import Results


def over_training(truth: float) -> FigureChoice:
    """The score of every arm over training at its selected step size, beside `truth`, and its error per step size."""

    def plots(study: Results, _: Results | None) -> list[Plot]:
        caption = (
            f"{study.about.score_label} over training at the selected step sizes, mean over seeds with 95 % bootstrap "
            f"intervals. Dashed: the true value, {truth:g}."
        )
        lines = level(truth, f"truth {truth:g}")
        return [curve_plot(study, "curves", "Over training", caption, lines), error_plot(study, truth)]

    return FigureChoice(plots)
