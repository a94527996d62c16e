"""Value kernel: next states are compared by their values, not by their ids."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from chunked_td._checks import check_flag, check_positive
from chunked_td._link import kernel
from chunked_td.bootstraps import SARSA, STATE
from chunked_td.lambdas.base import LambdaSource, Settled
from chunked_td.lambdas.names import CHUNKED
from chunked_td.lambdas.step import first, following, target, value_at, weight


@dataclass(frozen=True, repr=False)
class ValueLambda(LambdaSource):
    """Probability that two samples of the next state are indistinguishable by value (ours; not in the paper).

        λ(x) = Σ_{x',y'} P̂^π(x'|x) P̂^π(y'|x) k(x',y'),   k = 1 if x' = y', else exp(−γ²(V(x') − V(y'))² / 2τ²)

    Noise that changes no value does not lower λ, noise that changes values does; actions of equal value count as one.
    τ → 0 gives `ExpectedLambda`, τ → ∞ gives λ = 1. It depends on the state alone (for SARSA on state and action), so
    V^π is the fixed point. For SARSA x' is sampled given x and a, with V(x') = Σ_a' π(a'|x') Q(x',a').

    States that were never left, including terminal states, have the value 0. Reward components are summed.

    Args:
      width: τ as a multiple of the root mean square of the last TD errors (about a thousand).
      policy_noise: whether the policy's own randomness lowers λ. False excludes it: x' is sampled given x and a, for
        state values averaged over a ~ π. For SARSA this is always so.
    """

    id, label, group, color = "value", "Value kernel", CHUNKED, "#5D3A9B"
    means = "λ is high if all possible next states have the same value"

    width: float = 0.5
    policy_noise: bool = field(default=True, repr=False)

    arrays: ClassVar[dict[str, str]] = {
        "error": "float64[2]",  # mean square and number of the TD errors
        "mass": "float64[S]",  # scratch: P̂^π of a next state; zero between steps
        "worth": "float64[S]",  # scratch: its value
        "listed": "int64[S]",  # scratch: the next states
    }

    checks: ClassVar = {"width": check_positive, "policy_noise": check_flag}

    def check_saved(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Raise ValueError if a state has a mass between steps; it would be listed twice."""
        if arrays["mass"].any():
            raise ValueError("lambda_mass must be zero between steps")

    def asks(self, bootstrap: int) -> tuple[str, ...]:
        """State values need no policy at other states. SARSA and λ without policy noise need the action taken only."""
        if bootstrap == STATE:
            return ("outcomes", "policy")
        every = self.policy_noise and bootstrap != SARSA
        return ("outcomes", "value_at", "policy") if every else ("outcomes", "value_at")

    def settled(self, known: Settled) -> Mapping[str, Any]:
        """Mean square of the TD errors at the true values."""
        return {"error": [known.mean_square_error, 1000.0]}

    @kernel
    def lambda_t(source, step, i):
        """Probability that two samples of the next state have the same value."""
        return value_overlap(source, step)

    @kernel
    def after_step(source, step, reward, td_error, ended):
        """Add the TD error to the scale."""
        add_error(source, td_error)


def add_error(source, td_error):
    """Update the mean square of the TD errors; the last thousand have most weight."""
    total = 0.0
    for i in range(td_error.size):
        total += td_error[i]
    source.error[1] = min(source.error[1] + 1.0, 1000.0)
    source.error[0] += (total * total - source.error[0]) / source.error[1]


def value_overlap(source, step):
    """Σ_{x',y'} P̂(x') P̂(y') k(x',y'): of the policy's mixture, of the action taken, or averaged over actions."""
    if step.bootstrap == SARSA:
        return alike(source, step, step.action)
    if source.policy_noise:
        return alike(source, step, -1)
    if step.bootstrap == STATE:
        return mean_alike(source, step)
    return alike(source, step, step.action)


def mean_alike(source, step):
    """`alike` of the actions that the model knows, averaged over the policy."""
    total, known = 0.0, 0.0
    for a in range(step.n_actions):
        if step.policy[a] > 0.0 and first(step, a) >= 0:
            known += step.policy[a]
            total += step.policy[a] * alike(source, step, a)
    return total / max(known, total) if known > 0.0 else 1.0  # at most 1 after rounding


def alike(source, step, action):
    """Σ_{x',y'} P̂(x') P̂(y') k(x',y'), over the model's outcomes of an action, or of the policy if action is −1."""
    found = 0
    total = 0.0
    for a in range(step.n_actions):
        if action >= 0:
            share = 1.0 if a == action else 0.0
        else:
            share = step.policy[a]
        if share > 0.0:
            k = first(step, a)
            while k >= 0:
                p = share * weight(step, a, k)
                t = target(step, a, k)
                if p > 0.0 and t < source.mass.size:
                    if source.mass[t] == 0.0:
                        source.listed[found] = t
                        source.worth[t] = step.discount * value_at(step, t)
                        found += 1
                    source.mass[t] += p
                    total += p
                k = following(step, a, k)
    same = 0.0
    scale = 2.0 * source.width * source.width * source.error[0]
    for j in range(found):
        s = source.listed[j]
        same += source.mass[s] * source.mass[s]
        for k in range(j):
            t = source.listed[k]
            apart = (source.worth[s] - source.worth[t]) ** 2
            if apart <= 30.0 * scale:  # beyond that exp is less than rounding
                near = math.exp(-apart / scale) if apart > 0.0 else 1.0
                same += 2.0 * source.mass[s] * source.mass[t] * near
    for j in range(found):
        source.mass[source.listed[j]] = 0.0
    return min(same / (total * total), 1.0) if total > 0.0 else 1.0
