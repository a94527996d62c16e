"""Measuring: rivals take turns, the fastest turn of each counts, and what comes out is a ratio."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes:
      name: what was measured.
      ours, rival: seconds per unit of work; rival is None where there is none.
      ratio: what the target is about.
      target: in words, such as "≥ 10".
      holds: whether the target is met; None where there is none.
      note: against what.
    """

    name: str
    ours: float | None
    rival: float | None
    ratio: float | None
    target: str = ""
    holds: bool | None = None
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def fastest(turns: int, *rivals: Callable[[], float], clock: Callable[[], float] = time.process_time) -> list[float]:
    """Seconds per unit of work of each rival, in its fastest of so many turns.

    Args:
      rivals: each does its work when called and returns how many units that was. Processor time is measured, so
        that other programs disturb little.
    """
    best = [float("inf")] * len(rivals)
    for _ in range(turns):
        for k, rival in enumerate(rivals):
            begin = clock()
            units = rival()
            best[k] = min(best[k], (clock() - begin) / units)
    return best


def at_least(name: str, ours: float, rival: float, target: float, note: str) -> Row:
    """How many times faster than the rival we are."""
    return Row(name, ours, rival, rival / ours, f"≥ {target:g}", rival / ours >= target, note)


def at_most(name: str, ours: float, rival: float, target: float, note: str) -> Row:
    """How many times the rival's time we take."""
    return Row(name, ours, rival, ours / rival, f"≤ {target:g}", ours / rival <= target, note)
