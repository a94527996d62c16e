"""Checks of what users and environments hand to a learner."""

from __future__ import annotations

from typing import Any

import numpy as np

from chunked_td._checks import check_choice


def learner_by_name(name: str) -> Any:
    """The learner class called `name`; an unknown name is an error that offers the nearest one."""
    import chunked_td

    return getattr(chunked_td, check_choice("learner", name, chunked_td.LEARNERS))


def check_policy_table(policy: Any, indexer: Any, n_actions: int) -> np.ndarray:
    """Action probabilities of every state, float64[S, A]."""
    table = np.array(policy, np.float64)
    if not indexer.fixed:
        raise ValueError("policy: states get ids on first sight here, so pass a function from observation to float[A]")
    if table.shape != (indexer.size, n_actions):
        raise ValueError(f"policy must have shape (states, actions) = {(indexer.size, n_actions)}, got {table.shape}")
    if not ((table >= 0.0).all() and (abs(table.sum(axis=1) - 1.0) <= 1e-8).all()):
        raise ValueError("policy must have rows of probabilities that sum to 1")
    return table


def policy_row(given: Any, legal: np.ndarray) -> np.ndarray:
    """A user's action probabilities in one state, over the legal actions: float64[A]."""
    row = np.asarray(given, np.float64)
    if row.shape != legal.shape or not (row >= 0.0).all() or abs(row.sum() - 1.0) > 1e-8:
        raise ValueError(f"policy must give {legal.size} probabilities that sum to 1, got {row!r}")
    allowed = np.where(legal, row, 0.0)
    if not allowed.sum() > 0.0:
        raise ValueError(f"policy must allow a legal action, got {row!r} where info['action_mask'] is {legal!r}")
    return allowed / allowed.sum()


def check_reward_vector(reward: Any, components: int) -> np.ndarray:
    """A finite number per reward component."""
    try:
        values = np.asarray(reward, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"reward must have {components} numbers, got {reward!r}") from None
    if values.shape != (components,):
        raise ValueError(f"reward must have {components} components, got {reward!r} of shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"reward must be finite in every component, got {reward!r}")
    return values


def legal_actions(mask: Any, n_actions: int) -> np.ndarray:
    """The legal actions of `info["action_mask"]`, bool[A]."""
    legal = np.asarray(mask).astype(bool)
    if legal.shape != (n_actions,):
        raise ValueError(f"info['action_mask'] must have shape ({n_actions},), got {mask!r}")
    if not legal.any():
        raise ValueError(f"info['action_mask'] forbids every action: {mask!r}; at least one must be allowed")
    return legal
