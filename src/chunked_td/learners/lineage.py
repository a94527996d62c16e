"""Lineage traces: how much credit passes a state depends on the row that the credit is for.

Bootstrapping from V(x) helps a row r by what others have brought to x; what r itself has brought there it knows
already. C(r, x) counts the arrivals at x that are the first since r's latest visit in the episode, n(x) all arrivals,
starts of episodes included, the present one too. The value that x had at first counts as `prior` arrivals.

    g_k(r) = λ_k C(r, x_k) / (n(x_k) + prior)
    e_t(r) = γ^(t − t_r) min_{t_r < k ≤ t} g_k(r),   e_t(row_t) = 1
    Q ← Q + α δ_t e_t

where t_r is r's latest visit and λ_k any λ source; 1 gives the shares alone.
Weights depend on the past only, so that the fixed point is the true value where λ_k is that of a state. A state that
only r leads to is passed as a λ-return passes it; where many rows meet, each bootstraps.

An arrival that is not the first since t_r is a return. The share of a return is C/(n + prior), too ("share"), or 0.

With `counts="steps"`, for large tables, N(row_{k−1}, x_k), how often the step just made was made, stands in place of
C(r, x_k), for all rows r. The weight is the same where no way from r parts, and ways meet at one state only. It is too
large where they meet at several states, one after the other (there the product of the shares would be right), and too
small where ways from r part and meet again.

Memory: two numbers per pair (r, x) that occurred, or per step (row, next x). Cost of a step: the rows of the episode so
far.
Near relatives: Sutton and Singh's (1994) TD(n/n), with shares of one step; trajectory-aware traces (Daley et al. 2023).
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
    """Lineage traces: credit for a row passes a state by its share of the arrivals there, C(r, x)/(n(x) + prior).

    It never rises again at later states. `view=Lineage(…)`, or "lineage".

    Args:
      prior: arrivals that the first value of a state counts for, from 0. The larger, the sooner credit stops at states
        that are new.
      returns: what passes a state that an episode comes back to: its "share", or "zero".
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
        """Traces of this kind before the first episode."""
        entries, zero = Trace.empty(rows, components, capacity), self.returns == "zero"
        settings = {"prior": self.prior, "zero": zero, "steps": self.counts == "steps"}
        return zeros(LineageTrace, {"rows": rows, "slots": 1024}, entries=entries, **settings)


class LineageTrace(NamedTuple):
    """The traces of the module's text."""

    entries: Trace  # e
    faded: Annotated[np.ndarray, "float64[rows]"]  # γ^(t − t_r)
    visited: Annotated[np.ndarray, "int64[rows]"]  # t_r on a clock that never stops
    arrivals: Annotated[np.ndarray, "int64[rows, 2]"]  # by state: n(x), and when the latest arrival was
    shared: Annotated[np.ndarray, "int64[slots, 2]"]  # hash table of C(r, x): key, or 0 where free; number
    clock: Annotated[np.ndarray, "int64[2]"]  # the time; how many keys there are
    prior: float
    zero: bool  # whether nothing passes a return
    steps: bool  # whether C counts single steps

    clear, grown, end = clear_in_python, grown_rows, kernel(clear_entries)

    def with_room(self, steps: int) -> LineageTrace:
        """The same traces with room for the pairs of this many more steps."""
        slots = self.shared.shape[0]
        while slots < 2 * (int(self.clock[1]) + int(new_pairs(self, steps))):
            slots *= 2
        return self if slots == self.shared.shape[0] else self._replace(shared=rehashed(self.shared, slots))

    def check_saved(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Refuse, with a ValueError, arrays of a file that the kernels could search without end."""
        shared, clock = arrays["shared"], arrays["clock"]
        keys, slots = shared[shared[:, 0] != 0, 0], shared.shape[0]
        if slots < self.shared.shape[0] or slots & (slots - 1) or keys.size != clock[1] or 2 * keys.size > slots:
            least = f"a power of 2 of slots from {self.shared.shape[0]}, at most half of them taken"
            raise ValueError(f"trace_shared must have {least}, as trace_clock counts them, got {slots}")
        if np.unique(keys).size != keys.size or arrays["visited"].max(initial=0) > clock[0]:
            raise ValueError("trace_shared, trace_visited: a pair must be there once, and no visit lie in the future")

    @kernel
    def has_room(trace, steps):
        """Whether the pairs of this many steps fit in."""
        return trace.shared.shape[0] >= 2 * (trace.clock[1] + new_pairs(trace, steps))

    @kernel
    def update(trace, agent, step, row, step_size, ended):
        """The update of the module's text."""
        memory = agent.memory
        arrive(trace, step.state, agent.rule.discount, memory.lambda_t)
        mark(trace.entries, row, True)
        trace.faded[row] = 1.0
        trace.visited[row] = trace.clock[0]
        reinforce(agent.tables.values, trace.entries, step_size, memory.delta_t)


def arrive(trace, state, discount, lambda_t):
    """Count the arrival in `state` for every live row, and weaken the row's trace by its share."""
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
    """N(row, state) of the row visited at the step before, the present step included; 0 at the start of an episode."""
    entries = trace.entries
    for k in range(entries.count[0]):
        if trace.visited[entries.rows[k]] == trace.clock[0]:
            return count_pair(trace, state, entries.rows[k], first_slot(state), True)
    return 0


def count_pair(trace, state, row, first, is_new):
    """C(row, state), with one arrival more where `is_new`; first: `first_slot` of the state."""
    shared, key = trace.shared, (state << 32) + row + 1
    place = find_slot(shared, key, first + row)
    if is_new:
        if shared[place, 0] == 0:
            shared[place, 0] = key
            trace.clock[1] += 1
        shared[place, 1] += 1
    return shared[place, 1]


def new_pairs(trace, steps):
    """The most pairs that this many steps add: one at each, or one per live row."""
    if trace.steps:
        return steps
    return min(steps * trace.entries.count[0] + steps * (steps - 1) // 2, steps * trace.visited.size)


def first_slot(state):
    """Where the search for pairs with a state begins; its rows lie close together from there on."""
    return state * 2654435761 >> 7


def find_slot(shared, key, begin):
    """Place of the key, or the free place where it belongs."""
    mask = shared.shape[0] - 1
    k = begin & mask
    while shared[k, 0] != 0 and shared[k, 0] != key:
        k = (k + 1) & mask
    return k


def rehashed(shared: np.ndarray, slots: int) -> np.ndarray:
    """The same pairs in a table with so many slots. NumPy does it: tables that grow are small when a program starts."""
    pairs = shared[shared[:, 0] != 0]
    state, row = (pairs[:, 0] - 1) >> 32, (pairs[:, 0] - 1) & 0xFFFFFFFF
    place, larger = (first_slot(state) + row) & (slots - 1), np.zeros((slots, 2), np.int64)
    while pairs.size:
        free = larger[place, 0] == 0
        larger[place[free]] = pairs[free]  # of those that search at the same place, one gets it
        waits = larger[place, 0] != pairs[:, 0]
        pairs, place = pairs[waits], (place[waits] + 1) & (slots - 1)
    return larger
