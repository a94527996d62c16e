"""The memory of agents: a recurrent percept model, trained on the same stream, and what values read of it.

    state   the critic reads the percept and the recurrent state h_t
    kept    the critic reads the percept and the last kept percepts: those to which the model gave a probability below
            `threshold`. This is the compressed history of Schmidhuber (1992); what was predicted leaves no trace.

No gradient of the critic reaches the model. The model learns to predict percepts and nothing else, so the memory is the
same for every λ. The model also gives λ = P̂(next percept | history, action) to `DeepRecurrent`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from chunked_td._checks import check_choice, check_unit, check_whole
from studies.networks.lambdas.recurrent import RecurrentModel, RecurrentPercepts

READS = ("state", "kept")


class Recall(NamedTuple):
    """What an agent remembers in the current state."""

    earlier: jax.Array  # float32[hidden], h_{t−1}
    hidden: jax.Array  # float32[hidden], h_t
    kept: jax.Array  # float32[kept, inputs], newest first
    inputs: jax.Array  # float32[inputs], of the current percept
    before: jax.Array  # float32[actions], one-hot of the action before; zeros at the start


@dataclass(frozen=True)
class RecurrentMemory:
    """Settings of the memory, and what it computes.

    Args:
      reads: "state" or "kept". model: the percept model. window: transitions per update of the model.
      slots: how many kept percepts are remembered. threshold: a percept is kept if its probability was below this.
    """

    reads: str = "kept"
    model: RecurrentPercepts = field(default_factory=RecurrentPercepts)
    window: int = 10
    slots: int = 4
    threshold: float = 0.75

    def __post_init__(self) -> None:
        check_choice("reads", self.reads, READS)
        check_whole("window", self.window, 1)
        check_whole("slots", self.slots, 1)
        check_unit("threshold", self.threshold)

    def n_inputs(self, inputs: int) -> int:
        """How many numbers the critic reads, for percepts of so many."""
        return inputs + (self.model.hidden if self.reads == "state" else self.slots * inputs)

    def begin(self, model: RecurrentModel, inputs: jax.Array, n_actions: int) -> Recall:
        """After the first percept of an episode, which is always kept."""
        before, earlier = jnp.zeros(n_actions), jnp.zeros(self.model.hidden)
        hidden = self.model.remember(model.weights, earlier, inputs, before, jnp.ones((), bool))
        return Recall(earlier, hidden, jnp.zeros((self.slots, inputs.size)).at[0].set(inputs), inputs, before)

    def arrive(
        self, model: RecurrentModel, recall: Recall, action: jax.Array, inputs: jax.Array, codes: jax.Array
    ) -> Recall:
        """After an action and the percept that came."""
        before = jax.nn.one_hot(action, recall.before.size)
        hidden = self.model.remember(model.weights, recall.hidden, inputs, before, jnp.zeros((), bool))
        chance = self.model.probability(model, recall.hidden, recall.inputs, action, codes)
        pushed = jnp.concatenate([inputs[None], recall.kept[:-1]])
        kept = jnp.where(chance < self.threshold, pushed, recall.kept)
        return Recall(recall.hidden, hidden, kept, inputs, before)

    def read(self, recall: Recall) -> jax.Array:
        """What the critic reads: float32[n_inputs]."""
        memory = recall.hidden if self.reads == "state" else recall.kept.reshape(*recall.kept.shape[:-2], -1)
        return jax.lax.stop_gradient(jnp.concatenate([recall.inputs, memory], -1))


def check_memory(memory: Any) -> None:
    """An agent's memory is a `RecurrentMemory` or None."""
    if not (memory is None or isinstance(memory, RecurrentMemory)):
        raise TypeError(f"memory: got {memory!r}, takes a RecurrentMemory or None")
