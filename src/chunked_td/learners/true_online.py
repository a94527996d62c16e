"""True-online TD(λ) and SARSA(λ) with a λ per step: traces equal to a forward view at every step.

After van Seijen, Mahmood, Pilarski, Machado and Sutton (2016), "True Online Temporal-Difference Learning", for tables:

    e ← γ λ_t e;   e(row_t) ← (1 − α) e(row_t) + 1
    Q ← Q + α (δ_t + Q(row_t) − Q_old) e;   Q(row_t) ← Q(row_t) − α (Q(row_t) − Q_old)
    Q_old ← Q(row_{t+1}), as it was before this update

After each step the values are those of the online λ-return algorithm: start from the values at the beginning of the
episode and update each visited row, in order, by α towards the λ-return that ends at the current step. Differences from
the paper:

- λ is per step (and reward component), from any source; the paper's λ is constant;
- Q_old is the value of the row that will be updated next, not B(x_{t+1}). For V and SARSA these are the same. For
  Expected-SARSA and Q-learning the λ-return is then the one of `learners.core`,
  G_t = r_{t+1} + γ[B(x_{t+1}) + λ_{t+1}(G_{t+1} − Q(s_{t+1},a_{t+1}))];
- traces at or below `cutoff` may be dropped.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from chunked_td._link import kernel
from chunked_td.bootstraps import STATE
from chunked_td.traces import Trace, clear_entries, clear_in_python, decay, grown_rows, mark


class DutchTrace(NamedTuple):
    """Traces for true-online learning."""

    entries: Trace
    old: Annotated[np.ndarray, "float64[d]"]  # the value of the row of time t, before the update at t − 1

    clear, grown, end = clear_in_python, grown_rows, kernel(clear_entries)

    @kernel
    def update(trace, agent, step, row, step_size, ended):
        """Update traces and values. Equations: module docstring."""
        rule, memory, values, entries = agent.rule, agent.memory, agent.tables.values, trace.entries
        decay(entries, rule.discount, memory.lambda_t, rule.cutoff)
        fade(entries, row, 1.0 - step_size)
        mark(entries, row, False)
        next_row = step.next_state
        if rule.bootstrap != STATE:
            next_row = step.next_state * rule.n_actions + step.next_action
        for i in range(memory.delta_t.size):
            change = 0.0 if memory.previous[0] < 0 else values[row, i] - trace.old[i]
            trace.old[i] = 0.0 if step.next_action < 0 else values[next_row, i]
            values[row, i] -= step_size * change
            for k in range(entries.count[0]):
                values[entries.rows[k], i] += step_size * (memory.delta_t[i] + change) * entries.weight[k, i]


def fade(entries, row, factor):
    """e(row) ← factor · e(row), for a live row."""
    k = entries.slot[row]
    if k >= 0:
        for i in range(entries.weight.shape[1]):
            entries.weight[k, i] *= factor
