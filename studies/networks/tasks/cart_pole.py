"""CartPole: balance a pole on a cart (Barto, Sutton and Anderson 1983), with Gymnasium's constants and time limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from studies.networks.spaces import Continuous
from studies.networks.tasks.base import TaskStep

_GRAVITY, _CART, _POLE, _HALF_LENGTH, _FORCE, _SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
_EDGE, _TILT = 2.4, 12 * 2 * jnp.pi / 360


class CartPoleState(NamedTuple):
    """Position, velocity, angle, angular velocity; and time."""

    body: jax.Array  # float32[4]
    time: jax.Array


@dataclass(frozen=True)
class CartPoleTask:
    """1 per step until the pole tilts by more than 12° or the cart leaves ±2.4; cut after `limit` steps.

    Observation: four numbers, their codes are bins. Actions: push left, push right. Score: length / limit.
    """

    limit: int = 500
    bins: int = 12

    @property
    def space(self) -> Continuous:
        """Bounds of what is seen in balancing; values beyond them are read all the same."""
        return Continuous((-2.4, -3.0, -0.21, -3.0), (2.4, 3.0, 0.21, 3.0), self.bins)

    n_actions = 2  # left, right

    def reset(self, key: jax.Array) -> tuple[CartPoleState, jax.Array]:
        """Near the upright."""
        body = jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)
        return CartPoleState(body, jnp.zeros((), jnp.int32)), body

    def step(self, key: jax.Array, state: CartPoleState, action: jax.Array) -> TaskStep:
        """Euler's method, one fiftieth of a second."""
        x, speed, angle, spin = state.body
        force = jnp.where(action == 1, _FORCE, -_FORCE)
        sin, cos, total = jnp.sin(angle), jnp.cos(angle), _CART + _POLE
        push = (force + _POLE * _HALF_LENGTH * spin**2 * sin) / total
        turn = (_GRAVITY * sin - cos * push) / (_HALF_LENGTH * (4 / 3 - _POLE * cos**2 / total))
        along = push - _POLE * _HALF_LENGTH * turn * cos / total
        body = jnp.stack(
            [x + _SECONDS * speed, speed + _SECONDS * along, angle + _SECONDS * spin, spin + _SECONDS * turn]
        )
        now = CartPoleState(body, state.time + 1)
        fell = (jnp.abs(body[0]) > _EDGE) | (jnp.abs(body[2]) > _TILT)
        score = now.time / self.limit
        return TaskStep(now, body, jnp.ones(()), fell, ~fell & (now.time >= self.limit), score.astype(jnp.float32))
