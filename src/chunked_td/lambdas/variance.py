"""The value kernel without a model of the world: the variance of the next value, learned as a linear function."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from chunked_td._checks import check_positive, check_unit
from chunked_td._link import kernel
from chunked_td.bootstraps import SARSA, STATE
from chunked_td.features.linear import NEXT, NOW, column, dot, learn_linear, linear_bootstrap
from chunked_td.lambdas.base import LambdaSource, Needs
from chunked_td.lambdas.names import CHUNKED
from chunked_td.lambdas.value import add_error


@dataclass(frozen=True)
class VarianceLambda(LambdaSource):
    """`ValueLambda` for features: the chance that two draws of the next value cannot be told apart, if it is normal.

        λ(x) = (1 + 2v(x)/τ²)^(−1/2),   v(x) = Var[γ B(x') | x] under the policy (SARSA: given x and a)

    Mean and variance of γ B(x') given x and a are linear in the features and learned from what comes; B = 0 in terminal
    states. λ_t is read before they learn from transition t, so it depends on x_t (and a_t) alone. Nothing is taken for
    certain: λ = 1 at first, and it falls where values differ.

    Args:
      width: τ as a multiple of the root mean square of the TD errors so far (of the last thousand or so).
      rate: step size of mean and variance; 1 goes all the way.
    """

    id, label, group, color = "variance", "Value variance", CHUNKED, "#7A4FB5"
    features_only = True

    width: float = 0.5
    rate: float = 0.1

    needs = Needs.FEATURES
    mixes = True
    arrays: ClassVar[dict[str, str]] = {
        "mean": "float64[weights, 1]",  # of γ B(x'), given x and a
        "spread": "float64[weights, 1]",  # its variance
        "error": "float64[2]",  # mean square of the TD errors, and how many they are
        "guess": "float64[1]",  # λ_t
    }

    checks: ClassVar = {"width": check_positive, "rate": check_unit}

    @kernel
    def lambda_t(source, step, i):
        """As `write_surprise` has left it."""
        return source.guess[0]

    @kernel
    def write_surprise(source, agent, step, row, terminated):
        """λ_t; then learn from the transition."""
        trace, memory = agent.trace, agent.memory
        scale = source.width * source.width * source.error[0]
        spread = _variance(source, agent, step)
        source.guess[0] = 1.0 / math.sqrt(1.0 + 2.0 * spread / scale) if scale > 0.0 and spread > 0.0 else 1.0
        ahead, a = 0.0, column(trace, step.action)
        if not terminated:
            for i in range(memory.delta_t.size):
                ahead += linear_bootstrap(trace.weights, agent, NEXT, step.next_action, step.next_policy, i)
        missed = agent.rule.discount * ahead - dot(source.mean, trace, NOW, a, 0)
        more = missed * missed - dot(source.spread, trace, NOW, a, 0)
        learn_linear(source.mean, trace, a, 0, source.rate * missed)
        learn_linear(source.spread, trace, a, 0, source.rate * more)
        add_error(source, memory.delta_t)


def _variance(source, agent, step):
    """v(x_t), of the action taken or of the policy's mixture: Σ_a π(v_a + m_a²) − (Σ_a π m_a)²."""
    trace = agent.trace
    if agent.rule.bootstrap == STATE or agent.rule.bootstrap == SARSA:
        return dot(source.spread, trace, NOW, column(trace, step.action), 0)
    first = second = 0.0
    for a in range(trace.width):
        if step.policy[a] > 0.0:
            mean = dot(source.mean, trace, NOW, a, 0)
            first += step.policy[a] * mean
            second += step.policy[a] * (max(dot(source.spread, trace, NOW, a, 0), 0.0) + mean * mean)
    return second - first * first
