"""A network as the model of one learner: `ChunkedExpectedSarsa(env, model=NeuralModel(env), …)`, one run, on a CPU.

`World` trains the networks of many runs with episodes of equal length together. This class predicts one transition at a
time, for any discrete environment and episodes of any length. Both compute the same, for transition n = 1, 2, …:

    store transition n;
    if n is a multiple of train_every and n > batch_size: one training step on a batch of stored transitions;
    P̂(x'|x, a) under the current parameters.

With the seed of a run of `World`, the initial network and the batches are the same.

Transitions are stored on the host. A training step is one compiled call that also returns the predictions for the
transition just observed, which the learner reads next. Any other prediction is a separate forward pass.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chunked_td._checks import check_seed
from chunked_td.models.neural import replay
from chunked_td.models.neural.networks import (
    CategoricalNetwork,
    Head,
    NetworkConfig,
    boolean,
    categorical,
    features,
    log_likelihood,
    log_overlap,
    mean_cross_entropy,
    optimiser,
    outcomes,
)
from chunked_td.models.neural.world import matmul_precision
from chunked_td.observations import LIMIT, GridIndexer, Indexer, make_indexer
from chunked_td.seeding import model_seed

_AHEAD = 64  # training steps whose batches are sampled at once
_LISTED = 10_000  # largest number of next states that `distribution` lists


def default_config(nvec: tuple[int, ...], actions: int) -> NetworkConfig:
    """A network for any factored state: Bernoulli heads for components of two values, a softmax for the others."""
    heads = tuple(boolean() if n == 2 else categorical(n) for n in nvec)
    return NetworkConfig(
        tuple(nvec), actions, heads, hidden=(128, 128), learning_rate=1e-3, batch_size=64, capacity=10_000
    )


@functools.partial(jax.jit, static_argnums=0)
def _start(config: NetworkConfig, seed: jax.Array) -> tuple[CategoricalNetwork, Any, jax.Array]:
    """New network, moments and sampling key, equal to those of a run of `World`."""
    init, sampling = jax.random.split(jax.random.key(seed))
    network = CategoricalNetwork(config, key=init)
    return network, optimiser(config).init(eqx.filter(network, eqx.is_array)), sampling


@functools.partial(jax.jit, static_argnums=0)
def _draw_ahead(config: NetworkConfig, key: jax.Array, n: jax.Array) -> jax.Array:
    """Indices into a ring of `capacity` rows of the batches at transitions n, n + k, …: int32[_AHEAD, batch]."""
    ns = n + config.train_every * jnp.arange(_AHEAD, dtype=jnp.int32)
    return jax.vmap(lambda n: replay.draw(key, n, config.batch_size, config.capacity, config.capacity))(ns)


def _predict(config: NetworkConfig, network: CategoricalNetwork, state: jax.Array, next_state: jax.Array):
    """(logits float32[A, outputs], log P̂ᵢ(x'ⁱ|x, a) float32[A, c]) for every action a."""
    every = jnp.arange(config.actions)
    x = features(config, jnp.broadcast_to(state, (config.actions, state.size)), every)
    logits = network(x, precision=matmul_precision("float32"))
    return logits, log_likelihood(config, logits, outcomes(config, state, next_state)[None])


@functools.partial(jax.jit, static_argnums=(0, 1))
def _read(config: NetworkConfig, tree: Any, network: list[jax.Array], state: jax.Array, next_state: jax.Array):
    """`_predict` with the arrays of a network."""
    return _predict(config, jax.tree.unflatten(tree[0], network), state, next_state)


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=(2, 3))
def _train(config: NetworkConfig, tree: Any, network: Any, moments: Any, rows: Any, state: Any, next_state: Any):
    """One training step on a batch of rows, then `_predict`: (network, moments, loss, logits, log P̂)."""
    model, adam = jax.tree.unflatten(tree[0], network), jax.tree.unflatten(tree[1], moments)
    before, action, after = replay.unpack(config, rows)
    x, outcome = features(config, before, action), outcomes(config, before, after)

    def loss_of(model: CategoricalNetwork) -> jax.Array:
        return mean_cross_entropy(config, model(x, precision=matmul_precision("float32")), outcome)

    loss, gradient = jax.value_and_grad(loss_of)(model)
    change, adam = optimiser(config).update(gradient, adam, eqx.filter(model, eqx.is_array))
    model = eqx.apply_updates(model, change)
    checked = loss + 0.0 * jnp.sum(gradient.layers[0].bias)  # not finite if the gradient is not
    return jax.tree.leaves(model), jax.tree.leaves(adam), checked, *_predict(config, model, state, next_state)


@functools.partial(jax.jit, static_argnums=0)
def _overlaps(config: NetworkConfig, logits: jax.Array) -> jax.Array:
    """Σ_{x'} P̂(x'|x, a) P̂(x'|x, b) for all pairs of actions, float32[A, A]."""
    return jnp.exp(jnp.sum(log_overlap(config, logits[:, None], logits[None]), -1))


class NeuralModel:
    """A network that predicts the next state, trained online: `model=` of any chunked learner.

        model = NeuralModel(env, hidden=(64, 64), train_every=4)
        agent = ChunkedExpectedSarsa(env, model=model)

    It predicts the state (the percept X = S) without reward and termination.

    Args:
      env: a Gymnasium environment, or its observation space (then pass `actions`). States must have discrete
        components: Discrete, MultiDiscrete, MultiBinary, integer Box, or Tuple or Dict of those.
      config: the network and its training, a `NetworkConfig`; `default_config` if None.
      seed: of the initial network and of the batches.
      indexer: that of the learner, if it has one (`Discretise`).
      **settings: fields of `NetworkConfig` to change: hidden, activation, learning_rate, batch_size, train_every, …
    """

    def __init__(
        self,
        env: Any,
        config: NetworkConfig | None = None,
        *,
        seed: int = 0,
        indexer: Indexer | None = None,
        **settings: Any,
    ) -> None:
        self.config = _resolve(env, config, indexer, settings)
        self.seed = check_seed(seed)
        network, moments, self._key = _start(self.config, np.uint32(model_seed(self.seed)))
        self._network, first = jax.tree.flatten(network)
        self._moments, second = jax.tree.flatten(moments)
        self._tree = (first, second)
        shape = (self.config.capacity, replay.row_width(self.config))
        self._ring = np.zeros(shape, replay.row_dtype(self.config))
        self._sizes = tuple(reversed(self.config.nvec))
        self._states = int(np.prod(self.config.nvec, dtype=object))
        heads = enumerate(self.config.heads)
        self._changes = [(i, h.low, h.low + h.outcomes - 1) for i, h in heads if h.kind == "difference"]
        self.transitions = 0
        self._forget()

    def _forget(self) -> None:
        """Discard sampled batches and cached predictions."""
        self._draws: Any = None
        self._loss: Any = None
        self._draws_from = self._loss_at = 0
        self._about: tuple[int, int] | None = None
        self._logits = self._log_p = None

    # ---- the model interface

    def observe(self, state: int, action: int, reward: Any, next_state: int, terminated: bool) -> None:
        """Store a transition and train every `train_every` transitions. Reward and termination are not predicted."""
        before, after = self._components("state", state), self._components("next_state", next_state)
        if not 0 <= action < self.config.actions:
            raise ValueError(f"action must be in 0..{self.config.actions - 1}, got {action!r}")
        for i, low, high in self._changes:
            if not low <= after[i] - before[i] <= high:
                raise ValueError(
                    f"next_state must change component {i} by {low}..{high}, the range of its head, got "
                    f"{after[i] - before[i]} (from {before} to {after})"
                )
        self._ring[self.transitions % self.config.capacity] = (*before, action, *after)
        n = self.transitions = self.transitions + 1
        if n % self.config.train_every == 0 and n > self.config.batch_size:
            self._check_loss()
            points = np.array(before, np.int32), np.array(after, np.int32)
            found = _train(self.config, self._tree, self._network, self._moments, self._batch(n), *points)
            self._network, self._moments, self._loss, self._logits, self._log_p = found
            self._loss_at, self._about = n, (state, next_state)

    def probabilities(self, state: int, next_state: int, reward: Any = None) -> np.ndarray:
        """float64[A]: P̂(x'|x, a) for every action."""
        log_p = self._predicted(state, next_state)[1]
        return np.exp(np.sum(log_p, axis=1))

    def component_probabilities(self, state: int, next_state: int, reward: Any = None) -> np.ndarray:
        """float64[A, c]: P̂(x'ⁱ|x, a) of each component, for every action."""
        return np.exp(self._predicted(state, next_state)[1])

    def overlaps(self, state: int) -> np.ndarray:
        """float64[A, A]: Σ_{x'} P̂(x'|x, a) P̂(x'|x, b) for all pairs of actions."""
        return np.asarray(_overlaps(self.config, self._predicted(state, None)[0]), np.float64)

    def distribution(self, state: int, action: int) -> Iterable[tuple[int, float]]:
        """Pairs (x', P̂(x'|x, a)) of at most 10,000 next states, the most probable ones.

        The others have probabilities below 1e-4 and contribute less than c · 1e-4 to Σ P̂². Changes out of the range of
        a component are also left out.
        """
        logits = np.asarray(self._predicted(state, None)[0], np.float64)[action]
        before = self._components("state", state)
        ids, chances, start = np.zeros(1, np.int64), np.ones(1), 0
        for head, value, size in zip(self.config.heads, before, self.config.nvec, strict=True):
            part = logits[start : start + head.logits]
            start += head.logits
            part = np.array([0.0, part[0]]) if head.kind == "boolean" else part
            each = np.exp(part - np.logaddexp.reduce(part))
            values = np.arange(head.outcomes) + head.low + (value if head.kind == "difference" else 0)
            possible = (values >= 0) & (values < size)
            ids = (ids[:, None] * size + values[possible]).ravel()
            chances = (chances[:, None] * each[possible]).ravel()
            if ids.size > _LISTED:
                kept = np.argpartition(chances, -_LISTED)[-_LISTED:]
                ids, chances = ids[kept], chances[kept]
        return zip(ids.tolist(), chances.tolist(), strict=True)

    # ---- saving

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Training state; `load_arrays` of a model with the same configuration restores it."""
        self._check_loss()
        arrays = {
            "config": np.frombuffer(json.dumps(dataclasses.asdict(self.config)).encode(), np.uint8),
            "transitions": np.array(self.transitions, np.int64),
            "ring": self._ring[: self.transitions].copy(),
            "key": np.asarray(jax.random.key_data(self._key)),
        }
        for name, leaves in (("network", self._network), ("moments", self._moments)):
            arrays |= {f"{name}_{i}": np.array(leaf) for i, leaf in enumerate(leaves)}
        return arrays

    def load_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore the `state_arrays` of another model."""
        saved = json.loads(bytes(arrays["config"]))
        ours = json.loads(json.dumps(dataclasses.asdict(self.config)))
        if saved != ours:
            name = next(name for name in sorted(ours | saved) if saved.get(name) != ours.get(name))
            raise ValueError(f"config must have {name} {saved.get(name)!r} as the saved model, got {ours.get(name)!r}")
        fresh = {}
        for name, leaves in (("network", self._network), ("moments", self._moments)):
            fresh[name] = [jnp.asarray(arrays[f"{name}_{i}"]) for i in range(len(leaves))]
            if [(leaf.shape, leaf.dtype) for leaf in fresh[name]] != [(leaf.shape, leaf.dtype) for leaf in leaves]:
                raise ValueError(f"{name}: the saved arrays do not have the shapes of this configuration")
        n = int(arrays["transitions"])
        rows, key = np.asarray(arrays["ring"]), np.asarray(jax.random.key_data(self._key))
        if n < 0 or rows.shape != (min(n, self.config.capacity), self._ring.shape[1]):
            raise ValueError(f"ring: the saved array has shape {rows.shape}, which does not match {n} transitions")
        sizes = (*self.config.nvec, self.config.actions, *self.config.nvec)
        if rows.dtype != self._ring.dtype or (rows < 0).any() or (rows >= sizes).any():
            raise ValueError("ring: the saved array has states or actions outside this configuration")
        saved = arrays["key"]
        if (saved.shape, saved.dtype) != (key.shape, key.dtype):
            raise ValueError(f"key must be {key.dtype}{list(key.shape)}, got {saved.dtype}{list(saved.shape)}")
        self._network, self._moments, self.transitions = fresh["network"], fresh["moments"], n
        self._ring[: rows.shape[0]] = rows
        self._key = jax.random.wrap_key_data(jnp.asarray(arrays["key"]))
        self._forget()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> NeuralModel:
        """Rebuild a model from its `state_arrays`."""
        fields: dict[str, Any] = json.loads(bytes(arrays["config"]))
        fields["heads"] = tuple(Head(**head) for head in fields["heads"])
        fields |= {name: tuple(fields[name]) for name in ("nvec", "hidden")}
        config = NetworkConfig(**fields)
        # Check that the file has as many numbers as the configuration requires, before arrays of that size are made.
        stored = sum(np.asarray(arrays[name]).size for name in arrays if name.startswith("network_"))
        if config.parameters != stored or config.capacity * replay.row_width(config) > 2**31:
            raise ValueError(
                f"config: the saved model has {stored} numbers, its configuration requires {config.parameters}"
            )
        model = cls(None, config, indexer=GridIndexer(config.nvec, [0] * len(config.nvec), (len(config.nvec),)))
        model.load_arrays(arrays)
        return model

    def __repr__(self) -> str:
        layers = " × ".join(map(str, self.config.hidden))
        return f"NeuralModel(nvec={self.config.nvec}, hidden {layers}, transitions={self.transitions})"

    @property
    def loss(self) -> float:
        """Loss of the latest training step; NaN before the first."""
        return float("nan") if self._loss is None else float(self._loss)

    def _components(self, name: str, state: int) -> tuple[int, ...]:
        """Components of a state id, row-major."""
        if not 0 <= state < self._states:
            raise ValueError(
                f"{name} must be in 0..{self._states - 1}, the ids over nvec {self.config.nvec}, got {state!r}"
            )
        digits = []
        for size in self._sizes:
            state, digit = divmod(state, size)
            digits.append(digit)
        return tuple(reversed(digits))

    def _batch(self, n: int) -> np.ndarray:
        """Rows of the training step at transition n."""
        step = (n - self._draws_from) // self.config.train_every
        if self._draws is None or not 0 <= step < _AHEAD:
            self._draws, self._draws_from, step = np.asarray(_draw_ahead(self.config, self._key, np.int32(n))), n, 0
        return self._ring[self._draws[step]]

    def _predicted(self, state: int, next_state: int | None) -> tuple[Any, np.ndarray]:
        """Logits on the device and log P̂ on the host; those of the latest training step if it was this transition."""
        known = self._about
        if known is None or known[0] != state or (next_state is not None and known[1] != next_state):
            target = state if next_state is None else next_state
            both = self._components("state", state), self._components("next_state", target)
            points = (np.array(point, np.int32) for point in both)
            self._logits, self._log_p = _read(self.config, self._tree, self._network, *points)
            self._about = (state, target)
        self._check_loss()
        return self._logits, np.asarray(self._log_p, np.float64)

    def _check_loss(self) -> None:
        """Raise FloatingPointError if the loss of the latest training step is not finite."""
        if self._loss is not None and not np.isfinite(np.asarray(self._loss)):
            raise FloatingPointError(
                f"the network's loss is not finite at transition {self._loss_at}: {float(self._loss)}. Try a smaller "
                f"learning_rate than {self.config.learning_rate}"
            )


def _resolve(
    env: Any, config: NetworkConfig | None, indexer: Indexer | None, settings: dict[str, Any]
) -> NetworkConfig:
    """Configuration for an environment, checked against it."""
    fields = {field.name for field in dataclasses.fields(NetworkConfig)}
    for name in settings:
        if name not in fields:
            raise ValueError(f"settings of a network must be among {', '.join(sorted(fields))}, got {name}")
    space = getattr(env, "observation_space", env)
    nvec = (indexer if indexer is not None else make_indexer(space)).nvec
    if nvec is None:
        raise ValueError(
            f"env must have states with discrete components for a network: Discrete, MultiDiscrete, MultiBinary, "
            f"integer Box, or Tuple or Dict of those, with at most {LIMIT:,} states in all; got {space!r}"
        )
    acting = getattr(env, "action_space", None)
    if acting is not None and (not hasattr(acting, "n") or type(acting).__name__ == "MultiBinary"):
        raise ValueError(f"env.action_space must be Discrete, got {acting!r}")
    actions = getattr(acting, "n", None) or settings.get("actions")
    actions = actions or (None if config is None else config.actions)
    if actions is None:
        raise ValueError("actions must be given with an observation space: pass actions=n, the number of actions")
    if config is None:
        config = default_config(nvec, int(actions))
    config = dataclasses.replace(config, **settings)
    if config.nvec != tuple(nvec) or config.actions != int(actions):
        raise ValueError(
            f"config must have the nvec {tuple(nvec)} and {actions} actions of env, got {config.nvec} and "
            f"{config.actions}"
        )
    return config
