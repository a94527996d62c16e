"""Perceptrons for the agents: layer normalisation without parameters before every nonlinearity, sparse first weights;
the softmax policy on their outputs, and a gated recurrent unit.

Streaming learners make a step after every transition and keep nothing to average over. What keeps them stable is taken
from the literature on streaming deep reinforcement learning (Elsayed, Vasan and Mahmood 2024): normalised
preactivations, initial weights most of which are zero, and step sizes that cannot overshoot (`agents.streaming`).
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Mlp(NamedTuple):
    """Weights and biases, from the input to the output."""

    weights: tuple[jax.Array, ...]  # float32[out, in]
    biases: tuple[jax.Array, ...]  # float32[out]


def make_mlp(key: jax.Array, sizes: tuple[int, ...], sparsity: float = 0.0) -> Mlp:
    """A fresh network; the last layer begins at zero.

    Args:
      sizes: numbers per layer, the input first. sparsity: share of the weights of a unit that begin at zero.
    """
    weights = []
    for n_in, n_out in itertools.pairwise(sizes[:-1]):
        key, uniform, drop = jax.random.split(key, 3)
        bound = n_in**-0.5
        values = jax.random.uniform(uniform, (n_out, n_in), minval=-bound, maxval=bound)
        order = jnp.argsort(jax.random.uniform(drop, (n_out, n_in)), axis=1)
        weights.append(jnp.where(order < int(sparsity * n_in), 0.0, values))
    weights.append(jnp.zeros((sizes[-1], sizes[-2])))
    return Mlp(tuple(weights), tuple(jnp.zeros(n) for n in sizes[1:]))


def apply_mlp(network: Mlp, inputs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Outputs and the last hidden layer: float32[..., out], float32[..., hidden]. Linear without hidden layers."""
    hidden = inputs
    for weight, bias in zip(network.weights[:-1], network.biases[:-1], strict=True):
        hidden = jax.nn.leaky_relu(_normalised(hidden @ weight.T + bias))
    return hidden @ network.weights[-1].T + network.biases[-1], hidden


def _normalised(x: jax.Array) -> jax.Array:
    """Mean 0 and variance 1 over the units."""
    mean = jnp.mean(x, -1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5)


def log_probability(outputs: jax.Array, action: jax.Array) -> jax.Array:
    """ln π(a|x) of the softmax of outputs float32[..., A], for actions int32[...]."""
    return jnp.take_along_axis(jax.nn.log_softmax(outputs), jnp.asarray(action)[..., None], -1)[..., 0]


def entropy(outputs: jax.Array) -> jax.Array:
    """−Σ_a π ln π of the same policy."""
    logs = jax.nn.log_softmax(outputs)
    return -jnp.sum(jnp.exp(logs) * logs, -1)


def gated_step(state: jax.Array, drive: jax.Array, pushed: jax.Array) -> jax.Array:
    """The next state of a gated recurrent unit (GRU; Cho et al. 2014).

        r = σ(d_r + u_r),   z = σ(d_z + u_z),   n = tanh(d_n + r ⊙ u_n),   h' = z ⊙ h + (1 − z) ⊙ n

    Args:
      state: h [..., hidden]. drive: d = W x + b [..., 3 hidden], in the order r, z, n. pushed: u = U h, as drive.
    """
    (x_r, x_z, x_n), (u_r, u_z, u_n) = jnp.split(drive, 3, -1), jnp.split(pushed, 3, -1)
    r, z = jax.nn.sigmoid(x_r + u_r), jax.nn.sigmoid(x_z + u_z)
    return z * state + (1 - z) * jnp.tanh(x_n + r * u_n)
