"""Lineage traces: the trace of row r decays at x by the fraction of arrivals at x that followed r.

Bootstrapping from V(x) gives row r the experience of the other rows at x; r already has its own. C(r, x) is the number
of arrivals at x that were the first since r's latest visit in the episode; n(x) is the number of all arrivals,
including starts of episodes. Both include the current arrival. The initial value of x counts as `prior` arrivals.

    g_k(r) = λ_k C(r, x_k) / (n(x_k) + prior)
    e_t(r) = γ^(t − t_r) min_{t_r < k ≤ t} g_k(r),   e_t(row_t) = 1
    Q ← Q + α δ_t e_t

where t_r is the time of r's latest visit and λ_k is from any λ source; λ_k = 1 leaves only the shares.
Weights depend on the past only, so the fixed point is the true value if λ_k is a function of the state. At a state that
only r leads to, the trace decays as in a λ-return. At a state with several predecessors, each of them bootstraps.

An arrival that is not the first since t_r is a return. The share of a return is also C/(n + prior) ("share"), or it is
0 ("zero").

With `counts="steps"`, for large tables, N(row_{k−1}, x_k), the number of times that the latest step was made, replaces
C(r, x_k), for all rows r. The weight is the same if no paths from r diverge and paths merge at one state only. It is
too large if paths merge at several states in sequence (the product of the shares would be exact), and too small if
paths from r diverge and merge again.

Memory: two numbers per observed pair (r, x), or per step (row, next x). Time per step: proportional to the number of
rows of the episode so far.
Related: Sutton and Singh's (1994) TD(n/n), with shares of one step; trajectory-aware traces (Daley et al. 2023).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from chunked_td._checks import check_choice, check_not_negative
from chunked_td._link import kernel, zeros
from chunked_td.traces import Trace, View, clear_entries, clear_in_python, grown_rows, mark, reinforce

RETURNS, COUNTS = ("share", "zero"), ("pairs", "steps")


@dataclass(frozen=True)
class Lineage(View):
    """Lineage traces: the trace of row r at state x is at most its share of the arrivals, C(r, x)/(n(x) + prior).

    It never increases at later states. `view=Lineage(…)`, or "lineage".

    Args:
      prior: number of arrivals that the initial value of a state counts for, from 0. A larger prior decays traces
        faster at new states.
      returns: trace factor at a state that the episode revisits: its "share", or "zero".
      counts: "pairs" of a row and any later state, or "steps": a row and the next state, for large tables.
    """

    prior: float = 1.0
    returns: str = "share"
    counts: str = field(default="pairs", repr=False)

    checks: ClassVar = {
        "prior": check_not_negative,
        "returns": partial(check_choice, choices=RETURNS),
        "counts": partial(check_choice, choices=COUNTS),
    }

    def empty(self, rows: int, components: int, capacity: int) -> LineageTrace:
        """Return traces of this type before the first episode."""
        entries, zero = Trace.empty(rows, components, capacity), self.returns == "zero"
        settings = {"prior": self.prior, "zero": zero, "steps": self.counts == "steps"}
        return zeros(LineageTrace, {"rows": rows, "slots": 1024}, entries=entries, **settings)


class LineageTrace(NamedTuple):
    """State of lineage traces. Equations: module docstring."""

    entries: Trace  # e
    faded: Annotated[np.ndarray, "float64[rows]"]  # γ^(t − t_r)
    visited: Annotated[np.ndarray, "int64[rows]"]  # t_r, in steps since the first episode
    arrivals: Annotated[np.ndarray, "int64[rows, 2]"]  # by state: n(x), and the time of the latest arrival
    shared: Annotated[np.ndarray, "int64[slots, 2]"]  # hash table of C(r, x): key, or 0 if free; number
    clock: Annotated[np.ndarray, "int64[2]"]  # the time; the number of keys
    prior: float
    zero: bool  # whether the share of a return is 0
    steps: bool  # whether N of single steps replaces C

    clear, grown, end = clear_in_python, grown_rows, kernel(clear_entries)

    def with_room(self, steps: int) -> LineageTrace:
        """Return the same traces with room for the pairs of n more steps."""
        slots = self.shared.shape[0]
        while slots < 2 * (int(self.clock[1]) + int(new_pairs(self, steps))):
            slots *= 2
        return self if slots == self.shared.shape[0] else self._replace(shared=rehashed(self.shared, slots))

    def check_saved(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Raise a ValueError for arrays of a file in which a kernel's search would not terminate."""
        shared, clock = arrays["shared"], arrays["clock"]
        keys, slots = shared[shared[:, 0] != 0, 0], shared.shape[0]
        if slots < self.shared.shape[0] or slots & (slots - 1) or keys.size != clock[1] or 2 * keys.size > slots:
            least = f"a power of 2 of slots from {self.shared.shape[0]}, at most half of them taken"
            raise ValueError(f"trace_shared must have {least}, as trace_clock counts them, got {slots}")
        if np.unique(keys).size != keys.size or arrays["visited"].max(initial=0) > clock[0]:
            raise ValueError("trace_shared, trace_visited: pairs must be unique, and no visit may be in the future")

    @kernel
    def has_room(trace, steps):
        """Return whether there is room for the pairs of n steps."""
        return trace.shared.shape[0] >= 2 * (trace.clock[1] + new_pairs(trace, steps))

    @kernel
    def update(trace, agent, step, row, step_size, ended):
        """Update traces and values. Equations: module docstring."""
        memory = agent.memory
        arrive(trace, step.state, agent.rule.discount, memory.lambda_t)
        mark(trace.entries, row, True)
        trace.faded[row] = 1.0
        trace.visited[row] = trace.clock[0]
        reinforce(agent.tables.values, trace.entries, step_size, memory.delta_t)


def arrive(trace, state, discount, lambda_t):
    """Count the arrival at `state` for every live row, and decay the row's trace by its share."""
    entries = trace.entries
    step = count_step(trace, state) if trace.steps else 0
    trace.clock[0] += 1
    trace.arrivals[state, 0] += 1
    number, latest = trace.arrivals[state, 0] + trace.prior, trace.arrivals[state, 1]
    first = first_slot(state)
    for k in range(entries.count[0]):
        row = entries.rows[k]
        is_return = latest > trace.visited[row]
        share = (step if trace.steps else count_pair(trace, state, row, first, not is_return)) / number
        if is_return and trace.zero:
            share = 0.0
        trace.faded[row] *= discount
        for i in range(lambda_t.size):
            passed = trace.faded[row] * lambda_t[i] * share
            entries.weight[k, i] = min(discount * entries.weight[k, i], passed)
    trace.arrivals[state, 1] = trace.clock[0]


def count_step(trace, state):
    """Return N(row, state) for the row of the previous step, including this arrival; 0 at the start of an episode."""
    entries = trace.entries
    for k in range(entries.count[0]):
        if trace.visited[entries.rows[k]] == trace.clock[0]:
            return count_pair(trace, state, entries.rows[k], first_slot(state), True)
    return 0


def count_pair(trace, state, row, first, is_new):
    """Return C(row, state), incremented if `is_new`; first: `first_slot` of the state."""
    shared, key = trace.shared, (state << 32) + row + 1
    place = find_slot(shared, key, first + row)
    if is_new:
        if shared[place, 0] == 0:
            shared[place, 0] = key
            trace.clock[1] += 1
        shared[place, 1] += 1
    return shared[place, 1]


def new_pairs(trace, steps):
    """Return the largest number of pairs that n steps add: one per step, or one per live row and step."""
    if trace.steps:
        return steps
    return min(steps * trace.entries.count[0] + steps * (steps - 1) // 2, steps * trace.visited.size)


def first_slot(state):
    """Return the first slot of the search for pairs with a state; the slots of its rows are adjacent."""
    return state * 2654435761 >> 7


def find_slot(shared, key, begin):
    """Return the place of the key, or the free place to insert it."""
    mask = shared.shape[0] - 1
    k = begin & mask
    while shared[k, 0] != 0 and shared[k, 0] != key:
        k = (k + 1) & mask
    return k


def rehashed(shared: np.ndarray, slots: int) -> np.ndarray:
    """Return the same pairs in a table with n slots. In NumPy: most tables grow while they are small."""
    pairs = shared[shared[:, 0] != 0]
    state, row = (pairs[:, 0] - 1) >> 32, (pairs[:, 0] - 1) & 0xFFFFFFFF
    place, larger = (first_slot(state) + row) & (slots - 1), np.zeros((slots, 2), np.int64)
    while pairs.size:
        free = larger[place, 0] == 0
        larger[place[free]] = pairs[free]  # one of the pairs that search at the same place
        waits = larger[place, 0] != pairs[:, 0]
        pairs, place = pairs[waits], (place[waits] + 1) & (slots - 1)
    return larger
