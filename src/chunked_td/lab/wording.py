"""Numbers and lists as text, for tables, claims and reports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number_text(value: float, scale: float | None = None) -> str:
    """A score as text: whole numbers where `scale` (by default the value) is large, four decimals where small."""
    if np.isnan(value):
        return "–"
    large = abs(value if scale is None else scale) >= 20
    value = round(value, 9)  # the last bits of a mean differ between processors: 1918.5 is 1,918 on all of them
    return (f"{value:,.0f}" if large else f"{value:.4f}").replace("-", "−")


def rounded_text(value: float, digits: int) -> str:
    """So many significant digits, without an exponent between 0.0001 and a million: "−1,080", "0.25"."""
    rounded = float(f"{value:.{digits}g}")
    plain = 1e-4 <= abs(rounded) < 1e6
    whole = plain and abs(rounded) >= 10 ** (digits - 1)
    return (f"{rounded:,.0f}" if whole else f"{value:{'#' if plain else ''}.{digits}g}").replace("-", "−")


def spread_text(mean: float, sd: float | None) -> str:
    """A mean with its standard deviation, where there is one: "669 ± 17"."""
    return number_text(mean) + ("" if sd is None or np.isnan(sd) else f" ± {number_text(sd, mean)}")


def seeds_text(count: int) -> str:
    """How many seeds: "1 seed", "10 seeds"."""
    return "1 seed" if count == 1 else f"{count} seeds"


def score_text(value: float) -> str:
    """A relative score: two decimals; "diverged" for −∞."""
    if np.isnan(value):
        return "–"
    return "diverged" if value == -np.inf else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def estimate_text(found: Sequence[float]) -> str:
    """A relative score with its interval: "0.93 [0.88, 0.97]"."""
    value, low, high = map(score_text, found)
    return f"{value} [{low}, {high}]"


def step_size_text(exponent: int, base: float = 0.1) -> str:
    """A step size as the paper writes it: "0.1 × 2⁻⁵"."""
    return f"{base:g} × 2{str(exponent).translate(SUPERSCRIPTS)}"


def count_text(count: int, noun: str) -> str:
    """As "1 problem", "3 problems"; nouns in -y are families."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def list_text(names: Sequence[str]) -> str:
    """A list in words: "A, B and C"."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1] if names else ""
