"""Prediction error turned into λ: a normal forecast of the next observation, with a variance that is calibrated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chunked_td._checks import check_positive, check_unit
from chunked_td._link import kernel
from chunked_td.bootstraps import SARSA, STATE
from chunked_td.features.linear import NOW, column, dot, learn_linear
from chunked_td.lambdas.base import LambdaSource, Needs
from chunked_td.lambdas.names import CHUNKED

COVERAGE = {0.5: 0.6744897501960817, 0.8: 1.2815515655446004, 0.95: 1.959963984540054}
"""Central intervals of the normal distribution: their chance, and how many standard deviations they reach."""

_Z50, _Z80, _Z95 = COVERAGE.values()
_PACE, _FAR = 0.02, 10.0  # step size and largest size of log s²


@dataclass(frozen=True)
class LikelihoodLambda(LambdaSource):
    """`ExpectedLambda` for features: the chance that two draws of the next observation cannot be told apart.

        x'_j | x, a  ~  N(x_j + m_j(x, a), s_j² v_j(x, a))
        λ(x, a) = Π_j (1 + 2 s_j² v_j(x, a)/h_j²)^(−1/2)                                          SARSA
        λ(x) = Σ_{a,b} π(a|x) π(b|x) Π_j h_j/√(h_j² + u_j) exp(−(m_j(x,a) − m_j(x,b))² / 2(h_j² + u_j))      others
               with u_j = s_j²(v_j(x,a) + v_j(x,b))

    The paper's suggestion to turn prediction error into λ, as an expected overlap: two draws of x' are alike with
    exp(−Σ_j (x'_j − y'_j)²/2h_j²). λ depends on x_t (and a_t) alone, so the fixed point is that of ordinary TD. m_j and
    log v_j are linear in the features and follow the gradient of the log likelihood. s_j calibrates v_j: it rises where
    an error lies outside the central interval that should hold 80 %, and falls where one lies inside, so that 80 % do;
    see `calibration`. Forecasts are made before the model learns from the transition.

    Args:
      resolution: h_j as a multiple of the features' own resolution (the width of a tile).
      rate: step size of m and v; 1 goes all the way.
    """

    id, label, group, color = "likelihood", "Calibrated likelihood", CHUNKED, "#1B6B6B"
    features_only = True

    resolution: float = 1.0
    rate: float = 0.1

    needs = Needs.FEATURES
    mixes = True
    arrays: ClassVar[dict[str, str]] = {
        "drift": "float64[weights, numbers]",  # m
        "spread": "float64[weights, numbers]",  # log v/h², so that v = h² at first
        "scale": "float64[numbers]",  # log s²
        "covered": "float64[numbers, 3]",  # how many errors lay within each interval of `COVERAGE`
        "seen": "float64[1]",  # of how many
        "mean": "float64[A, numbers]",  # scratch: m of every action
        "variance": "float64[A, numbers]",  # scratch: s² v
        "guess": "float64[1]",  # λ_t
    }

    checks: ClassVar = {"resolution": check_positive, "rate": check_unit}

    @staticmethod
    def calibration(agent: Any) -> dict[float, np.ndarray]:
        """How often what came lay within the forecast's central intervals, over all of training.

        Args:
          agent: a learner with this λ source.

        Returns:
          by the chance that an interval should have (0.5, 0.8, 0.95), the share that it had, float[numbers]. Of a
          calibrated forecast of normal noise the two agree.
        """
        if not isinstance(agent.lambda_source, LikelihoodLambda):
            raise ValueError(f"agent must have lambda_source LikelihoodLambda(), got {agent.lambda_source!r}")
        learned = agent.learned
        share = learned["covered"] / max(learned["seen"][0], 1.0)
        return {chance: share[:, k] for k, chance in enumerate(COVERAGE)}

    @kernel
    def lambda_t(source, step, i):
        """As `write_surprise` has left it."""
        return source.guess[0]

    @kernel
    def write_surprise(source, agent, step, row, terminated):
        """λ_t; then learn from the transition."""
        trace, taken = agent.trace, column(agent.trace, step.action)
        alone = agent.rule.bootstrap == STATE or agent.rule.bootstrap == SARSA
        for a in range(trace.width):
            if a == taken or not alone:
                for j in range(trace.here.size):
                    source.mean[a, j] = dot(source.drift, trace, NOW, a, j)
                    source.variance[a, j] = math.exp(source.scale[j]) * _raw_variance(source, trace, a, j)
        if alone:
            source.guess[0] = alike(source, trace, taken, taken)
        else:
            total = 0.0
            for a in range(trace.width):
                for b in range(trace.width):
                    if step.policy[a] > 0.0 and step.policy[b] > 0.0:
                        total += step.policy[a] * step.policy[b] * alike(source, trace, a, b)
            source.guess[0] = min(total, 1.0)
        _learn(source, trace, taken)


def _raw_variance(source, trace, a, j):
    """v_j(x_t, a), between a millionth and a million of h²."""
    h = source.resolution * trace.resolution[j]
    return h * h * math.exp(min(max(dot(source.spread, trace, NOW, a, j), -14.0), 14.0))


def alike(source, trace, a, b):
    """The chance that a draw after action a and one after action b count as one."""
    found = 1.0
    for j in range(trace.here.size):
        h = source.resolution * trace.resolution[j]
        apart = source.mean[a, j] - source.mean[b, j]
        total = h * h + source.variance[a, j] + source.variance[b, j]
        found *= h / math.sqrt(total) * math.exp(-apart * apart / (2.0 * total))
    return found


def _learn(source, trace, a):
    """Score the forecast of the transition, then learn from its error."""
    source.seen[0] += 1.0
    for j in range(trace.here.size):
        raw = _raw_variance(source, trace, a, j)
        error = trace.shown[j] - trace.here[j] - source.mean[a, j]
        z = abs(error) / math.sqrt(source.variance[a, j])
        if z <= _Z50:
            source.covered[j, 0] += 1.0
        if z <= _Z80:
            source.covered[j, 1] += 1.0
        if z <= _Z95:
            source.covered[j, 2] += 1.0
        outside = 1.0 if z > _Z80 else 0.0
        source.scale[j] = min(max(source.scale[j] + _PACE * (outside - 0.2), -_FAR), _FAR)
        learn_linear(source.drift, trace, a, j, source.rate * error)
        learn_linear(source.spread, trace, a, j, source.rate * min(error * error / raw - 1.0, 10.0))
