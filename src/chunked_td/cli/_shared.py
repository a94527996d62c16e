"""What `train` and `compare` share: checking counts, naming folders, plain figures."""

from __future__ import annotations

from typing import Any


def check_at_least_one(name: str, value: int) -> None:
    """Refuse a count of nothing before anything is begun."""
    if value < 1:
        raise ValueError(f"--{name.replace('_', '-')} must be a whole number from 1, got {value}")


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
