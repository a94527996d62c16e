"""Items that go up to the next level, with their times (Sec. 2.2; Schmidhuber 1992).

A level predicts every item it reads. An item that it failed to predict goes up; the others are dropped, because they
can be predicted again. With ŷ the most probable item and p the probability of the item y that was read,

    y goes up if ŷ ≠ y or p < threshold.

So a dropped item equals its prediction, and the predictor can put it back. The last item of a sequence, `end`, always
goes up: it carries the time at which all levels stop. So does every item at a position of the form
k · 2^time_bits − 1, because a longer time could not be written down.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from studies.history_compression.predictor import Shape, log_probabilities, modes

THRESHOLD = 0.75


def goes_up(threshold: float, shape: Shape, logits: jax.Array, items: jax.Array) -> jax.Array:
    """Whether the level failed to predict each item: bool[...]."""
    failed = jnp.any(modes(shape, logits) != items, -1)
    return failed | (sum(log_probabilities(shape, logits, items)) < math.log(threshold))


def must_go_up(shape: Shape, position: jax.Array, count: jax.Array) -> jax.Array:
    """Whether an item goes up in any case: it is the last, or the time would become too long to write."""
    full = (position + 1) % (1 << shape.time_bits) == 0
    return (position == count - 1) | full


def pass_up(items: jax.Array, keep: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The items of the level above, those kept with the number of items dropped before each, and how many they are.

    int32[n, 1 + level] becomes int32[n, 2 + level], filled from the front; `keep` is False after the sequence's end.
    """
    n = items.shape[0]
    position = jnp.arange(n, dtype=jnp.int32)
    latest = jax.lax.cummax(jnp.where(keep, position, -1))
    before = jnp.concatenate([jnp.full(1, -1, jnp.int32), latest[:-1]])
    timed = jnp.concatenate([items, (position - before - 1)[:, None]], 1)
    place = jnp.where(keep, jnp.cumsum(keep) - 1, n)
    return jnp.zeros_like(timed).at[place].set(timed, mode="drop"), jnp.sum(keep, dtype=jnp.int32)


def take_up(items: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """`pass_up` of one sequence in NumPy, for any length: int32[n, 1 + level] to int32[kept, 2 + level]."""
    place = np.flatnonzero(keep)
    dropped = np.diff(place, prepend=-1) - 1
    return np.column_stack([items[place], dropped]).astype(np.int32)


def put_back(items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The reverse of `take_up`: (int32[n, 1 + level], zeros where an item was dropped; bool[n], where one was kept)."""
    place = np.cumsum(items[:, -1] + 1) - 1
    below = np.zeros((int(place[-1]) + 1, items.shape[1] - 1), np.int32)
    below[place] = items[:, :-1]
    kept = np.zeros(len(below), bool)
    kept[place] = True
    return below, kept
