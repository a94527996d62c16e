"""Meta-gradient: one λ for all states, moved along the gradient of the later squared TD errors.

    λ = sigmoid(ψ),   ψ ← ψ + η δ_t ∇v(x_t)·h,   h = ∂w/∂ψ

The derivative of the weights is carried along, as in the meta-learning of step sizes (Sutton 1992; Xu et al. 2018):

    ∂z ← γ λ ∂z + γ λ(1 − λ) z_before,   h ← h + α (δ ∂z − (∇v·h) z)

Both derivatives are kept within a norm of `bound`: products of factors 1 − α ∇v·z diverge if steps overshoot.
ψ is moved in units of the meta-gradient's own size, so their scale does not matter.

It needs traces, so it exists in streaming learners only. It costs two more copies of the critic's parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from studies.networks.lambdas.base import DeepLambda, ErrorScale, SourceSizes, StreamCredit, Transitions


class MetaState(NamedTuple):
    """ψ, the derivatives of trace and weights by ψ (None until the first update), and the size of meta-gradients."""

    psi: jax.Array
    trace: Any
    weights: Any
    scale: ErrorScale


@dataclass(frozen=True)
class DeepMetaGradient(DeepLambda):
    """The meta-gradient.

    Args:
      initial: the first λ. rate: η, in units of the running root mean square of the meta-gradient.
      bound: of the norm of either derivative.
    """

    initial: float = 0.9
    rate: float = 1e-3
    bound: float = 1e3

    def init(self, key: jax.Array, sizes: SourceSizes) -> MetaState:
        """λ as given; nothing derived yet."""
        psi = jnp.log(self.initial) - jnp.log1p(-min(self.initial, 1 - 1e-6))
        return MetaState(jnp.asarray(psi, jnp.float32), None, None, ErrorScale.start())

    def with_parameters(self, state: MetaState, parameters: Any) -> MetaState:
        """Return the state extended by derivatives with respect to these parameters."""
        zeros = jax.tree.map(jnp.zeros_like, parameters)
        return state._replace(trace=zeros, weights=zeros)

    def lambdas(self, state: MetaState, transitions: Transitions) -> jax.Array:
        """sigmoid(ψ) everywhere."""
        return jnp.broadcast_to(jax.nn.sigmoid(state.psi), transitions.reward.shape)

    def after(self, state: MetaState, credit: StreamCredit) -> MetaState:
        """Move ψ, then carry the derivatives on."""
        lambda_ = jax.nn.sigmoid(state.psi)
        along = _dot(credit.gradient, state.weights)
        slope = credit.td_error * along
        scale = ErrorScale(0.999 * state.scale.mean_square + 0.001 * slope**2, 0.999 * state.scale.weight + 0.001)
        size = jnp.sqrt(scale.mean_square / scale.weight) + 1e-8
        psi = jnp.clip(state.psi + self.rate * slope / size, -7.0, 7.0)
        decay, pull = credit.discount * lambda_, credit.discount * lambda_ * (1 - lambda_)
        trace = jax.tree.map(lambda d, z: decay * d + pull * z, state.trace, credit.trace_before)
        weights = jax.tree.map(
            lambda h, d, z: h + credit.step_size * (credit.td_error * d - along * z), state.weights, trace, credit.trace
        )
        trace = jax.tree.map(lambda d: jnp.where(credit.ended, 0.0, d), trace)
        return MetaState(psi, self._bounded(trace), self._bounded(weights), scale)

    def _bounded(self, derivative: Any) -> Any:
        """The derivative, shortened to the bound if it is longer."""
        shorter = jnp.minimum(1.0, self.bound / jnp.sqrt(jnp.maximum(_dot(derivative, derivative), 1e-12)))
        return jax.tree.map(lambda x: shorter * x, derivative)


def _dot(a: Any, b: Any) -> jax.Array:
    """The inner product of two pytrees."""
    return sum((jnp.sum(x * y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)), jnp.zeros(()))
