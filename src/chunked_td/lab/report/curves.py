"""Score over training: mean curves with shaded intervals, a building block for experiments' own figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from chunked_td.lab.report.style import styles, thousands
from chunked_td.lab.results.runs import ArmResults, Results, evenly
from chunked_td.lab.statistics import mean_and_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_curves(
    axes: Axes, curves: Sequence[tuple[ArmResults, int]], until: int, study: Results, *, narrow: bool = False
) -> list[tuple[float, str, str]]:
    """Means with shaded intervals; returns (height at the end, label, colour) of each."""
    looks = styles(study.arms)
    ends = []
    for arm, exponent in curves:
        runs = arm.require_runs()
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
