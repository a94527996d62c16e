"""Step-size selection: which step size an experiment reports, and how reliable a choice from few seeds is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chunked_td.lab.statistics import RESAMPLES, bootstrap_weights, mean_sd
from chunked_td.lab.study import Selection

if TYPE_CHECKING:
    from chunked_td.lab.results.runs import RunArrays


def scores_at_selection(runs: RunArrays, selection: Selection | None, arm_id: str) -> np.ndarray:
    """float64[E, S]: the scores that selection reads; the last ones where the runs lack its checkpoint."""
    at = None if selection is None else selection.episode(arm_id)
    return runs.at(at if at is not None and runs.has(at) else None)


def selection_loss(runs: RunArrays, selection: Selection | None, arm_id: str) -> np.ndarray:
    """float64[E, S]: what selection minimises the mean of; the score where the experiment does not select."""
    scores = scores_at_selection(runs, selection, arm_id)
    if selection is None or selection.rule == "least mean":
        return scores
    return (scores - selection.truth) ** 2


def selected_exponent(runs: RunArrays, selection: Selection | None, arm_id: str) -> int:
    """The selected exponent of an arm: by the study's rule, or by least mean score where it has none."""
    return _least(runs, mean_sd(selection_loss(runs, selection, arm_id))[0])


def exponent_by_error_of_mean(runs: RunArrays, selection: Selection, arm_id: str) -> int:
    """The exponent under the other reading of "least squared error" (App. A.1): that of the mean over seeds."""
    return _least(runs, (mean_sd(scores_at_selection(runs, selection, arm_id))[0] - selection.truth) ** 2)


def _least(runs: RunArrays, loss: np.ndarray) -> int:
    """The exponent with the least loss, float64[E]; the first of several, NaN for step sizes without runs."""
    return int(runs.exponents[int(np.argmin(np.where(np.isnan(loss), np.inf, loss)))])


@dataclass(frozen=True)
class SelectionReplay:
    """What the paper's procedure would give if repeated: draw seeds, select a step size, report the mean.

    Attributes:
      shares: float64[E], how often each step size is selected. reported: float64[draws], mean scores at it.
    """

    shares: np.ndarray
    reported: np.ndarray


def replay_selection(
    runs: RunArrays, selection: Selection | None, arm_id: str, size: int = 10, draws: int = RESAMPLES
) -> SelectionReplay:
    """Select the step size of an arm from `size` seeds drawn with replacement from the stored ones, many times."""
    loss, scores = selection_loss(runs, selection, arm_id), runs.at()
    complete = ~np.isnan(loss).any(axis=0)
    loss, scores = loss[:, complete], scores[:, complete]
    weights = bootstrap_weights(loss.shape[1], draws, size) / size
    picked = np.argmin(weights @ loss.T, axis=1)
    shares = np.bincount(picked, minlength=len(loss)) / draws
    return SelectionReplay(shares, np.sum(weights * scores[picked], axis=1))
