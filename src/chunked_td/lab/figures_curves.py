"""Curves over training: the gap ΔQ of Chain-and-Split (Figures 4 and 6) and V(s₀) of the skewed split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from chunked_td.lab.figures import COLUMN, GREY, PAGE, VERMILION, Drawing, label_ends, new_figure, styles, thousands
from chunked_td.lab.studies import Arm, Study, evenly, mean_and_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EARLY = 100_000


def drawings(studies: Mapping[str, Study]) -> list[Drawing]:
    """The curves that the stored runs allow."""
    found: list[Drawing] = []
    gap = studies.get("chain-and-split")
    if gap is not None and gap.present:
        found += _gap_drawings(gap)
    skewed = studies.get("skewed-split")
    if skewed is not None and skewed.present:
        caption = (
            "V(s₀) of the skewed split over training, mean of all seeds with 95 % bootstrap intervals, at the smallest "
            "step size. Dashed: the true value, 1. Dotted: the fixed point that the forward λ should have, 0.28."
        )
        found.append(Drawing("skewed-split-value", skewed.id, caption, value_curves(skewed)))
    return found


def _gap_drawings(study: Study) -> list[Drawing]:
    text = (
        "Action-value gap ΔQ at the selected step sizes, mean with 95 % bootstrap intervals over {} seeds, to {:,} "
        "episodes. Dashed: the true value, 0.01."
    )
    paper = study.with_arms(arm for arm in study.arms if arm.in_paper)
    found = []
    for until in sorted({min(EARLY, study.length), study.length}):
        name = f"chain-and-split-gap-{until}"
        if paper.present:
            figure = gap_curves(paper, until, study)
            found.append(Drawing(name, study.id, text.format(study.seeds, until), figure))
    if len(study.present) > len(paper.present):
        until = min(EARLY, study.length)
        caption = "The same with the arms that we added. " + text.format(study.seeds, until)
        figure = gap_curves(study, until, width=PAGE)
        found.append(Drawing(f"chain-and-split-gap-{until}-all-arms", study.id, caption, figure))
    return found


def gap_curves(study: Study, until: int, style_from: Study | None = None, width: float = COLUMN) -> Figure:
    """ΔQ over episodes at the selected step sizes, to `until` episodes, of the arms that come so far."""
    figure, (axes,) = new_figure(width, 2.3)
    reaching = [arm for arm in study.arms if arm.runs is not None and arm.runs.length >= until]
    curves = [(arm, study.selected[arm.id]) for arm in reaching]
    ends = draw_curves(axes, curves, until, style_from or study, narrow=width < 4)
    truth = study.description["best"]
    axes.axhline(truth, color=GREY, dashes=(4, 2), linewidth=0.8, zorder=1)
    axes.axhline(0, color=GREY, linewidth=0.5, zorder=1)
    heights = [mean_and_interval(arm.runs.of(j)[:, arm.runs.episodes <= until]) for arm, j in curves if arm.runs]
    lowest = min(float(np.nanquantile(interval.low, 0.02)) for _, interval in heights)
    highest = max(float(np.nanmax(interval.high)) for _, interval in heights)
    axes.set_ylim(max(lowest, -8 * truth) - 0.1 * truth, min(max(highest, 1.3 * truth), 4 * truth))
    axes.set_ylabel(study.description["score_label"])
    label_ends(axes, [*ends, (truth, "truth", GREY)])
    return figure


def value_curves(study: Study) -> Figure:
    """V(s₀) over episodes at the smallest step size, with the true value and the biased fixed point."""
    from chunked_td.lab.experiments.skewed_split import BIASED_FIXED_POINT, TRUTH

    figure, (axes,) = new_figure(0.72 * PAGE, 2.4)
    curves = [(arm, int(arm.runs.exponents[-1])) for arm in study.present if arm.runs is not None]
    ends = draw_curves(axes, curves, study.length, study)
    axes.axhline(TRUTH, color=GREY, dashes=(4, 2), linewidth=0.9, zorder=3)
    axes.axhline(BIASED_FIXED_POINT, color=VERMILION, dashes=(1, 1.5), linewidth=0.9, zorder=3)
    axes.set_ylim(0, 1.3)
    axes.set_ylabel(study.description["score_label"])
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


def draw_curves(
    axes: Axes, curves: Sequence[tuple[Arm, int]], until: int, study: Study, *, narrow: bool = False
) -> list[tuple[float, str, str]]:
    """Means with shaded intervals; returns (height at the end, label, colour) of each."""
    looks = styles(study.arms)
    ends = []
    for arm, exponent in curves:
        runs = arm.runs
        assert runs is not None
        inside = evenly(runs.episodes, until)
        episodes = runs.episodes[inside]
        mean, interval = mean_and_interval(runs.of(exponent)[:, inside])
        look = looks[arm.id]
        axes.fill_between(episodes, interval.low, interval.high, color=look.color, alpha=0.2, linewidth=0)
        marker = "o" if len(mean) == 1 else ""  # a line through one point cannot be seen
        axes.plot(episodes, mean, color=look.color, linestyle=look.linestyle, linewidth=look.width, marker=marker)
        ends.append((float(mean[-1]), arm.label, look.color))
    axes.set_xlim(0, until)
    axes.set_xlabel("episodes")
    thousands(axes.xaxis)
    axes.set_xticks(np.linspace(0, until, 3 if narrow else 6))
    return ends
