"""Backward view: sparse eligibility traces, and the backward pass for whole episodes.

`Trace` holds only the entries that are not zero, so the cost of a step is the number of live entries, never |S||A|.
A row, or table entry, is a state (state values) or a state–action pair (action values). Each row has d reward
components.

`backward_pass` computes the same numbers in one sweep. In an acyclic episode no step reads a value that was written
in that episode. So all TD errors may be computed first, and all updates made from the end in O(1) per step (Prop. 1).
In a cyclic episode it is the offline λ-return update (Eq. 2 and 4), with values constant during the episode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._link import enlarged, kernel, natural, zeros
from chunked_td._settings import KernelSettings

LIMIT = 1.0e100
"""Largest update, |α δ_t| or |α u_t|; a larger one counts as divergence.

Traces are at most the number of steps if λ is in [0, 1]. So values stay finite while no step exceeds this limit, and
divergence needs no other check.
"""


@dataclass(frozen=True)
class View(KernelSettings):
    """Base class of trace types with settings, including user-defined ones: `view=Mine(…)`.

    `empty` returns the trace: a NamedTuple that declares its arrays, with two kernels,

        update(trace, m, step, row, step_size, ended)   after every transition; λ_t and δ_t are in `m.memory`
        end(trace, m, coins, step_size)                 at the end of an episode

    and two methods: `clear()` resets the episode, `grown(rows, capacity)` returns a copy with larger arrays. A trace
    type with a `Trace` in its field `entries` can use `clear_entries`, `clear_in_python` and `grown_rows`.

    The arrays are saved with the learner. A dimension that grows with an episode is called `capacity`, `T` or `slots`.
    Numbers that kernels use as indices state their bounds, as in "int64[capacity] in [0, rows)".
    """

    def empty(self, rows: int, components: int, capacity: int) -> Any:
        """The trace before the first episode.

        Args:
          rows: number of rows of the value table. components: d. capacity: maximum number of live entries.
        """
        raise TypeError(f"view {self!r} must have a method empty(rows, components, capacity)")


class Trace(NamedTuple):
    """Live entries `rows[:count]` with weights `weight[:count]`; `slot[row]` is the index of a row's entry, or −1."""

    rows: Annotated[np.ndarray, "int64[capacity] in [0, rows)"]
    weight: Annotated[np.ndarray, "float64[capacity, d]"]
    slot: Annotated[np.ndarray, "int32[rows], unsaved"]
    count: Annotated[np.ndarray, "int64[1], unsaved"]  # pyright: ignore[reportIncompatibleMethodOverride]

    @classmethod
    def empty(cls, rows: int, components: int, capacity: int = 64) -> Trace:
        """A trace with no live entry."""
        return zeros(cls, {"capacity": capacity, "d": components}, slot=np.full(rows, -1, np.int32))

    @kernel
    def update(trace, agent, step, row, step_size, ended):
        """e ← γ λ_t e; mark the row; Q ← Q + α δ_t e."""
        rule, memory = agent.rule, agent.memory
        decay(trace, rule.discount, memory.lambda_t, rule.cutoff)
        mark(trace, row, rule.replacing)
        reinforce(agent.tables.values, trace, step_size, memory.delta_t)

    @kernel
    def end(trace, agent, coins, step_size):
        """Clear the trace: updates are never deferred to the end of an episode."""
        clear(trace)

    def clear(self) -> None:
        """Set every trace to zero, as the kernel `clear` does; for episodes played in Python."""
        self.slot[self.rows[: self.count[0]]] = -1
        self.count[0] = 0

    def grown(self, rows: int, capacity: int) -> Trace:
        """The same trace with larger arrays: `rows` table rows and `capacity` live entries."""
        slot = np.full(rows, -1, np.int32)
        slot[: self.slot.size] = self.slot
        return enlarged(self, capacity=capacity)._replace(slot=slot)


def clear(trace):
    """Set every trace to zero (start of an episode)."""
    for k in range(trace.count[0]):
        trace.slot[trace.rows[k]] = -1
    trace.count[0] = 0


def clear_entries(trace, agent, coins, step_size):
    """`end` of a trace type whose updates are never deferred to the end of an episode."""
    clear(trace.entries)


def clear_in_python(trace: Any) -> None:
    """`clear` of a trace type: reset the episode and keep learned arrays; for episodes played in Python."""
    trace.entries.clear()


def grown_rows(trace: Any, rows: int, capacity: int) -> Any:
    """`grown` of a trace type: a copy with more table rows, which start at zero, and more live entries."""
    return enlarged(trace, rows=rows)._replace(entries=trace.entries.grown(rows, capacity))


def decay(trace, discount, lambda_t, cutoff):
    """e^i ← γ λ_t^i e^i for every live entry; entries that fall to `cutoff` or below are dropped.

    Args:
      discount: γ.
      lambda_t: float64[d].
      cutoff: 0 keeps the traces exact.
    """
    k = 0
    count = trace.count[0]
    while k < count:
        largest = 0.0
        for i in range(lambda_t.size):
            trace.weight[k, i] *= discount * lambda_t[i]
            largest = max(largest, abs(trace.weight[k, i]))
        if largest > cutoff:
            k += 1
            continue
        count -= 1
        trace.slot[trace.rows[k]] = -1
        if k < count:  # the last entry moves to the free index; the next iteration decays it there
            row = trace.rows[count]
            trace.rows[k] = row
            trace.slot[row] = k
            for i in range(lambda_t.size):
                trace.weight[k, i] = trace.weight[count, i]
    trace.count[0] = count


def live_slot(trace, row):
    """Index of a row among the live entries; a new entry has weight 0."""
    k = trace.slot[row]
    if k < 0:
        k = trace.count[0]
        trace.count[0] = k + 1
        trace.rows[k] = row
        trace.slot[row] = k
        for i in range(trace.weight.shape[1]):
            trace.weight[k, i] = 0.0
    return k


def mark(trace, row, replacing):
    """e(row) ← e(row) + 1 (accumulating) or e(row) ← 1 (replacing)."""
    k = live_slot(trace, row)
    for i in range(trace.weight.shape[1]):
        trace.weight[k, i] = 1.0 if replacing else trace.weight[k, i] + 1.0


def reinforce(values, trace, step_size, delta_t):
    """Q^i(row) ← Q^i(row) + α δ_t^i e^i(row) for every live entry.

    Args:
      values: float64[rows, d], updated.
      delta_t: float64[d].
    """
    for k in range(trace.count[0]):
        row = trace.rows[k]
        for i in range(delta_t.size):
            values[row, i] += step_size * delta_t[i] * trace.weight[k, i]


def backward_pass(values, rows, delta, lambda_, length, discount, step_size):
    """All updates of an episode in one sweep (Prop. 1), O(1) per step.

        u_t = δ_t + γ λ_{t+1} u_{t+1},   Q(row_t) ← Q(row_t) + α u_t,   t = T−1, …, 0

    Args:
      values: float64[rows, d], updated.
      rows: int64[≥T], the rows visited at t in 0..T−1.
      delta: float64[≥T, d], TD errors; overwritten with u.
      lambda_: float64[≥T, d]; λ_t of the transition that leaves the state at t. λ_0 is not read.
      length: T.
    Returns:
      Whether every update was finite and within `LIMIT`.
    """
    largest = min(LIMIT / step_size, 1.0e300)
    sound = True
    if delta.shape[1] == 1:
        u = weight = 0.0  # in registers: no step waits for a write of the step before it
        t = length
        while t > 0:  # written so that the compiler sees that t is not negative
            t -= 1
            u = delta[t, 0] + weight * u
            weight = discount * lambda_[t, 0]
            delta[t, 0] = u
            values[natural(rows[t]), 0] += step_size * u
            sound &= abs(u) <= largest  # also false for NaN
        return sound
    t = length
    while t > 0:
        t -= 1
        row = natural(rows[t])
        if t + 1 < length:
            for i in range(delta.shape[1]):
                delta[t, i] += discount * lambda_[t + 1, i] * delta[t + 1, i]
        for i in range(delta.shape[1]):
            u = delta[t, i]
            values[row, i] += step_size * u
            sound &= abs(u) <= largest
    return sound
