"""What observations look like: how a network reads them, and the discrete codes that a percept model predicts.

A percept model gives probabilities of discrete codes, never densities: a density has units and is no λ. Three kinds
of observations have codes.

    Categories   a vector of whole numbers, each from its own range (MultiDiscrete)
    Grid         a picture of symbols; every cell is a component
    Continuous   a vector of real numbers, cut into fixed bins, one component per dimension
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


@dataclass(frozen=True)
class Categories:
    """Observations int[C] with component i in 0..nvec[i]−1."""

    nvec: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.nvec:
            raise ValueError("nvec must name at least one component, got none")
        object.__setattr__(self, "nvec", tuple(check_whole("nvec", n, 1) for n in self.nvec))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one observation."""
        return (len(self.nvec),)

    @property
    def n_inputs(self) -> int:
        """Numbers that a network reads."""
        return sum(n if n <= _LARGEST_ONE_HOT else 1 for n in self.nvec)

    def codes(self, observation: jax.Array) -> jax.Array:
        """The components themselves: int32[..., C]."""
        return observation.astype(jnp.int32)

    def inputs(self, observation: jax.Array) -> jax.Array:
        """One-hot components, large ones as a number in [0, 1]: float32[..., n_inputs]."""
        parts = []
        for i, n in enumerate(self.nvec):
            value = observation[..., i]
            parts.append(jax.nn.one_hot(value, n) if n <= _LARGEST_ONE_HOT else value[..., None] / (n - 1.0))
        return jnp.concatenate(parts, -1).astype(jnp.float32)


@dataclass(frozen=True)
class Grid:
    """Observations int[rows, columns] (or any shape) of symbols 0..symbols−1; every cell is a component."""

    shape: tuple[int, ...]
    symbols: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(check_whole("shape", n, 1) for n in self.shape))
        check_whole("symbols", self.symbols, 1)

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


@dataclass(frozen=True)
class Continuous:
    """Observations float[D]; each dimension is cut into equal codes, the outermost hold what is beyond.

    `bins` is how many: one number, or one per dimension.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
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
    def shape(self) -> tuple[int, ...]:
        """Of one observation."""
        return (len(self.low),)

    @property
    def nvec(self) -> tuple[int, ...]:
        """Bins of every dimension."""
        return self.bins if isinstance(self.bins, tuple) else (self.bins,) * len(self.low)

    @property
    def n_inputs(self) -> int:
        """Numbers that a network reads."""
        return len(self.low)

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
    if hasattr(space, "nvec"):
        return Categories(tuple(int(n) for n in np.ravel(space.nvec)))
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is not None and high is not None:
        shape = tuple(space.shape)
        low, high = (np.broadcast_to(np.asarray(x, dtype=np.float64), shape) for x in (low, high))
        if np.issubdtype(np.dtype(space.dtype), np.integer) and low.min() == 0:
            return Grid(shape, int(high.max()) + 1)
        if len(shape) == 1 and np.all(np.abs(low) < 1e30) and np.all(np.abs(high) < 1e30):
            return Continuous(tuple(low.tolist()), tuple(high.tolist()))
    if isinstance(getattr(space, "n", None), int | np.integer) and not shape_of(space):
        return Categories((int(space.n),))
    if hasattr(space, "n"):  # MultiBinary
        return Categories((2,) * math.prod(shape_of(space)))
    raise ValueError(
        f"space: no percept model reads {space!r}; it takes Categories, Grid or Continuous of chunked_td.deep, or a "
        "Gymnasium Discrete, MultiDiscrete, MultiBinary, Box of whole numbers from 0 or Box of one dimension with "
        "finite bounds"
    )


def shape_of(space: Any) -> tuple[int, ...]:
    """The shape of a Gymnasium space; () for none."""
    return tuple(getattr(space, "shape", None) or ())


def _flat(array: jax.Array, axes: int) -> jax.Array:
    """The last `axes` axes as one."""
    return array.reshape(*array.shape[: array.ndim - axes], -1)
