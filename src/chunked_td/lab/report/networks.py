"""What the world models learned: loss, calibration, and λ on predictable and on noisy steps over training.

Network arms may add these columns to the table (see `chunked_td.models.neural.diagnostics` for the definitions), each a
mean over the episodes since the last checkpoint; whatever is missing is left out:

    loss                                    training loss
    lambda_predictable, lambda_noisy        λ on steps whose outcome is certain, and on the others
    calibration_predicted_B, _observed_B, _count_B   for bin B of the probability of the most probable outcome
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chunked_td.lab.report.choice import Drawing
from chunked_td.lab.report.style import GREY, PAGE, new_figure, styles, thousands
from chunked_td.lab.results.runs import ArmResults, Results, RunArrays
from chunked_td.lab.statistics import mean_and_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOSS, PREDICTABLE, NOISY = "loss", "lambda_predictable", "lambda_noisy"


@dataclass(frozen=True)
class Calibration:
    """Predicted probability, observed frequency and number of predictions, float64[bins]."""

    predicted: np.ndarray
    observed: np.ndarray
    count: np.ndarray


def network_drawings(study: Results) -> list[Drawing]:
    """One figure, if the study's runs have diagnostics."""
    arms = diagnosed(study)
    caption = (
        "World models over training, mean over all runs with 95 % bootstrap intervals. Left: training loss. "
        "Middle: λ on predictable (solid) and on noisy (dashed) steps. Right: calibration at the end of "
        "training; area is the number of predictions."
    )
    return [Drawing(f"{study.id}-networks", study.id, caption, network_figure(study, arms))] if arms else []


def diagnosed(study: Results) -> list[ArmResults]:
    """Arms whose runs have any diagnostics."""
    return [
        arm
        for arm in study.arms
        if arm.runs is not None
        and (pick(arm.runs, LOSS) is not None or pick(arm.runs, NOISY) is not None or calibration(arm.runs) is not None)
    ]


def pick(runs: RunArrays, name: str) -> np.ndarray | None:
    """A column if it is there, float64[runs, K]: step sizes and seeds side by side."""
    return runs.columns[name].reshape(-1, len(runs.episodes)) if name in runs.columns else None


def calibration(runs: RunArrays) -> Calibration | None:
    """Calibration at the last checkpoint that has it, pooled over runs."""
    pattern = re.compile(r"calibration_(predicted|observed|count)_(\d+)$")
    parts: dict[str, dict[int, np.ndarray]] = {}
    for name, values in runs.columns.items():
        if match := pattern.match(name):
            parts.setdefault(match[1], {})[int(match[2])] = values[:, :, -1].ravel()
    if not {"predicted", "observed", "count"} <= parts.keys():
        return None
    bins = sorted(set(parts["predicted"]) & set(parts["observed"]) & set(parts["count"]))
    count = np.array([np.nansum(parts["count"][b]) for b in bins])
    with np.errstate(invalid="ignore", divide="ignore"):
        sums = {
            kind: [np.nansum(parts[kind][b] * parts["count"][b]) for b in bins] for kind in ("predicted", "observed")
        }
        predicted, observed = (np.asarray(sums[kind]) / count for kind in ("predicted", "observed"))
    return Calibration(predicted, observed, count)


def network_figure(study: Results, arms: Sequence[ArmResults]) -> Figure:
    """Loss, λ and calibration of the network arms, three panels."""
    figure, (loss, lambdas, reliability) = new_figure(PAGE, 2.2, 3)
    looks = styles(study.arms)
    for arm in arms:
        runs, color = arm.require_runs(), looks[arm.id].color
        _line(loss, runs, LOSS, color, "-", arm.label)
        _line(lambdas, runs, PREDICTABLE, color, "-", f"{arm.label}, predictable")
        _line(lambdas, runs, NOISY, color, "--", f"{arm.label}, noisy")
        found = calibration(runs)
        if found is not None:
            area = 4 + 60 * found.count / max(found.count.max(), 1)
            look = {"s": area, "color": color, "alpha": 0.7, "clip_on": False}  # whole dots at 1
            reliability.scatter(found.predicted, found.observed, label=arm.label, **look)
    _finish(loss, lambdas, reliability)
    if loss.get_legend_handles_labels()[0]:
        figure.legend(*loss.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _line(axes: Axes, runs: RunArrays, name: str, color: str, linestyle: str, label: str) -> None:
    values = pick(runs, name)
    if values is None:
        return
    mean, interval = mean_and_interval(values)
    axes.fill_between(runs.episodes, interval.low, interval.high, color=color, alpha=0.2, linewidth=0)
    marker = "o" if len(mean) == 1 else ""  # a line through one point cannot be seen
    axes.plot(runs.episodes, mean, color=color, linestyle=linestyle, marker=marker, label=label)


def _finish(loss: Axes, lambdas: Axes, reliability: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    for axes, title in ((loss, "training loss"), (lambdas, "mean λ"), (reliability, "calibration")):
        axes.set_title(title)
        if not axes.has_data():
            axes.text(0.5, 0.5, "not recorded", transform=axes.transAxes, ha="center", color=GREY)
    for axes in (loss, lambdas):
        axes.set_xlabel("episodes")
        thousands(axes.xaxis)
        axes.locator_params(axis="x", nbins=4)
    if loss.has_data():
        loss.set_yscale("log")
        low, high = loss.get_ylim()
        loss.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 7) if high < 10 * low else (1, 2, 5)))
        loss.yaxis.set_minor_locator(NullLocator())
        loss.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    lambdas.set_ylim(0, 1.02)
    lambdas.text(0.98, 0.5, "solid: predictable\ndashed: noisy", transform=lambdas.transAxes, ha="right", color=GREY)
    reliability.plot([0, 1], [0, 1], color=GREY, dashes=(4, 2), linewidth=0.8, zorder=1)
    reliability.set(xlabel="predicted probability", ylabel="observed frequency", xlim=(0, 1.03), ylim=(0, 1.03))
