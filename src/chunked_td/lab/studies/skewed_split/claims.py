"""Claims and figures of the skewed split: where the paper's λ converges to, and where the expected λ does."""

from __future__ import annotations

from chunked_td.lab.report.choice import FigureChoice, Plot
from chunked_td.lab.report.plots import curve_plot, error_plot, level
from chunked_td.lab.report.style import VERMILION
from chunked_td.lab.results.criteria import settles_at
from chunked_td.lab.results.runs import Results
from chunked_td.lab.studies.skewed_split.protocol import BIASED_FIXED_POINT, TRUTH
from chunked_td.lab.study import Claim

CLOSE = 0.05  # how near V(s₀) must come to a fixed point

CLAIMS = (
    Claim("bias-forward", "ours",
          "Chunked-TD settles at 0.28, not at the true value 1: its λ knows the outcome that it weighs.",
          f"At the smallest step size the interval of V(s₀) over the second half of the runs lies within {CLOSE} of "
          "0.28.", ("chunked",), lambda study, _: settles_at(study, "chunked", BIASED_FIXED_POINT, CLOSE),
          short="the paper's λ settles at 0.28, not 1"),
    Claim("bias-expected", "ours", "With the expected probability as λ, V(s₀) settles at the true value 1.",
          f"The same, within {CLOSE} of 1.", ("expected",),
          lambda study, _: settles_at(study, "expected", TRUTH, CLOSE), short="the expected λ settles at 1"),
)  # fmt: skip


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
