"""From the probabilities of state components to that of a part of the state, or of all of it."""

from __future__ import annotations

from chunked_td._numba import kernel

WHOLE = -1
"""Stands for all components together, where the number of a reward stands for those that decide it."""


@kernel
def part_chance(chances, parts, part):
    """Π_j P̂(x'^j|x,a) over the components of a part.

    Args:
      chances: float64[c], of what came. parts: bool[d, c], which components decide reward i.
      part: a reward's number, or WHOLE.
    """
    product = 1.0
    for j in range(chances.size):
        if part < 0 or parts[part, j]:
            product *= chances[j]
    return product
