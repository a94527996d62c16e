"""Tasks of ours whose observations are the state, or show the cue that is to be remembered.

UmbrellaTask    one choice at the start decides the reward at the end; everything between is noise
CatchTask       move a paddle under a falling ball; the reward is delayed
MemoryTask      a cue at the start decides which action is right at the end; percepts between carry no information
ChargeTask      Accumulated-Charge (Section 4.2, App. A.2) at any size, with its mirror image
CartPoleTask    balance a pole on a cart (Barto, Sutton and Anderson 1983), with Gymnasium's constants and time limit
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from studies.networks.spaces import Categories, Continuous, Grid
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

    Steps in between pay `noise` or −`noise` by a fair coin, for all actions. Distractors are fresh coins in every
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


class MemoryState(NamedTuple):
    """The cue and the time."""

    cue: jax.Array
    time: jax.Array


@dataclass(frozen=True)
class MemoryTask:
    """The last action pays 1 if it is the cue's, else −1. After bsuite's memory chain (Osband et al. 2020).

    Observation: cue (0 not shown, 1 or 2 in the first state), time. A percept does not tell the state: use it with
    `RecentPercepts`, or with an agent that has memory.
    """

    length: int = 10

    @property
    def space(self) -> Categories:
        """Cue and time."""
        return Categories((3, self.length + 1))

    n_actions = 2  # one per cue

    def reset(self, key: jax.Array) -> tuple[MemoryState, jax.Array]:
        """Draw the cue."""
        state = MemoryState(jax.random.randint(key, (), 0, 2), jnp.zeros((), jnp.int32))
        return state, self._observation(state)

    def step(self, key: jax.Array, state: MemoryState, action: jax.Array) -> TaskStep:
        """Pass one moment; the last action counts."""
        now = MemoryState(state.cue, state.time + 1)
        ended = now.time == self.length
        right = action == state.cue
        reward = jnp.where(ended, jnp.where(right, 1.0, -1.0), 0.0)
        return TaskStep(now, self._observation(now), reward, ended, jnp.zeros((), bool), right.astype(jnp.float32))

    def _observation(self, state: MemoryState) -> jax.Array:
        return jnp.stack([jnp.where(state.time == 0, 1 + state.cue, 0), state.time])


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
        """Bounds of the observations in balancing; values beyond them are valid."""
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
