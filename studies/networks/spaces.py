"""Observation spaces: inputs of a network, and the discrete codes that a percept model predicts.

A percept model gives probabilities of discrete codes, never densities: a density has units and is no λ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp

_LARGEST_ONE_HOT = 256  # categories with more values are read as one scaled number


@dataclass(frozen=True)
class Categories:
    """Observations int[C], component i from 0 to nvec[i] − 1 (MultiDiscrete)."""

    nvec: tuple[int, ...]

    @property
    def n_inputs(self) -> int:
        """Numbers that a network reads."""
        return sum(n if n <= _LARGEST_ONE_HOT else 1 for n in self.nvec)

    def codes(self, observation: jax.Array) -> jax.Array:
        """The components: int32[..., C]."""
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
    """Observations int[rows, columns] of symbols 0..symbols−1, a picture; every cell is a component."""

    shape: tuple[int, ...]
    symbols: int

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


def _flat(array: jax.Array, axes: int) -> jax.Array:
    """The last `axes` axes as one."""
    return array.reshape(*array.shape[: array.ndim - axes], -1)


@dataclass(frozen=True)
class Continuous:
    """Observations float[D]; each dimension is divided into equal codes, the outermost include values beyond.

    `bins` is how many: one number, or one per dimension.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    bins: int | tuple[int, ...] = 12

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
