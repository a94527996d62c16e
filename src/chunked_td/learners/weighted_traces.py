"""Traces in which states count by a weight of their own: preferential and emphatic TD, for tables, on-policy.

    e ← γ λ_t e;   e(row_t) ← e(row_t) + m_t;   Q ← Q + α δ_t e

| view | m_t | after |
|---|---|---|
| "preferential" | 1 − λ_t: a state is updated to the degree that others bootstrap from it | Anand and Precup 2021 |
| "emphatic" | λ_t + (1 − λ_t) F_t,   F_t = γ F_{t−1} + 1 | Sutton, Mahmood and White 2016, ρ = 1 and interest 1 |

The preference of a state is 1 − λ, whatever the λ source says. With tables both have the same fixed point as TD(λ).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from chunked_td._link import kernel
from chunked_td.traces import Trace, clear_entries, clear_in_python, decay, grown_rows, mark, reinforce


class WeightedTrace(NamedTuple):
    """The traces of the module's text."""

    entries: Trace
    followed: Annotated[np.ndarray, "float64[one]"]  # F
    emphatic: bool

    clear, grown, end = clear_in_python, grown_rows, clear_entries

    @kernel
    def update(trace, agent, step, row, step_size, ended):
        """The update of the module's text."""
        rule, memory, entries = agent.rule, agent.memory, trace.entries
        decay(entries, rule.discount, memory.lambda_t, rule.cutoff)
        mark(entries, row, False)
        before = 0.0 if memory.previous[0] < 0 else trace.followed[0]
        trace.followed[0] = rule.discount * before + 1.0
        for i in range(memory.lambda_t.size):
            bootstraps = 1.0 - memory.lambda_t[i]
            weight = 1.0 + bootstraps * (trace.followed[0] - 1.0) if trace.emphatic else bootstraps
            entries.weight[entries.slot[row], i] += weight - 1.0  # `mark` has added 1
        reinforce(agent.tables.values, entries, step_size, memory.delta_t)
