"""The right answers, in plain Python from the definitions: one sequence at a time, one step after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def gae(
    rewards: np.ndarray,
    values: np.ndarray,
    next_values: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    discount: Any,
    lambda_: Any,
) -> np.ndarray:
    """Advantages [T, B] of a rollout.

    Aₜ = δₜ + γₜ λₜ₊₁ (1 − terminatedₜ)(1 − truncatedₜ) Aₜ₊₁,   δₜ = rₜ + γₜ (1 − terminatedₜ) v′ₜ − vₜ
    """
    steps, batch = rewards.shape
    discount, lambda_ = (np.broadcast_to(x, rewards.shape) for x in (discount, lambda_))
    out = np.zeros((steps, batch))
    for b in range(batch):
        later, next_lambda = 0.0, 0.0
        for t in reversed(range(steps)):
            ahead = 0.0 if terminated[t, b] else float(next_values[t, b])
            delta = rewards[t, b] + discount[t, b] * ahead - values[t, b]
            if terminated[t, b] or truncated[t, b]:
                later = 0.0
            later = out[t, b] = delta + discount[t, b] * next_lambda * later
            next_lambda = lambda_[t, b]
    return out


def token_gae(
    rewards: np.ndarray,
    values: np.ndarray,
    mask: np.ndarray,
    discount: Any,
    lambda_: Any,
    last_values: Any = 0.0,
) -> np.ndarray:
    """Advantages [B, T] of the tokens that are not masked, 0 elsewhere; the next token is the next one not masked.

    A reward at a masked token belongs to the last token before it that is not masked.
    """
    batch, steps = rewards.shape
    discount, lambda_ = (np.broadcast_to(x, rewards.shape) for x in (discount, lambda_))
    last_values = np.broadcast_to(last_values, (batch, 1))
    out = np.zeros((batch, steps))
    for b in range(batch):
        later, later_value, next_lambda, spilt = 0.0, float(last_values[b, 0]), 0.0, 0.0
        for t in reversed(range(steps)):
            if not mask[b, t]:
                spilt += rewards[b, t] if np.isfinite(rewards[b, t]) else 0.0
                continue
            delta = rewards[b, t] + spilt + discount[b, t] * later_value - values[b, t]
            later = out[b, t] = delta + discount[b, t] * next_lambda * later
            later_value, next_lambda, spilt = float(values[b, t]), lambda_[b, t], 0.0
    return out


def whitened(advantages: np.ndarray, mask: np.ndarray, ddof: int) -> np.ndarray:
    """Mean 0 and variance 1 over the tokens that are not masked."""
    kept = advantages[mask != 0]
    return np.where(mask != 0, (advantages - kept.mean()) / np.sqrt(kept.var(ddof=ddof) + 1e-8), 0.0)


Definition = Callable[..., np.ndarray]
