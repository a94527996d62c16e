"""Settings of a comparison, as plain values: for other processes, files and command lines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td._checks import check_not_negative, check_positive, check_unit, check_whole
from chunked_td.envs.by_name import check_indexing, is_file
from chunked_td.learners.exploration import EPSILON
from chunked_td.learners.schedule import Schedule, check_schedule

LARGEST = 1.0
"""Upper limit of step sizes when a grid grows."""
EPISODES = 1_000
"""Episodes of a run by default, if they fit into the time."""
_CHECKPOINTS = 50

_PROBLEM = (
    "env", "max_steps", "env_settings", "wrappers", "bins", "low", "high", "indexer", "action_mask", "reward_weights",
    "compiled",
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Problem and learners of a comparison; arguments as in `chunked_td.compare`."""

    env: str
    episodes: int | None = None
    seeds: int | None = None
    max_steps: int = 1_000
    lambdas: tuple[float, ...] = (0.0, 0.5, 0.8, 0.9, 0.95, 1.0)
    bootstraps: tuple[str, ...] = ("expected_sarsa",)
    sources: tuple[str, ...] | None = None
    lambda_source: tuple[str, ...] = ()
    step_sizes: tuple[float, ...] = (0.05, 0.2, 0.8)
    extend: int = 3
    step_size_schedule: Schedule | None = None
    discount: float = 0.99
    epsilon: float | Schedule | None = None
    bonus: float | None = None
    initial_value: float = 0.0
    reward_weights: tuple[float, ...] = ()
    env_settings: Mapping[str, Any] = field(default_factory=dict)
    wrappers: tuple[str, ...] = ()
    bins: tuple[int, ...] = ()
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    indexer: str | None = None
    action_mask: bool = True
    compiled: bool = True

    def __post_init__(self):
        for name, least in (("episodes", 1), ("seeds", 1), ("max_steps", 1), ("extend", 0)):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), least)
        if not self.step_sizes:
            raise ValueError("step_sizes must be one number or more, got none")
        for size in self.step_sizes:
            check_positive("step_sizes", size)
        for value in self.lambdas:
            check_unit("lambdas", value)
        check_unit("discount", self.discount)
        check_schedule("epsilon", self.exploring, positive=False)
        if self.bonus is not None:
            check_not_negative("bonus", self.bonus)
        check_indexing(self.bins, self.low, self.high, self.indexer)

    @property
    def exploring(self) -> float | Schedule:
        """ε."""
        return EPSILON if self.epsilon is None else self.epsilon

    @property
    def marks(self) -> np.ndarray:
        """Checkpoints: numbers of finished episodes at which means since the last one are recorded."""
        episodes = self.episodes or EPISODES
        every = -(-episodes // _CHECKPOINTS)
        return np.unique([*range(every, episodes, every), episodes])

    @property
    def ladder(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Every step size that may be tried, in order, and the indices of the first grid.

        The first and the last factor of the grid continue it, `extend` times and not beyond 1; factors of 2 continue a
        single size.
        """
        grid = sorted(dict.fromkeys(map(float, self.step_sizes)))
        below, above = (grid[1] / grid[0], grid[-1] / grid[-2]) if len(grid) > 1 else (2.0, 2.0)
        low, high = grid[:1], grid[-1:]
        for _ in range(self.extend):
            low.insert(0, low[0] / below)
            if high[-1] < LARGEST:
                high.append(min(high[-1] * above, LARGEST))
        return (*low[:-1], *grid, *high[1:]), tuple(range(len(low) - 1, len(low) - 1 + len(grid)))

    @property
    def shared(self) -> dict[str, Any]:
        """Arguments of `running.play` that all runs share."""
        names = ("discount", "bonus", "initial_value", "step_size_schedule")
        own = {"problem": self.problem(), "marks": tuple(self.marks.tolist()), "epsilon": self.exploring}
        return own | {name: getattr(self, name) for name in names}

    def problem(self) -> str:
        """The environment and its states as JSON; a digest represents the code of a user's file."""
        found = {name: getattr(self, name) for name in _PROBLEM}
        if is_file(self.env):
            found |= {"env": absolute(self.env), "code": digest(self.env)}
        return json.dumps(found | {"env_settings": dict(self.env_settings)}, sort_keys=True)


def of_problem(text: str) -> Settings:
    """Settings with the problem that `Settings.problem` returned."""
    found: dict[str, Any] = json.loads(text)
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
    values.pop("code", None)
    return Settings(**values)


def absolute(text: str) -> str:
    """A file's absolute path, for processes that run in another folder: "/home/me/maze.py:Maze"."""
    return str(Path(text).absolute())


def digest(text: str) -> str:
    """A digest of the Python file in "maze.py:Maze"; "" if there is none."""
    path = Path(text.partition(".py")[0] + ".py")
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else ""


def short(value: float) -> str:
    """The shortest text of a number that has its value: "0.9", "1", "0.1234567"."""
    return text if float(text := f"{value:g}") == value else repr(float(value))
