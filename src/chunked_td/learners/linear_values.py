"""Linear values, Q(x, a) = Σ_f w(f, a) φ_f(x), and the traces that learn their weights.

The update is that of tables (`chunked_td.learners.core`) with features in place of rows; Sutton and Barto (2018),
§12.2 and §12.7:

    e ← γ λ_t e;   e(f, a_t) ← e(f, a_t) + φ_f(x_t);   w(f, a) ← w(f, a) + α r_f δ_t e(f, a)

r_f is the feature's rate (`Features.rates`). Replacing traces set e(f, a_t) to φ_f(x_t) if that is not zero. True
online (Sutton and Barto, §12.5; van Seijen et al. 2016), with α_f = α r_f and Q_old as in `learners.true_online`:

    e ← γ λ_t e;   e(f, a_t) ← e(f, a_t) + (1 − Σ_g α_g e(g, a_t) φ_g) φ_f
    w(f, a) ← w(f, a) + α_f (δ_t + Q(x_t, a_t) − Q_old) e(f, a) − α_f (Q(x_t, a_t) − Q_old) φ_f [a = a_t]

The table of values is a cache: `arrive` writes Q(x_{t+1}, ·) into the rows of the code of x_{t+1}. `value_of` computes
Q(x_t, a_t) from the weights, because x_t may have the same code.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._link import kernel, slot, zeros
from chunked_td.observations.features import Features, write_features
from chunked_td.traces import Trace, clear, decay, live_slot

NOW, NEXT = 0, 1
"""x_t and x_{t+1}."""

VIEWS = ("traces", "true_online")
"""Views that support features."""


class LinearTrace(NamedTuple):
    """Weights, their traces, and the features of two observations. A row is f·A + a, or f for state values."""

    entries: Trace
    weights: Annotated[np.ndarray, "float64[weights, d]"]
    old: Annotated[np.ndarray, "float64[d]"]  # of true online: Q(x_t, a_t) before update t − 1
    shown: Annotated[np.ndarray, "float64[numbers]"]  # x_{t+1}, the input of the features
    which: Annotated[np.ndarray, "int64[2, active] in [0, features)"]  # indices of the nonzero features
    value: Annotated[np.ndarray, "float64[2, active]"]  # their values
    found: Annotated[np.ndarray, "int64[2] in [0, active]"]  # their number
    begun: Annotated[np.ndarray, "int64[1] in [0, 1]"]  # 1 after the features of x_t are written
    rates: np.ndarray  # float64[weights]
    map: Any  # the compiled form of `Features`
    width: int  # rows per feature: A, or 1 for state values
    true_online: bool

    @classmethod
    def of(cls, features: Features, view: Any, width: int, components: int, initial_value: float) -> LinearTrace:
        """A trace with no live entry, and with weights for the initial value.

        Args:
          width: rows per feature, A or 1. components: d.
        """
        rows = features.count * width
        start = np.repeat(features.initial_weights(initial_value), width)
        return zeros(
            cls,
            {"d": components, "numbers": features.numbers, "active": features.active},
            entries=Trace.empty(rows, components, rows),
            weights=np.repeat(start[:, None], components, axis=1),
            rates=np.repeat(features.rates, width),
            map=features.compiled(),
            width=width,
            true_online=view == "true_online",
        )

    def clear(self) -> None:
        """Reset the episode; for episodes played in Python."""
        self.entries.clear()
        self.begun[0] = 0

    def grown(self, rows: int, capacity: int) -> LinearTrace:
        """The trace itself, as the number of weights does not depend on the codes."""
        return self

    @kernel
    def arrive(trace, agent, state):
        """Compute the features of the new observation, and write its values into the rows of its code."""
        place = NEXT if trace.begun[0] == 1 else NOW
        trace.found[place] = write_features(trace.map, trace.shown, trace.which[place], trace.value[place])
        if place == NOW:
            trace.begun[0] = 1
        for a in range(trace.width):
            for i in range(trace.weights.shape[1]):
                agent.tables.values[state * trace.width + a, i] = dot(trace.weights, trace, place, a, i)

    @kernel
    def value_of(trace, agent, step, row, i):
        """Q^i(x_t, a_t)."""
        return dot(trace.weights, trace, NOW, column(trace, step.action), i)

    @kernel
    def update(trace, agent, step, row, step_size, ended):
        """Update traces and weights (equations: module docstring); then x_{t+1} becomes x_t."""
        entries, memory = trace.entries, agent.memory
        decay(entries, agent.rule.discount, memory.lambda_t, agent.rule.cutoff)
        if trace.true_online:
            _update_online(trace, agent, step, step_size)
        else:
            width, a = trace.width, column(trace, step.action)
            for k in range(trace.found[NOW]):
                slot = live_slot(entries, trace.which[NOW, k] * width + a)
                for i in range(memory.delta_t.size):
                    before = 0.0 if agent.rule.replacing else entries.weight[slot, i]
                    entries.weight[slot, i] = before + trace.value[NOW, k]
            for k in range(entries.count[0]):
                row = entries.rows[k]
                for i in range(memory.delta_t.size):
                    rate = step_size * trace.rates[row]
                    trace.weights[row, i] += rate * memory.delta_t[i] * entries.weight[k, i]
        _move_on(trace)

    @kernel
    def end(trace, agent, coins, step_size):
        """Clear the trace; no updates are deferred to the end of an episode."""
        clear(trace.entries)
        trace.begun[0] = 0


def column(trace, action):
    """Column of an action among the rows of a feature."""
    return action if trace.width > 1 else 0


def dot(table, trace, place, a, i):
    """Σ_f φ_f table(f, a), with the features of x_t or x_{t+1}.

    Args:
      table: float64[weights, ≥ i], in the order of the weights. place: NOW or NEXT.
    """
    total = 0.0
    for k in range(trace.found[place]):
        total += trace.value[place, k] * table[trace.which[place, k] * trace.width + a, i]
    return total


def _update_online(trace, agent, step, step_size):
    """Update of true online TD(λ), after the decay of the traces."""
    entries, memory, width, a = trace.entries, agent.memory, trace.width, column(trace, step.action)
    next_row = step.next_state * width + column(trace, step.next_action)
    for k in range(trace.found[NOW]):
        live_slot(entries, trace.which[NOW, k] * width + a)
    for i in range(memory.delta_t.size):
        change = 0.0
        if memory.previous[0] >= 0:
            change = dot(trace.weights, trace, NOW, a, i) - trace.old[i]
        trace.old[i] = 0.0 if step.next_action < 0 else agent.tables.values[next_row, i]
        overlap = 0.0
        for k in range(trace.found[NOW]):
            row = trace.which[NOW, k] * width + a
            overlap += step_size * trace.rates[row] * entries.weight[entries.slot[row], i] * trace.value[NOW, k]
        for k in range(trace.found[NOW]):
            row = trace.which[NOW, k] * width + a
            entries.weight[entries.slot[row], i] += (1.0 - overlap) * trace.value[NOW, k]
            trace.weights[row, i] -= step_size * trace.rates[row] * change * trace.value[NOW, k]
        for k in range(entries.count[0]):
            row = entries.rows[k]
            trace.weights[row, i] += step_size * trace.rates[row] * (memory.delta_t[i] + change) * entries.weight[k, i]


def _move_on(trace):
    """x_{t+1} becomes x_t."""
    trace.found[NOW] = trace.found[NEXT]
    for k in range(trace.found[NEXT]):
        trace.which[NOW, k] = trace.which[NEXT, k]
        trace.value[NOW, k] = trace.value[NEXT, k]


def _value_in_table(trace, agent, step, row, i):
    return agent.tables.values[row, i]


arrive, value_of = slot("view", "arrive", None), slot("view", "value_of", _value_in_table)
"""arrive(trace, agent, state): called after each observation, with its code. value_of(trace, agent, step, row, i): Q^i
of the row that transition t left."""
