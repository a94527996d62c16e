"""What the world models learned: loss, calibration, and λ on predictable and on noisy steps over training.

Network arms may add these columns to the table (see `chunked_td.models.neural.diagnostics` for the definitions), each a
mean over the episodes since the last checkpoint; whatever is missing is left out:

    loss                                    training loss
    lambda_predictable, lambda_noisy        λ on steps whose outcome is certain, and on the others
    calibration_predicted_B, _observed_B, _count_B   for bin B of the probability of the most probable outcome
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from chunked_td.lab.report.choice import Plot
from chunked_td.lab.report.plots import PlotlyTrace, arm_lines, axis, faint, in_panels, layout, numbers
from chunked_td.lab.report.style import GREY, styles
from chunked_td.lab.results.runs import ArmResults, Results, RunArrays

_CALIBRATION = re.compile(r"calibration_(predicted|observed|count)_(\d+)")


def network_plots(study: Results) -> list[Plot]:
    """Loss, λ and calibration of the world models, where they were recorded."""
    arms, looks = [arm for arm in study.arms if arm.runs is not None], styles(study.arms)

    def lines(column: str) -> list[PlotlyTrace]:
        def points(arm: ArmResults) -> tuple[Any, np.ndarray] | None:
            runs = arm.require_runs()  # step sizes and seeds side by side
            values = runs.columns.get(column)
            return None if values is None else (runs.episodes, values.reshape(-1, len(runs.episodes)))

        return arm_lines(arms, looks, points, markers=False)

    loss, dots = lines("loss"), [dot for arm in arms for dot in _calibration(arm, looks[arm.id].color)]
    lambdas = [("predictable steps", lines("lambda_predictable")), ("noisy steps", lines("lambda_noisy"))]
    episodes = axis("episodes", tickformat=",d", rangemode="tozero")
    unit: Any = {"range": [0, 1.04]}
    diagonal = {"type": "line", "x0": 0, "x1": 1, "y0": 0, "y1": 1, "line": {"color": GREY, "dash": "dash", "width": 1}}
    found = [
        Plot(f"{study.id}-loss", "World model: training loss", "Mean over all runs, with 95 % interval.", loss,
             layout(episodes, axis("loss", log=True)), ("bands", "logy"), ("logy",)),
        Plot(f"{study.id}-lambda", "World model: λ on predictable and on noisy steps",
             "Mean λ since the last checkpoint, over all runs.",
             *in_panels(lambdas, episodes, axis("mean λ", **unit)), ("bands",), panels=2),
        Plot(f"{study.id}-calibration", "World model: calibration",
             "Probability of the most probable outcome against how often it came, at the end of training.", dots,
             layout(axis("predicted probability", **unit), axis("observed frequency", **unit), shapes=[diagonal])),
    ]  # fmt: skip
    return [plot for plot in found if plot.data]


def _calibration(arm: ArmResults, color: str) -> list[PlotlyTrace]:
    predicted, observed, count = calibration(arm.require_runs())
    if not count.size:
        return []
    size = 7 + 22 * np.sqrt(count / max(count.max(), 1))
    return [{
        "type": "scatter", "mode": "markers", "x": numbers(predicted), "y": numbers(observed),
        "marker": {"color": faint(color, 0.65), "size": numbers(size)}, "name": arm.label,
        "customdata": numbers(count),
        "hovertemplate": "predicted %{x:.3f}, observed <b>%{y:.3f}</b><br>%{customdata:,} predictions<extra></extra>",
        "showlegend": True,
    }]  # fmt: skip


def calibration(runs: RunArrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predicted probability, observed frequency and count, float64[bins], at the last checkpoint, over all runs."""
    parts: dict[str, dict[int, np.ndarray]] = {"predicted": {}, "observed": {}, "count": {}}
    for name, values in runs.columns.items():
        if match := _CALIBRATION.fullmatch(name):
            parts[match[1]][int(match[2])] = values[:, :, -1].ravel()
    bins = sorted(set.intersection(*map(set, parts.values())))
    count = np.array([np.nansum(parts["count"][b]) for b in bins])
    with np.errstate(invalid="ignore", divide="ignore"):
        predicted, observed = (
            np.array([np.nansum(parts[kind][b] * parts["count"][b]) for b in bins]) / count
            for kind in ("predicted", "observed")
        )
    return predicted, observed, count
