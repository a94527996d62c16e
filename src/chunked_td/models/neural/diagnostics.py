"""Diagnostics of a world model's training: loss, calibration, and λ on predictable and on noisy steps.

Sums are on the device of the networks and read once per interval of episodes; see `Tally` for the definitions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chunked_td.models.neural.networks import NetworkConfig, log_confidence, log_likelihood

BINS = 10


class Tally(NamedTuple):
    """Sums for the diagnostics of an interval of training, per run; `m` is 1, or c if λ is per component.

    Attributes:
      loss, updates: sum and number of training losses.
      lambdas, steps: sums of λ and counts, on predictable [:, 0] and on noisy [:, 1] steps.
      predicted, observed, counted: of all predictions (one per step and component), in ten equal bins by the
        probability of the most probable outcome: sum of that probability, number of times that this outcome was
        sampled, number of predictions.
    """

    loss: Any  # float32[B]
    updates: Any  # int32[B]
    lambdas: Any  # float32[B, 2, m]
    steps: Any  # int32[B, 2]
    predicted: Any  # float32[B, 10]
    observed: Any  # int32[B, 10]
    counted: Any  # int32[B, 10]


class Diagnostics(NamedTuple):
    """Means over an interval of training, per run; NaN without data. See `Tally` for the definitions."""

    loss: np.ndarray  # [B]
    lambda_predictable: np.ndarray  # [B, m]
    lambda_noisy: np.ndarray  # [B, m]
    predicted: np.ndarray  # [B, 10]
    observed: np.ndarray  # [B, 10]
    counted: np.ndarray  # [B, 10]


def no_tally(runs: int, m: int) -> Tally:
    """A tally of zeros."""
    counts, sums = (lambda *shape: jnp.zeros(shape, jnp.int32)), (lambda *shape: jnp.zeros(shape))
    bins = (sums(runs, BINS), counts(runs, BINS), counts(runs, BINS))
    return Tally(sums(runs), counts(runs), sums(runs, 2, m), counts(runs, 2), *bins)


def add_episode(
    config: NetworkConfig, tally: Tally, lambdas: jax.Array, logits: jax.Array, outcome: jax.Array, noisy: jax.Array
) -> Tally:
    """Add the steps of one episode of every run.

    Args:
      lambdas: float32[B, T] or [B, T, c]. logits: float32[B, T, outputs], of the action taken.
      outcome: int32[B, T, c]. noisy: bool[B, T].
    """
    top = log_confidence(config, logits)
    came = log_likelihood(config, logits, outcome) >= top
    confidence = jnp.exp(top)
    place = jnp.minimum((confidence * BINS).astype(jnp.int32), BINS - 1)
    inside = place[..., None] == jnp.arange(BINS)
    wide = lambdas if lambdas.ndim == 3 else lambdas[..., None]
    kind = jnp.stack([~noisy, noisy], axis=1)  # [B, 2, T]
    return tally._replace(
        lambdas=tally.lambdas + jnp.sum(jnp.where(kind[..., None], wide[:, None], 0.0), 2),
        steps=tally.steps + jnp.sum(kind, 2),
        predicted=tally.predicted + jnp.sum(jnp.where(inside, confidence[..., None], 0.0), (1, 2)),
        observed=tally.observed + jnp.sum(inside & came[..., None], (1, 2)),
        counted=tally.counted + jnp.sum(inside, (1, 2)),
    )


def means(tally: Tally) -> Diagnostics:
    """The sums as means, on the host."""
    tally = Tally(*(np.asarray(part) for part in tally))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = tally.lambdas / tally.steps[..., None]
        predicted, observed = tally.predicted / tally.counted, tally.observed / tally.counted
        return Diagnostics(tally.loss / tally.updates, mean[:, 0], mean[:, 1], predicted, observed, tally.counted)
