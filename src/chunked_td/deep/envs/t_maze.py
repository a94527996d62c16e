"""T-maze: a signal at the start says which way is right at the end of a corridor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from chunked_td._checks import check_flag, check_not_negative, check_whole
from chunked_td.deep.envs.protocol import TaskStep
from chunked_td.deep.spaces import Categories

FORWARD, UP, DOWN = range(3)
WALL = 0.025
"""What running into a wall costs."""


class TMazeState(NamedTuple):
    """Which arm is right (0 up, 1 down), the cell (0 start, corridor + 1 junction, corridor + 2 an arm), what is seen
    there, and the time."""

    right: jax.Array
    cell: jax.Array
    signal: jax.Array  # 0 none, 1 up, 2 down
    outcome: jax.Array  # 0 none, 1 right, 2 wrong
    prize: jax.Array  # 0 none, 1..prizes
    time: jax.Array


@dataclass(frozen=True)
class TMazeTask:
    """The right arm pays 1, the wrong one nothing. After Bakker (2002), without a way back.

    Observation: place, signal (3), outcome (3), prize. All cells of the corridor look alike, unless they are
    `numbered`. Actions: 0 forward, 1 up, 2 down; to run into a wall changes nothing and costs 0.025 (the ratio to the
    prize is Bakker's). Forward leads along the corridor, up and down from the junction into an arm, where the episode
    ends. A time limit of 4 · (corridor + 4) steps cuts it.

    Args:
      corridor: cells between the start and the junction. numbered: whether cells can be told apart.
      look: the signal is not shown at the start, but after the action "up" there. So the agent has to decide at the
        start what pays at the end only (as in the active T-maze of Ni et al. 2023).
      prizes, spread: with prizes, an arm shows one of so many, drawn evenly, and the step after it pays 1 or 0 and a
        number between −spread and spread that the prize tells, evenly spaced: noise that a percept announces.
      walls: whether only "forward" leads along the corridor; without walls every action does.
    """

    corridor: int = 10
    numbered: bool = False
    look: bool = False
    prizes: int = 0
    spread: float = 0.5
    walls: bool = True

    def __post_init__(self) -> None:
        check_whole("corridor", self.corridor, 1)
        check_whole("prizes", self.prizes, 0)
        if self.prizes == 1:
            raise ValueError("prizes must be 0 or at least 2, got 1")
        check_not_negative("spread", self.spread)
        for name in ("numbered", "look", "walls"):
            check_flag(name, getattr(self, name))

    @property
    def space(self) -> Categories:
        """Place, signal, outcome, prize."""
        return Categories((self.corridor + 3 if self.numbered else 4, 3, 3, self.prizes + 1))

    @property
    def n_actions(self) -> int:
        """Forward, up, down."""
        return 3

    @property
    def limit(self) -> int:
        """Steps until an episode is cut."""
        return 4 * (self.corridor + 4)

    def reset(self, key: jax.Array) -> tuple[TMazeState, jax.Array]:
        """Draw the right arm."""
        right, zero = jax.random.randint(key, (), 0, 2), jnp.zeros((), jnp.int32)
        state = TMazeState(right, zero, zero if self.look else 1 + right, zero, zero, zero)
        return state, self._observation(state)

    def step(self, key: jax.Array, state: TMazeState, action: jax.Array) -> TaskStep:
        """Move, look, or enter an arm."""
        junction = self.corridor + 1
        there, arm = state.cell == junction, state.cell > junction
        enters = there & (action != FORWARD)
        within = (state.cell > 0) & (state.cell < junction)
        walks = (state.cell < junction) & (action == FORWARD) | within & (not self.walls)
        cell = state.cell + jnp.where(enters | walks, 1, 0)
        looks = self.look & (state.cell == 0) & (action == UP)
        good = jnp.where(arm, state.outcome == 1, action - UP == state.right)
        outcome = jnp.where(enters, jnp.where(good, 1, 2), 0)
        prize = jax.random.randint(key, (), 1, self.prizes + 1) if self.prizes else 0
        now = TMazeState(
            state.right,
            jnp.minimum(cell, junction + 1),
            jnp.where(looks, 1 + state.right, 0),
            outcome,
            jnp.where(enters, prize, 0),
            state.time + 1,
        )
        ended = arm if self.prizes else enters
        wall = (cell == state.cell) & ~looks
        reward = jnp.where(ended, good + self._worth(state.prize), jnp.where(wall, -WALL, 0.0))
        cut = ~ended & (now.time >= self.limit)
        score = (ended & good).astype(jnp.float32)
        return TaskStep(now, self._observation(now), reward, ended, cut, score)

    def _worth(self, prize: jax.Array) -> jax.Array:
        """What a prize adds: −spread..spread for 1..prizes."""
        return self.spread * (2.0 * (prize - 1) / (self.prizes - 1) - 1.0) if self.prizes else jnp.zeros(())

    def _observation(self, state: TMazeState) -> jax.Array:
        place = state.cell
        if not self.numbered:
            place = jnp.where(place > self.corridor, place - self.corridor + 1, jnp.minimum(place, 1))
        return jnp.stack([place, state.signal, state.outcome, state.prize]).astype(jnp.int32)
