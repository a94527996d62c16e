"""Memory chain: a cue at the start says which action is right at the end; percepts between tell nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from chunked_td.deep.envs.protocol import JaxTask, TaskStep
from chunked_td.deep.spaces import Categories


class MemoryState(NamedTuple):
    """The cue and the time."""

    cue: jax.Array
    time: jax.Array


@dataclass(frozen=True)
class MemoryTask:
    """The last action pays 1 if it is the cue's, else −1. After bsuite's memory chain (Osband et al. 2020).

    Observation: cue (0 not shown, 1 or 2 in the first state), time. A percept does not tell the state: use it with
    `RecentPercepts`, or with an agent that has memory. `noise` as in `UmbrellaTask`.
    """

    length: int = 10
    noise: float = 0.0

    @property
    def space(self) -> Categories:
        """Cue and time."""
        return Categories((3, self.length + 1))

    @property
    def n_actions(self) -> int:
        """One per cue."""
        return 2

    def reset(self, key: jax.Array) -> tuple[MemoryState, jax.Array]:
        """Draw the cue."""
        state = MemoryState(jax.random.randint(key, (), 0, 2), jnp.zeros((), jnp.int32))
        return state, self._observation(state)

    def step(self, key: jax.Array, state: MemoryState, action: jax.Array) -> TaskStep:
        """Pass one moment; the last action counts."""
        now = MemoryState(state.cue, state.time + 1)
        ended = now.time == self.length
        right = action == state.cue
        noise = self.noise * jax.random.rademacher(key, (), jnp.float32)
        reward = jnp.where(ended, jnp.where(right, 1.0, -1.0), noise)
        return TaskStep(now, self._observation(now), reward, ended, jnp.zeros((), bool), right.astype(jnp.float32))

    def _observation(self, state: MemoryState) -> jax.Array:
        return jnp.stack([jnp.where(state.time == 0, 1 + state.cue, 0), state.time])


@dataclass(frozen=True)
class RecentPercepts:
    """A task of categories whose observation is the last `steps` observations, newest first; zeros before the start."""

    task: Any
    steps: int

    @property
    def space(self) -> Categories:
        """The space of the task, `steps` times."""
        return Categories(_categories(self.task).nvec * self.steps)

    @property
    def n_actions(self) -> int:
        """Those of the task."""
        return self.task.n_actions

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """Begin without a past."""
        state, observation = self.task.reset(key)
        recent = jnp.zeros((self.steps, *observation.shape), observation.dtype).at[0].set(observation)
        return (state, recent), recent.reshape(-1)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> TaskStep:
        """Push the new observation in front."""
        done = self.task.step(key, state[0], action)
        recent = jnp.roll(state[1], 1, 0).at[0].set(done.observation)
        return done._replace(state=(done.state, recent), observation=recent.reshape(-1))


@dataclass(frozen=True)
class CodedPercepts:
    """A task whose observation is its codes, as categories: bins of real numbers, cells of a grid."""

    task: Any

    @property
    def space(self) -> Categories:
        """One component per code."""
        return Categories(self.task.space.nvec)

    @property
    def n_actions(self) -> int:
        """Those of the task."""
        return self.task.n_actions

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """As the task does."""
        state, observation = self.task.reset(key)
        return state, self.task.space.codes(observation)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> TaskStep:
        """As the task does."""
        done = self.task.step(key, state, action)
        return done._replace(observation=self.task.space.codes(done.observation))


def _categories(task: JaxTask) -> Categories:
    if not isinstance(task.space, Categories):
        raise ValueError(f"task: RecentPercepts takes a task with observations of Categories, got {task.space!r}")
    return task.space
