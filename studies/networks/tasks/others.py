"""Tasks of the packages gymnax and XLand-MiniGrid (`xminigrid`), and those of them that the study uses, by name.

gymnax-umbrella               UmbrellaChain of bsuite, chain_length 20
gymnax-umbrella-distractors   the same with 20 distractors
gymnax-catch                  Catch of bsuite, 10 × 5; the reward comes where an episode ends
gymnax-cart-pole              CartPole-v1
memory-chain                  MemoryChain of bsuite, with a cue to remember
xland-door-key                MiniGrid-DoorKey-5x5 of XLand-MiniGrid: fetch a key, open a door; no noise

Chain length and distractors are the fixed ones of bsuite's two experiments with umbrellas; everything else is as in the
packages. gymnax caps Gymnasium and JAX, so it is installed apart: see `INSTALL`.
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from studies.networks.spaces import Continuous, Grid, Space
from studies.networks.tasks.base import CodedPercepts, TaskStep

_CHAIN, _DISTRACTORS = 20, 20

INSTALL = {
    "xminigrid": "pip install xminigrid",
    "gymnax": "pip install --no-deps gymnax, then pip install flax seaborn",
}
"""Commands that install the packages; `--no-deps` keeps gymnax from downgrading Gymnasium and JAX."""


@dataclass(frozen=True, eq=False)
class GymnaxTask:
    """An environment of gymnax ≥ 1.0 with its parameters: `GymnaxTask(*gymnax.make("Catch-bsuite"), space)`.

    Reads `step_env` and `reset_env`, so the observation of a last step is that of the true next state. The score of an
    episode is its return, mapped from `returns` to [0, 1].

    Args:
      env, params: what `gymnax.make` gives. space: of observations.
      returns: the least and the greatest return of an episode.
      last_reward: whether the score is the last reward instead, for tasks whose other rewards are noise.
    """

    env: Any
    params: Any
    space: Space
    returns: tuple[float, float] = (0.0, 1.0)
    last_reward: bool = False

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


@dataclass(frozen=True, eq=False)
class XLandTask:
    """An environment of XLand-MiniGrid with its parameters: `XLandTask(*xminigrid.make("MiniGrid-DoorKey-5x5"))`.

    Observation: the symbols in front of the agent, turned so that it looks up; every cell is a component. It sees
    neither what is behind it nor what it carries. Actions: forward, turn right, turn left, pick up, put down, toggle.
    The reward is paid where an episode ends: 1 − 0.9 · steps / limit at the goal, 0 at the time limit. It is the score.

    Args:
      env, params: what `xminigrid.make` gives.
      symbols: how many kinds of tiles there are. The colour of a cell is left out: in DoorKey the tile tells it.
    """

    env: Any
    params: Any
    symbols: int = 13

    @property
    def space(self) -> Grid:
        """Tiles in view."""
        rows, columns, _ = self.env.observation_shape(self.params)
        return Grid((rows, columns), self.symbols)

    @property
    def n_actions(self) -> int:
        """Six in all of them."""
        return int(self.env.num_actions(self.params))

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """A fresh room."""
        begun = self.env.reset(self.params, key)
        return begun, begun.observation[..., 0]

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> TaskStep:
        """One transition, without a reset; nothing in it is random."""
        now = self.env.step(self.params, state, action)
        reward = jnp.asarray(now.reward, jnp.float32)
        terminated = now.discount == 0.0
        truncated = now.last() & ~terminated
        return TaskStep(now, now.observation[..., 0], reward, terminated, truncated, jnp.clip(reward, 0.0, 1.0))


@functools.cache
def make_other(name: str, length: int = 0) -> Any:
    """A task of these; always the same object, because programs are compiled per task.

    Args: length: of memory-chain.
    """
    if name == "memory-chain":
        env, params = make_foreign("gymnax", "MemoryChain-bsuite")
        space = Continuous((0.0, 0.0, -1.0), (1.0, 1.0, 1.0), bins=(length + 1, 2, 3))
        return CodedPercepts(GymnaxTask(env, params.replace(memory_length=length), space, (-1.0, 1.0)))
    if name == "xland-door-key":
        return XLandTask(*make_foreign("xminigrid", "MiniGrid-DoorKey-5x5"))
    if name == "gymnax-catch":
        return GymnaxTask(*make_foreign("gymnax", "Catch-bsuite"), Grid((10, 5), 2), (-1.0, 1.0))
    if name == "gymnax-cart-pole":
        bounds = (2.4, 3.0, 0.21, 3.0)  # of what is seen in balancing; gymnax's space is unbounded
        space = Continuous(tuple(-x for x in bounds), bounds)
        return GymnaxTask(*make_foreign("gymnax", "CartPole-v1"), space, (0.0, 500.0))
    return _umbrella(_DISTRACTORS if name.endswith("distractors") else 0)


def make_foreign(package: str, name: str, **settings: Any) -> tuple[Any, Any]:
    """(environment, parameters) as `package.make` gives them."""
    try:
        module = importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ValueError(f"task: {name!r} needs the package {package}: {INSTALL[package]}") from None
    return module.make(name, **settings)


def _umbrella(distractors: int) -> CodedPercepts:
    """Its observations are numbers between 0 and 1; a code per bit, and one per moment. The last step's reward, 1 or
    −1, is the score; the rewards before are noise."""
    env, params = make_foreign("gymnax", "UmbrellaChain-bsuite", n_distractor=distractors)
    bins = (2, 2, _CHAIN + 1, *(2,) * distractors)
    space = Continuous((0.0,) * len(bins), (1.0,) * len(bins), bins)
    return CodedPercepts(GymnaxTask(env, params.replace(chain_length=_CHAIN), space, (-1.0, 1.0), last_reward=True))
