"""Percept model with memory: λ is a probability of the next percept given the whole history, in the forms of
`DeepPercepts`.

Where percepts hide the state, the probability of the next percept given this one is a blur over all histories that look
alike now. The recurrent state reads the whole history:

    h_t = GRU(h_{t−1}, x_t, a_{t−1}),   P̂(x_{t+1} | h_t, x_t, a) = Π_i softmax_i(head(x_t, h_t, a))

The head is that of `DeepPercepts`, with h_t beside x_t. The model learns from windows of consecutive transitions, by
back-propagation within the window; the state at the beginning of a window is taken as given. First biases of the update
gate are the logarithms of numbers uniform on 1..horizon, so that units forget at different speeds and some hardly at
all (Tallec and Ollivier 2018).

An agent with a `RecurrentMemory` has such a model, and λ comes from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from chunked_td._checks import check_choice, check_positive, check_whole
from studies.networks.gru import gated_step
from studies.networks.lambdas.base import DeepLambda, SourceSizes, Transitions
from studies.networks.lambdas.percepts import (
    FORMS,
    DeepPercepts,
    PerceptState,
    percept_logs,
    percept_loss,
    with_action,
)
from studies.networks.networks import Mlp


class RecurrentWeights(NamedTuple):
    """What is learned: the gated layer and the head on top of it."""

    read: jax.Array  # [inputs + actions, 3 hidden], W
    recurrent: jax.Array  # [hidden, 3 hidden], U
    bias: jax.Array  # [3 hidden], b
    head: Mlp


class RecurrentModel(NamedTuple):
    """Weights and Adam's moments; `percepts` says which codes exist and which actions are mixed (its network is not
    read)."""

    weights: RecurrentWeights
    moments: Any
    percepts: PerceptState


class PerceptWindow(NamedTuple):
    """Consecutive transitions, [T, ...] or [T, B, ...]."""

    inputs: jax.Array  # of the percepts that steps leave
    before: jax.Array  # one-hot action before, zeros at the start of an episode
    start: jax.Array  # bool, first percept of an episode
    action: jax.Array
    next_codes: jax.Array
    valid: jax.Array  # 0 where the next percept is not known


@dataclass(frozen=True)
class RecurrentPercepts:
    """Settings of the model, and what it computes.

    Args:
      hidden: units of the recurrent state. units: of the head's hidden layer. learning_rate: of Adam.
      horizon: the longest time that first weights remember.
    """

    hidden: int = 32
    units: int = 64
    learning_rate: float = 3e-3
    horizon: int = 64

    def __post_init__(self) -> None:
        for name, least in (("hidden", 1), ("units", 1), ("horizon", 2)):
            check_whole(name, getattr(self, name), least)
        check_positive("learning_rate", self.learning_rate)

    @property
    def _optimiser(self) -> optax.GradientTransformation:
        return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(self.learning_rate))

    @property
    def _head(self) -> DeepPercepts:
        return DeepPercepts(hidden=self.units)

    def init(self, key: jax.Array, sizes: SourceSizes) -> RecurrentModel:
        """Every code equally likely."""
        read, recurrent, forget, head = jax.random.split(key, 4)
        reads, hidden = sizes.inputs + sizes.n_actions, self.hidden
        bound = hidden**-0.5
        percepts = self._head.init(head, replace(sizes, inputs=sizes.inputs + hidden))
        slow = jnp.log(jax.random.uniform(forget, (hidden,), minval=1.0, maxval=float(self.horizon)))
        weights = RecurrentWeights(
            jax.random.uniform(read, (reads, 3 * hidden), minval=-1.0, maxval=1.0),
            jax.random.uniform(recurrent, (hidden, 3 * hidden), minval=-bound, maxval=bound),
            jnp.concatenate([jnp.zeros(hidden), slow, jnp.zeros(hidden)]),
            percepts.network,
        )
        empty = percepts._replace(network=None, moments=None)
        return RecurrentModel(weights, self._optimiser.init(weights), empty)  # type: ignore[arg-type]

    def remember(self, weights: RecurrentWeights, state: Any, inputs: Any, before: Any, start: Any) -> jax.Array:
        """h_t from h_{t−1}: [..., hidden]. Where an episode starts, nothing comes before."""
        state = jnp.where(start[..., None], 0.0, state)
        drive = jnp.concatenate([inputs, before], -1) @ weights.read + weights.bias
        return gated_step(state, drive, state @ weights.recurrent)

    def unroll(self, weights: RecurrentWeights, begin: jax.Array, window: PerceptWindow) -> jax.Array:
        """The states of a window, float32[T, ..., hidden], from the one before it."""

        def advance(state: jax.Array, now: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
            state = self.remember(weights, state, *now)
            return state, state

        return jax.lax.scan(advance, begin, (window.inputs, window.before, window.start))[1]

    def learn(self, model: RecurrentModel, begin: jax.Array, window: PerceptWindow) -> RecurrentModel:
        """One step of Adam on the mean cross-entropy of the codes that came, per component."""

        def loss(weights: RecurrentWeights) -> jax.Array:
            read = jnp.concatenate([window.inputs, self.unroll(weights, begin, window)], -1)
            asked = with_action(read, window.action, window.before.shape[-1])
            return percept_loss(weights.head, model.percepts.exists, asked, window.next_codes, window.valid)

        change, moments = self._optimiser.update(jax.grad(loss)(model.weights), model.moments)
        return model._replace(weights=optax.apply_updates(model.weights, change), moments=moments)

    def forms(
        self, model: RecurrentModel, states: jax.Array, transitions: Transitions, inputs: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """λ in both forms of `DeepPercepts`, (realised, expected), [T, B].

        Args:
          states: h_t [T, B, hidden]. inputs: the percepts x_t themselves, [T, B, inputs].
        """
        head = model.percepts._replace(network=model.weights.head)
        return self._head.both(head, transitions._replace(inputs=jnp.concatenate([inputs, states], -1)))

    def probability(
        self, model: RecurrentModel, state: jax.Array, inputs: jax.Array, action: jax.Array, next_codes: jax.Array
    ) -> jax.Array:
        """P̂(x_{t+1} | history, a_t) of one transition."""
        actions = model.weights.read.shape[0] - inputs.shape[-1]
        read = with_action(jnp.concatenate([inputs, state], -1), action, actions)
        logs = percept_logs(model.weights.head, model.percepts.exists, read)
        return jnp.exp(jnp.sum(jnp.take_along_axis(logs, next_codes[..., None], -1)[..., 0], -1))


@dataclass(frozen=True)
class DeepRecurrent(DeepLambda):
    """λ from the recurrent percept model of an agent's memory. Args: form: "expected" or "realised"."""

    form: str = "expected"

    needs_codes = needs_memory = True  # a single transition holds no history

    def __post_init__(self) -> None:
        check_choice("form", self.form, FORMS)

    def init(self, key: jax.Array, sizes: SourceSizes) -> Any:
        """Nothing: the memory learns."""
        return ()

    def lambdas(self, state: Any, transitions: Transitions) -> jax.Array:
        """In the form chosen."""
        if transitions.recalled is None:
            raise ValueError("recalled: got none; an agent with a memory says what it expected")
        return transitions.recalled[FORMS.index(self.form)]
