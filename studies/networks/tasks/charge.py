"""Accumulated-Charge for networks (Section 4.2, App. A.2), at any size, with its mirror image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from studies.networks.spaces import Categories
from studies.networks.tasks.base import TaskStep


class ChargeState(NamedTuple):
    """First action (0 none yet, 1 a₁, 2 a₂), charge, time."""

    chosen: jax.Array
    charge: jax.Array
    time: jax.Array


@dataclass(frozen=True)
class ChargeTask:
    """The first action decides for a small bonus; noise gathered on the way is paid with it at the end.

    `points` evenly spaced steps each add Binomial(horizon / points, ½) to the charge. The last transition pays
    b·[a₁] + c₀·(charge − horizon/2), with c₀ = ½ after a₁ and −½ after a₂; `mirrored` changes the sign of c₀ and no
    expected return. As `chunked_td.envs.AccumulatedCharge`, which draws the charging steps per seed.

    Observation: chosen (3), charge, time. Actions: 0 is a₁, 1 is a₂; ignored after the first.
    """

    horizon: int = 32
    points: int = 4
    bonus: float = 0.3
    mirrored: bool = False

    @property
    def space(self) -> Categories:
        """Chosen, charge, time."""
        return Categories((3, self.horizon + 1, self.horizon + 1))

    n_actions = 2  # a₁ and a₂

    def reset(self, key: jax.Array) -> tuple[ChargeState, jax.Array]:
        """Begin without charge."""
        zero = jnp.zeros((), jnp.int32)
        state = ChargeState(zero, zero, zero)
        return state, jnp.stack(state)

    def step(self, key: jax.Array, state: ChargeState, action: jax.Array) -> TaskStep:
        """Note the first action, gather charge, pay at the end."""
        trials = self.horizon // self.points
        charging = np.zeros(self.horizon, bool)
        charging[1 + np.arange(self.points) * trials] = True
        gain = jnp.sum(jax.random.bernoulli(key, 0.5, (trials,)), dtype=jnp.int32)
        chosen = jnp.where(state.time == 0, 1 + action, state.chosen).astype(jnp.int32)
        charge = state.charge + jnp.where(jnp.asarray(charging)[state.time], gain, 0)
        now = ChargeState(chosen, charge, state.time + 1)
        ended = now.time == self.horizon
        first = chosen == 1
        slope = jnp.where(first, 0.5, -0.5) * (-1.0 if self.mirrored else 1.0)
        pay = self.bonus * first + slope * (charge - self.horizon / 2)
        reward = jnp.where(ended, pay, 0.0)
        return TaskStep(now, jnp.stack(now), reward, ended, jnp.zeros((), bool), first.astype(jnp.float32))
