"""The policy behind the outputs of its network, a softmax: float32[..., A] are logits, actions int32[...]."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def log_probability(outputs: jax.Array, action: jax.Array) -> jax.Array:
    """ln π(a|x)."""
    return jnp.take_along_axis(jax.nn.log_softmax(outputs), jnp.asarray(action)[..., None], -1)[..., 0]


def entropy(outputs: jax.Array) -> jax.Array:
    """−Σ_a π ln π."""
    logs = jax.nn.log_softmax(outputs)
    return -jnp.sum(jnp.exp(logs) * logs, -1)
