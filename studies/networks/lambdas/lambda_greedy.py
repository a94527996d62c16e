"""λ-greedy (White and White 2016): trade squared bias of the value for variance of the return, state by state.

    λ(x) = e(x)² / (e(x)² + Var(x)),   e = g − V

with g a Monte-Carlo estimate of the return from x, learned by TD(1), and Var its variance, learned directly from the
squared errors of g (Sherstan et al. 2018): Var(x) ← δ_g² + γ² Var(x'). Both are linear in the critic's last layer and
the observation. It depends on the state alone: where the critic has action values, V is their mean under the policy
(their greatest in Q(λ)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from studies.networks.lambdas.base import DeepLambda, SourceSizes, Transitions, with_bias


class GreedyState(NamedTuple):
    """Linear heads for return and variance, and the trace of TD(1) in each environment."""

    mean: jax.Array  # float32[K]
    variance: jax.Array  # float32[K]
    trace: jax.Array  # float32[B, K]


@dataclass(frozen=True)
class DeepLambdaGreedy(DeepLambda):
    """λ-greedy. Args: rate: of its two heads, normalised as in `DeepValueKernel`."""

    rate: float = 0.05

    def init(self, key: jax.Array, sizes: SourceSizes) -> GreedyState:
        """Everything 0, so λ begins at 1."""
        width = sizes.features + sizes.inputs + 1
        return GreedyState(jnp.zeros(width), jnp.zeros(width), jnp.zeros((sizes.batch, width)))

    def learn(self, state: GreedyState, transitions: Transitions) -> GreedyState:
        """TD(1) for the return and TD(0) for its variance, one time step after the other."""
        t = transitions
        phi, later = with_bias(t.features, t.inputs), with_bias(t.next_features, t.next_inputs)

        def one(state: GreedyState, now: tuple[jax.Array, ...]) -> tuple[GreedyState, None]:
            phi, later, reward, terminated, start = now
            trace = t.discount * jnp.where(start, 0.0, 1.0)[:, None] * state.trace + phi
            ahead = jnp.where(terminated, 0.0, 1.0)
            error = reward + t.discount * ahead * (later @ state.mean) - phi @ state.mean
            # The trace grows with the episode: its size, not that of the features, bounds the step.
            step = self.rate / jnp.maximum(jnp.sum(phi * trace, -1), jnp.sum(trace**2, -1))
            mean = state.mean + jnp.mean((step * error)[:, None] * trace, 0)
            target = error**2 + t.discount**2 * ahead * jnp.maximum(later @ state.variance, 0.0)
            share = self.rate / jnp.sum(phi**2, -1)
            variance = state.variance + jnp.mean((share * (target - phi @ state.variance))[:, None] * phi, 0)
            return GreedyState(mean, variance, trace), None

        data = (phi, later, t.reward, t.terminated, t.start)
        if len(phi) == 1:
            return one(state, jax.tree.map(lambda x: x[0], data))[0]
        return jax.lax.scan(one, state, data)[0]

    def lambdas(self, state: GreedyState, transitions: Transitions) -> jax.Array:
        """e² / (e² + Var); 1 if both are 0."""
        phi = with_bias(transitions.features, transitions.inputs)
        value = transitions.value if transitions.state_value is None else transitions.state_value
        square = (phi @ state.mean - value) ** 2
        variance = jnp.maximum(phi @ state.variance, 0.0)
        return (square + 1e-8) / (square + variance + 1e-8)
