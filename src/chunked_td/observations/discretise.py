"""Bins for real-valued observations, so that tables work on problems such as CartPole."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from chunked_td._checks import as_array
from chunked_td.observations.indexers import LIMIT, HashedIndexer, Indexer, checked_id

_INFINITE = 1e30  # some environments use the largest float32 for "no bound"


class Discretise(Indexer):
    """Equal bins in each dimension of a Box; values outside the bounds belong to the outermost bins.

    Pass this indexer to a learner as `indexer=`, or `wrap` an environment, whose observations are then bin numbers.
    With more than ten million cells only visited cells get an id.

        bins = Discretise(env, bins=[3, 4, 8, 6], low=[None, -2, None, -2], high=[None, 2, None, 2])

    Args:
      space: a Box, or an environment with one. None if `low` and `high` have a bound for every dimension.
      bins: number of bins of each dimension, or one number for all.
      low, high: bounds of each dimension, or one for all. None, or None for one dimension, is the space's bound; a
        number is required if the space has no finite bound.
    """

    def __init__(
        self,
        space: Any = None,
        bins: int | Sequence[int] = 8,
        low: float | Sequence[float | None] | None = None,
        high: float | Sequence[float | None] | None = None,
    ):
        space = getattr(space, "observation_space", space)
        if space is not None and not all(hasattr(space, name) for name in ("low", "high", "shape")):
            raise ValueError(f"space: got {space!r}, takes a Box or an environment whose observations are a Box")
        self.shape = _shape_of(space, bins, low, high)
        count = math.prod(self.shape)
        self.low = _bounds("low", low, getattr(space, "low", None), count)
        self.high = _bounds("high", high, getattr(space, "high", None), count)
        self.bins = _bin_counts(bins, count)
        for i, (a, b) in enumerate(zip(self.low, self.high, strict=True)):
            if not a < b or math.isinf(self.bins[i] / (b - a)):
                raise ValueError(f"low, high: got {a} and {b} in dimension {i}, low must be less than high")
        self._cells = math.prod(self.bins)
        self._seen = None if self._cells <= LIMIT else HashedIndexer()
        self.fixed = self._seen is None
        self.nvec = self.bins if self.fixed else None
        self._cuts = tuple((a, b, n / (b - a), n - 1) for a, b, n in zip(self.low, self.high, self.bins, strict=True))

    @property
    def size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Number of cells, or of visited cells if there are more than ten million."""
        return self._cells if self._seen is None else self._seen.size

    def __call__(self, observation: Any) -> int:
        """Id of the cell of an observation."""
        digits = self._digits(observation)
        if self._seen is not None:
            return self._seen(digits)
        state = 0
        for digit, n in zip(digits, self.bins):  # noqa: B905 - lengths are equal; strict costs
            state = state * n + digit
        return state

    def find(self, observation: Any) -> int:
        """Id of the cell, or −1 if cells get ids on first sight and this one has none."""
        return self(observation) if self._seen is None else self._seen.find(self._digits(observation))

    def _digits(self, observation: Any) -> list[int]:
        given = as_array(observation)
        values = given.ravel().tolist()
        if len(values) != len(self._cuts) or given.dtype.kind not in "fiub":
            raise ValueError(f"observation: got {observation!r}, takes an array of numbers of shape {self.shape}")
        digits = []
        for x, (low, high, scale, last) in zip(values, self._cuts):  # noqa: B905 - lengths compared above
            if x <= low:
                digits.append(0)
            elif x >= high:
                digits.append(last)
            elif x == x:
                digits.append(min(int((x - low) * scale), last))
            else:
                raise ValueError(f"observation: got {observation!r}, takes numbers that are not NaN")
        return digits

    def transform(self, observation: Any) -> np.ndarray:
        """Bin numbers of an observation, one per dimension: int64 of the observation's shape."""
        return np.array(self._digits(observation), dtype=np.int64).reshape(self.shape)

    @property
    def space(self) -> Any:
        """Gymnasium space of the results of `transform`: MultiDiscrete."""
        from gymnasium.spaces import MultiDiscrete

        return MultiDiscrete(np.reshape(self.bins, self.shape))

    def wrap(self, env: Any) -> Any:
        """Environment whose observations are bin numbers (`gymnasium.wrappers.TransformObservation`)."""
        from gymnasium.wrappers import TransformObservation

        return TransformObservation(env, self.transform, self.space)

    def decode(self, state: int) -> np.ndarray:
        """Centre of a cell."""
        known = checked_id(state, self.size)
        digits = self.components(known) if self._seen is None else self._seen.decode(known)
        cells = zip(digits, self.low, self.high, self.bins, strict=True)
        centres = [a + (digit + 0.5) / n * (b - a) for digit, a, b, n in cells]
        return np.reshape(centres, self.shape)

    def state(self) -> dict[str, Any]:
        """JSON values and arrays for `indexer_from_state`."""
        return {
            "kind": "discretise",
            "shape": list(self.shape),
            "bins": list(self.bins),
            "low": list(self.low),
            "high": list(self.high),
            "seen": None if self._seen is None else self._seen.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Discretise:
        """Rebuild from `state()`."""
        indexer = cls(None, list(state["bins"]), list(state["low"]), list(state["high"]))
        indexer.shape = tuple(int(n) for n in state["shape"])
        if math.prod(indexer.shape) != len(indexer.bins) or (state["seen"] is None) != indexer.fixed:
            raise ValueError("state: shape, bins and visited cells do not match")
        if state["seen"] is not None:
            indexer._seen = HashedIndexer.from_state(state["seen"])
        return indexer


def _shape_of(space: Any, *arguments: Any) -> tuple[int, ...]:
    """Shape of an observation: that of the space, or the length of the first argument that has one."""
    if space is not None:
        return tuple(int(n) for n in space.shape)
    for argument in arguments:
        if argument is not None and np.ndim(np.asarray(argument, dtype=object)) > 0:
            return (len(argument),)
    return (1,)


def _bin_counts(bins: int | Sequence[int], count: int) -> tuple[int, ...]:
    given = as_array(bins)
    if given.dtype.kind not in "iu" or np.any(given < 1) or given.size not in (1, count) or not count:
        raise ValueError(f"bins: got {bins!r}, takes positive integers, one for all or one for each of {count}")
    return tuple(np.broadcast_to(given.ravel(), count).tolist())


def _bounds(name: str, given: Any, natural: Any, count: int) -> tuple[float, ...]:
    """Bounds of every dimension: the given ones, else those of the space; a ValueError if one is not finite."""
    values = np.asarray(given, dtype=object).ravel()
    if values.size not in (1, count):
        raise ValueError(f"{name}: got {values.size} numbers, takes one for all or one for each of {count}")
    values = np.broadcast_to(values, count).tolist()
    fallback = [None] * count if natural is None else np.ravel(natural).tolist()
    bounds: list[Any] = [b if a is None else a for a, b in zip(values, fallback, strict=True)]
    for i, bound in enumerate(bounds):
        if isinstance(bound, bool) or not isinstance(bound, Real | None):
            raise ValueError(f"{name}: got {bound!r} in dimension {i}, takes numbers")
        if bound is None or not -_INFINITE < bound < _INFINITE:  # type: ignore[operator]
            raise ValueError(
                f"{name}: dimension {i} of {count} has no finite bound (got {bound}); set {name} to a number there, "
                f"such as the end of the expected range. Values outside belong to the outermost bins"
            )
    return tuple(float(bound) for bound in bounds)
