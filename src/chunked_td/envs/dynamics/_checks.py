"""Checks of what an environment is built from. Errors name the argument, its value and what it takes."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return `value` as an int if it is a whole number in [least, most]."""
    accepted = f"an integer >= {least}" if most is None else f"an integer in [{least}, {most}]"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be {accepted}, got {value!r} ({type(value).__name__})")
    number = int(value)
    if number < least or (most is not None and number > most):
        raise ValueError(f"{name} must be {accepted}, got {value!r}")
    return number


def finite(name: str, value: Any) -> float:
    """Return `value` as a float if it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a finite number, got {value!r} ({type(value).__name__})")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return float(value)


def chance(name: str, value: Any) -> float:
    """Return `value` as a float if it is a probability."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a probability in [0, 1], got {value!r} ({type(value).__name__})")
    number = float(value)
    if not 0 <= number <= 1:  # also refuses NaN
        raise ValueError(f"{name} must be a probability in [0, 1], got {value!r}")
    return number


def flag(name: str, value: Any) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r} ({type(value).__name__})")
    return value
