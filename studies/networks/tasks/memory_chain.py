"""Memory chain: a cue at the start decides which action is right at the end; percepts between carry no information."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from studies.networks.spaces import Categories
from studies.networks.tasks.base import TaskStep


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

    n_actions = 2  # one per cue

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
