"""The T-maze as a JAX task."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from chunked_td.envs.jax_task import TaskStep
from chunked_td.envs.spaces import Categories
from chunked_td.envs.t_maze.dynamics import MazeState, TMaze


@dataclass(frozen=True)
class TMazeTask(TMaze):
    """The T-maze for networks. Observation: place, signal (3), outcome (3), prize; arguments as for `TMaze`.

    A time limit of 4 · (corridor + 4) steps cuts an episode.
    """

    @property
    def space(self) -> Categories:
        """Place, signal, outcome, prize."""
        return Categories(self.nvec)

    def reset(self, key: jax.Array) -> tuple[tuple[MazeState, jax.Array], jax.Array]:
        """Draw the right arm."""
        state = self.start(jax.random.randint(key, (), 0, 2))
        return (state, jnp.zeros((), jnp.int32)), self._observation(state)

    def step(self, key: jax.Array, state: tuple[MazeState, jax.Array], action: jax.Array) -> TaskStep:
        """Move, look, or enter an arm."""
        before, time = state
        prize = jax.random.randint(key, (), 1, self.prizes + 1) if self.prizes else 0
        now, reward, ended = self.move(jnp, before, action, prize)
        cut = ~ended & (time + 1 >= self.limit)
        score = (ended & (now.outcome == 1)).astype(jnp.float32)
        shown = self._observation(now._replace(outcome=jnp.where(before.outcome > 0, 0, now.outcome)))
        return TaskStep((now, time + 1), shown, reward, ended, cut, score)

    def _observation(self, state: MazeState) -> jax.Array:
        return jnp.stack(self.percept(jnp, state)).astype(jnp.int32)
