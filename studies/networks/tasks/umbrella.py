"""Umbrella: one choice at the start decides the reward at the end; everything between is noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from studies.networks.spaces import Categories
from studies.networks.tasks.base import TaskStep


class UmbrellaState(NamedTuple):
    """Whether it will rain, what was taken (0 nothing yet, 1 no, 2 yes), time, and distractors."""

    rain: jax.Array
    taken: jax.Array
    time: jax.Array
    coins: jax.Array


@dataclass(frozen=True)
class UmbrellaTask:
    """The first action takes an umbrella or not; the last step pays 1 if that suits the weather, else −1.

    Steps in between pay `noise` or −`noise` by a fair coin, whatever is done. Distractors are fresh coins in every
    state. After bsuite's umbrella chain (Osband et al. 2020).

    Observation: weather (2), taken (3), time, distractors. Actions: 0 leave it, 1 take it; ignored after the first.
    """

    length: int = 20
    distractors: int = 0
    noise: float = 1.0

    @property
    def space(self) -> Categories:
        """Weather, taken, time, coins."""
        return Categories((2, 3, self.length + 1, *(2,) * self.distractors))

    n_actions = 2  # leave it, take it

    def reset(self, key: jax.Array) -> tuple[UmbrellaState, jax.Array]:
        """Draw the weather."""
        rain, coins = jax.random.split(key)
        zero = jnp.zeros((), jnp.int32)
        state = UmbrellaState(_coins(rain, ()), zero, zero, _coins(coins, (self.distractors,)))
        return state, _observation(state)

    def step(self, key: jax.Array, state: UmbrellaState, action: jax.Array) -> TaskStep:
        """Pass one moment."""
        pay, coins = jax.random.split(key)
        taken = jnp.where(state.time == 0, 1 + action, state.taken).astype(jnp.int32)
        now = UmbrellaState(state.rain, taken, state.time + 1, _coins(coins, (self.distractors,)))
        ended = now.time == self.length
        right = taken == 1 + state.rain
        noise = self.noise * (2.0 * _coins(pay, ()) - 1.0)
        reward = jnp.where(ended, jnp.where(right, 1.0, -1.0), noise)
        return TaskStep(now, _observation(now), reward, ended, jnp.zeros((), bool), right.astype(jnp.float32))


def _coins(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jax.random.bernoulli(key, 0.5, shape).astype(jnp.int32)


def _observation(state: UmbrellaState) -> jax.Array:
    return jnp.concatenate([jnp.stack([state.rain, state.taken, state.time]), state.coins])
