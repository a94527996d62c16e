"""Value kernel: λ is low if the next value is uncertain relative to the TD errors; no transition model.

    y = γ B(x'),   m(x) ≈ E[y | x],   v(x) ≈ E[(y − m(x))² | x]
    λ(x) = (1 + 2 v(x) / τ²)^(−1/2),   τ = c × running root mean square of TD errors

It is the probability that two samples of the next state are indistinguishable by value, under a Gaussian. Noise that
does not change the value leaves λ at 1, noise that does lowers it. m and v are one linear head of two numbers (per
action if the bootstrap is Q) on the critic's last layer and the observation. Rewards stay out of the comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from studies.networks.lambdas.base import DeepLambda, ErrorScale, Q, SourceSizes, Transitions, in_batches, with_bias

_CHUNKS = 8  # updates per rollout


class KernelState(NamedTuple):
    """The head's weights for mean and variance, A' = 1 for V; and the running size of TD errors."""

    weights: jax.Array  # float32[2, A', features + inputs + 1]
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

    def init(self, key: jax.Array, sizes: SourceSizes) -> KernelState:
        """m = v = 0: λ = 1 until values differ."""
        heads = sizes.n_actions if sizes.bootstrap == Q else 1
        return KernelState(jnp.zeros((2, heads, sizes.features + sizes.inputs + 1)), ErrorScale.start())

    def learn(self, state: KernelState, transitions: Transitions) -> KernelState:
        """Move the head towards the sampled next values: once per transition, or in a few batches per rollout."""
        scale = state.scale.follow(transitions, self.memory)
        phi, y = with_bias(transitions.features, transitions.inputs), transitions.discount * transitions.next_value
        weight = _heads(state, transitions)
        parts = in_batches(_CHUNKS, phi, y, weight)
        if y.size == 1:
            return KernelState(_moved(state.weights, tuple(x[0] for x in parts), self.rate), scale)

        def one(weights: jax.Array, part: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
            return _moved(weights, part, self.batch_rate), None

        return KernelState(jax.lax.scan(one, state.weights, parts)[0], scale)

    def step(self, state: KernelState, transitions: Transitions) -> tuple[KernelState, jax.Array]:
        """Learn, then λ. After one transition the new answer is the old one and a share of its error."""
        if transitions.reward.size > 1:
            return super().step(state, transitions)
        scale = state.scale.follow(transitions, self.memory)
        phi = with_bias(transitions.features, transitions.inputs)[0, 0]
        head = _heads(state, transitions)[0, 0]
        mean, variance = jnp.sum(state.weights * phi * head[:, None], (1, 2))
        error = transitions.discount * transitions.next_value[0, 0] - mean
        moves = self.rate * jnp.stack([error, error**2 - variance])
        weights = state.weights + (moves / jnp.sum(phi**2))[:, None, None] * head[:, None] * phi
        lambda_ = _kernel(jnp.maximum(variance + moves[1], 0.0), self.c * scale.root())
        return KernelState(weights, scale), lambda_[None, None]

    def moments(self, state: KernelState, transitions: Transitions) -> tuple[jax.Array, jax.Array]:
        """(m, v) of the states that transitions leave, [T, B] each."""
        answers = _answers(state.weights, with_bias(transitions.features, transitions.inputs))
        chosen = jnp.sum(_heads(state, transitions)[..., None, :] * answers, -1)
        return chosen[..., 0], jnp.maximum(chosen[..., 1], 0.0)

    def lambdas(self, state: KernelState, transitions: Transitions) -> jax.Array:
        """(1 + 2v/τ²)^(−1/2)."""
        _, variance = self.moments(state, transitions)
        return _kernel(variance, self.c * state.scale.root())


def _kernel(variance: jax.Array, tau: jax.Array) -> jax.Array:
    """Probability that two samples of a Gaussian next value are indistinguishable."""
    return jax.lax.rsqrt(1.0 + 2.0 * variance / jnp.maximum(tau, 1e-8) ** 2)


def _heads(state: KernelState, transitions: Transitions) -> jax.Array:
    """One-hot index of the head: that of the action for Q, the only one for V."""
    heads = state.weights.shape[1]
    return jax.nn.one_hot(transitions.action if heads > 1 else 0 * transitions.action, heads)


def _answers(weights: jax.Array, phi: jax.Array) -> jax.Array:
    """Mean and variance of every head: float32[..., 2, A']."""
    if phi.size == phi.shape[-1]:  # one transition: sums fuse with what is around them, products of matrices do not
        return jnp.sum(weights * phi[..., None, None, :], -1)
    return jnp.einsum("...k,mhk->...mh", phi, weights)


def _moved(weights: jax.Array, part: tuple[jax.Array, ...], rate: float) -> jax.Array:
    """w ← w + rate · mean of (error · φ / |φ|²) over the transitions of each head."""
    phi, y, weight = part
    answers = _answers(weights, phi)
    share = rate * weight / jnp.sum(phi**2, -1, keepdims=True) / jnp.maximum(jnp.sum(weight, 0), 1.0)
    error = y[..., None] - answers[..., 0, :]
    step = share[..., None, :] * jnp.stack([error, error**2 - answers[..., 1, :]], -2)
    if len(phi) == 1:
        return weights + step[0][..., None] * phi[0]
    return weights + jnp.einsum("nmh,nk->mhk", step, phi)
