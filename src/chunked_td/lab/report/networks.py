"""What the world models learned: loss, calibration, and λ on predictable and on noisy steps over training.

Network arms may add these columns to the table (see `chunked_td.models.neural.diagnostics` for the definitions), each a
mean over the episodes since the last checkpoint; whatever is missing is left out:

    loss                                    training loss
    lambda_predictable, lambda_noisy        λ on steps whose outcome is certain, and on the others
    calibration_predicted_B, _observed_B, _count_B   for bin B of the probability of the most probable outcome
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from chunked_td.lab.results.runs import ArmResults, Results, RunArrays

LOSS, PREDICTABLE, NOISY = "loss", "lambda_predictable", "lambda_noisy"


@dataclass(frozen=True)
class Calibration:
    """Predicted probability, observed frequency and number of predictions, float64[bins]."""

    predicted: np.ndarray
    observed: np.ndarray
    count: np.ndarray


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
