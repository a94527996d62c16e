"""A small causal transformer, a policy after its warm start, and a critic.

The transformer reads whole sequences, or token by token with a cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from studies.tokens.tasks import (
    PROMPT,
    VOCABULARY,
    Prompts,
    TokenLayout,
    TokenTask,
    demonstrate,
    draw_prompts,
    mask_of,
    prompt_tokens,
    rewards_of,
)

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
    """Keys and values of the positions read so far, an array per layer: [B, heads, length, width / heads]."""

    keys: tuple[jax.Array, ...]
    values: tuple[jax.Array, ...]


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


def empty_cache(shape: TransformerShape, batch: int) -> Cache:
    """An empty cache; of 16 bits if that is faster."""
    dtype = jnp.float32 if jax.default_backend() == "cpu" else jnp.bfloat16
    zeros = jnp.zeros((batch, shape.heads, shape.length, shape.width // shape.heads), dtype)
    return Cache((zeros,) * shape.layers, (zeros,) * shape.layers)


def read_token(
    shape: TransformerShape, weights: Weights, cache: Cache, token: jax.Array, place: Any
) -> tuple[Cache, jax.Array]:
    """Read one more token, int32[B], at `place`: the cache with it, and the outputs there, float32[B, outputs]."""
    hidden = (weights["tokens"][token] + weights["positions"][place])[:, None]
    seen = (jnp.arange(shape.length) <= place)[None]
    keys, values = map(list, cache)
    for number in range(shape.layers):  # a loop of JAX would copy the cache for every token
        part = jax.tree.map(lambda stacked, at=number: stacked[at], weights["layers"])
        q, k, v = _heads(shape, _normalised(hidden) @ part["qkv"])
        for kept, fresh in ((keys, k), (values, v)):
            fresh = fresh.astype(kept[number].dtype)
            kept[number] = jax.lax.dynamic_update_slice_in_dim(kept[number], fresh, place, 2)
        mixed = _attend(q.astype(keys[number].dtype), keys[number], values[number], seen)
        hidden = _feed(hidden + mixed.astype(hidden.dtype) @ part["out"], part)
    return Cache(tuple(keys), tuple(values)), (_normalised(hidden) @ weights["head"] + weights["bias"])[:, 0]


def _heads(shape: TransformerShape, qkv: jax.Array) -> list[jax.Array]:
    """Queries, keys and values, [B, heads, S, width / heads] each."""
    parts = jnp.split(qkv, 3, axis=-1)
    split = (*qkv.shape[:-1], shape.heads, shape.width // shape.heads)
    return [part.reshape(split).swapaxes(-2, -3) for part in parts]


def _attend(q: jax.Array, k: jax.Array, v: jax.Array, seen: jax.Array) -> jax.Array:
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type=jnp.float32) * q.shape[-1] ** -0.5
    weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf)).astype(v.dtype)
    mixed = jnp.einsum("bhqk,bhkd->bqhd", weights, v, preferred_element_type=jnp.float32)
    return mixed.reshape(*mixed.shape[:2], -1)


def _feed(hidden: jax.Array, part: Weights) -> jax.Array:
    return hidden + jax.nn.gelu(_normalised(hidden) @ part["up"]) @ part["down"]


def _normalised(x: jax.Array) -> jax.Array:
    x = x - jnp.mean(x, -1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)


@dataclass(frozen=True)
class Networks:
    """Sizes of policy and critic, of a batch of sequences, and Adam's step sizes for the warm start and the critic."""

    layers: int = 4
    width: int = 128
    heads: int = 4
    batch: int = 128
    warm_rate: float = 1e-3
    critic_rate: float = 3e-4

    def policy(self, task: TokenTask) -> TransformerShape:
        """Its outputs are the logits of the next token."""
        return self._shape(task, VOCABULARY)

    def critic(self, task: TokenTask) -> TransformerShape:
        """Its outputs are V(s), the weight of its initial values I(s), and Q(s, a) for every token."""
        return self._shape(task, 2 + VOCABULARY)

    def _shape(self, task: TokenTask, outputs: int) -> TransformerShape:
        length = PROMPT + max(task.lengths)
        return TransformerShape(VOCABULARY, length, outputs, self.layers, self.width, self.heads)


class CriticSays(NamedTuple):
    """Outputs of a critic before each generated token: values and weights I of initial values, both [B, T]; token
    values [B, T, V]."""

    values: jax.Array
    immaturity: jax.Array
    token_values: jax.Array


def policy_logits(shape: TransformerShape, weights: Weights, prompts: Prompts, tokens: jax.Array) -> jax.Array:
    """Logits of each generated token, float32[B, T, VOCABULARY]."""
    return apply(shape, weights, _read_by_both(prompts, tokens))[:, PROMPT - 1 :]


def ask_critic(shape: TransformerShape, weights: Weights, prompts: Prompts, tokens: jax.Array) -> CriticSays:
    """Outputs of the critic before each generated token."""
    out = apply(shape, weights, _read_by_both(prompts, tokens))[:, PROMPT - 1 :]
    return CriticSays(out[..., 0], 1.0 + out[..., 1], out[..., 2:])


def _read_by_both(prompts: Prompts, tokens: jax.Array) -> jax.Array:
    """All tokens but the last, which nothing follows."""
    return jnp.concatenate([prompt_tokens(prompts), tokens[:, :-1]], axis=1)


def warm_start(networks: Networks, task: TokenTask, layout: TokenLayout, key: jax.Array, updates: int) -> Weights:
    """A policy that imitates demonstrations."""
    shape, optimiser = networks.policy(task), optax.adam(networks.warm_rate)
    first, key = jax.random.split(key)
    weights = make_transformer(shape, first)

    def loss(weights: Weights, key: jax.Array) -> jax.Array:
        for_prompts, for_tokens = jax.random.split(key)
        prompts = draw_prompts(layout, for_prompts, networks.batch)
        tokens = demonstrate(task, layout, prompts, for_tokens)
        logits, mask = policy_logits(shape, weights, prompts, tokens), mask_of(layout, prompts)
        costs = optax.softmax_cross_entropy_with_integer_labels(logits, tokens)
        return jnp.sum(jnp.where(mask, costs, 0.0)) / jnp.sum(mask)

    def update(carry: Any, key: jax.Array) -> Any:
        weights, state = carry
        change, state = optimiser.update(jax.grad(loss)(weights, key), state)
        return (optax.apply_updates(weights, change), state), None

    return jax.lax.scan(update, (weights, optimiser.init(weights)), jax.random.split(key, updates))[0][0]


def sample(
    shape: TransformerShape, weights: Weights, prompts: Prompts, key: jax.Array, given: jax.Array, start: jax.Array
) -> jax.Array:
    """Tokens of the policy, int32[B, T]; the first `start` (int32[B]) of each sequence are those of `given`."""
    before = prompt_tokens(prompts)
    batch, longest = given.shape

    def read(carry: Any, place: jax.Array) -> Any:
        cache, token = carry
        cache, _ = read_token(shape, weights, cache, token, place)
        return (cache, before[:, place + 1]), None

    def write(carry: Any, place: jax.Array) -> Any:
        cache, token = carry
        cache, logits = read_token(shape, weights, cache, token, place + PROMPT - 1)
        drawn = jax.random.categorical(jax.random.fold_in(key, place), logits)
        token = jnp.where(place < start, given[:, place], drawn)
        return (cache, token), token

    carry, _ = jax.lax.scan(read, (empty_cache(shape, batch), before[:, 0]), jnp.arange(PROMPT - 1))
    _, tokens = jax.lax.scan(write, carry, jnp.arange(longest))
    return tokens.T


def sample_batch(
    task: TokenTask, shape: TransformerShape, weights: Weights, layout: TokenLayout, key: jax.Array, batch: int
) -> Any:
    """Fresh prompts, tokens of the policy, and rewards."""
    for_prompts, for_tokens = jax.random.split(key)
    prompts = draw_prompts(layout, for_prompts, batch)
    nothing = jnp.zeros((batch, layout.kinds.shape[1]), jnp.int32)
    tokens = sample(shape, weights, prompts, for_tokens, nothing, jnp.zeros(batch, jnp.int32))
    return prompts, tokens, rewards_of(task, layout, prompts, tokens)


def critic_step(networks: Networks, task: TokenTask, layout: TokenLayout, carry: Any, drawn: Any) -> Any:
    """One update of the critic towards λ = 1 returns. Args: carry: (weights, optimiser's state). drawn: a batch."""
    prompts, tokens, rewards = drawn
    mask = mask_of(layout, prompts)

    def loss(weights: Weights) -> jax.Array:
        said = ask_critic(networks.critic(task), weights, prompts, tokens)
        chosen = jnp.take_along_axis(said.token_values, tokens[..., None], axis=-1)[..., 0]
        errors = (said.values - rewards[:, None]) ** 2 + (chosen - rewards[:, None]) ** 2 + said.immaturity**2
        return jnp.sum(jnp.where(mask, errors, 0.0)) / jnp.sum(mask)

    weights, state = carry
    change, state = optax.adam(networks.critic_rate).update(jax.grad(loss)(weights), state)
    return optax.apply_updates(weights, change), state


def train_critic(
    networks: Networks, task: TokenTask, layout: TokenLayout, policy: Weights, carry: Any, key: jax.Array, updates: int
) -> Any:
    """More updates of the critic, on fresh text of a policy. Args: carry: as for `critic_step`."""

    def update(carry: Any, key: jax.Array) -> Any:
        drawn = sample_batch(task, networks.policy(task), policy, layout, key, networks.batch)
        return critic_step(networks, task, layout, carry, drawn), None

    return jax.lax.scan(update, carry, jax.random.split(key, updates))[0]


def start_critic(networks: Networks, task: TokenTask, policy: Weights) -> Any:
    """For `train_critic`: the policy's body with a head of V = 0, Q = 0 and I = 1; its optimiser's state."""
    outputs = networks.critic(task).outputs
    weights = {**policy, "head": jnp.zeros((networks.width, outputs)), "bias": jnp.zeros(outputs)}
    return weights, optax.adam(networks.critic_rate).init(weights)
