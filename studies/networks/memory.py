"""The memory of agents: a recurrent observation model, trained on the same stream, and its features for values.

    state   the critic reads the percept and the recurrent state h_t
    kept    the critic reads the percept and the last kept percepts: those to which the model gave a probability below
            `threshold`. This is the compressed history of Schmidhuber (1992); what was predicted leaves no trace.

Where percepts hide the state, the probability of the next percept given this one is a blur over all histories that look
alike now. The recurrent state reads the whole history:

    h_t = GRU(h_{t−1}, x_t, a_{t−1}),   P̂(x_{t+1} | h_t, x_t, a) = Π_i softmax_i(head(x_t, h_t, a))

The head is that of `DeepPercepts` with inputs h_t and x_t. The model learns from windows of consecutive transitions, by
back-propagation within the window; the state at the beginning of a window is taken as given. First biases of the update
gate are the logarithms of numbers uniform on 1..horizon, so that units forget at different speeds, some very slowly
(Tallec and Ollivier 2018). No gradient of the critic reaches the model. It learns to predict percepts and nothing
else, so the memory is the same for every λ. It also gives λ = P̂(next percept | history, action) to `DeepRecurrent`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from studies.networks.lambdas.base import SourceSizes, Transitions
from studies.networks.lambdas.percepts import DeepPercepts, PerceptState, percept_logs, percept_loss, with_action
from studies.networks.networks import Mlp, gated_step


class RecurrentWeights(NamedTuple):
    """Weights: the gated layer and the head on top of it."""

    read: jax.Array  # [inputs + actions, 3 hidden], W
    recurrent: jax.Array  # [hidden, 3 hidden], U
    bias: jax.Array  # [3 hidden], b
    head: Mlp


class RecurrentModel(NamedTuple):
    """Weights and Adam's moments; `percepts` has the codes that exist and the actions that are mixed (its network is
    not read)."""

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


@dataclass(frozen=True)
class RecurrentPercepts:
    """Settings of the model.

    Args:
      hidden: units of the recurrent state. units: of the head's hidden layer. learning_rate: of Adam.
      horizon: the longest time that first weights remember.
    """

    hidden: int = 32
    units: int = 64
    learning_rate: float = 3e-3
    horizon: int = 64

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
        """h_t from h_{t−1}: [..., hidden]; h_{t−1} is 0 at the start of an episode."""
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
        """One step of Adam on the mean cross-entropy of the sampled codes, per component."""

        def loss(weights: RecurrentWeights) -> jax.Array:
            read = jnp.concatenate([window.inputs, self.unroll(weights, begin, window)], -1)
            asked = with_action(read, window.action, window.before.shape[-1])
            return percept_loss(weights.head, model.percepts.exists, asked, window.next_codes)

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


class Recall(NamedTuple):
    """Memory of an agent in the current state."""

    earlier: jax.Array  # float32[hidden], h_{t−1}
    hidden: jax.Array  # float32[hidden], h_t
    kept: jax.Array  # float32[kept, inputs], newest first
    inputs: jax.Array  # float32[inputs], of the current percept
    before: jax.Array  # float32[actions], one-hot of the action before; zeros at the start


@dataclass(frozen=True)
class RecurrentMemory:
    """Settings of the memory.

    Args:
      reads: "state" or "kept". model: the percept model. window: transitions per update of the model.
      slots: how many kept percepts are remembered. threshold: a percept is kept if its probability was below this.
    """

    reads: str = "kept"
    model: RecurrentPercepts = field(default_factory=RecurrentPercepts)
    window: int = 10
    slots: int = 4
    threshold: float = 0.75

    def n_inputs(self, inputs: int) -> int:
        """Number of the critic's inputs. Args: inputs: of a percept."""
        return inputs + (self.model.hidden if self.reads == "state" else self.slots * inputs)

    def begin(self, model: RecurrentModel, inputs: jax.Array, n_actions: int) -> Recall:
        """The memory after the first percept of an episode, which is always kept."""
        before, earlier = jnp.zeros(n_actions), jnp.zeros(self.model.hidden)
        hidden = self.model.remember(model.weights, earlier, inputs, before, jnp.ones((), bool))
        return Recall(earlier, hidden, jnp.zeros((self.slots, inputs.size)).at[0].set(inputs), inputs, before)

    def arrive(
        self, model: RecurrentModel, recall: Recall, action: jax.Array, inputs: jax.Array, codes: jax.Array
    ) -> Recall:
        """The memory after an action and the next percept."""
        before = jax.nn.one_hot(action, recall.before.size)
        hidden = self.model.remember(model.weights, recall.hidden, inputs, before, jnp.zeros((), bool))
        chance = self.model.probability(model, recall.hidden, recall.inputs, action, codes)
        pushed = jnp.concatenate([inputs[None], recall.kept[:-1]])
        kept = jnp.where(chance < self.threshold, pushed, recall.kept)
        return Recall(recall.hidden, hidden, kept, inputs, before)

    def read(self, recall: Recall) -> jax.Array:
        """Inputs of the critic: float32[n_inputs]."""
        memory = recall.hidden if self.reads == "state" else recall.kept.reshape(*recall.kept.shape[:-2], -1)
        return jax.lax.stop_gradient(jnp.concatenate([recall.inputs, memory], -1))
