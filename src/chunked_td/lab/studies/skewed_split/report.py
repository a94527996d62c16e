"""Figures and text of the skewed split: V(s₀) over training, with the true value and the biased fixed point."""

from __future__ import annotations

from chunked_td.lab.report.choice import FigureChoice, Plot
from chunked_td.lab.report.plots import curve_plot, error_plot, level
from chunked_td.lab.report.style import VERMILION
from chunked_td.lab.results.runs import Results
from chunked_td.lab.studies.skewed_split.protocol import BIASED_FIXED_POINT, TRUTH

PUBLISHED = "Nothing: this experiment is ours. The paper does not discuss the bias that it shows."


def plots(study: Results, _: Results | None) -> list[Plot]:
    """V(s₀) over training at the smallest step size, and its error for every step size."""
    truth = level(TRUTH, f"true value {TRUTH:g}")
    biased = level(BIASED_FIXED_POINT, f"predicted fixed point {BIASED_FIXED_POINT:g}", VERMILION, "dot")
    value = curve_plot(
        study,
        "value",
        "Value of the start state",
        "V(s₀) at the smallest step size; mean and 95 % bootstrap interval over seeds.",
        {key: truth[key] + biased[key] for key in truth},
        exponent=lambda arm: int(arm.require_runs().exponents[-1]),
        range=[0, 1.35],
    )
    return [value, error_plot(study, TRUTH)]


FIGURES = FigureChoice(plots)
