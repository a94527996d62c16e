"""T-maze: a signal at the start shows the right turn at the end of a corridor (after Bakker 2002).

`TMaze.move` is the only definition, for numbers and for JAX arrays. A table lists its outcomes; a task samples one.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from chunked_td._checks import check_flag, check_not_negative, check_whole
from chunked_td.envs.protocol import Outcome
from chunked_td.envs.table import TransitionTable

FORWARD, UP, DOWN = range(3)
WALL = 0.025
"""Cost of moving into a wall."""


class MazeState(NamedTuple):
    """A state of the T-maze: whole numbers, or arrays of them."""

    right: Any  # the rewarded arm: 0 up, 1 down
    cell: Any  # 0 start, corridor + 1 junction, corridor + 2 an arm
    signal: Any  # the signal shown: 0 none, 1 up, 2 down
    outcome: Any  # 0 none, 1 the right arm, 2 the wrong one
    prize: Any  # 0 none, 1..prizes


@dataclass(frozen=True)
class TMaze:
    """Settings of a T-maze, and its transitions.

    The reward of the right arm is 1, of the wrong one 0. Actions: 0 forward, 1 up, 2 down; a move into a wall changes
    nothing and costs 0.025 (Bakker's ratio to the reward). Forward leads along the corridor, up and down from the
    junction into an arm, where the episode ends. There is no way back.

    Args:
      corridor: cells between the start and the junction. numbered: whether percepts have the number of the cell.
      look: the signal is not shown at the start, but after the action "up" there. So the reward of a choice at the
        start follows only at the end (as in the active T-maze of Ni et al. 2023).
      prizes, spread: n prizes, 0 for none. An arm shows one of them at random. The reward follows one step later: 1 or
        0, plus the prize's own number, evenly spaced from −spread to spread: noise that a percept predicts.
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

    n_actions = 3  # forward, up, down

    @property
    def limit(self) -> int:
        """Steps after which an episode is truncated."""
        return 4 * (self.corridor + 4)

    @property
    def nvec(self) -> tuple[int, ...]:
        """Number of values of each component of a percept."""
        return (self.corridor + 3 if self.numbered else 4, 3, 3, self.prizes + 1)

    def start(self, right: Any) -> MazeState:
        """First state of an episode in which this arm is rewarded."""
        zero = 0 * right
        return MazeState(right, zero, zero if self.look else 1 + right, zero, zero)

    def move(self, xp: Any, state: MazeState, action: Any, prize: Any) -> tuple[MazeState, Any, Any]:
        """(next state, reward, whether the episode ended).

        Args:
          xp: numpy or jax.numpy. prize: shown on entering an arm, 1..prizes; 0 without prizes.
        """
        junction = self.corridor + 1
        cell = state.cell
        there, arm = cell == junction, cell > junction
        enters = there & (action != FORWARD)
        within = (cell > 0) & (cell < junction)
        walks = (cell < junction) & (action == FORWARD) | within & (not self.walls)
        looks = self.look & (cell == 0) & (action == UP)
        good = xp.where(arm, state.outcome == 1, action - UP == state.right)
        ended = arm if self.prizes else enters
        now = MazeState(
            state.right,
            cell + xp.where(enters | walks, 1, 0),
            xp.where(looks, 1 + state.right, 0),
            xp.where(enters, xp.where(good, 1, 2), xp.where(arm, state.outcome, 0)),
            xp.where(enters, prize, 0),
        )
        wall = xp.logical_not(enters | walks | looks)
        reward = xp.where(ended, good + self._worth(state.prize), xp.where(wall, -WALL, 0.0))
        return now, reward, ended

    def _worth(self, prize: Any) -> Any:
        """Reward of a prize: −spread..spread for 1..prizes."""
        return self.spread * (2.0 * (prize - 1) / (self.prizes - 1) - 1.0) if self.prizes else 0.0

    def percept(self, xp: Any, state: MazeState) -> tuple[Any, ...]:
        """Percept of a state: place, signal, outcome, prize.

        The place is the cell if cells are numbered, else 0 start, 1 corridor, 2 junction, 3 arm.
        """
        place = state.cell
        if not self.numbered:
            place = xp.where(place > self.corridor, place - self.corridor + 1, xp.minimum(place, 1))
        return place, state.signal, state.outcome, state.prize

    def table(self) -> TransitionTable:
        """The T-maze as a table of its full states; the `names` of the table are `MazeState`s."""
        starts = [self.start(right) for right in range(2)]
        everything = itertools.product(range(2), range(self.corridor + 3), range(3), range(3), range(self.prizes + 1))
        bad = [state for state in itertools.starmap(MazeState, everything) if state.outcome != 1]
        return TransitionTable.from_outcomes(
            self._outcomes, starts=starts, n_actions=self.n_actions, horizon=self.limit, bad_end=bad
        )

    def _outcomes(self, state: MazeState, action: int) -> list[Outcome]:
        enters = state.cell == self.corridor + 1 and action != FORWARD
        prizes = range(1, self.prizes + 1) if self.prizes and enters else (0,)
        moves = (self.move(np, state, action, prize) for prize in prizes)
        return [(1 / len(prizes), MazeState(*map(int, now)), (float(r),), bool(ended)) for now, r, ended in moves]


def t_maze(
    corridor: int = 10, look: bool = False, prizes: int = 0, spread: float = 0.5, walls: bool = True
) -> TransitionTable:
    """The table of a `TMaze`."""
    return TMaze(corridor, look=look, prizes=prizes, spread=spread, walls=walls).table()
