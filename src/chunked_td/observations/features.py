"""Features of an observation: tile coding, and user-defined functions.

Sutton and Barto (2018), "Reinforcement Learning", §9.5.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._checks import check_whole
from chunked_td._link import kernel, slot
from chunked_td.observations.discretise import Discretise
from chunked_td.observations.indexers import DiscreteIndexer, Indexer
from chunked_td.observations.spaces import KINDS, indexer_from_state

MOST = 10_000_000
"""Largest number of features."""

Bounds = float | Sequence[float | None] | None


class Features(Indexer):
    """Base class of features: an indexer that also computes the features of an observation.

    Attributes:
      codes: an Indexer, from observations to ids, for models and λ sources.
      count: number of features. active: largest number of nonzero features of one observation.
      numbers: length of the input of compiled code for one observation.
      rates: float64[count], the step size of every weight as a fraction of α. With α = 1 an update moves the value of
        an observation at most to its target.
      binary: whether features are 0 or 1 and few are active.
    """

    kind: str
    codes: Any
    count: int
    active: int
    numbers: int
    rates: np.ndarray
    has_codes = True
    binary = False

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Register the class for loading saved features by their kind."""
        super().__init_subclass__(**arguments)
        if "kind" in vars(cls):
            KINDS[cls.kind] = cls.from_state

    @property
    def size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Current number of codes."""
        return self.codes.size

    @property
    def fixed(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether all codes are known in advance."""
        return self.codes.fixed

    @property
    def nvec(self) -> tuple[int, ...] | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Sizes of the components of codes."""
        return self.codes.nvec

    @abstractmethod
    def show(self, observation: Any) -> Any:
        """Input of compiled code for an observation, float[numbers]; a ValueError for a wrong observation."""

    @abstractmethod
    def compiled(self) -> Any:
        """Form for kernels: a NamedTuple with a kernel `write`, see `write_features`."""

    @abstractmethod
    def initial_weights(self, value: float) -> np.ndarray:
        """float64[count], weights for which every observation has this value."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: Mapping[str, Any]) -> Features:
        """Rebuild from `state()`."""

    def read(self, observation: Any, shown: np.ndarray) -> int:
        """Write the observation's numbers into `shown` and return its code, which may be new."""
        shown[:] = self.show(observation)
        return self.codes(observation) if self.has_codes else 0

    def __call__(self, observation: Any) -> int:
        """Code of an observation."""
        return self.codes(observation) if self.has_codes else 0

    def find(self, observation: Any) -> int:
        """Code of an observation, or −1 if it has none yet."""
        return self.codes.find(observation) if self.has_codes else 0

    def decode(self, state: int) -> Any:
        """Observation at the centre of a code's cell."""
        return self.codes.decode(state)

    def vector(self, observation: Any) -> np.ndarray:
        """φ(observation), float64[count]."""
        index, value = np.zeros(self.active, np.int64), np.zeros(self.active)
        shown = np.array(self.show(observation), np.float64)
        made = self.compiled()
        n = made.write(made, shown, index, value)
        found = np.zeros(self.count)
        np.add.at(found, index[:n], value[:n])
        return found

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.count} features, {self.codes!r})"


write_features = slot("features", "write")
"""write_features(map, shown, index, value): write the indices and values of the nonzero features; return the count."""


class TileMap(NamedTuple):
    """Form of tile coding for kernels."""

    low: Annotated[np.ndarray, "float64[n]"]
    high: Annotated[np.ndarray, "float64[n]"]
    scale: Annotated[np.ndarray, "float64[n]"]  # tiles per unit
    tiles: Annotated[np.ndarray, "int64[n]"]  # per tiling: one more than `bins`, for the shift
    offset: Annotated[np.ndarray, "float64[tilings, n]"]  # in tiles
    memory: int  # number of features
    hashed: bool

    @kernel
    def write(tiling, shown, index, value):
        """Write one tile of every tiling; if `hashed`, tiles may share features."""
        for t in range(tiling.offset.shape[0]):
            place = t
            for j in range(shown.size):
                x = min(max(shown[j], tiling.low[j]), tiling.high[j])
                tile = int((x - tiling.low[j]) * tiling.scale[j] + tiling.offset[t, j])
                if tiling.hashed:
                    place = (place * 1_000_003 + tile + 1) % 2_147_483_647
                else:
                    place = place * tiling.tiles[j] + min(tile, tiling.tiles[j] - 1)
            index[t] = place % tiling.memory if tiling.hashed else place
            value[t] = 1.0
        return tiling.offset.shape[0]


class TileCoding(Features):
    """Tile coding: several grids over the observations, shifted against each other; one tile of each is active.

        φ(x) has a 1 for the tile of every tiling that contains x:   ⌊(x_j − low_j)/width_j + shift_{t,j}⌋

    Tiling t of n is shifted by (t(2j + 1) mod n)/n tiles in dimension j. α is divided by the number of tilings.

    Args:
      space: a Box, or an environment with one. None if `low` and `high` have a bound for every dimension.
      bins: tiles per dimension within the bounds, or one number for all. The cells of the first tiling are the codes
        that models count.
      tilings: number of tilings, usually a power of two.
      low, high: bounds of each dimension, or one for all; required if the space has none, see `Discretise`.
      memory: largest number of features; with more tiles, tiles share features at random (hashing).
      codes: other codes than these cells, such as a `Codebook`.
    """

    kind = "tiles"
    binary = True

    def __init__(
        self,
        space: Any = None,
        bins: int | Sequence[int] = 8,
        tilings: int = 8,
        low: Bounds = None,
        high: Bounds = None,
        memory: int = 65_536,
        codes: Indexer | None = None,
    ):
        self.grid = Discretise(space, bins, low, high)
        self.codes = self.grid if codes is None else codes
        self.low, self.high = np.array(self.grid.low), np.array(self.grid.high)
        self.resolution = (self.high - self.low) / np.array(self.grid.bins)
        self.numbers = self.low.size
        self.tilings, self.memory = check_whole("tilings", tilings, 1, 4096), check_whole("memory", memory, 1, MOST)
        self._tiles = np.array(self.grid.bins, np.int64) + 1
        every = self.tilings * math.prod(self._tiles.tolist())
        self.hashed = every > self.memory
        self.count, self.active = min(every, self.memory), self.tilings
        self.rates = np.full(self.count, 1.0 / self.tilings)

    def state(self) -> dict[str, Any]:
        """JSON values and arrays for `indexer_from_state`, with `own_codes` if the codes are not the cells."""
        own = {} if self.codes is self.grid else {"own_codes": self.codes.state()}
        return {"kind": self.kind, "codes": self.grid.state(), **own, "tilings": self.tilings, "memory": self.memory}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> TileCoding:
        """Rebuild from `state()`."""
        grid = Discretise.from_state(state["codes"])
        bins, low, high = list(grid.bins), list(grid.low), list(grid.high)
        made = cls(None, bins, state["tilings"], low, high, state["memory"])
        made.grid = grid
        made.codes = indexer_from_state(state["own_codes"]) if "own_codes" in state else grid
        return made

    def show(self, observation: Any) -> Any:
        """The observation as a flat array; values outside the bounds are not clipped."""
        given = np.asarray(observation)
        if given.size != self.numbers or given.dtype.kind not in "fiub":
            raise ValueError(f"observation: got {observation!r}, takes an array of {self.numbers} numbers")
        if not np.isfinite(given).all():
            raise ValueError(f"observation: got {observation!r}, takes finite numbers")
        return given.ravel()

    def compiled(self) -> TileMap:
        """Form for kernels."""
        t, j = np.meshgrid(np.arange(self.tilings), np.arange(self.numbers), indexing="ij")
        offset = (t * (2 * j + 1)) % self.tilings / self.tilings
        return TileMap(self.low, self.high, 1.0 / self.resolution, self._tiles, offset, self.count, self.hashed)

    def initial_weights(self, value: float) -> np.ndarray:
        """Equal weights for all tilings."""
        return np.full(self.count, value / self.tilings)


class OwnMap(NamedTuple):
    """Form for kernels of features computed in Python."""

    features: int

    @kernel
    def write(own, shown, index, value):
        """Write the nonzero features."""
        n = 0
        for f in range(own.features):
            if shown[f] != 0.0:
                index[n] = f
                value[n] = shown[f]
                n += 1
        return n


class OwnFeatures(Features):
    """Features from a user-defined function.

    Args:
      function: from an observation to float[count].
      count: number of features.
      codes: an indexer, such as `Discretise`, for λ sources that require a model; None if λ requires none.
      rate: the step size of every weight as a fraction of α. Default: 1/count, which is safe for features in [−1, 1].
        Use 1 for one-hot features.
    """

    kind = "own"

    def __init__(
        self, function: Callable[[Any], Any], count: int, codes: Indexer | None = None, rate: float | None = None
    ):
        if function is not None and not callable(function):
            raise ValueError(f"function must be a function from an observation to features, got {function!r}")
        self.function, self.count = function, check_whole("count", count, 1, MOST)
        self.active = self.numbers = self.count
        self.has_codes = codes is not None
        self.codes = DiscreteIndexer(1) if codes is None else codes
        self.rates = np.full(self.count, 1.0 / self.count if rate is None else float(rate))
        if not (np.isfinite(self.rates).all() and (self.rates > 0.0).all()):
            raise ValueError(f"rate must be a finite number above 0, got {rate!r}")

    def show(self, observation: Any) -> Any:
        """φ(observation), checked."""
        if self.function is None:
            raise ValueError("features must be given for a learner with its own function: load(…, features=function)")
        given = np.asarray(self.function(observation), np.float64)
        if given.shape != (self.count,) or not np.isfinite(given).all():
            raise ValueError(f"features: function must return {self.count} finite numbers, got {given!r}")
        return given

    def compiled(self) -> OwnMap:
        """Form for kernels."""
        return OwnMap(self.count)

    def initial_weights(self, value: float) -> np.ndarray:
        """Zeros, as it is unknown which weights give a constant value."""
        if value:
            raise ValueError(f"initial_value must be 0 with OwnFeatures, got {value!r}")
        return np.zeros(self.count)

    def state(self) -> dict[str, Any]:
        """JSON values and arrays for `indexer_from_state`, without the function."""
        codes = self.codes.state() if self.has_codes else None
        return {"kind": self.kind, "codes": codes, "count": self.count, "rate": float(self.rates[0])}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> OwnFeatures:
        """Rebuild from `state()`; the caller sets `function`."""
        codes = None if state["codes"] is None else indexer_from_state(state["codes"])
        return cls(None, state["count"], codes, state["rate"])  # type: ignore[arg-type]
