"""What observations look like: how a network reads them, and the discrete codes that a percept model predicts.

A percept model gives probabilities of discrete codes, never densities: a density has units and is no λ. Three kinds
of observations have codes.

    Categories   a vector of whole numbers, each from its own range (MultiDiscrete)
    Grid         a picture of symbols; every cell is a component
    Continuous   a vector of real numbers, cut into fixed bins, one component per dimension

`Unbounded` is for λ sources that need no codes: real numbers, some without bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chunked_td._checks import check_finite, check_whole

_LARGEST_ONE_HOT = 256  # categories with more values are read as one scaled number
_FAR = 2**30  # codes are int32
MOST_INPUTS = 65_536
"""The most numbers that a network reads of one observation."""


@dataclass(frozen=True)
class Categories:
    """Observations int[C] with component i in start[i]..start[i] + nvec[i] − 1; `start` is 0 if not given."""

    nvec: tuple[int, ...]
    start: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.nvec:
            raise ValueError("nvec must name at least one component, got none")
        object.__setattr__(self, "nvec", tuple(check_whole("nvec", n, 1) for n in self.nvec))
        starts = tuple(check_whole("start", n, -_FAR, _FAR) for n in self.start) or (0,) * len(self.nvec)
        if len(starts) != len(self.nvec):
            raise ValueError(f"start must have one number per component, got {len(starts)} for {len(self.nvec)}")
        object.__setattr__(self, "start", starts)
        _check_inputs("nvec", self.n_inputs)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one observation."""
        return (len(self.nvec),)

    @property
    def n_inputs(self) -> int:
        """Numbers that a network reads."""
        return sum(n if n <= _LARGEST_ONE_HOT else 1 for n in self.nvec)

    def codes(self, observation: jax.Array) -> jax.Array:
        """The components, from 0 on: int32[..., C]."""
        return self._from_zero(observation).astype(jnp.int32)

    def inputs(self, observation: jax.Array) -> jax.Array:
        """One-hot components, large ones as a number in [0, 1]: float32[..., n_inputs]."""
        observation = self._from_zero(observation)
        parts = []
        for i, n in enumerate(self.nvec):
            value = observation[..., i]
            parts.append(jax.nn.one_hot(value, n) if n <= _LARGEST_ONE_HOT else value[..., None] / (n - 1.0))
        return jnp.concatenate(parts, -1).astype(jnp.float32)

    def check(self, name: str, observations: np.ndarray) -> None:
        """Raise if numbers are not whole or out of range; `name` is that of the argument."""
        low, high = np.asarray(self.start), np.asarray(self.start) + np.asarray(self.nvec) - 1
        _check_symbols(name, observations, low, high)

    def _from_zero(self, observation: jax.Array) -> jax.Array:
        return observation - np.asarray(self.start, np.int32) if any(self.start) else observation


@dataclass(frozen=True)
class Grid:
    """Observations int[rows, columns] (or any shape) of symbols 0..symbols−1; every cell is a component."""

    shape: tuple[int, ...]
    symbols: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(check_whole("shape", n, 1) for n in self.shape))
        check_whole("symbols", self.symbols, 1)
        _check_inputs("symbols", self.n_inputs)

    @property
    def nvec(self) -> tuple[int, ...]:
        """One component per cell."""
        return (self.symbols,) * math.prod(self.shape)

    @property
    def n_inputs(self) -> int:
        """Numbers that a network reads."""
        return math.prod(self.shape) * self.symbols

    def codes(self, observation: jax.Array) -> jax.Array:
        """The cells in a row: int32[..., cells]."""
        return _flat(observation, len(self.shape)).astype(jnp.int32)

    def inputs(self, observation: jax.Array) -> jax.Array:
        """One-hot cells: float32[..., n_inputs]."""
        return _flat(jax.nn.one_hot(observation.astype(jnp.int32), self.symbols), len(self.shape) + 1)

    def check(self, name: str, observations: np.ndarray) -> None:
        """As in `Categories`."""
        _check_symbols(name, observations, np.zeros((), int), np.asarray(self.symbols - 1))


@dataclass(frozen=True)
class Unbounded:
    """Observations float[D], some dimensions without bounds: inputs only, no codes.

    A dimension with two finite bounds is scaled as in `Continuous`; others are read as they are.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one observation."""
        return (len(self.low),)

    @property
    def nvec(self) -> tuple[int, ...]:
        """No component has codes."""
        return ()

    @property
    def n_inputs(self) -> int:
        """Numbers that a network reads."""
        return len(self.low)

    def codes(self, observation: jax.Array) -> jax.Array:
        """None: int32[..., 0]."""
        return jnp.zeros((*observation.shape[:-1], 0), jnp.int32)

    def inputs(self, observation: jax.Array) -> jax.Array:
        """float32[..., D]."""
        low, high = (np.asarray(x, np.float32) for x in (self.low, self.high))
        bounded = _has_bounds(low, high)
        low, high = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
        return ((observation - low) / (high - low) * 2 - 1).astype(jnp.float32)

    def check(self, name: str, observations: np.ndarray) -> None:
        """Raise if a number is not finite; beyond the bounds is allowed."""
        _refuse(~np.isfinite(observations), name, observations, "finite numbers")


@dataclass(frozen=True)
class Continuous(Unbounded):
    """Observations float[D]; each dimension is cut into equal codes, the outermost hold what is beyond.

    `bins` is how many: one number, or one per dimension.
    """

    bins: int | tuple[int, ...] = 12

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, tuple(check_finite(name, x) for x in getattr(self, name)))
        if len(self.low) != len(self.high) or not self.low:
            raise ValueError(
                f"low and high must have one number per dimension, got {len(self.low)} and {len(self.high)}"
            )
        for i, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            if not low < high:
                raise ValueError(f"low must be less than high, got {low} and {high} in dimension {i}")
        for bins in self.nvec:
            check_whole("bins", bins, 2)
        if len(self.nvec) != len(self.low):
            raise ValueError(f"bins must have one number per dimension, got {len(self.nvec)} for {len(self.low)}")

    @property
    def nvec(self) -> tuple[int, ...]:
        """Bins of every dimension."""
        return self.bins if isinstance(self.bins, tuple) else (self.bins,) * len(self.low)

    def codes(self, observation: jax.Array) -> jax.Array:
        """Bin numbers: int32[..., D]."""
        bins = jnp.asarray(self.nvec, jnp.float32)
        place = (self.inputs(observation) + 1) / 2 * bins
        return jnp.clip(jnp.floor(place), 0, bins - 1).astype(jnp.int32)

    def inputs(self, observation: jax.Array) -> jax.Array:
        """Scaled so that the bounds are −1 and 1: float32[..., D]."""
        low, high = (jnp.asarray(x, jnp.float32) for x in (self.low, self.high))
        return ((observation - low) / (high - low) * 2 - 1).astype(jnp.float32)


Space = Categories | Grid | Continuous


def read_space(space: Any) -> Space:
    """One of the three from a Gymnasium space (Discrete, MultiDiscrete, MultiBinary, a bounded Box), or itself.

    A Box of whole numbers is a grid of symbols. Read by attributes, so Gymnasium is not imported.
    """
    if isinstance(space, Space):
        return space
    starts = tuple(int(n) for n in np.ravel(getattr(space, "start", 0)))
    if hasattr(space, "nvec"):
        sizes = tuple(int(n) for n in np.ravel(space.nvec))
        return Categories(sizes, starts if len(starts) == len(sizes) else ())
    if (bounds := _bounds(space)) is not None:
        shape, (low, high) = tuple(space.shape), bounds
        if np.issubdtype(np.dtype(space.dtype), np.integer) and low.min() == 0:
            try:
                return Grid(shape, int(high.max()) + 1)
            except ValueError as problem:
                raise ValueError(f"space: {space} is too large to be read as symbols ({problem})") from None
        if len(shape) == 1 and _has_bounds(low, high).all():
            return Continuous(tuple(low.tolist()), tuple(high.tolist()))
    if isinstance(getattr(space, "n", None), int | np.integer) and not shape_of(space):
        return Categories((int(space.n),), starts)
    if hasattr(space, "n"):  # MultiBinary
        return Categories((2,) * math.prod(shape_of(space)))
    raise ValueError(
        f"space: no percept model reads {space!r}; it takes Categories, Grid or Continuous, or a "
        "Gymnasium Discrete, MultiDiscrete, MultiBinary, Box of whole numbers from 0 or Box of one dimension with "
        "finite bounds; where there are none, Continuous(low, high) says what range its bins cover"
    )


def _bounds(space: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """float64, least and greatest numbers of a Box; None for other spaces."""
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None:
        return None
    wide = tuple(space.shape)
    return np.broadcast_to(np.asarray(low, np.float64), wide), np.broadcast_to(np.asarray(high, np.float64), wide)


def _has_bounds(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Where both bounds are bounds; Gymnasium writes infinity also as the largest float32."""
    return (np.abs(low) < 1e30) & (np.abs(high) < 1e30)


def shape_of(space: Any) -> tuple[int, ...]:
    """The shape of a Gymnasium space; () for none."""
    return tuple(getattr(space, "shape", None) or ())


def _check_inputs(name: str, inputs: int) -> None:
    """Refuse one-hot inputs that no network of this room should have."""
    if inputs > MOST_INPUTS:
        raise ValueError(
            f"{name}: observations have {inputs:,} numbers as one-hot inputs, at most {MOST_INPUTS:,} are read; "
            "give smaller pictures, fewer symbols, or features of a network as Continuous"
        )


def _check_symbols(name: str, observations: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """Raise if numbers are not whole, or not in [low, high]."""
    wrong = ~((observations == np.floor(observations)) & (observations >= low) & (observations <= high))
    _refuse(wrong, name, observations, "whole numbers in {}..{}", low, high)


def _refuse(wrong: np.ndarray, name: str, observations: np.ndarray, accepted: str, *bounds: np.ndarray) -> None:
    """Raise for the first number that is wrong; `bounds` are filled into `accepted`."""
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        takes = accepted.format(*(np.broadcast_to(x, observations.shape)[place] for x in bounds))
        raise ValueError(f"{name}: got {observations[place]} at {place}, takes {takes}")


def _flat(array: jax.Array, axes: int) -> jax.Array:
    """The last `axes` axes as one."""
    return array.reshape(*array.shape[: array.ndim - axes], -1)
