"""Value kernel: λ falls where the next value is uncertain, measured against the size of TD errors; no world model.

    y = γ B(x'),   m(x) ≈ E[y | x],   v(x) ≈ E[(y − m(x))² | x]
    λ(x) = (1 + 2 v(x) / τ²)^(−1/2),   τ = c × running root mean square of TD errors

It is the chance that two draws of the next state cannot be told apart by value, under a Gaussian. Noise that does not
change the value leaves λ at 1, noise that does lowers it. m and v are one linear head of two numbers (per action,
where the bootstrap is Q) on the critic's last layer and the observation. Rewards stay out of the comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from chunked_td._checks import check_positive
from chunked_td.deep.lambdas.base import (
    DeepLambda,
    ErrorScale,
    Q,
    SourceSizes,
    Transitions,
    follow_scale,
    kernel_lambda,
    root_mean_square,
    start_scale,
)

_CHUNKS = 8  # updates per rollout


class KernelState(NamedTuple):
    """The head: float32[A', features + inputs + 1] each, A' = 1 for V; and the running size of TD errors."""

    mean: jax.Array
    variance: jax.Array
    scale: ErrorScale


@dataclass(frozen=True)
class DeepValueKernel(DeepLambda):
    """The value kernel from one extra head.

    Args:
      c: τ in units of the root mean square of TD errors.
      rate: of the head's normalised least-mean-squares update per transition. batch_rate: per batch of transitions.
      memory: TD errors that τ remembers.
    """

    c: float = 0.3
    rate: float = 0.05
    batch_rate: float = 0.5
    memory: float = 2_000.0

    def __post_init__(self) -> None:
        for name in ("c", "rate", "batch_rate", "memory"):
            check_positive(name, getattr(self, name))

    def init(self, key: jax.Array, sizes: SourceSizes) -> KernelState:
        """m = v = 0: λ = 1 until values differ."""
        heads = sizes.n_actions if sizes.bootstrap == Q else 1
        zeros = jnp.zeros((heads, sizes.features + sizes.inputs + 1))
        return KernelState(zeros, zeros, start_scale())

    def learn(self, state: KernelState, transitions: Transitions) -> KernelState:
        """Move the head towards what came: once per transition, or in a few batches per rollout."""
        scale = follow_scale(state.scale, transitions, self.memory)
        phi, y = _features(transitions), transitions.discount * transitions.next_value
        weight = transitions.valid[..., None] * _heads(state, transitions)
        count = y.size
        if count == 1:
            mean, variance = self._move((state.mean, state.variance), (phi, y, weight), self.rate)
            return KernelState(mean, variance, scale)
        chunks = next(n for n in range(min(_CHUNKS, count), 0, -1) if count % n == 0)
        parts = tuple(x.reshape(chunks, count // chunks, *x.shape[2:]) for x in (phi, y, weight))

        def one(heads: tuple[jax.Array, jax.Array], part: tuple[jax.Array, ...]) -> tuple[tuple[jax.Array, ...], None]:
            return self._move(heads, part, self.batch_rate), None

        (mean, variance), _ = jax.lax.scan(one, (state.mean, state.variance), parts)
        return KernelState(mean, variance, scale)

    def _move(self, heads: tuple[jax.Array, jax.Array], part: tuple[jax.Array, ...], rate: float) -> tuple:
        """w ← w + rate · mean of (error · φ / |φ|²) over the transitions of each head."""
        phi, y, weight = part
        mean, variance = heads
        share = weight / jnp.sum(phi**2, -1, keepdims=True)
        share = rate * share / jnp.maximum(jnp.sum(weight, tuple(range(weight.ndim - 1))), 1.0)
        error = y[..., None] - phi @ mean.T
        surprise = error**2 - phi @ variance.T
        gradient = jnp.einsum("...h,...k->hk", share * error, phi)
        return mean + gradient, variance + jnp.einsum("...h,...k->hk", share * surprise, phi)

    def moments(self, state: KernelState, transitions: Transitions) -> tuple[jax.Array, jax.Array]:
        """(m, v) of the states that transitions leave, [T, B] each."""
        phi, heads = _features(transitions), _heads(state, transitions)
        mean, variance = (jnp.sum(heads * (phi @ w.T), -1) for w in (state.mean, state.variance))
        return mean, jnp.maximum(variance, 0.0)

    def lambdas(self, state: KernelState, transitions: Transitions) -> jax.Array:
        """(1 + 2v/τ²)^(−1/2)."""
        _, variance = self.moments(state, transitions)
        return kernel_lambda(variance, self.c * root_mean_square(state.scale))

    def check(self, state: KernelState, transitions: Transitions) -> tuple[jax.Array, jax.Array]:
        """v, and the squared error of m."""
        mean, variance = self.moments(state, transitions)
        return variance, (transitions.discount * transitions.next_value - mean) ** 2


def _features(transitions: Transitions) -> jax.Array:
    """Critic's features, observation and 1."""
    one = jnp.ones((*transitions.inputs.shape[:-1], 1))
    return jnp.concatenate([transitions.features, transitions.inputs, one], -1)


def _heads(state: KernelState, transitions: Transitions) -> jax.Array:
    """Which head answers, as a one-hot: that of the action for Q, the only one for V."""
    return jax.nn.one_hot(transitions.action if len(state.mean) > 1 else 0 * transitions.action, len(state.mean))
