"""The interface of a task in JAX, two pure functions for `jit`, `vmap` and `scan`; and two wrappers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from studies.networks.spaces import Categories, Space


class TaskStep(NamedTuple):
    """Outcome of one action.

    `observation` is that of the true next state, also where the episode ends: agents begin the next one themselves.
    """

    state: Any
    observation: jax.Array
    reward: jax.Array  # float32[]
    terminated: jax.Array  # bool[], nothing is to come
    truncated: jax.Array  # bool[], cut by a time limit
    score: jax.Array  # float32[] in [0, 1], the task's own measure of the episode; read where it ends


class JaxTask(Protocol):
    """A task. Hashable, because it is fixed at compile time."""

    @property
    def space(self) -> Space:
        """Of observations."""
        ...

    @property
    def n_actions(self) -> int:
        """Actions 0..n_actions−1."""
        ...

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """(state, observation) at the beginning of an episode."""
        ...

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> TaskStep:
        """One transition."""
        ...


@dataclass(frozen=True)
class _Wrapper:
    task: Any

    @property
    def n_actions(self) -> int:
        """Actions of the task."""
        return self.task.n_actions


@dataclass(frozen=True)
class RecentPercepts(_Wrapper):
    """A task of categories whose observation is the last `steps` observations, newest first; zeros before the start."""

    steps: int

    @property
    def space(self) -> Categories:
        """The space of the task, `steps` times."""
        return Categories(self.task.space.nvec * self.steps)

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
class CodedPercepts(_Wrapper):
    """A task whose observation is its codes, as categories: bins of real numbers, cells of a grid."""

    @property
    def space(self) -> Categories:
        """One component per code."""
        return Categories(self.task.space.nvec)

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """Begin an episode of the task."""
        state, observation = self.task.reset(key)
        return state, self.task.space.codes(observation)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> TaskStep:
        """One transition of the task."""
        done = self.task.step(key, state, action)
        return done._replace(observation=self.task.space.codes(done.observation))
