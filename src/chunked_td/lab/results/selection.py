"""Step-size selection: which step size an experiment reports, and how reliable a choice from few seeds is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chunked_td.lab.statistics import RESAMPLES, bootstrap_weights, mean_sd
from chunked_td.lab.study import Selection

if TYPE_CHECKING:
    from chunked_td.lab.results.runs import RunArrays


def select_step_size(scores: np.ndarray, *, rule: str, truth: float | None = None) -> np.ndarray:
    """Index of the selected step size of each arm.

    Args:
      scores: float64[..., step sizes, seeds] at the checkpoint of selection.
      rule: "least mean" of the score over seeds, or "least squared error" against `truth`,
        averaged over seeds. "least error of mean" is the other reading of the paper's App. A.1: the
        squared error of the mean over seeds.
      truth: what the score should be.
    Returns:
      int64[...]; −1 where no step size has runs. Ties go to the first in the given order.
    """
    if rule == "least mean":
        loss = mean_sd(scores)[0]
    elif truth is None:
        raise ValueError(f"rule {rule!r} needs truth=, the value that the score should have")
    elif rule == "least squared error":
        loss = mean_sd((np.asarray(scores, dtype=np.float64) - truth) ** 2)[0]
    elif rule == "least error of mean":
        loss = (mean_sd(scores)[0] - truth) ** 2
    else:
        raise ValueError(f"rule {rule!r}: it is 'least mean', 'least squared error' or 'least error of mean'")
    loss = np.where(np.isnan(loss), np.inf, loss)
    return np.where(np.isinf(loss).all(axis=-1), -1, np.argmin(loss, axis=-1))


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
    """The selected exponent of an arm: by the experiment's rule, or by least mean score where it has none."""
    loss = selection_loss(runs, selection, arm_id)
    return int(runs.exponents[int(select_step_size(loss, rule="least mean"))])


def exponent_by_error_of_mean(runs: RunArrays, selection: Selection, arm_id: str) -> int:
    """The exponent under the other reading of "least squared error": that of the mean over seeds."""
    scores = scores_at_selection(runs, selection, arm_id)
    index = select_step_size(scores, rule="least error of mean", truth=selection.truth)
    return int(runs.exponents[int(index)])


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
