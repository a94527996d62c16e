"""Numbers and lists as text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chunked_td.statistics import Estimate


def rounded(value: float, digits: int) -> str:
    """A number of significant digits, without an exponent between 0.0001 and a million: "−1,080", "0.25"."""
    near = float(f"{value:.{digits}g}")
    plain = 1e-4 <= abs(near) < 1e6
    whole = plain and abs(near) >= 10 ** (digits - 1)
    return (f"{near:,.0f}" if whole else f"{value:{'#' if plain else ''}.{digits}g}").replace("-", "−")


def signed(found: Estimate) -> str:
    """A difference with its sign: "+0.03 (−0.04 to +0.10)"."""
    if np.isnan(found.low):
        return f"{found.value:+.3g}".replace("-", "−")
    spec = f"+.{found.places}f"
    value, low, high = (f"{round(end, found.places) + 0.0:{spec}}" for end in found)
    return f"{value} ({low} to {high})".replace("-", "−")


def seeds_text(count: int) -> str:
    """Number of seeds: "1 seed", "10 seeds"."""
    return "1 seed" if count == 1 else f"{count} seeds"


def listed(names: Sequence[str], most: int = 6) -> str:
    """A list in words: "A, B and C"; beyond `most` names the rest is counted."""
    shown = list(names) if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} more"]
    return ", ".join(shown[:-1]) + " and " + shown[-1] if len(shown) > 1 else "".join(shown)
