"""The T-mazes of Ni et al. (2023), passive and active, with a memory of unexpected percepts built in.

Position, time and goal are not part of the state. They are in arrays of the dynamics, so compiled and Python learners
observe only the percepts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chunked_td._checks import check_flag, check_unit, check_whole
from chunked_td._link import kernel
from chunked_td.seeding import Stream, uniform

RIGHT, UP, LEFT, DOWN = range(4)
CORRIDOR, GOAL_DOWN, GOAL_UP, JUNCTION, LOWER_END, UPPER_END = range(6)
"""Percepts: [0, 0], [0, −1], [0, 1], [1, 0], [1, −1], [1, 1] in the paper's notation."""
PERCEPTS = 6
X, Y, GOAL, TIME, SHOWN = range(5)
"""Entries of `TimedTMaze.hidden`; SHOWN is 1 after the goal has been shown."""


class TimedTMaze(NamedTuple):
    """Dynamics of a T-maze with a schedule. Build with `TimedTMaze.make`.

    Rules: `chunked_td.envs.TimedTMazeEnv`. The state is the percept. With slots it also has the memory of
    `chunked_td.envs.KeptPercepts`: kept percepts, newest first, each as 1 + its number, 0 for an empty slot; and the
    steps since one was kept, at most `clock`. The counts of the memory persist over episodes.
    """

    corridor: int
    oracle: int  # steps from the oracle to the start
    horizon: int
    slots: int
    clock: int
    threshold: float
    hidden: np.ndarray  # int64[5], see X .. SHOWN
    counts: np.ndarray  # int64[24, 7], n(x, a, x′) and, last, n(x, a)

    @classmethod
    def make(
        cls, corridor: int = 10, active: bool = False, slots: int = 0, clock: int = 1, threshold: float = 0.75
    ) -> TimedTMaze:
        """Check the settings and build the dynamics; the arguments are those of `chunked_td.envs.TimedTMazeEnv`."""
        length, oracle = check_whole("corridor", corridor, 1, 30_000), int(check_flag("active", active))
        slots, clock = check_whole("slots", slots, 0, 4), check_whole("clock", clock, 0)
        check_unit("threshold", threshold)
        counts = np.zeros((PERCEPTS * 4, PERCEPTS + 1), np.int64)
        return cls(length, oracle, length + 2 * oracle + 1, slots, clock, threshold, np.zeros(5, np.int64), counts)

    @property
    def nvec(self) -> tuple[int, ...]:
        """Percept; kept percepts and clock."""
        return (PERCEPTS, *(PERCEPTS + 1,) * self.slots, self.clock + 1) if self.slots else (PERCEPTS,)

    n_actions = 4  # right, up, left, down
    n_rewards = 1  # a scalar reward
    draws = 1  # the goal of an episode

    @kernel
    def prepare(env: Any, rng: Stream) -> None:
        """Reset the counts."""
        env.counts[:] = 0

    @kernel
    def reset(env: Any, rng: Stream, state: np.ndarray) -> None:
        """Draw the goal; the first percept is kept."""
        env.hidden[X], env.hidden[Y], env.hidden[TIME], env.hidden[SHOWN] = env.oracle, 0, 0, 0
        env.hidden[GOAL] = 1 if uniform(rng) < 0.5 else -1
        state[:] = 0
        state[0] = percept(env)
        if env.slots > 0:
            state[1] = 1 + state[0]

    @kernel
    def step(env: Any, rng: Stream, state: np.ndarray, action: int, reward: np.ndarray) -> bool:
        """Move, observe, and keep an unexpected percept."""
        hidden, end = env.hidden, env.oracle + env.corridor
        if hidden[Y] != 0:  # at an end, which only the opposite action leaves
            if action == (DOWN if hidden[Y] > 0 else UP):
                hidden[Y] = 0
        elif action == RIGHT:
            hidden[X] = min(hidden[X] + 1, end)
        elif action == LEFT:
            hidden[X] = max(hidden[X] - 1, 0)
        elif hidden[X] == end:
            hidden[Y] = 1 if action == UP else -1
        hidden[TIME] += 1
        ended = hidden[TIME] == env.horizon
        if ended:
            reward[0] = 1.0 if hidden[Y] == hidden[GOAL] else 0.0
        else:
            reward[0] = -1.0 / env.corridor if hidden[X] < hidden[TIME] - env.oracle else 0.0
        arrived = percept(env)
        if env.slots > 0:
            origin = env.counts[state[0] * 4 + action]
            if origin[arrived] < env.threshold * origin[PERCEPTS] or origin[PERCEPTS] == 0:
                for k in range(env.slots, 1, -1):
                    state[k] = state[k - 1]
                state[1] = 1 + arrived
                state[env.slots + 1] = 0
            else:
                state[env.slots + 1] = min(state[env.slots + 1] + 1, env.clock)
            origin[arrived] += 1
            origin[PERCEPTS] += 1
        state[0] = arrived
        return ended

    @kernel
    def legal(env: Any, state: np.ndarray) -> int:
        """Count the actions: always four."""
        return 4

    @kernel
    def miss(env: Any, first_action: int, state: np.ndarray) -> bool:
        """Whether the episode ended at another place than the goal."""
        return state[0] != (UPPER_END if env.hidden[GOAL] > 0 else LOWER_END)


def percept(env: Any) -> int:
    """Current percept; the goal is shown only on the first visit to the oracle."""
    hidden = env.hidden
    if hidden[X] == env.oracle + env.corridor:
        return JUNCTION if hidden[Y] == 0 else (UPPER_END if hidden[Y] > 0 else LOWER_END)
    if hidden[X] == 0 and hidden[SHOWN] == 0:
        hidden[SHOWN] = 1
        return GOAL_UP if hidden[GOAL] > 0 else GOAL_DOWN
    return CORRIDOR
