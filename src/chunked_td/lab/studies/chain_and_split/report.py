"""Figures and text of Chain-and-Split: the gap ΔQ over training (Figures 4 and 6)."""

from __future__ import annotations

from chunked_td.lab.report.choice import FigureChoice, Plot
from chunked_td.lab.report.plots import curve_plot, error_plot, level
from chunked_td.lab.results.runs import Results
from chunked_td.lab.studies.chain_and_split.claims import EARLY
from chunked_td.lab.studies.chain_and_split.protocol import TRUTH

PUBLISHED = (
    "Figures of ΔQ for SARSA(0), SARSA(1) and Chunked SARSA at selected step sizes, ten seeds, and the "
    "table of those step sizes. Chunked SARSA finds the best action early and approaches the true gap "
    "smoothly; SARSA(0) is slower and less stable; SARSA(1) stays negative for long. With ten times the "
    "data all three are positive."
)


def plots(study: Results, _: Results | None) -> list[Plot]:
    """ΔQ early and to the end, and its error for every step size."""
    untils = sorted({min(EARLY, study.length), study.length})
    return [*(gap_plot(study, until) for until in untils), error_plot(study, TRUTH)]


def gap_plot(study: Results, until: int) -> Plot:
    """ΔQ over episodes at the selected step sizes."""
    caption = f"Gap ΔQ at the selected step sizes to {until:,} episodes; mean and 95 % bootstrap interval."
    lines, span = level(TRUTH, f"truth {TRUTH:g}"), [-1.2 * TRUTH, 2 * TRUTH]
    return curve_plot(study, f"gap-{until}", f"To {until:,} episodes", caption, lines, until=until, range=span)


FIGURES = FigureChoice(plots)
