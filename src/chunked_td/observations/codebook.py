"""Learned codes: online vector quantisation of real-valued observations (k-means with a decay)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chunked_td._checks import check_unit, check_whole
from chunked_td._link import compiled
from chunked_td.observations.discretise import Discretise
from chunked_td.observations.indexers import Indexer, checked_id


class Codebook(Indexer):
    """Learned codebook: the code of an observation is the index of the nearest of up to K centres.

        k = argmin_j ‖z − w_j‖;   n_k ← n_k + 1;   w_k ← w_k + max(1/n_k, rate) (z − w_k)

    z is the observation with every dimension scaled to [0, 1] and clipped. While there are fewer than K centres, an
    observation farther than half a cell, K^(−1/n)/2 in n dimensions, from all of them becomes a new centre. So the
    centres follow the distribution of observations. A codebook is an indexer, for `indexer=` of a table or `codes=` of
    features. `find`, as in `act`, moves no centre. The cost of a code is K distances.

    Args:
      space: a Box, or an environment with one. None if `low` and `high` have a bound for every dimension.
      codes: K, the largest number of centres.
      low, high: bounds of each dimension, or one for all; required if the space has none, see `Discretise`.
      rate: smallest step of a centre; a larger rate forgets old observations sooner.
    """

    fixed = False

    def __init__(
        self,
        space: Any = None,
        codes: int = 64,
        low: float | Sequence[float | None] | None = None,
        high: float | Sequence[float | None] | None = None,
        rate: float = 0.01,
    ):
        self.bounds, self.rate = Discretise(space, 1, low, high), check_unit("rate", rate)
        most, n = check_whole("codes", codes, 1, 1_000_000), len(self.bounds.low)
        self.centres, self.visits = np.zeros((most, n)), np.zeros(most, np.int64)
        self._low, self._width = np.array(self.bounds.low), np.subtract(self.bounds.high, self.bounds.low)
        self._reach = (0.5 * most ** (-1.0 / n)) ** 2

    @property
    def size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Number of centres so far."""
        return int(np.count_nonzero(self.visits))

    def __call__(self, observation: Any) -> int:
        """Code of an observation; its centre moves or is new."""
        return int(compiled(place)(self.centres, self.visits, self._scaled(observation), self._reach, self.rate, True))

    def find(self, observation: Any) -> int:
        """Code of an observation, −1 before the first; no centre moves."""
        return int(compiled(place)(self.centres, self.visits, self._scaled(observation), self._reach, self.rate, False))

    def _scaled(self, observation: Any) -> np.ndarray:
        self.bounds(observation)  # raises ValueError for a wrong observation
        z = (np.asarray(observation, np.float64).ravel() - self._low) / self._width
        return np.minimum(np.maximum(z, 0.0), 1.0)

    def decode(self, state: int) -> np.ndarray:
        """Centre of a code."""
        z = self.centres[checked_id(state, self.size)]
        return np.reshape(self._low + z * self._width, self.bounds.shape)

    def state(self) -> dict[str, Any]:
        """JSON values and arrays for `indexer_from_state`."""
        arrays = {"centres": self.centres.ravel(), "visits": self.visits}
        return {"kind": "codebook", "bounds": self.bounds.state(), "rate": self.rate, **arrays}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Codebook:
        """Rebuild from `state()`."""
        bounds, visits, centres = Discretise.from_state(state["bounds"]), state["visits"], state["centres"]
        if not (isinstance(visits, np.ndarray) and isinstance(centres, np.ndarray)):
            raise ValueError("state: centres and visits of a codebook must be arrays")
        used = np.count_nonzero(visits)
        made = cls(None, visits.size, list(bounds.low), list(bounds.high), state["rate"])
        right = visits.dtype == np.int64 and centres.dtype == np.float64 and (visits[:used] > 0).all()
        if not (right and centres.size == made.centres.size and math.prod(bounds.shape) == made._low.size):
            raise ValueError("state: centres, visits and bounds of a codebook do not match")
        if not (((centres >= 0.0) & (centres <= 1.0)).all() and (visits >= 0).all()):
            raise ValueError("state: centres of a codebook must be in [0, 1], and visits must not be negative")
        made.bounds, made.visits = bounds, visits.copy()
        made.centres = centres.reshape(made.centres.shape).copy()
        return made


def place(centres, visits, z, reach, rate, learning):
    """Nearest centre, −1 if there is none. If `learning`, it moves, or z becomes a new one beyond √reach of all."""
    best, least, k = -1, np.inf, 0
    while k < visits.size and visits[k] > 0:
        distance = 0.0
        for j in range(z.size):
            distance += (z[j] - centres[k, j]) ** 2
        if distance < least:
            best, least = k, distance
        k += 1
    if learning:
        if k < visits.size and least > reach:
            best = k
        visits[best] += 1
        share = max(1.0 / visits[best], rate)
        for j in range(z.size):
            centres[best, j] += share * (z[j] - centres[best, j])
    return best
