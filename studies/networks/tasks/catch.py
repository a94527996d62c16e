"""Catch: move a paddle under a falling ball; what it is worth is paid later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from studies.networks.spaces import Grid
from studies.networks.tasks.base import TaskStep


class CatchState(NamedTuple):
    """Columns of ball and paddle, and time."""

    ball: jax.Array
    paddle: jax.Array
    time: jax.Array


@dataclass(frozen=True)
class CatchTask:
    """A ball falls one row per step; the paddle in the last row moves left, stays, or moves right.

    When the ball is down both stand still for `delay` steps, then the episode ends and pays 1 for a catch, −1 for a
    miss. `wind` is the probability that the ball moves to a random neighbouring column while it falls.

    Observation: a grid of symbols (0 empty, 1 ball, 2 paddle, 3 both); its last row counts the delay.
    """

    rows: int = 5
    columns: int = 5
    delay: int = 10
    wind: float = 0.0

    @property
    def space(self) -> Grid:
        """The board and one row that shows, in order, how many steps of the delay are over."""
        return Grid((self.rows + self._counter_rows, self.columns), 4)

    @property
    def _counter_rows(self) -> int:
        return -(-self.delay // self.columns)

    n_actions = 3  # left, stay, right

    def reset(self, key: jax.Array) -> tuple[CatchState, jax.Array]:
        """Ball in a random column of the first row, paddle in the middle."""
        ball = jax.random.randint(key, (), 0, self.columns)
        state = CatchState(ball, jnp.full((), self.columns // 2, jnp.int32), jnp.zeros((), jnp.int32))
        return state, self._observation(state)

    def step(self, key: jax.Array, state: CatchState, action: jax.Array) -> TaskStep:
        """Fall one row, or wait."""
        gust, side = jax.random.split(key)
        falling = state.time < self.rows - 1
        drift = jnp.where(jax.random.bernoulli(side), 1, -1) * jax.random.bernoulli(gust, self.wind)
        last = self.columns - 1
        ball = jnp.where(falling, jnp.clip(state.ball + drift, 0, last), state.ball)
        paddle = jnp.where(falling, jnp.clip(state.paddle + action - 1, 0, last), state.paddle)
        now = CatchState(ball.astype(jnp.int32), paddle.astype(jnp.int32), state.time + 1)
        ended = now.time == self.rows - 1 + self.delay
        caught = ball == paddle
        reward = jnp.where(ended, jnp.where(caught, 1.0, -1.0), 0.0)
        return TaskStep(now, self._observation(now), reward, ended, jnp.zeros((), bool), caught.astype(jnp.float32))

    def _observation(self, state: CatchState) -> jax.Array:
        board = jnp.zeros((self.rows, self.columns), jnp.int32)
        board = board.at[jnp.minimum(state.time, self.rows - 1), state.ball].add(1).at[-1, state.paddle].add(2)
        waited = jnp.arange(self._counter_rows * self.columns) < state.time - (self.rows - 1)
        return jnp.concatenate([board, waited.reshape(-1, self.columns).astype(jnp.int32)])
