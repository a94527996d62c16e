"""Linear key-to-door (Meulemans, Schug, Kobayashi et al. 2023, "Would I have gotten that reward?"), as a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chunked_td._checks import check_seed, check_unit, check_whole
from chunked_td.envs.protocol import Outcome
from chunked_td.envs.table import TransitionTable

PICK_KEY, LEFT, RIGHT, OPEN = range(4)
APPLES, TREASURE, REFERENCE = (0.1, 0.9), 0.2, 23
"""Rewards of an apple, with equal probabilities, and of the treasure, in a problem of 23 cells."""


def apples_of(length: int, apples: float, seed: int) -> np.ndarray:
    """int64[length]: LEFT or RIGHT if a cell has an apple on that side, else 0. Cells 1..length − 3 may have one."""
    grid = np.zeros(length, np.int64)
    odds = (1.0 - apples, apples / 2.0, apples / 2.0)
    grid[1 : length - 2] = np.random.default_rng(seed).choice((0, LEFT, RIGHT), length - 3, p=odds)
    return grid


def linear_key_to_door(
    length: int = 23, apples: float = 0.8, seed: int = 0, worth: Sequence[float] = APPLES
) -> TransitionTable:
    """Linear key-to-door as a table with states (cell, key, treasure); an episode without treasure counts as a miss.

    One cell per step. "Pick key" in cell 0 takes the key. "Open" in cell length − 2 with the key puts the treasure into
    the last cell, where any action collects it. Left and right collect an apple on that side, if there is one.

    Args:
      length: L, the number of cells and of steps of an episode. Rewards are multiplied by 23/L, so that returns stay
        comparable.
      apples: probability that a cell between key and door has an apple.
      seed: of the positions of the apples, which are part of the problem.
      worth: equally likely rewards of an apple in a problem of 23 cells.
    """
    L, scale = check_whole("length", length, 4), REFERENCE / length
    grid = apples_of(L, check_unit("apples", apples), check_seed(seed))

    def outcomes(state: tuple[int, int, int], action: int) -> list[Outcome]:
        cell, key, treasure = state
        if cell == 0:
            key = int(action == PICK_KEY)
        if cell == L - 2:
            treasure = int(key and action == OPEN)
        picked = action in (LEFT, RIGHT) and grid[cell] == action
        paid = tuple(worth) if picked else (TREASURE * (cell == L - 1 and treasure),)
        return [(1.0 / len(paid), (cell + 1, key, treasure), (scale * one,), cell == L - 1) for one in paid]

    missed = [(L, key, 0) for key in (0, 1)]
    return TransitionTable.from_outcomes(outcomes, starts=[(0, 0, 0)], n_actions=4, bad_end=missed)
