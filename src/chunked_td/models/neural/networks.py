"""Categorical networks over factored states: the world models of App. A.2 and App. A.3.

A state is a tuple of integers x = (x¹, …, xᶜ). The inputs of the network are the state, each component divided by its
maximum, and the action. It predicts the components of the next state independently given both:

    P̂(x'|x, a) = Πᵢ P̂ᵢ(x'ⁱ|x, a)

The prediction of a component is a `Head`: a Boolean, one of n categories, or the difference x'ⁱ − xⁱ within a given
range. Products of many components are computed as sums of logarithms.

`NetworkConfig` has all settings of such a model and its training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from chunked_td._checks import check_choice, check_not_negative, check_positive, check_whole

ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu, "gelu": jax.nn.gelu, "silu": jax.nn.silu}
_KINDS = ("boolean", "categorical", "difference")


@dataclass(frozen=True)
class Head:
    """Prediction of one component of the next state.

    Attributes:
      kind: "boolean" (one logit), "categorical" (the value itself) or "difference" (next value − current value).
      outcomes: number of possible values.
      low: smallest of them; the outcomes are low..low+outcomes−1.
    """

    kind: str
    outcomes: int
    low: int = 0

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, _KINDS)
        if self.outcomes < 1 or (self.kind == "boolean" and self.outcomes != 2):
            raise ValueError(f"outcomes must be a positive count, and 2 for a boolean, got {self.outcomes}")

    @property
    def logits(self) -> int:
        """Number of network outputs of this head."""
        return 1 if self.kind == "boolean" else self.outcomes


def boolean() -> Head:
    """A component that is 0 or 1: one logit, a Bernoulli variable."""
    return Head("boolean", 2)


def categorical(values: int) -> Head:
    """A component with values 0..values−1: a softmax over them."""
    return Head("categorical", values)


def difference(low: int, high: int) -> Head:
    """A component that changes by low..high in one step: a softmax over the change."""
    return Head("difference", high - low + 1, low)


@dataclass(frozen=True)
class NetworkConfig:
    """A categorical network and its training.

    Attributes:
      nvec: sizes of the state components; component i takes the values 0..nvec[i]−1.
      actions: number of actions.
      heads: prediction of each component.
      hidden: sizes of the hidden layers.
      activation: "tanh", "relu", "gelu" or "silu".
      embedding: length of the learned vector per action; with 0 the action is a one-hot vector.
      learning_rate, weight_decay: of Adam; the decay is added to the gradient, as in PyTorch's `Adam(weight_decay=)`.
      batch_size: transitions per training step, sampled with replacement.
      capacity: number of transitions in the replay buffer.
      train_every: transitions per training step, after more than batch_size are stored.
    """

    nvec: tuple[int, ...]
    actions: int
    heads: tuple[Head, ...]
    hidden: tuple[int, ...] = (256, 256, 256)
    activation: str = "tanh"
    embedding: int = 0
    learning_rate: float = 1e-4
    weight_decay: float = 0.0
    batch_size: int = 128
    capacity: int = 100_000
    train_every: int = 1

    def __post_init__(self) -> None:
        if len(self.heads) != len(self.nvec):
            raise ValueError(f"heads must have one entry per component ({len(self.nvec)}), got {len(self.heads)}")
        check_choice("activation", self.activation, ACTIVATIONS)
        for name in ("nvec", "hidden"):
            value = getattr(self, name)
            if not isinstance(value, Sequence):
                raise ValueError(f"{name} must be a tuple of positive integers, got {value!r}")
            object.__setattr__(self, name, tuple(check_whole(name, n, 1) for n in value))
        for name in ("actions", "batch_size", "capacity", "train_every"):
            check_whole(name, getattr(self, name), 1)
        check_whole("embedding", self.embedding, 0)
        check_positive("learning_rate", self.learning_rate)
        check_not_negative("weight_decay", self.weight_decay)
        for i, (n, head) in enumerate(zip(self.nvec, self.heads, strict=True)):
            if head.kind != "difference" and head.outcomes < n:
                raise ValueError(
                    f"heads[{i}] must have at least {n} outcomes, the values of component {i}, got {head.outcomes}"
                )

    @property
    def outputs(self) -> int:
        """Length of the network's output: the logits of all heads, side by side."""
        return sum(head.logits for head in self.heads)

    @property
    def sizes(self) -> list[int]:
        """Sizes of all layers, from the input to the output."""
        return [len(self.nvec) + (self.embedding or self.actions), *self.hidden, self.outputs]

    @property
    def parameters(self) -> int:
        """Number of learned parameters."""
        return sum((a + 1) * b for a, b in pairwise(self.sizes)) + self.embedding * self.actions


class CategoricalNetwork(eqx.Module):
    """A multilayer perceptron from (state, action) to the logits of all heads, with PyTorch's initialisation.

    Linear weights and biases are uniform on ±1/√inputs, embeddings are standard normal.
    """

    layers: tuple[eqx.nn.Linear, ...]
    embedding: jax.Array | None
    config: NetworkConfig = eqx.field(static=True)

    def __init__(self, config: NetworkConfig, *, key: jax.Array) -> None:
        keys = jax.random.split(key, len(config.sizes))
        layers = zip(pairwise(config.sizes), keys[1:], strict=True)
        self.layers = tuple(eqx.nn.Linear(a, b, key=k) for (a, b), k in layers)
        shape = (config.actions, config.embedding)
        self.embedding = jax.random.normal(keys[0], shape) if config.embedding else None
        self.config = config

    def __call__(self, x: jax.Array, *, precision: Any = None) -> jax.Array:
        """Logits float32[rows, outputs] of inputs float32[rows, c + actions], as made by `features`.

        `precision` is that of the matrix products, as for `jax.numpy.matmul`.
        """
        activation, c = ACTIVATIONS[self.config.activation], len(self.config.nvec)
        for i, layer in enumerate(self.layers):
            weight = layer.weight
            if i == 0 and self.embedding is not None:  # the embedding is a factor of the action columns
                by_action = jnp.matmul(weight[:, c:], self.embedding.T, precision=precision)
                weight = jnp.concatenate([weight[:, :c], by_action], axis=1)
            x = jnp.matmul(x, weight.T, precision=precision) + layer.bias  # type: ignore[operator]
            x = x if i == len(self.layers) - 1 else activation(x)
        return x


def optimiser(config: NetworkConfig) -> optax.GradientTransformation:
    """PyTorch's `Adam(lr, weight_decay)`: the decay is added to the gradient before the moments are updated."""
    adam = optax.adam(config.learning_rate)
    if not config.weight_decay:
        return adam
    return optax.chain(optax.add_decayed_weights(config.weight_decay), adam)


def features(config: NetworkConfig, state: jax.Array, action: jax.Array) -> jax.Array:
    """float32[..., c + actions] from int[..., c] and int[...]: state / its maximum, then the action as a one-hot."""
    top = np.maximum(np.asarray(config.nvec) - 1, 1).astype(np.float32)
    one_hot = action[..., None] == jnp.arange(config.actions, dtype=action.dtype)
    return jnp.concatenate([state.astype(jnp.float32) / top, one_hot.astype(jnp.float32)], axis=-1)


def outcomes(config: NetworkConfig, state: jax.Array, next_state: jax.Array) -> jax.Array:
    """Index of each component's sampled outcome in its head: int32[..., c]; out of range if the head lacks it."""
    is_difference = np.array([head.kind == "difference" for head in config.heads])
    low = np.array([head.low for head in config.heads], np.int32)
    before = jnp.where(is_difference, state.astype(jnp.int32), 0)
    return next_state.astype(jnp.int32) - before - low


def _split(config: NetworkConfig, logits: jax.Array) -> list[tuple[bool, int, int, jax.Array]]:
    """(is Boolean, outcomes, members, logits) of neighbouring heads of one shape.

    Logits are [..., members] for Booleans, [..., members, outcomes] for the rest.
    """
    parts, start = [], 0
    for (boolean, n), same in groupby((head.kind == "boolean", head.outcomes) for head in config.heads):
        members = len(list(same))
        width = members if boolean else members * n
        part = logits[..., start : start + width]
        start += width
        parts.append((boolean, n, members, part if boolean else part.reshape(*part.shape[:-1], members, n)))
    return parts


def log_likelihood(config: NetworkConfig, logits: jax.Array, outcome: jax.Array) -> jax.Array:
    """log P̂ᵢ(outcome) for each component: float32[..., c]; −∞ for an outcome that its head lacks."""
    result, start = [], 0
    for boolean, n, members, part in _split(config, logits):
        index = outcome[..., start : start + members]
        start += members
        if boolean:
            value = jax.nn.log_sigmoid(jnp.where(index == 1, part, -part))
        else:
            hit = index[..., None] == jnp.arange(n)
            value = jnp.sum(jnp.where(hit, part, 0.0), -1) - jax.nn.logsumexp(part, -1)
        known = (index >= 0) & (index < n)
        result.append(jnp.where(known, value, -jnp.inf))
    return jnp.concatenate(result, axis=-1)


def log_confidence(config: NetworkConfig, logits: jax.Array) -> jax.Array:
    """log of the greatest probability of each component: float32[..., c]."""
    result = []
    for boolean, _, _, part in _split(config, logits):
        if boolean:
            result.append(jax.nn.log_sigmoid(jnp.abs(part)))
        else:
            result.append(jnp.max(part, -1) - jax.nn.logsumexp(part, -1))
    return jnp.concatenate(result, axis=-1)


def outcome_probabilities(config: NetworkConfig, logits: jax.Array) -> jax.Array:
    """P̂ᵢ(v) of every outcome v of every component, side by side: float32[..., Σ outcomes]."""
    result = []
    for boolean, _, _, part in _split(config, logits):
        each = jax.nn.softmax(part, -1)
        if boolean:
            each = jnp.stack([jax.nn.sigmoid(-part), jax.nn.sigmoid(part)], -1)
        result.append(each.reshape(*each.shape[:-2], -1))
    return jnp.concatenate(result, axis=-1)


def log_overlap(config: NetworkConfig, logits_a: jax.Array, logits_b: jax.Array) -> jax.Array:
    """log Σᵥ Pᵢ(v) Qᵢ(v) for each component: float32[..., c].

    With equal arguments it is the log of the expected probability of the next outcome.
    """
    result = []
    for (boolean, _, _, a), (*_, b) in zip(_split(config, logits_a), _split(config, logits_b), strict=True):
        if boolean:
            yes = jax.nn.log_sigmoid(a) + jax.nn.log_sigmoid(b)
            result.append(jnp.logaddexp(yes, jax.nn.log_sigmoid(-a) + jax.nn.log_sigmoid(-b)))
        else:
            result.append(jax.nn.logsumexp(jax.nn.log_softmax(a, -1) + jax.nn.log_softmax(b, -1), -1))
    return jnp.concatenate(result, axis=-1)


def mean_cross_entropy(config: NetworkConfig, logits: jax.Array, outcome: jax.Array) -> jax.Array:
    """The training loss: −log P̂ᵢ(outcome), averaged over components and batch."""
    return -jnp.mean(log_likelihood(config, logits, outcome))
