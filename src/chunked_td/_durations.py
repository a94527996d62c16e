"""Durations as text."""

from __future__ import annotations


def duration_text(seconds: float) -> str:
    """A duration with a unit that suits it: "37 s", "12 min", "3.4 h"."""
    if seconds < 1:
        return "under a second"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def timing_text(seconds: float) -> str:
    """A measured time with three digits: "1.23 ms", "45.6 µs"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
