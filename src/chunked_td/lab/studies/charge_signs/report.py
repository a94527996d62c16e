"""Text of the two signs of Accumulated-Charge; its figures are the default ones."""

from __future__ import annotations

PUBLISHED = (
    "Nothing: this experiment is ours. It asks where the difference between the signs, which the network has, comes "
    "from, and what removes it."
)
