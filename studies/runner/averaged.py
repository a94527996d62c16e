"""Traces with step sizes of 1/n: values are averages of the targets, without the weight of initial values.

    e ← γ λ_t e;   e(row_t) ← e(row_t) + 1;   n(row_t) ← n(row_t) + 1
    Q(row) ← Q(row) + max(α, 1/n(row)) δ_t e(row)

α is the minimum step size: the smaller it is, the longer the value is a plain average. With α near 0, state values and
no state twice in an episode, this is the family of Sutton and Singh (1994), see `learners.sutton_singh`:

| λ source | algorithm |
|---|---|
| 0 | naive TD(0) |
| `VisitLambda`, 1/n(x_t) | TD(1/n) |
| `BackwardLambda`, n(x_{t−1},x_t)/n(x_t) | TD(n/n); TDC with the correction below |

`CorrectedTrace` also replaces the out-of-date values that earlier targets used (Alg. 6):

    δ_t' = δ_t + γ (n(row_t,row_{t+1}) − 1) [Q(row_{t+1}) − Q(row_{t+1},row_t)]

where Q(row_{t+1},row_t) is the value that row_{t+1} had at the end of the latest episode with that transition. With
SARSA a row is a state–action pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._link import enlarged, kernel, zeros
from chunked_td.bootstraps import STATE
from chunked_td.models.counts import NUMBER, TARGET, Counts, increment
from chunked_td.traces import Trace, View, clear, clear_entries, clear_in_python, decay, grown_rows, mark


@dataclass(frozen=True)
class Averaged(View):
    """Accumulating traces with step sizes of 1/n."""

    def empty(self, rows: int, components: int, capacity: int) -> Any:
        """No live entry and no visit."""
        return zeros(AveragedTrace, {"rows": rows}, entries=Trace.empty(rows, components, capacity))


@dataclass(frozen=True)
class Corrected(View):
    """The same with TDC's correction, in simulations, for state values and SARSA."""

    def empty(self, rows: int, components: int, capacity: int) -> Any:
        """No live entry, no visit and no pair."""
        return CorrectedTrace.empty(rows, components, capacity)


class AveragedTrace(NamedTuple):
    """Traces for averages."""

    entries: Trace
    number: Annotated[np.ndarray, "float64[rows]"]  # visits

    clear, grown, end = clear_in_python, grown_rows, kernel(clear_entries)

    @kernel
    def update(trace, agent, step, row, step_size, ended):
        """The update of the module's text."""
        average(trace, agent, row, step_size)


class CorrectedTrace(NamedTuple):
    """Traces for averages that are corrected, in simulations."""

    entries: Trace
    number: Annotated[np.ndarray, "float64[rows]"]  # visits
    counts: Counts  # n(row → next row)
    stale: Annotated[np.ndarray, "float64[pairs, d]"]  # Q(next row, row)
    queue: Annotated[np.ndarray, "int64[pairs]"]  # the pairs of this episode
    queued: Annotated[np.ndarray, "int64[pairs]"]  # 1 for a pair that is in the queue
    length: Annotated[np.ndarray, "int64[1]"]  # of the queue

    @classmethod
    def empty(cls, rows: int, components: int, capacity: int = 64) -> CorrectedTrace:
        """No live entry, no visit and no pair."""
        counts = Counts.empty(rows)
        sizes = {"rows": rows, "pairs": counts.pairs.shape[0], "d": components}
        return zeros(cls, sizes, entries=Trace.empty(rows, components, capacity), counts=counts)

    def with_room(self, pairs: int) -> CorrectedTrace:
        """Return the traces enlarged for `pairs` more pairs, between two episodes."""
        if self.counts.room >= pairs:
            return self
        counts = self.counts.grown(self.counts.head.size, 2 * self.counts.pairs.shape[0] + pairs)
        return enlarged(self, pairs=counts.pairs.shape[0])._replace(counts=counts)

    @kernel
    def has_room(trace, pairs):
        """Whether an episode with `pairs` new pairs fits in."""
        return trace.counts.pairs.shape[0] - trace.counts.size[0] >= pairs

    @kernel
    def update(trace, agent, step, row, step_size, ended):
        """The update of the module's text."""
        if step.next_action >= 0:
            ahead = step.next_state
            if agent.rule.bootstrap != STATE:
                ahead = step.next_state * agent.rule.n_actions + step.next_action
            correct(trace, agent, row, ahead)
        average(trace, agent, row, step_size)

    @kernel
    def end(trace, agent, coins, step_size):
        """Keep the values of this episode's next rows as they are now."""
        clear(trace.entries)
        for k in range(trace.length[0]):
            pair = trace.queue[k]
            trace.queued[pair] = 0
            for i in range(trace.stale.shape[1]):
                trace.stale[pair, i] = agent.tables.values[trace.counts.pairs[pair, TARGET], i]
        trace.length[0] = 0


def average(trace, agent, row, step_size):
    """Move every live row by max(α, 1/n(row)) times its trace and δ_t."""
    rule, memory, values, entries = agent.rule, agent.memory, agent.tables.values, trace.entries
    decay(entries, rule.discount, memory.lambda_t, rule.cutoff)
    mark(entries, row, False)
    trace.number[row] += 1.0
    for k in range(entries.count[0]):
        live = entries.rows[k]
        size = max(step_size, 1.0 / trace.number[live])
        for i in range(memory.delta_t.size):
            values[live, i] += size * memory.delta_t[i] * entries.weight[k, i]


def correct(trace, agent, row, ahead):
    """δ_t ← δ_t', and note the pair."""
    memory, values = agent.memory, agent.tables.values
    pair = increment(trace.counts, row, ahead)
    past = trace.counts.pairs[pair, NUMBER] - 1
    for i in range(memory.delta_t.size):
        memory.delta_t[i] += agent.rule.discount * past * (values[ahead, i] - trace.stale[pair, i])
    if trace.queued[pair] == 0:
        trace.queued[pair] = 1
        trace.queue[trace.length[0]] = pair
        trace.length[0] += 1
