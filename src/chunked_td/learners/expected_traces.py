"""Expected eligibility traces: credit for everything that leads here, not only for what led here this time.

After van Hasselt, Madjiheurem, Hessel, Silver, Barreto and Borsa (2021), "Expected Eligibility Traces", for tables:

    e_t = γ λ_t e_{t−1}, plus 1 at row_t          the instantaneous trace
    z(row_t) ← z(row_t) + β(e_t − z(row_t))       its mean, given the row
    y_t = η(γ λ_t y_{t−1} + 1 at row_t) + (1 − η) z(row_t)
    Q ← Q + α δ_t y_t

η = 1 is TD(λ); η = 0 is ET(λ). What differs from the paper: z is a table with a trace per row, so that memory grows
with the square of the number of rows; β is at least 1/n(row), so that z is the plain average where β = 0; z(row_t) has
seen e_t when it is used. With action values a row is a pair of state and action.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from chunked_td._checks import check_unit
from chunked_td._link import kernel, zeros
from chunked_td._settings import KernelSettings
from chunked_td.traces import Trace, clear, decay, grown_rows, mark

MOST = 1 << 27
"""The most numbers that a table of expected traces may have (1 GiB)."""


@dataclass(frozen=True)
class ExpectedTraces(KernelSettings):
    """The view of expected eligibility traces, with its settings: `view=ExpectedTraces(…)`, or "expected_traces".

    Args:
      mix: η, the share of the instantaneous trace. 0 is ET(λ), 1 is TD(λ).
      trace_step_size: β, the least step size of z. 0 is the plain average.
    """

    mix: float = 0.0
    trace_step_size: float = 0.0

    checks: ClassVar = {"mix": check_unit, "trace_step_size": check_unit}

    def empty(self, rows: int, components: int, capacity: int) -> ExpectedTrace:
        """Traces of this kind before the first episode."""
        check_size(rows, components)
        entries = Trace.empty(rows, components, capacity)
        return zeros(ExpectedTrace, {"rows": rows, "k": components}, entries=entries, **self.settings())


def check_size(rows: int, components: int) -> None:
    """Refuse a table of z that is too large."""
    if rows * rows * components > MOST:
        text = f"view 'expected_traces' keeps rows × rows × rewards numbers, at most {MOST:,}"
        raise ValueError(f"{text}; the table of values has {rows:,} rows and {components} rewards")


class ExpectedTrace(NamedTuple):
    """The traces of the module's text."""

    entries: Trace  # e
    expected: Annotated[np.ndarray, "float64[rows, rows, k]"]  # z; k = d reward components
    mixed: Annotated[np.ndarray, "float64[rows, k]"]  # y
    number: Annotated[np.ndarray, "float64[rows]"]  # visits
    mix: float  # η
    trace_step_size: float  # β

    def clear(self) -> None:
        """Forget the episode, for the end of one that Python plays; z stays."""
        self.entries.clear()
        self.mixed[:] = 0.0

    def grown(self, rows: int, capacity: int) -> ExpectedTrace:
        """The same traces with room for more table rows and more live entries."""
        check_size(rows, self.mixed.shape[1])
        return grown_rows(self, rows, capacity)

    @kernel
    def update(trace, agent, step, row, step_size, ended):
        """The update of the module's text."""
        rule, memory = agent.rule, agent.memory
        decay(trace.entries, rule.discount, memory.lambda_t, rule.cutoff)
        mark(trace.entries, row, False)
        average(trace, row)
        for i in range(memory.delta_t.size):
            keep, rest = trace.mix * rule.discount * memory.lambda_t[i], 1.0 - trace.mix
            for k in range(trace.number.size):
                trace.mixed[k, i] = keep * trace.mixed[k, i] + rest * trace.expected[row, k, i]
            trace.mixed[row, i] += trace.mix
            for k in range(trace.number.size):
                agent.tables.values[k, i] += step_size * memory.delta_t[i] * trace.mixed[k, i]

    @kernel
    def end(trace, agent, coins, step_size):
        """No update waits for the end of an episode."""
        clear(trace.entries)
        for k in range(trace.number.size):
            for i in range(trace.mixed.shape[1]):
                trace.mixed[k, i] = 0.0


def average(trace, row):
    """z(row) ← z(row) + β(e − z(row))."""
    trace.number[row] += 1.0
    weight = max(1.0 / trace.number[row], trace.trace_step_size)
    z, entries = trace.expected[row], trace.entries
    for k in range(z.shape[0]):
        for i in range(z.shape[1]):
            z[k, i] *= 1.0 - weight
    for k in range(entries.count[0]):
        for i in range(z.shape[1]):
            z[entries.rows[k], i] += weight * entries.weight[k, i]
