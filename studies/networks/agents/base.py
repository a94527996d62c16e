"""The base of both kinds of agents: reading tasks and memories, and tallies."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from studies.networks.lambdas.base import DeepLambda, Q, SourceSizes, V


@dataclass(frozen=True)
class DeepAgent:
    """An agent on a task with a λ source, all fixed at compile time. A run is a function of its seed.

    Attributes:
      task: a `JaxTask`. source: a `DeepLambda`. settings: `StreamingSettings` or `PpoSettings`.
    """

    task: Any
    source: DeepLambda
    settings: Any

    @property
    def bootstrap(self) -> str:
        """The bootstrap, "v" or "q": λ may depend on x, or on (x, a)."""
        return V

    def sizes(self, batch: int = 1) -> SourceSizes:
        """Sizes that the run's λ source needs to build its state."""
        memory, space, hidden = self.settings.memory, self.task.space, self.settings.hidden
        inputs = space.n_inputs if memory is None else memory.n_inputs(space.n_inputs)
        features = hidden[-1] if hidden else inputs
        return SourceSizes(inputs, features, space.nvec, self.task.n_actions, self.bootstrap, batch)

    def start_model(self, key: jax.Array) -> Any:
        """The memory's percept model; nothing without a memory."""
        percepts, memory = dataclasses.replace(self.sizes(), inputs=self.task.space.n_inputs), self.settings.memory
        return () if memory is None else memory.model.init(key, percepts)

    def start_luck(self) -> Any:
        """Samples per TD error as an array of the run; () for one sample."""
        return jnp.asarray(self.settings.luck, jnp.int32) if self.settings.luck > 1 else ()

    def begin(self, model: Any, observation: jax.Array) -> tuple[jax.Array, Any]:
        """Inputs of values and policy in the first state of an episode, and the memory."""
        inputs, memory = self.task.space.inputs(observation), self.settings.memory
        if memory is None:
            return inputs, ()
        recall = memory.begin(model, inputs, self.task.n_actions)
        return memory.read(recall), recall

    def arrive(self, model: Any, recall: Any, action: jax.Array, observation: jax.Array) -> tuple[jax.Array, Any]:
        """Inputs of values and policy after an action, and the memory."""
        inputs, memory = self.task.space.inputs(observation), self.settings.memory
        if memory is None:
            return inputs, ()
        recall = memory.arrive(model, recall, action, inputs, self.task.space.codes(observation))
        return memory.read(recall), recall

    def draw_groups(self) -> jax.Array:
        """Group of each further sample. A group shares an action: one group for Q, groups of three samples for V."""
        samples = _samples(self.source)
        return jnp.arange(samples) // (samples if self.bootstrap == Q else 3)


def _samples(source: Any) -> int:
    """Draws that a source, or any source within it, requires."""
    return max([getattr(source, "samples", 0), *map(_samples, getattr(source, "sources", ()))])


class RunTally(NamedTuple):
    """Sums since the tally was begun; arrays [] per run."""

    episodes: jax.Array
    score: jax.Array  # sum over episodes that ended
    returns: jax.Array  # sum over episodes that ended
    steps: jax.Array
    lambda_: jax.Array  # sum over steps


def new_tally() -> RunTally:
    """All zero."""
    return RunTally(*[jnp.zeros(())] * 5)


def count(tally: RunTally, ended: jax.Array, score: Any, returns: Any, lambda_: jax.Array) -> RunTally:
    """Add steps; arguments are arrays of one shape. Args: returns: of the episodes so far."""
    over = ended.astype(jnp.float32)
    sums = (jnp.sum(over), jnp.sum(over * score), jnp.sum(over * returns), ended.size, jnp.sum(lambda_))
    return RunTally(*(total + new for total, new in zip(tally, sums, strict=True)))
