"""A percept model with memory: P(next percept | history, action), for λ where a percept does not tell the state.

Chunked-TD takes λ from P̂(x'|x, a) (Sec. 3). Where percepts hide the state, that probability is a blur over all
histories that look alike now, and λ is low although the world is certain. A recurrent model reads the whole history:

    λ_t = P̂(x_{t+1} | x_0, a_0, …, x_t, a_t)

An episode is a sequence of symbols in turns, x_0 a_0 x_1 a_1 … x_T, so the model is a single level of a
`HistoryCompressor`: what it predicts after an action is the next percept, and after a percept the next action.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from chunked_td.compression.compressor import HistoryCompressor

Episode = tuple[Sequence[Hashable], Sequence[Hashable]]


class RecurrentPerceptModel:
    """P(next percept | history, action), learned from episodes.

    Args:
      percepts, actions: all there can be, any hashable values.
      settings: as for `HistoryCompressor`: hidden, cell, window, online, learning_rate, seed.
    """

    def __init__(self, percepts: Iterable[Hashable], actions: Iterable[Hashable], **settings: Any) -> None:
        alphabet = [*(("percept", x) for x in percepts), *(("action", a) for a in actions)]
        self._network = HistoryCompressor(1, alphabet=alphabet, **settings)

    def fit(self, episodes: Iterable[Episode], *, epochs: int = 1, batch_size: int = 1) -> RecurrentPerceptModel:
        """Trains on episodes: pairs of T + 1 percepts and T actions."""
        self._network.fit([_in_turns(*episode) for episode in episodes], epochs=epochs, batch_size=batch_size)
        return self

    def probabilities(self, percepts: Sequence[Hashable], actions: Sequence[Hashable]) -> np.ndarray:
        """The probability of each transition of an episode, given all before it: float32[T]; the λ of forward chunking.

        Args:
          percepts: x_0..x_T. actions: a_0..a_{T−1}.
        """
        return self._network.compress(_in_turns(percepts, actions)).probabilities[2::2]

    def states(self, percepts: Sequence[Hashable], actions: Sequence[Hashable]) -> np.ndarray:
        """The recurrent state after each percept x_0..x_T, as features of the history: float32[T + 1, hidden]."""
        return self._network.compress(_in_turns(percepts, actions)).readings[0].states[1::2]


def _in_turns(percepts: Sequence[Hashable], actions: Sequence[Hashable]) -> list[tuple[str, Hashable]]:
    """x_0 a_0 x_1 a_1 … x_T, each marked as what it is."""
    if len(percepts) != len(actions) + 1:
        got = f"percepts has {len(percepts)} entries and actions {len(actions)}"
        raise ValueError(f"{got}; they take T + 1 and T")
    turns: list[tuple[str, Hashable]] = [("percept", percepts[0])]
    for action, percept in zip(actions, percepts[1:], strict=True):
        turns += [("action", action), ("percept", percept)]
    return turns


T_MAZE_PERCEPTS = ("cue-up", "cue-down", "corridor", "junction", "reward", "nothing")
T_MAZE_ACTIONS = ("forward", "up", "down")


def t_maze_episode(corridor: int, cue: str, choice: str) -> tuple[list[str], list[str]]:
    """One walk through a T-maze: a cue, a corridor whose cells look alike, a junction, and a reward where the cue said.

    Args:
      corridor: cells between the cue and the junction. cue, choice: "up" or "down".
    Returns:
      (percepts, actions)
    """
    outcome = "reward" if cue == choice else "nothing"
    percepts = [f"cue-{cue}", *["corridor"] * corridor, "junction", outcome]
    return percepts, [*["forward"] * (corridor + 1), choice]
