"""Figures and text of Chain-and-Split: the gap ΔQ over training (Figures 4 and 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chunked_td.lab.report.choice import Drawing, FigureChoice, Plot
from chunked_td.lab.report.curves import draw_curves
from chunked_td.lab.report.plots import axis, curve_traces, error_plot, layout, level
from chunked_td.lab.report.style import COLUMN, GREY, PAGE, label_ends, new_figure
from chunked_td.lab.results.runs import Results
from chunked_td.lab.statistics import mean_and_interval
from chunked_td.lab.studies.chain_and_split.claims import EARLY
from chunked_td.lab.studies.chain_and_split.protocol import TRUTH

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHED = (
    "Figures of ΔQ for SARSA(0), SARSA(1) and Chunked SARSA at selected step sizes, ten seeds, and the "
    "table of those step sizes. Chunked SARSA finds the best action early and approaches the true gap "
    "smoothly; SARSA(0) is slower and less stable; SARSA(1) stays negative for long. With ten times the "
    "data all three are positive."
)


def drawings(study: Results, _: Results | None) -> list[Drawing]:
    """ΔQ curves of the paper's arms, early and to the end, and of all arms."""
    text = (
        "Action-value gap ΔQ at the selected step sizes, mean with 95 % bootstrap intervals over {} seeds, to {:,} "
        "episodes. Dashed: the true value, 0.01."
    )
    paper = study.with_arms(arm for arm in study.arms if arm.in_paper)
    found = []
    for until in sorted({min(EARLY, study.length), study.length}):
        name = f"{study.id}-gap-{until}"
        if paper.present:
            figure = gap_curves(paper, until, study)
            found.append(Drawing(name, study.id, text.format(study.seeds, until), figure))
    if len(study.present) > len(paper.present):
        until = min(EARLY, study.length)
        caption = "The same with the arms that we added. " + text.format(study.seeds, until)
        figure = gap_curves(study, until, width=PAGE)
        found.append(Drawing(f"{study.id}-gap-{until}-all-arms", study.id, caption, figure))
    return found


def gap_curves(study: Results, until: int, style_from: Results | None = None, width: float = COLUMN) -> Figure:
    """ΔQ over episodes at the selected step sizes, to `until` episodes, of the arms that come so far."""
    figure, (axes,) = new_figure(width, 2.3)
    reaching = [arm for arm in study.arms if arm.runs is not None and arm.runs.length >= until]
    curves = [(arm, study.selected[arm.id]) for arm in reaching]
    ends = draw_curves(axes, curves, until, style_from or study, narrow=width < 4)
    axes.axhline(TRUTH, color=GREY, dashes=(4, 2), linewidth=0.8, zorder=1)
    axes.axhline(0, color=GREY, linewidth=0.5, zorder=1)
    heights = [mean_and_interval(arm.runs.of(j)[:, arm.runs.episodes <= until]) for arm, j in curves if arm.runs]
    lowest = min(float(np.nanquantile(interval.low, 0.02)) for _, interval in heights)
    highest = max(float(np.nanmax(interval.high)) for _, interval in heights)
    axes.set_ylim(max(lowest, -8 * TRUTH) - 0.1 * TRUTH, min(max(highest, 1.3 * TRUTH), 4 * TRUTH))
    axes.set_ylabel(study.about.score_label)
    label_ends(axes, [*ends, (TRUTH, "truth", GREY)])
    return figure


def plots(study: Results, _: Results | None) -> list[Plot]:
    """ΔQ early and to the end, and its error for every step size."""
    untils = sorted({min(EARLY, study.length), study.length})
    return [*(gap_plot(study, until) for until in untils), error_plot(study, TRUTH)]


def gap_plot(study: Results, until: int) -> Plot:
    """ΔQ over episodes at the selected step sizes."""
    traces = curve_traces(study, [(arm, study.selected[arm.id]) for arm in study.present], until)
    form = layout(
        axis("episodes", tickformat=",d"),
        axis("ΔQ", range=[-1.2 * TRUTH, 2 * TRUTH]),
        **level(TRUTH, f"truth {TRUTH:g}"),
    )
    caption = f"Gap ΔQ at the selected step sizes to {until:,} episodes; mean and 95 % bootstrap interval."
    return Plot(f"{study.id}-gap-{until}", f"To {until:,} episodes", caption, traces, form, ("bands", "logx"))


FIGURES = FigureChoice(drawings, plots)
