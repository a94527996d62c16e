"""A small causal transformer in JAX: read whole sequences, or token by token with a cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Weights = dict[str, Any]


@dataclass(frozen=True)
class TransformerShape:
    """Sizes. Args: vocabulary, length: tokens and positions. outputs: numbers per position."""

    vocabulary: int
    length: int
    outputs: int
    layers: int = 4
    width: int = 128
    heads: int = 4


class Cache(NamedTuple):
    """Keys and values of the positions read so far: [layers, B, length, heads, width / heads]."""

    keys: jax.Array
    values: jax.Array


def make_transformer(shape: TransformerShape, key: jax.Array) -> Weights:
    """Fresh weights; the output layer begins at zero."""
    w = shape.width
    sizes = {"qkv": (w, 3 * w), "out": (w, w), "up": (w, 4 * w), "down": (4 * w, w)}
    keys = iter(jax.random.split(key, 2 + len(sizes)))
    layers = {
        name: jax.random.normal(next(keys), (shape.layers, *size)) * size[0] ** -0.5 for name, size in sizes.items()
    }
    return {
        "tokens": 0.5 * jax.random.normal(next(keys), (shape.vocabulary, w)),
        "positions": 0.5 * jax.random.normal(next(keys), (shape.length, w)),
        "layers": layers,
        "head": jnp.zeros((w, shape.outputs)),
        "bias": jnp.zeros(shape.outputs),
    }


def apply(shape: TransformerShape, weights: Weights, tokens: jax.Array) -> jax.Array:
    """Outputs at every position, float32[B, S, outputs], from int32[B, S]."""
    n = tokens.shape[1]
    hidden = weights["tokens"][tokens] + weights["positions"][:n]
    causal = jnp.tril(jnp.ones((n, n), bool))

    def layer(hidden: jax.Array, part: Weights) -> tuple[jax.Array, None]:
        q, k, v = _heads(shape, _normalised(hidden) @ part["qkv"])
        hidden = hidden + _attend(q, k, v, causal) @ part["out"]
        return _feed(hidden, part), None

    hidden, _ = jax.lax.scan(layer, hidden, weights["layers"])
    return _normalised(hidden) @ weights["head"] + weights["bias"]


def empty_cache(shape: TransformerShape, batch: int, dtype: Any = jnp.bfloat16) -> Cache:
    """A cache with nothing in it."""
    zeros = jnp.zeros((shape.layers, batch, shape.length, shape.heads, shape.width // shape.heads), dtype)
    return Cache(zeros, zeros)


def read_token(
    shape: TransformerShape, weights: Weights, cache: Cache, token: jax.Array, place: Any
) -> tuple[Cache, jax.Array]:
    """Read one more token, int32[B], at `place`: the cache with it, and the outputs there, float32[B, outputs]."""
    hidden = (weights["tokens"][token] + weights["positions"][place])[:, None]
    seen = (jnp.arange(shape.length) <= place)[None]

    def layer(hidden: jax.Array, xs: Any) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        part, keys, values = xs
        q, k, v = _heads(shape, _normalised(hidden) @ part["qkv"])
        keys = jax.lax.dynamic_update_slice_in_dim(keys, k.astype(keys.dtype), place, 1)
        values = jax.lax.dynamic_update_slice_in_dim(values, v.astype(values.dtype), place, 1)
        hidden = hidden + _attend(q.astype(keys.dtype), keys, values, seen).astype(hidden.dtype) @ part["out"]
        return _feed(hidden, part), (keys, values)

    hidden, kept = jax.lax.scan(layer, hidden, (weights["layers"], *cache))
    return Cache(*kept), (_normalised(hidden) @ weights["head"] + weights["bias"])[:, 0]


def _heads(shape: TransformerShape, qkv: jax.Array) -> list[jax.Array]:
    parts = jnp.split(qkv, 3, axis=-1)
    return [part.reshape(*part.shape[:-1], shape.heads, shape.width // shape.heads) for part in parts]


def _attend(q: jax.Array, k: jax.Array, v: jax.Array, seen: jax.Array) -> jax.Array:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32) * q.shape[-1] ** -0.5
    weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf)).astype(v.dtype)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v, preferred_element_type=jnp.float32)
    return mixed.reshape(*mixed.shape[:2], -1)


def _feed(hidden: jax.Array, part: Weights) -> jax.Array:
    return hidden + jax.nn.gelu(_normalised(hidden) @ part["up"]) @ part["down"]


def _normalised(x: jax.Array) -> jax.Array:
    x = x - jnp.mean(x, -1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)
