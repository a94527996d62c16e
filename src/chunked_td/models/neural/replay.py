"""Replay buffer: the latest transitions of a run as compact integers, on the device of the network.

A transition is one packed row (x, a, x'). Transitions are numbered 1, 2, …; after transition n a ring of capacity C
has the last min(n, C), and a training batch is sampled from those with replacement.

Whole episodes of length T are inserted at once. In a ring of C slots the end of the episode would replace rows that
earlier training steps may still sample. So there are at least C + T slots, and the ring is a moving window over them:
an episode overwrites only rows outside every window that its training steps use, and rows ahead of the window are not
sampled. The samples then equal those of a ring filled step by step.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from chunked_td.models.neural.networks import NetworkConfig


def row_dtype(config: NetworkConfig) -> np.dtype:
    """Smallest unsigned integer type for every state component and action."""
    return np.min_scalar_type(max(*config.nvec, config.actions) - 1)


def row_width(config: NetworkConfig) -> int:
    """Integers per transition: state, action, next state."""
    return 2 * len(config.nvec) + 1


def slots(capacity: int, episode_length: int) -> int:
    """Rows to allocate: a multiple of the episode's length, at least capacity + one episode."""
    return (-(-capacity // episode_length) + 1) * episode_length


def pack(states: jax.Array, actions: jax.Array) -> jax.Array:
    """Rows int[T, 2c+1] of an episode, from its states int[T+1, c] and actions int[T]."""
    return jnp.concatenate([states[:-1], actions[:, None].astype(states.dtype), states[1:]], axis=1)


def unpack(config: NetworkConfig, rows: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(state int[..., c], action int[...], next state int[..., c]) of packed rows."""
    c = len(config.nvec)
    return rows[..., :c], rows[..., c], rows[..., c + 1 :]


def insert(buffer: jax.Array, rows: jax.Array, n: jax.Array) -> jax.Array:
    """Write transitions n+1, …, n+T, int[T, width], into int[slots, width]; slots and n are multiples of T."""
    return jax.lax.dynamic_update_slice_in_dim(buffer, rows, n % buffer.shape[0], axis=0)


def draw(key: jax.Array, n: jax.Array, batch_size: int, capacity: int, slots: int) -> jax.Array:
    """Slots of a training batch after transition n: uniform over the last min(n, capacity), with replacement.

    The batch depends only on the key and on n, so the grouping of transitions into calls has no effect.
    """
    age = jax.random.randint(jax.random.fold_in(key, n), (batch_size,), 0, jnp.minimum(n, capacity))
    return (n - 1 - age) % slots
