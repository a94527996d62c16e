"""Scores of the atlas, the better the larger: `(runs, record_at) -> {"score", "steps": float64[R, K]}`.

Steps are the transitions of the whole run, the same at every checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from chunked_td.lab.studies.atlas.families import FAMILIES
from chunked_td.lab.study import Scores


def _steps(runs: Any, record_at: np.ndarray) -> np.ndarray:
    return np.repeat(np.asarray(runs.steps)[:, None], len(record_at), axis=1)


def right_choices(runs: Any, record_at: np.ndarray) -> Scores:
    """The share of episodes that took the right way."""
    return {"score": 1.0 - np.asarray(runs.misses_at) / np.asarray(record_at), "steps": _steps(runs, record_at)}


def mean_return(runs: Any, record_at: np.ndarray) -> Scores:
    """The mean return of an episode."""
    return {"score": np.cumsum(runs.returns_at, axis=1) / np.asarray(record_at), "steps": _steps(runs, record_at)}


@dataclass(frozen=True)
class Accuracy:
    """Minus the root mean square error of the values of the uniform policy, averaged over the checkpoints so far.

    The values are V(s) = Σ_a Q(s,a)/|legal|; the states are those in which something can be done.
    """

    family: str
    setting: Any

    @cached_property
    def _truth(self) -> tuple[np.ndarray, np.ndarray]:
        """float64[P, n], from probed pairs to states, and float64[n], their values."""
        from chunked_td.analysis.exact import ExactModel

        family = FAMILIES[self.family]
        model = ExactModel(family.problem(self.setting))
        exact = dict(zip(model.ids.tolist(), model.evaluate("uniform", family.discount).v.sum(axis=1), strict=True))
        states = [s for s, _ in family.pairs(self.setting)]
        listed = sorted(set(states))
        mean = np.array([[float(s == t) for t in listed] for s in states])
        return mean / mean.sum(axis=0), np.array([exact[s] for s in listed])

    def __call__(self, runs: Any, record_at: np.ndarray) -> Scores:
        """Score the probed values of the runs."""
        mean, values = self._truth
        errors = np.sqrt(((np.asarray(runs.probes_at) @ mean - values) ** 2).mean(axis=-1))
        means = np.cumsum(errors, axis=1) / np.arange(1, errors.shape[1] + 1)
        return {"score": -means, "steps": _steps(runs, record_at)}
