"""Meta-gradient λ: λ is learned by gradient descent on the TD errors that follow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chunked_td._checks import check_flag, check_positive, check_unit
from chunked_td._link import kernel
from chunked_td.bootstraps import STATE
from chunked_td.lambdas.base import LambdaSource, Settled
from chunked_td.lambdas.names import OTHER

LIMIT = 6.0
"""Bound of |θ| in λ = σ(θ), so that λ can return from an end of [0, 1]."""

FORGETTING = 0.01
"""Minimum weight of a new gradient in the running mean square."""


@dataclass(frozen=True)
class MetaGradientLambda(LambdaSource):
    """Meta-gradient λ (Xu, van Hasselt and Silver 2018, "Meta-Gradient Reinforcement Learning"), online and in tables.

        λ = σ(θ),   θ ← θ + β g/√(mean of g²),   g = δ_t y_t,   y_t = γ λ' y_{t−1} + z(row_t)
        z(row_t) ← μ z(row_t);   z ← z + δ_t ∂e_t/∂θ

    z is dQ/dθ up to the step size. Over an episode Σ g = Σ_t (G_t − Q(row_t)) z(row_t), with λ'-returns G_t. This is
    the gradient of the paper's objective: the squared distance between the values, which depend on λ, and the returns
    that follow, which are held constant. With λ' = 0 the targets are the next TD errors. Values and targets then share
    the noise of earlier episodes, and λ rises even if the rewards are pure noise. ∂e_t/∂θ is that of the accumulating
    trace:
    ∂e_t/∂θ = γ λ ∂e_{t−1}/∂θ + γ λ(1 − λ) e_{t−1}.

    Differences from the paper: one λ, or one per state, for tables, not γ and λ of a network. Every step is a
    meta-step, and the following transitions also update the values; the paper uses a second sample. The errors δ are
    held constant in dQ/dθ, and μ is applied to the row that is left, not to all rows. g is divided by its running root
    mean square, so the result does not depend on the scale of rewards or the step size. λ stays within σ(±6). Reward
    components are summed.

    Args:
      initial: initial λ, between 0 and 1, both excluded.
      meta_step_size: β.
      reference: λ', of the returns that values are compared with. 1: Monte-Carlo returns.
      decay: μ. 1 keeps the effect of all updates, 0 only of updates since the last visit.
      per_state: whether every state has its own λ. This costs S numbers per row and step: for small problems only.
    """

    id, label, group, color = "meta-gradient", "Meta-gradient λ", OTHER, "#17A2B8"
    by_default = False

    initial: float = 0.5
    meta_step_size: float = 0.01
    reference: float = 1.0
    decay: float = 0.9
    per_state: bool = False

    follows_episode = True
    checks: ClassVar = {
        "initial": check_unit,
        "meta_step_size": check_positive,
        "reference": check_unit,
        "decay": check_unit,
        "per_state": check_flag,
    }

    @property
    def arrays(self) -> Mapping[str, str]:  # type: ignore[override]
        """θ, the mean of g² and y: one each, or one per state. The trace. Its derivative and z: one per row and θ."""
        p = "S" if self.per_state else "1"
        return {
            "theta": f"float64[{p}]",
            "number": f"float64[{p}]",
            "square": f"float64[{p}]",
            "carried": f"float64[{p}]",
            "slope": f"float64[rows, {p}]",
            "effect": f"float64[rows, {p}]",
            "trace": "float64[rows]",
            "live": "int64[rows] in [0, rows)",
            "count": "int64[1] in [0, rows]",
        }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.initial < 1.0:
            raise ValueError(f"initial must be between 0 and 1, both excluded, got {self.initial!r}")

    def check_saved(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Raise ValueError if a live row occurs twice."""
        live = arrays["live"][: arrays["count"][0]]
        if np.unique(live).size != live.size:
            raise ValueError("lambda_live must name each row at most once")

    def settled(self, known: Settled) -> Mapping[str, Any]:
        """Raise ValueError: θ moves by steps of β and has no limit."""
        raise self.no_limit("θ moves by steps of meta_step_size and has no limit")

    @kernel
    def lambda_t(source, step, i):
        """σ(θ)."""
        return squashed(source, step.state if source.per_state else 0)

    @kernel
    def after_step(source, step, reward, td_error, ended):
        """Meta-step, then the traces and z of this step."""
        if step.previous < 0:
            forget_traces(source)
        row = step.state if step.bootstrap == STATE else step.state * step.n_actions + step.action
        p = step.state if source.per_state else 0
        lambda_ = squashed(source, p)
        error = 0.0
        for i in range(td_error.size):
            error += td_error[i]
        for q in range(source.theta.size):
            source.carried[q] = step.discount * source.reference * source.carried[q] + source.effect[row, q]
            descend(source, q, error * source.carried[q])
            source.effect[row, q] *= source.decay
        follow(source, row, p, step.discount * lambda_, step.discount * lambda_ * (1.0 - lambda_), error)


def squashed(source, p):
    """λ = σ(θ); θ is stored as the difference from its initial value."""
    return 1.0 / (1.0 + math.exp(-_start(source) - source.theta[p]))


def _start(source):
    return math.log(source.initial / (1.0 - source.initial))


def descend(source, q, gradient):
    """θ ← θ + β g/√(mean of g²)."""
    if gradient != 0.0:
        source.number[q] += 1.0
        w = max(1.0 / source.number[q], FORGETTING)
        source.square[q] += w * (gradient * gradient - source.square[q])
        moved = source.theta[q] + source.meta_step_size * gradient / math.sqrt(source.square[q])
        source.theta[q] = min(max(moved, -LIMIT - _start(source)), LIMIT - _start(source))


def forget_traces(source):
    """Set traces, their derivatives and y to zero at the start of an episode."""
    for k in range(source.count[0]):
        row = source.live[k]
        source.trace[row] = 0.0
        for q in range(source.theta.size):
            source.slope[row, q] = 0.0
    for q in range(source.theta.size):
        source.carried[q] = 0.0
    source.count[0] = 0


def follow(source, row, p, factor, derivative, error):
    """Advance e and ∂e/∂θ by one step; z ← z + δ ∂e/∂θ. `factor` is γλ, `derivative` is ∂(γλ)/∂θ(p)."""
    for k in range(source.count[0]):
        r = source.live[k]
        for q in range(source.theta.size):
            source.slope[r, q] *= factor
        source.slope[r, p] += derivative * source.trace[r]
        source.trace[r] *= factor
    if source.trace[row] == 0.0:
        add_live(source, row)
    source.trace[row] += 1.0
    for k in range(source.count[0]):
        for q in range(source.theta.size):
            source.effect[source.live[k], q] += error * source.slope[source.live[k], q]


def add_live(source, row):
    """Add a row to the live rows; it may be one already, with a trace that has decayed to 0."""
    for k in range(source.count[0]):
        if source.live[k] == row:
            return
    source.live[source.count[0]] = row
    source.count[0] += 1
