"""Tasks of the package gymnax behind our protocol. gymnax itself is installed by whoever uses this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from chunked_td.deep.envs.protocol import TaskStep
from chunked_td.deep.spaces import Space, read_space


@dataclass(frozen=True, eq=False)
class GymnaxTask:
    """An environment of gymnax ≥ 1.0 with its parameters: `GymnaxTask(*gymnax.make("Catch-bsuite"))`.

    Reads `step_env` and `reset_env`, so the observation of a last step is that of the true next state. The score of an
    episode is its return, mapped from `returns` to [0, 1].

    Args:
      env, params: what `gymnax.make` gives. observations: a space of ours, where gymnax's cannot be read.
      returns: the least and the greatest return of an episode.
      last_reward: whether the score is the last reward instead, for tasks whose other rewards are noise.
    """

    env: Any
    params: Any
    observations: Any = None
    returns: tuple[float, float] = (0.0, 1.0)
    last_reward: bool = False

    @property
    def space(self) -> Space:
        """gymnax's space as one of ours."""
        return read_space(self.env.observation_space(self.params) if self.observations is None else self.observations)

    @property
    def n_actions(self) -> int:
        """Number of discrete actions."""
        return int(self.env.num_actions)

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """Begin an episode."""
        observation, state = self.env.reset_env(key, self.params)
        return (state, jnp.zeros(())), jnp.asarray(observation)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> TaskStep:
        """One transition, without gymnax's own reset."""
        inner, before = state
        observation, inner, reward, terminated, *_ = self.env.step_env(key, inner, action, self.params)
        reward = jnp.asarray(reward, jnp.float32)
        terminated = jnp.asarray(terminated, bool)
        truncated = jnp.asarray(self.env.is_truncated(inner, self.params), bool) & ~terminated
        low, high = self.returns
        total = before + reward
        score = jnp.clip(((reward if self.last_reward else total) - low) / (high - low), 0.0, 1.0)
        return TaskStep((inner, total), jnp.asarray(observation), reward, terminated, truncated, score)
