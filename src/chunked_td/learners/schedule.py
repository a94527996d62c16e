"""Schedules over episodes, for exploration and step sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from chunked_td._checks import check_finite, check_flag, check_positive, check_unit

_LAST = 2**62


@dataclass(frozen=True)
class Schedule:
    """A number per episode, interpolated between given points.

    Args:
      points: (episode, value) pairs in order. The value is constant before the first and after the last.
      hold: keep each value until the next point instead of interpolating linearly.

    Example: ε from 1 to 0.1 over 500 episodes is `Schedule(((0, 1.0), (500, 0.1)))`.
    """

    points: tuple[tuple[int, float], ...]
    hold: bool = False

    def __post_init__(self):
        accepted = "(episode, value) pairs with rising episodes"
        try:
            points = tuple((_whole(episode), check_finite("points", value)) for episode, value in self.points)
        except (TypeError, ValueError):
            raise ValueError(f"points must be {accepted}, got {self.points!r}") from None
        episodes = [episode for episode, _ in points]
        if not points or episodes != sorted(set(episodes)):
            raise ValueError(f"points must be {accepted}, got {self.points!r}")
        check_flag("hold", self.hold)
        object.__setattr__(self, "points", points)

    def __call__(self, episode: int) -> float:
        """Return the value in an episode, counted from 0."""
        return float(self.over(np.array([episode]))[0])

    def over(self, episodes: np.ndarray) -> np.ndarray:
        """Return the values in several episodes."""
        episodes = np.asarray(episodes)
        at = np.array([episode for episode, _ in self.points], dtype=np.float64)
        values = np.array([value for _, value in self.points])
        before = np.clip(np.searchsorted(at, episodes, side="right") - 1, 0, len(at) - 1)
        if self.hold or len(at) == 1:
            return values[before]
        before = np.minimum(before, len(at) - 2)
        fraction = np.clip((episodes - at[before]) / (at[before + 1] - at[before]), 0.0, 1.0)
        return values[before] * (1.0 - fraction) + values[before + 1] * fraction  # exact at both ends


def _whole(episode: Any) -> int:
    """Return an episode as an int; whole floats are accepted."""
    number: Any = episode if isinstance(episode, Real) and not isinstance(episode, bool) else math.nan
    if abs(number) < _LAST and int(number) == number:
        return int(number)
    raise ValueError(f"points: {episode!r} is not an episode")


def linear(start: float, end: float, episodes: int) -> Schedule:
    """Return a linear schedule from `start` to `end` over `episodes`, constant afterwards."""
    if isinstance(episodes, bool) or not isinstance(episodes, Integral) or not 1 <= episodes < _LAST:
        raise ValueError(f"episodes must be a whole number, at least 1, got {episodes!r}")
    return Schedule(((0, start), (episodes, end)))


def check_schedule(name: str, value: Any, positive: bool) -> float | Schedule:
    """Check a number or a Schedule of numbers, each positive (step sizes) or in [0, 1] (exploration)."""
    check = check_positive if positive else check_unit
    if isinstance(value, Schedule):
        for _, number in value.points:
            check(name, number)
        return value
    return check(name, value)


def over_episodes(value: float | Schedule, episodes: int) -> float | np.ndarray:
    """Return the values of the first n episodes: a number if constant, or float64[episodes]."""
    return value.over(np.arange(episodes)) if isinstance(value, Schedule) else value


def at_episode(value: float | Schedule, episode: int) -> float:
    """Return the value in an episode."""
    return value(episode) if isinstance(value, Schedule) else value


def scaled(schedule: Schedule | None, number: float) -> float | Schedule:
    """Return a number times a schedule of factors; None is a factor of 1."""
    if schedule is None:
        return number
    return Schedule(tuple((episode, factor * number) for episode, factor in schedule.points), schedule.hold)
