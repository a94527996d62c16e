"""T-mazes as JAX tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from chunked_td.envs.t_maze import timed
from chunked_td.envs.t_maze.dynamics import MazeState, TMaze
from studies.networks.spaces import Categories
from studies.networks.tasks.base import TaskStep


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


class _Timed(NamedTuple):
    """Position of the agent, goal and time; all int32[]. y: −1 below the junction, 1 above it, 0 elsewhere."""

    x: jax.Array
    y: jax.Array
    goal: jax.Array
    time: jax.Array
    shown: jax.Array


@dataclass(frozen=True)
class TimedTMazeTask:
    """`chunked_td.envs.TimedTMazeEnv`, which tells the rules, for networks. Agents bring their own memory.

    Args:
      corridor: steps from the start to the junction. active: the goal is shown one step behind the start.
    """

    corridor: int = 10
    active: bool = False

    n_actions = 4
    space = Categories((timed.PERCEPTS,))

    def reset(self, key: jax.Array) -> tuple[_Timed, jax.Array]:
        """Draw the goal."""
        zero = jnp.zeros((), jnp.int32)
        goal = 2 * jax.random.randint(key, (), 0, 2) - 1
        return self._look(_Timed(zero + int(self.active), zero, goal, zero, zero))

    def step(self, key: jax.Array, state: _Timed, action: jax.Array) -> TaskStep:
        """Move, then look; the goal pays in the last step, delay costs in those before."""
        oracle, end = int(self.active), int(self.active) + self.corridor
        aside = (action == timed.UP).astype(jnp.int32) - (action == timed.DOWN)
        along = (action == timed.RIGHT).astype(jnp.int32) - (action == timed.LEFT)
        leaves = jnp.where(aside == -state.y, 0, state.y)
        y = jnp.where(state.y != 0, leaves, jnp.where(state.x == end, aside, 0))
        x = jnp.where(state.y != 0, state.x, jnp.clip(state.x + along, 0, end))
        time = state.time + 1
        ended = time == end + oracle + 1
        at_goal = (y == state.goal).astype(jnp.float32)
        reward = jnp.where(ended, at_goal, jnp.where(x < time - oracle, -1.0 / self.corridor, 0.0))
        now, percept = self._look(_Timed(x, y, state.goal, time, state.shown))
        return TaskStep(now, percept, reward, ended, jnp.zeros((), bool), at_goal)

    def _look(self, state: _Timed) -> tuple[_Timed, jax.Array]:
        """The percept; the goal only on the first visit to the oracle."""
        first = (state.x == 0) & (state.shown == 0)
        cell = jnp.where(first, jnp.where(state.goal > 0, timed.GOAL_UP, timed.GOAL_DOWN), timed.CORRIDOR)
        ends = jnp.where(state.y > 0, timed.UPPER_END, jnp.where(state.y < 0, timed.LOWER_END, timed.JUNCTION))
        percept = jnp.where(state.x == int(self.active) + self.corridor, ends, cell)
        return state._replace(shown=jnp.maximum(state.shown, first)), percept[None].astype(jnp.int32)
