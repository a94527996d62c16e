"""The acyclic backward pass (Prop. 1) against the same loop in C."""

from __future__ import annotations

import numpy as np

from benchmarks.c_rivals import NOTICE, library, prepared
from benchmarks.timing import Row, at_most, fastest
from chunked_td._link import compiled
from chunked_td.traces import backward_pass


def episode(components: int, length: int, rows: int = 20_000):
    """Values, rows visited, TD errors and λs of a made-up acyclic episode."""
    rng = np.random.default_rng(0)
    visited = np.sort(rng.choice(rows, length, replace=False))
    shape = (length, components)
    return np.zeros((rows, components)), visited, rng.normal(size=shape), rng.random(shape)


def measure(quick: bool) -> list[Row]:
    """One and eight reward components."""
    if library() is None:
        return [Row("backward pass", None, None, None, note=NOTICE)]
    rows, length, times = [], 10_000, 2 if quick else 20
    for components in (1, 8):
        ours, theirs = episode(components, length), episode(components, length)

        loop = compiled(backward_pass)

        def ours_once(data=ours, loop=loop) -> int:
            for _ in range(times):
                loop(*data, length, 0.99, 0.1)
            return times * length

        in_c_once = prepared("backward_pass", *theirs, length, components, 0.99, 0.1)

        def in_c(once=in_c_once) -> int:
            for _ in range(times):
                once()
            return times * length

        ours_once()
        best = fastest(5 if quick else 30, ours_once, in_c)
        rows.append(at_most(f"backward pass, {components} component(s)", *best, 1.5, "C -O3"))
    return rows
