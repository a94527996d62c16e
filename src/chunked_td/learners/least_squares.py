"""LSTD(λ): the values that solve TD(λ)'s equations for all transitions so far, without a step size (Boyan 2002).

    A ← A + e_t (φ_t − γ φ'_t)ᵀ,   b ← b + e_t r_{t+1},   Q = A⁻¹ b

φ_t is the unit vector of row_t, and φ'_t gives the bootstrap: B(x_{t+1}) = φ'_tᵀ Q, 0 on termination. A begins as
`ridge` times the unit matrix and b as `ridge` times the initial values. A⁻¹ is kept up to date after Sherman and
Morrison:

    k = A⁻¹ e / (1 + (φ − γ φ')ᵀ A⁻¹ e),   Q ← Q + k δ_t,   A⁻¹ ← A⁻¹ − k (φ − γ φ')ᵀ A⁻¹

In control the equations of old policies stay in A. Memory is rows × rows, and so is the cost of a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from chunked_td._checks import check_positive
from chunked_td._link import kernel
from chunked_td._settings import KernelSettings
from chunked_td.bootstraps import SARSA, STATE
from chunked_td.learners.expected_traces import MOST
from chunked_td.traces import Trace, clear_entries, clear_in_python, decay, mark


@dataclass(frozen=True)
class LeastSquares(KernelSettings):
    """The view of LSTD(λ), with its settings: `view=LeastSquares(…)`, or "least_squares".

    Args:
      ridge: how many visits the initial value of a row counts for, above 0.
    """

    ridge: float = 1.0

    checks: ClassVar = {"ridge": check_positive}

    def empty(self, rows: int, components: int, capacity: int) -> LeastSquaresTrace:
        """Nothing seen."""
        if rows * rows > MOST:
            raise ValueError(f"view 'least_squares' keeps rows × rows numbers, at most {MOST:,}; got {rows:,} rows")
        entries, scratch = Trace.empty(rows, components, capacity), np.zeros((3, rows))
        return LeastSquaresTrace(entries, np.eye(rows) / self.ridge, scratch, self.ridge)


class LeastSquaresTrace(NamedTuple):
    """The traces of the module's text, and A⁻¹."""

    entries: Trace  # e
    inverse: Annotated[np.ndarray, "float64[rows, rows]"]
    scratch: Annotated[np.ndarray, "float64[3, rows]"]  # φ − γφ', A⁻¹ e, (φ − γφ')ᵀ A⁻¹
    ridge: float

    clear, end = clear_in_python, clear_entries

    def grown(self, rows: int, capacity: int) -> LeastSquaresTrace:
        """The same with room for more table rows and more live entries."""
        larger, old = LeastSquares(self.ridge).empty(rows, self.entries.weight.shape[1], 1), self.inverse.shape[0]
        larger.inverse[:old, :old] = self.inverse
        return larger._replace(entries=self.entries.grown(rows, capacity))

    @kernel
    def update(trace, agent, step, row, step_size, ended):
        """The update of the module's text; λ is one for all reward components."""
        rule, memory, entries, inverse = agent.rule, agent.memory, trace.entries, trace.inverse
        decay(entries, rule.discount, memory.lambda_t, rule.cutoff)
        mark(entries, row, False)
        n, feature, gain, ahead = inverse.shape[0], trace.scratch[0], trace.scratch[1], trace.scratch[2]
        write_feature(feature, agent, step, row, ended)
        total = 1.0
        for i in range(n):
            gain[i] = 0.0
            ahead[i] = 0.0
            for k in range(entries.count[0]):
                gain[i] += inverse[i, entries.rows[k]] * entries.weight[k, 0]
            total += feature[i] * gain[i]
        for i in range(n):
            if feature[i] != 0.0:
                for j in range(n):
                    ahead[j] += feature[i] * inverse[i, j]
        if abs(total) < 1.0e-9:
            return  # A would become singular; this transition is left out
        for i in range(n):
            if gain[i] != 0.0:
                for c in range(memory.delta_t.size):
                    agent.tables.values[i, c] += gain[i] / total * memory.delta_t[c]
                for j in range(n):
                    inverse[i, j] -= gain[i] / total * ahead[j]


def write_feature(feature, agent, step, row, ended):
    """φ − γ φ'."""
    rule, A = agent.rule, agent.rule.n_actions
    for i in range(feature.size):
        feature[i] = 0.0
    feature[row] = 1.0
    if ended == 1:  # terminated
        return
    if rule.bootstrap == STATE:
        feature[step.next_state] -= rule.discount
    elif rule.bootstrap == SARSA and step.next_action >= 0:
        feature[step.next_state * A + step.next_action] -= rule.discount
    else:
        for a in range(A):
            feature[step.next_state * A + a] -= rule.discount * step.next_policy[a]
