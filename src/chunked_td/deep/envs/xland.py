"""Tasks of the package XLand-MiniGrid (`xminigrid`) behind our protocol. It is installed by whoever uses this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from chunked_td.deep.envs.protocol import TaskStep
from chunked_td.deep.spaces import Grid


@dataclass(frozen=True, eq=False)
class XLandTask:
    """An environment of XLand-MiniGrid with its parameters: `XLandTask(*xminigrid.make("MiniGrid-DoorKey-5x5"))`.

    Observation: the symbols in front of the agent, turned so that it looks up; every cell is a component. It sees
    neither what is behind it nor what it carries. Actions: forward, turn right, turn left, pick up, put down, toggle.
    The reward is paid where an episode ends: 1 − 0.9 · steps / limit at the goal, 0 at the time limit. It is the score.

    Args:
      env, params: what `xminigrid.make` gives.
      colours: whether the colour of a cell is a second component. In DoorKey the tile tells it.
      symbols: how many kinds of tiles there are; there are fewer colours.
    """

    env: Any
    params: Any
    colours: bool = False
    symbols: int = 13

    @property
    def space(self) -> Grid:
        """Tiles in view, or tiles and colours."""
        rows, columns, layers = self.env.observation_shape(self.params)
        return Grid((rows, columns, layers) if self.colours else (rows, columns), self.symbols)

    @property
    def n_actions(self) -> int:
        """Six in all of them."""
        return int(self.env.num_actions(self.params))

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """A fresh room."""
        begun = self.env.reset(self.params, key)
        return begun, self._seen(begun)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> TaskStep:
        """One transition, without a reset; nothing in it is random."""
        now = self.env.step(self.params, state, action)
        reward = jnp.asarray(now.reward, jnp.float32)
        terminated = now.discount == 0.0
        return TaskStep(now, self._seen(now), reward, terminated, now.last() & ~terminated, jnp.clip(reward, 0.0, 1.0))

    def _seen(self, timestep: Any) -> jax.Array:
        return timestep.observation if self.colours else timestep.observation[..., 0]
