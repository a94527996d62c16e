"""Fan-in: many first states lead into the same two corridors, whose end is noisy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from chunked_td.envs.jax_task import TaskStep
from chunked_td.envs.spaces import Categories


class FanInState(NamedTuple):
    """Where the episode began (from 1; 0 in the corridors), the corridor (1 wrong, 2 right; 0 at the start), time."""

    start: jax.Array
    corridor: jax.Array
    time: jax.Array


@dataclass(frozen=True)
class FanInTask:
    """In each start state one of two actions is right. `delay` steps later it pays 1, the other 0, and ± `noise`.

    What is learned in a corridor helps all start states. The atlas has the same problem as a table.

    Observation: start (one more than there are), corridor (3), time. Actions: 0, 1; ignored after the first.
    """

    starts: int = 8
    delay: int = 8
    noise: float = 2.0

    @property
    def space(self) -> Categories:
        """Start, corridor, time."""
        return Categories((self.starts + 1, 3, self.delay + 2))

    n_actions = 2

    def reset(self, key: jax.Array) -> tuple[FanInState, jax.Array]:
        """Draw where to begin."""
        zero = jnp.zeros((), jnp.int32)
        state = FanInState(jax.random.randint(key, (), 1, self.starts + 1), zero, zero)
        return state, jnp.stack(state)

    def step(self, key: jax.Array, state: FanInState, action: jax.Array) -> TaskStep:
        """Choose, or walk on."""
        right = jnp.where(state.time == 0, action == state.start % 2, state.corridor == 2)
        now = FanInState(jnp.zeros((), jnp.int32), 1 + right.astype(jnp.int32), state.time + 1)
        ended = now.time == self.delay + 1
        paid = right + self.noise * jax.random.rademacher(key, (), jnp.float32)
        return TaskStep(
            now, jnp.stack(now), jnp.where(ended, paid, 0.0), ended, jnp.zeros((), bool), right.astype(jnp.float32)
        )
