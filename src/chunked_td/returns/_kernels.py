"""Recursions as compiled loops over [outer, T, inner] arrays.

`outer` is the axes before time and `inner` those after it, so any time axis is read without a copy; the loop over
`inner` runs over neighbours in memory. Arguments may have length 1 along `outer` or T. Kernels compute in the precision
of their arrays and return the number of coefficients outside [0, 1].
"""

import math


def at(array, o, t):
    """Index of the entries for (o, t); an axis of length 1 broadcasts."""
    return min(o, array.shape[0] - 1), min(t, array.shape[1] - 1)


def outside(x):
    """Whether a number is outside [0, 1], or NaN."""
    return not (x >= 0.0 and x <= 1.0)


def lambda_returns(r_t, discount_t, v_t, lambda_t, out):
    """Gₜ₋₁ = rₜ + γₜ[(1 − λₜ)vₜ + λₜGₜ],   G_T = v_T."""
    last, wrong = r_t.shape[1] - 1, 0
    for o in range(r_t.shape[0]):
        for t in range(last, -1, -1):
            r, v = r_t[o, t], v_t[at(v_t, o, t)]
            discount, lam = discount_t[at(discount_t, o, t)], lambda_t[at(lambda_t, o, t)]
            g = v if t == last else out[o, t + 1]
            x = out[o, t]
            for i in range(x.shape[0]):
                x[i] = r[i] + discount[i] * ((1.0 - lam[i]) * v[i]) + discount[i] * lam[i] * g[i]
            for i in range(x.shape[0]):
                wrong += outside(lam[i]) or outside(discount[i])
    return wrong


def gae(rewards, values, next_values, terminated, truncated, discounts, lambdas, out):
    """Aₜ = δₜ + γₜ λₜ₊₁ (1 − dₜ) Aₜ₊₁,   δₜ = rₜ + γₜ (1 − terminatedₜ) v′ₜ − vₜ,   A_T = 0."""
    last, wrong = rewards.shape[1] - 1, 0
    for o in range(rewards.shape[0]):
        out[o, last] = 0.0
        for lam in lambdas[at(lambdas, o, 0)]:  # the λ of the first state is not used
            wrong += outside(lam)
        for t in range(last, -1, -1):
            r, v, v_next = rewards[o, t], values[at(values, o, t)], next_values[at(next_values, o, t)]
            end, cut = terminated[at(terminated, o, t)], truncated[at(truncated, o, t)]
            discount, lam = discounts[at(discounts, o, t)], lambdas[at(lambdas, o, t + 1)]
            x, later = out[o, t], out[o, min(t + 1, last)]
            for i in range(x.shape[0]):
                factor = 0.0 if end[i] or cut[i] else discount[i] * lam[i]
                x[i] = r[i] + discount[i] * (0.0 if end[i] else v_next[i]) - v[i] + factor * later[i]
            for i in range(x.shape[0]):
                wrong += outside(lam[i]) or outside(discount[i])
    return wrong


def token_gae(rewards, values, mask, discounts, policy, critic, worth, advantages, targets):
    """Gₜ = rₜ + γₜUₜ₊₁ with two λ, Uₜ = (1 − λₜ)vₜ + λₜGₜ; masked steps are skipped, except for their rewards.

    worth[outer, 3, inner] is, on entry, U after the last step (twice) and 0. On return it is U before the first step,
    and the rewards of masked steps with no unmasked step before them.
    """
    wrong = 0
    for o in range(rewards.shape[0]):
        u, w, spilt = worth[o, 0], worth[o, 1], worth[o, 2]
        for t in range(rewards.shape[1] - 1, -1, -1):
            r, v, here = rewards[o, t], values[at(values, o, t)], mask[at(mask, o, t)]
            discount, lam, mu = discounts[at(discounts, o, t)], policy[at(policy, o, t)], critic[at(critic, o, t)]
            advantage, target = advantages[o, t], targets[o, t]
            for i in range(r.shape[0]):
                advantage[i] = target[i] = 0.0
                if here[i]:
                    reward = r[i] + spilt[i]
                    g = reward + discount[i] * u[i]
                    advantage[i] = g - v[i]
                    target[i] = reward + discount[i] * w[i]
                    spilt[i] = 0.0
                    u[i] = (1.0 - lam[i]) * v[i] + lam[i] * g
                    w[i] = (1.0 - mu[i]) * v[i] + mu[i] * target[i]
                    wrong += outside(lam[i]) or outside(mu[i]) or outside(discount[i])
                elif math.isfinite(r[i]):
                    spilt[i] += r[i]
    return wrong


def linear_recursion(b, a, start, out):
    """xₜ₋₁ = bₜ + aₜxₜ, x_T = start[outer, 1, inner]; every array has its full shape."""
    last = b.shape[1] - 1
    for o in range(b.shape[0]):
        for t in range(last, -1, -1):
            later = start[o, 0] if t == last else out[o, t + 1]
            for i in range(b.shape[2]):
                out[o, t, i] = b[o, t, i] + a[o, t, i] * later[i]


def n_step_returns(r_t, discount_t, v_t, lambda_t, n, out):
    """Recursion of `lambda_returns` over the next n steps, from every step; full shapes."""
    steps = r_t.shape[1]
    for o in range(r_t.shape[0]):
        for start in range(steps):
            last = min(start + n, steps) - 1
            for i in range(r_t.shape[2]):
                g = v_t[o, last, i]
                for t in range(last, start - 1, -1):
                    discount, lam = discount_t[o, t, i], lambda_t[o, t, i]
                    g = r_t[o, t, i] + discount * ((1.0 - lam) * v_t[o, t, i]) + discount * lam * g
                out[o, start, i] = g
