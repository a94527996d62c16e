"""The forward view by its definitions: explicit sums over every later step, one trajectory at a time, O(T²) or worse.

Nothing here is recursive, and nothing is shared with the package.
"""

from __future__ import annotations

import math

import numpy as np


def lambda_return(r, discount, v, lam):
    """Σ over the state s_k where one bootstraps: the chance to get there times the return up to there.

    From s_{t}, pass s_i with weight λ_i and stop at s_k with weight 1 − λ_k; one always stops at s_T.
    """
    steps = len(r)
    targets = []
    for t in range(steps):
        total = 0.0
        for k in range(t, steps):
            stop = 1.0 if k == steps - 1 else 1.0 - lam[k]
            chance = math.prod(lam[t:k]) * stop
            rewards = math.fsum(math.prod(discount[t:j]) * r[j] for j in range(t, k + 1))
            total += chance * (rewards + math.prod(discount[t : k + 1]) * v[k])
        targets.append(total)
    return np.array(targets)


def gae(rewards, values, next_values, terminated, truncated, discount, lam):
    """Σ_k (product of γ_i λ_{i+1} over the steps i from t to k−1, if no episode ends there) δ_k."""
    steps = len(rewards)
    delta = [rewards[t] + (0.0 if terminated[t] else discount[t] * next_values[t]) - values[t] for t in range(steps)]
    passes = [0.0 if terminated[t] or truncated[t] else discount[t] * lam[t + 1] for t in range(steps - 1)]
    return np.array([math.fsum(math.prod(passes[t:k]) * delta[k] for k in range(t, steps)) for t in range(steps)])


def vtrace_errors(v_tm1, v_t, r, discount, rho, lam, clip):
    """Espeholt et al., Eq. 1, with λ_{k+1} at the state after step k: Σ_k (Π γ c) min(ρ̄, ρ_k) δ_k."""
    steps = len(r)
    delta = [min(clip, rho[k]) * (r[k] + discount[k] * v_t[k] - v_tm1[k]) for k in range(steps)]
    c = [discount[k] * lam[k] * min(1.0, rho[k]) for k in range(steps)]
    return np.array([math.fsum(math.prod(c[t:k]) * delta[k] for k in range(t, steps)) for t in range(steps)])


def retrace_errors(q_tm1, q_t, a_tm1, a_t, r, discount, pi, mu, lam):
    """Munos et al., Eq. 4: Σ_k (Π γ c) δ_k with δ_k = r + γ Σ_a π Q(s', a) − Q(s, a)."""
    steps = len(r)
    taken = [*(q_tm1[t][a_tm1[t]] for t in range(steps)), None]
    for t in range(1, steps):
        assert taken[t] == q_t[t - 1][a_t[t - 1]], "the definition wants one set of values for both"
    delta = [r[t] + discount[t] * math.fsum(pi[t] * q_t[t]) - taken[t] for t in range(steps)]
    c = [discount[t] * lam[t] * min(1.0, pi[t][a_t[t]] / (mu[t] + 1e-8)) for t in range(steps)]
    return np.array([math.fsum(math.prod(c[t:k]) * delta[k] for k in range(t, steps)) for t in range(steps)])


def each_trajectory(definition, arrays, shape, axis):
    """Apply a definition along `axis` to every trajectory of full arrays of that shape."""
    moved = [np.moveaxis(np.broadcast_to(array, shape), axis, 0) for array in arrays]
    out = np.empty(moved[0].shape)
    for index in np.ndindex(*out.shape[1:]):
        out[(slice(None), *index)] = definition(*[array[(slice(None), *index)] for array in moved])
    return np.moveaxis(out, 0, axis)
