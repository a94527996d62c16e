"""A finite problem under a fixed policy, and its true values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chunked_td._checks import check_choice, check_unit
from chunked_td.analysis.exact import ExactModel
from chunked_td.bootstraps import BOOTSTRAPS, Q_LEARNING, STATE
from chunked_td.envs.dynamics import Dynamics, TransitionTable

LEARNERS = tuple(BOOTSTRAPS)
"""Learners by name, as in `simulate`."""

_MOST_PAIRS = 12_000  # dense matrices of this size fit into memory

_TIE = 1e-10  # values of the best actions that differ by less are taken for equal


class Problem(NamedTuple):
    """A table, the policy that acts in it, and how the learner bootstraps."""

    table: TransitionTable
    policy: np.ndarray  # float64[S, A]
    epsilon: float  # of the policy where it is an ε-greedy one, else NaN
    bootstrap: int
    discount: float

    @classmethod
    def make(cls, problem: Dynamics, learner: str, discount: Any, policy: Any, values: Any, epsilon: Any) -> Problem:
        """Check what was given; see `fixed_point`."""
        table = problem if isinstance(problem, TransitionTable) else TransitionTable.from_dynamics(problem)
        bootstrap = BOOTSTRAPS[check_choice("learner", learner, LEARNERS)]
        discount = check_unit("discount", discount)
        if table.n_states * table.n_actions > _MOST_PAIRS:
            raise ValueError(
                f"problem must have at most {_MOST_PAIRS:,} pairs of state and action, "
                f"got {table.n_states:,} × {table.n_actions}"
            )
        return cls(table, *_policy(table, policy, values, epsilon), bootstrap, discount)

    @property
    def n_rows(self) -> int:
        """Of the table of values."""
        return self.table.n_states if self.bootstrap == STATE else self.policy.size

    def rows(self, state: np.ndarray, action: np.ndarray) -> np.ndarray:
        """The rows of pairs."""
        return state if self.bootstrap == STATE else state * self.table.n_actions + action

    def true_values(self) -> np.ndarray:
        """V^π, Q^π or, for Q-learning, Q*: float64[rows, d]; zero in rows that cannot be reached."""
        model = ExactModel(self.table)
        if self.bootstrap == Q_LEARNING:
            exact = model.optimal(self.discount)
        else:
            exact = model.evaluate(self.policy[model.ids], self.discount)
        if self.bootstrap != STATE:
            return exact.table().reshape(-1, self.table.n_rewards)
        v = np.zeros((self.table.n_states, self.table.n_rewards))
        v[model.ids] = exact.v
        return v

    def ahead(self, values: np.ndarray) -> np.ndarray:
        """The policy in the bootstrap, float64[S, A]: that which acts, or the best action of Q-learning.

        Args:
          values: float64[rows, d]. The best action is the first of those that the policy may take.
        """
        if self.bootstrap != Q_LEARNING:
            return self.policy
        total = np.where(self.policy > 0, values.sum(axis=1).reshape(self.policy.shape), -np.inf)
        highest = total.max(axis=1, keepdims=True)
        slack = _TIE * max(1.0, np.abs(total[np.isfinite(total)]).max(initial=0.0))
        best = np.argmax(total >= highest - slack, axis=1)
        return np.eye(self.policy.shape[1])[best] * (self.policy > 0)


def _policy(table: TransitionTable, policy: Any, values: Any, epsilon: Any) -> tuple[np.ndarray, float]:
    """float64[S, A], and ε where it is an ε-greedy one; NaN where the policy cannot be said that way."""
    legal = table.legal_actions
    count = np.maximum(legal.sum(axis=1, keepdims=True), 1)
    if (values is None) != (epsilon is None):
        raise ValueError("values and epsilon must be given together")
    if values is not None:
        epsilon = check_unit("epsilon", epsilon)
        q = np.asarray(values, np.float64)
        if q.shape != legal.shape:
            raise ValueError(f"values must have the shape {legal.shape}, got {q.shape}")
        if not np.isfinite(q[legal]).all():
            raise ValueError(f"values must be finite where an action is legal, got {q!r}")
        masked = np.where(legal, q, -np.inf)
        greedy = legal & (masked == masked.max(axis=1, keepdims=True))
        return legal * epsilon / count + greedy * (1 - epsilon) / np.maximum(greedy.sum(1, keepdims=True), 1), epsilon
    if isinstance(policy, str):
        check_choice("policy", policy, ["uniform"])
        return legal / count, 1.0
    pi = np.asarray(policy, np.float64)
    if pi.shape != legal.shape:
        raise ValueError(f"policy must have the shape {legal.shape}, got {pi.shape}")
    wrong = legal.any(axis=1) & ~(np.isclose(np.where(legal, pi, 0).sum(axis=1), 1) & (pi >= 0).all(axis=1))
    if wrong.any():
        s = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"policy must sum to 1 over the legal actions, got {pi[s]} in state {s}")
    return np.where(legal, pi, 0.0), np.nan
