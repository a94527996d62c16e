"""T-maze: a signal at the start says which way is right at the end of a corridor (after Bakker 2002).

The transitions are those of `chunked_td.deep.envs.TMazeTask`, here as a table: the states tell everything, and
`maze_percept` says what of a state is shown.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from chunked_td._checks import check_flag, check_not_negative, check_whole
from chunked_td.envs.dynamics.protocol import Outcome
from chunked_td.envs.dynamics.table import TransitionTable

FORWARD, UP, DOWN = range(3)
WALL = 0.025
"""What running into a wall costs."""


class MazeState(NamedTuple):
    """A state of the T-maze."""

    right: int  # the arm that pays: 0 up, 1 down
    cell: int  # 0 start, corridor + 1 junction, corridor + 2 an arm
    signal: int  # what is shown: 0 none, 1 up, 2 down
    outcome: int  # 0 none, 1 the right arm, 2 the wrong one
    prize: int  # 0 none, 1..prizes


def t_maze(
    corridor: int = 10, look: bool = False, prizes: int = 0, spread: float = 0.5, walls: bool = True
) -> TransitionTable:
    """The T-maze as a table; `names` of the table are `MazeState`s.

    Args:
      corridor: cells between the start and the junction.
      look: the signal is not shown at the start, but after the action "up" there.
      prizes, spread: with prizes, an arm shows one of so many, drawn evenly, and the step after it pays 1 or 0 and a
        number between −spread and spread that the prize tells, evenly spaced.
      walls: whether only "forward" leads along the corridor; without walls every action does.
    """
    corridor, prizes = check_whole("corridor", corridor, 1), check_whole("prizes", prizes, 0)
    if prizes == 1:
        raise ValueError("prizes must be 0 or at least 2, got 1")
    spread = check_not_negative("spread", spread)
    for name, flag in (("look", look), ("walls", walls)):
        check_flag(name, flag)
    junction = corridor + 1

    def outcomes(state: MazeState, action: int) -> list[Outcome]:
        right, cell, _, outcome, prize = state
        if cell > junction:  # an arm that shows its prize
            paid = float(outcome == 1) + spread * (2 * (prize - 1) / (prizes - 1) - 1)
            return [(1.0, state._replace(prize=0), (paid,), True)]
        if cell == junction and action != FORWARD:
            arm = MazeState(right, junction + 1, 0, 1 if action - UP == right else 2, 0)
            if not prizes:
                return [(1.0, arm, (float(arm.outcome == 1),), True)]
            return [(1 / prizes, arm._replace(prize=i), (0.0,), False) for i in range(1, prizes + 1)]
        if cell < junction and (action == FORWARD or (cell > 0 and not walls)):
            return [(1.0, MazeState(right, cell + 1, 0, 0, 0), (0.0,), False)]
        if look and cell == 0 and action == UP:
            return [(1.0, MazeState(right, 0, 1 + right, 0, 0), (0.0,), False)]
        return [(1.0, MazeState(right, cell, 0, 0, 0), (-WALL,), False)]

    everything = itertools.product(range(2), range(junction + 2), range(3), range(3), range(prizes + 1))
    return TransitionTable.from_outcomes(
        outcomes,
        starts=[MazeState(right, 0, 0 if look else 1 + right, 0, 0) for right in range(2)],
        n_actions=3,
        horizon=4 * (corridor + 4),
        bad_end=[state for state in itertools.starmap(MazeState, everything) if state.outcome != 1],
    )


def maze_percept(state: MazeState, corridor: int, numbered: bool) -> tuple[int, int, int, int]:
    """What is shown of a state: place, signal, outcome, prize.

    The place is the cell if cells are numbered, else 0 start, 1 corridor, 2 junction, 3 arm.
    """
    place = state.cell
    if not numbered:
        place = min(place, 1) if place <= corridor else place - corridor + 1
    return place, state.signal, state.outcome, state.prize
