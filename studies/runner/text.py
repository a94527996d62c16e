"""Numbers and lists as text, the same in tables, verdicts and pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

DIVERGED = -1e6
"""Normalised scores below this count as −∞, the score of a run that diverged; so do means that contain one."""
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number_text(value: float, scale: float | None = None) -> str:
    """A score as text: whole numbers where `scale` (by default the value) is large, four decimals where small."""
    if np.isnan(value):
        return "–"
    large = abs(value if scale is None else scale) >= 20
    value = round(value, 9)  # the last bits of a mean differ between processors: 1918.5 is 1,918 on all of them
    return (f"{value:,.0f}" if large else f"{value:.4f}").replace("-", "−")


def spread_text(mean: float, sd: float | None) -> str:
    """A mean with its standard deviation, if there is one: "669 ± 17"."""
    return number_text(mean) + ("" if sd is None or np.isnan(sd) else f" ± {number_text(sd, mean)}")


def seeds_text(count: int) -> str:
    """A number of seeds: "1 seed", "10 seeds"."""
    return "1 seed" if count == 1 else f"{count} seeds"


def score_text(value: float) -> str:
    """A normalised score with two decimals, "0.93"; −∞ for a method that diverged."""
    if np.isnan(value):
        return "–"
    return "−∞" if value < DIVERGED else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def minus(text: str) -> str:
    """The text with the sign for minus in numbers."""
    return text.replace(" -", " −").replace("[-", "[−").replace("−--", "---")


def estimate_text(found: Sequence[float]) -> str:
    """A relative score with its interval: "0.93 [0.88, 0.97]"."""
    value, low, high = map(score_text, found)
    return f"{value} [{low}, {high}]"


def step_size_text(step_size: float, base: float = 0.1) -> str:
    """A step size as the paper writes it: "0.1 × 2⁻⁵"."""
    return f"{base:g} × 2{str(round(np.log2(step_size / base))).translate(SUPERSCRIPTS)}"


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = [columns, ("---",) * len(columns), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)
