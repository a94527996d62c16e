"""What a task is: two pure functions of keys and arrays, for `jit`, `vmap` and `scan`."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax

from chunked_td.deep.spaces import Space


class TaskStep(NamedTuple):
    """What one action led to.

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
