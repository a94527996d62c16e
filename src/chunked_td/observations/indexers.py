"""Indexers: callables from an observation to an integer id, one class per type of observation.

`chunked_td.observations.make_indexer` selects one. Fixed indexers use an observation's components as the digits of its
id, row-major: the last component is the fastest, as in `np.ravel_multi_index`.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from operator import index as as_integer
from typing import Any

import numpy as np

from chunked_td.observations.canonical import decode, encode

LIMIT = 10_000_000
"""Largest number of states with ids by arithmetic; in larger spaces states get ids on first sight."""


class Indexer(ABC):
    """Map from observations to ids 0, 1, 2, …

    Attributes:
      size: current number of ids. Constant if `fixed`.
      fixed: whether every id is known in advance.
      nvec: sizes of the state components, the row-major digits of the id; None if there are no components.
    """

    size: int
    fixed: bool = True
    nvec: tuple[int, ...] | None = None

    @abstractmethod
    def __call__(self, observation: Any) -> int:
        """Id of an observation; a new one if the table grows."""

    @abstractmethod
    def decode(self, state: int) -> Any:
        """Observation with this id."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Arguments of `indexer_from_state`: JSON values and NumPy arrays."""

    def find(self, observation: Any) -> int:
        """Id of an observation, or −1 if it has none yet; never adds one."""
        return self(observation)

    def components(self, state: int) -> tuple[int, ...]:
        """Digits of an id, each from 0, one per entry of `nvec`."""
        if self.nvec is None:
            raise ValueError("components: these ids have no components (nvec is None)")
        digits = []
        remainder = checked_id(state, self.size)
        for n in reversed(self.nvec):
            remainder, digit = divmod(remainder, n)
            digits.append(digit)
        return tuple(reversed(digits))

    def __repr__(self) -> str:
        known = f"size={self.size}" if self.fixed else f"{self.size} seen"
        return f"{type(self).__name__}({known})"


def place_text(indexer: Indexer, state: int) -> str:
    """Short text of a state: its components, or its id."""
    if indexer.nvec is not None and len(indexer.nvec) > 1:
        return " ".join(map(str, indexer.components(state)))
    return str(state) if indexer.fixed else f"#{state}"


def checked_id(state: int, size: int) -> int:
    """`state` as an int; a ValueError if it is not a known id."""
    state = as_integer(state)
    if not 0 <= state < size:
        raise ValueError(f"state: got id {state}, known ids are 0..{size - 1}")
    return state


class DiscreteIndexer(Indexer):
    """Indexer of `Discrete(n, start=…)`: the id is the observation minus `start`."""

    def __init__(self, n: int, start: int = 0):
        self.size, self.start = int(n), int(start)
        self.nvec = (self.size,)
        if self.size < 1:
            raise ValueError(f"n must be a whole number from 1, got {n!r}")

    def __call__(self, observation: Any) -> int:
        """The id of an observation."""
        try:
            state = as_integer(observation) - self.start
        except TypeError:
            state = -1
        if 0 <= state < self.size:
            return state
        last = self.start + self.size - 1
        raise ValueError(f"observation: got {observation!r}, this space has the integers {self.start}..{last}")

    def decode(self, state: int) -> int:
        """The observation that has this id."""
        return checked_id(state, self.size) + self.start

    def state(self) -> dict[str, Any]:
        """JSON values for `indexer_from_state`."""
        return {"kind": "discrete", "n": self.size, "start": self.start}


class GridIndexer(Indexer):
    """Indexer of arrays of bounded integers: `MultiDiscrete`, `MultiBinary` and integer `Box`, of any shape.

    Args:
      nvec: number of values of each entry.
      low: smallest value of each entry.
      shape, dtype: of the observation.
    """

    def __init__(self, nvec: Sequence[int], low: Sequence[int], shape: Sequence[int], dtype: str = "int64"):
        self.nvec = tuple(int(n) for n in nvec)
        self.low = tuple(int(x) for x in low)
        self.shape = tuple(int(n) for n in shape)
        self.dtype = str(dtype)
        if min(self.nvec, default=1) < 1 or min(self.shape, default=0) < 0 or math.prod(self.shape) != len(self.nvec):
            raise ValueError(f"nvec must have positive integers, one per entry of shape {self.shape}, got {self.nvec}")
        if np.dtype(self.dtype).kind not in "iub":
            raise ValueError(f"dtype must be an integer or bool dtype, got {self.dtype}")
        self.size = math.prod(self.nvec)
        self._digits = tuple(zip(self.low, self.nvec, strict=True))

    def __call__(self, observation: Any) -> int:
        """The id of an observation."""
        if type(observation) is not np.ndarray or observation.ndim != 1:
            observation = np.asarray(observation)
            if observation.shape != self.shape:
                self._refuse(observation)
            observation = observation.ravel()
        values = observation.tolist()
        if len(values) != len(self._digits):
            self._refuse(observation)
        state = 0
        for x, (low, n) in zip(values, self._digits):  # noqa: B905 - lengths compared above; strict costs
            x -= low
            if not 0 <= x < n:
                self._refuse(observation)
            state = state * n + x
        if type(state) is not int:
            self._refuse(observation)
        return state

    def _refuse(self, observation: np.ndarray) -> None:
        high = tuple(low + n - 1 for low, n in self._digits)
        raise ValueError(
            f"observation: got {observation!r}, this space has integer arrays of shape {self.shape} from {self.low} "
            f"to {high}"
        )

    def decode(self, state: int) -> np.ndarray:
        """The observation that has this id."""
        digits = np.add(self.components(state), self.low) if self.nvec else np.zeros(0)
        return digits.astype(self.dtype).reshape(self.shape)

    def state(self) -> dict[str, Any]:
        """JSON values for `indexer_from_state`."""
        return {
            "kind": "grid",
            "nvec": list(self.nvec or ()),
            "low": list(self.low),
            "shape": list(self.shape),
            "dtype": self.dtype,
        }


class ProductIndexer(Indexer):
    """Indexer of `Tuple` and `Dict` of finite spaces.

    Args:
      parts: one indexer per subspace, slowest first.
      keys: the keys of a `Dict`; None for a `Tuple`.
    """

    def __init__(self, parts: Sequence[Indexer], keys: Sequence[Any] | None = None):
        self.parts, self.keys = tuple(parts), None if keys is None else tuple(keys)
        if self.keys is not None and len(set(self.keys)) != len(self.parts):
            raise ValueError(f"keys must have one different entry per part ({len(self.parts)}), got {self.keys}")
        self.size = math.prod(part.size for part in self.parts)
        self.nvec = tuple(n for part in self.parts for n in part.nvec or ())
        self._radix = tuple((part, part.size) for part in self.parts)

    def __call__(self, observation: Any) -> int:
        """The id of an observation."""
        if self.keys is not None:
            try:
                observation = [observation[key] for key in self.keys]
            except (KeyError, TypeError, IndexError):
                raise ValueError(f"observation: got {observation!r}, takes a dict with {list(self.keys)}") from None
        elif len(observation) != len(self.parts):
            raise ValueError(f"observation: got {observation!r}, takes a tuple of {len(self.parts)}")
        state = 0
        for value, (part, n) in zip(observation, self._radix):  # noqa: B905 - lengths are equal; strict costs
            state = state * n + part(value)
        return state

    def decode(self, state: int) -> Any:
        """The observation that has this id."""
        remainder = checked_id(state, self.size)
        values = []
        for part, n in reversed(self._radix):
            remainder, digit = divmod(remainder, n)
            values.append(part.decode(digit))
        values.reverse()
        return tuple(values) if self.keys is None else dict(zip(self.keys, values, strict=True))

    def state(self) -> dict[str, Any]:
        """JSON values for `indexer_from_state`."""
        keys = None if self.keys is None else list(self.keys)
        return {"kind": "product", "keys": keys, "parts": [part.state() for part in self.parts]}


class HashedIndexer(Indexer):
    """Indexer of any other observation: ids on first sight.

    Observations are compared by their canonical bytes (`chunked_td.observations.canonical`). A hashable object without
    such a form is compared by its own `==`; then the table cannot be saved.
    """

    fixed = False

    def __init__(self) -> None:
        self.ids: dict[Any, int] = {}
        self._listed: list[Any] = []

    @property
    def size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Number of different observations so far."""
        return len(self.ids)

    def __call__(self, observation: Any) -> int:
        """Id of an observation, a new one on first sight."""
        return self.ids.setdefault(_key(observation), len(self.ids))

    def find(self, observation: Any) -> int:
        """Id of an observation, or −1 if it is new."""
        return self.ids.get(_key(observation), -1)

    def decode(self, state: int) -> Any:
        """Observation with this id, lists as tuples; a ValueError for enum members and dataclasses."""
        known = checked_id(state, self.size)
        if len(self._listed) != len(self.ids):  # made on first use, and again if there are new ids
            self._listed = list(self.ids)
        key = self._listed[known]
        return decode(key) if isinstance(key, bytes) else key

    def state(self) -> dict[str, Any]:
        """Concatenated bytes of the observations, and the end of each, in the order of ids."""
        for key in self.ids:
            if not isinstance(key, bytes):
                raise TypeError(
                    f"observation: a {type(key).__name__} has no canonical form, so this table cannot be saved; "
                    f"let the environment return numbers, strings, arrays, or tuples or dataclasses of those"
                )
        ends = np.cumsum([len(key) for key in self.ids], dtype=np.int64)
        return {"kind": "hashed", "bytes": np.frombuffer(b"".join(self.ids), dtype=np.uint8), "ends": ends}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> HashedIndexer:
        """Rebuild from `state()`."""
        given, places = state["bytes"], state["ends"]
        if [given.dtype, given.ndim, places.dtype, places.ndim] != [np.uint8, 1, np.int64, 1]:
            raise ValueError("state: the table of hashed observations must be uint8[n] and int64[k]")
        content, ends = given.tobytes(), places.tolist()
        starts = [0, *ends[:-1]]
        indexer = cls()
        for start, end in zip(starts, ends, strict=True) if ends else ():
            indexer.ids[content[start:end]] = len(indexer.ids)
        in_order = sorted(ends) == ends and min(ends, default=0) >= 0 and (ends or [0])[-1] == len(content)
        if not in_order or len(indexer.ids) != len(ends):
            raise ValueError("state: the table of hashed observations is damaged")
        return indexer


def _key(observation: Any) -> Any:
    try:
        return encode(observation)
    except TypeError:
        with contextlib.suppress(TypeError):
            hash(observation)
            return observation
        raise
