"""What agents count while they train."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

BINS = 10
"""Of the histogram of λ."""


class RunTally(NamedTuple):
    """Sums since the tally was begun; arrays [] per run."""

    episodes: jax.Array
    score: jax.Array  # sum over episodes that ended
    returns: jax.Array  # likewise
    length: jax.Array
    steps: jax.Array
    lambda_: jax.Array  # sum over steps
    histogram: jax.Array  # float32[BINS], steps by λ
    square_error: jax.Array  # sum of squared TD errors


def new_tally() -> RunTally:
    """All zero."""
    zero = jnp.zeros(())
    return RunTally(zero, zero, zero, zero, zero, zero, jnp.zeros(BINS), zero)


def count(
    tally: RunTally,
    ended: jax.Array,
    score: jax.Array,
    returns: jax.Array,
    length: jax.Array,
    lambda_: jax.Array,
    error: jax.Array,
) -> RunTally:
    """Add steps; arguments are arrays of one shape. `returns` and `length` are those of the episodes so far."""
    over = ended.astype(jnp.float32)
    bins = jnp.clip(jnp.floor(lambda_ * BINS), 0, BINS - 1).astype(jnp.int32).reshape(-1)
    return RunTally(
        tally.episodes + jnp.sum(over),
        tally.score + jnp.sum(over * score),
        tally.returns + jnp.sum(over * returns),
        tally.length + jnp.sum(over * length),
        tally.steps + ended.size,
        tally.lambda_ + jnp.sum(lambda_),
        tally.histogram + jnp.sum(jax.nn.one_hot(bins, BINS), 0),
        tally.square_error + jnp.sum(error**2),
    )
