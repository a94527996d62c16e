"""What commands share: checking counts, reading settings, naming folders, plain figures."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chunked_td.learners.schedule import Schedule


def check_at_least_one(name: str, value: int) -> None:
    """Refuse a count of nothing before anything is begun."""
    if value < 1:
        raise ValueError(f"--{name.replace('_', '-')} must be a whole number from 1, got {value}")


def keywords_of(name: str, texts: Sequence[str]) -> dict[str, Any]:
    """Keyword arguments from texts like `is_slippery=False`; values are Python literals, or text as it stands."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise ValueError(f"--{name} must be key=value each, got {text!r}")
        try:
            found[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[key] = value
    return found


def schedule_of(name: str, texts: Sequence[str]) -> Schedule | None:
    """A schedule from texts like `0=1.0 500=0.1`, episode and value; None where there are none."""
    from chunked_td.learners.schedule import Schedule

    if not texts:
        return None
    try:
        return Schedule(tuple((int(at), float(value)) for at, _, value in (text.partition("=") for text in texts)))
    except ValueError as problem:
        raise ValueError(f"--{name} must be episode=value each, got {' '.join(texts)!r} ({problem})") from None


def folder_name(*parts: Any) -> str:
    """Parts joined into a name that is safe for a folder."""
    text = "-".join(str(part) for part in parts)
    return "".join(c if c.isalnum() or c in "-._" else "_" for c in text)


def new_axes() -> tuple[Any, Any]:
    """A matplotlib figure with one pair of axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
