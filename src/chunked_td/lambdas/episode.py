"""Inputs of λ sources that learn: a complete episode, running means and variances, Monte-Carlo returns."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td.bootstraps import SARSA
from chunked_td.lambdas.step import bootstrap_value


class Episode(NamedTuple):
    """Transitions 0..T−1 of an episode, T = `length[0]`; later entries belong to earlier episodes."""

    states: Annotated[np.ndarray, "int64[T] in [0, S)"]
    actions: Annotated[np.ndarray, "int64[T] in [0, A)"]
    rewards: Annotated[np.ndarray, "float64[T, k]"]  # k = d reward components
    ahead: Annotated[np.ndarray, "float64[k]"]  # B(x_T): 0 on termination, the bootstrap on truncation
    length: Annotated[np.ndarray, "int64[1], unsaved"]
    discount: float  # γ
    bootstrap: Any  # see chunked_td.bootstraps


def add_transition(episode, step, truncated):
    """Record a transition; `episode` is None if no source learns from episodes."""
    if episode is not None:
        t = episode.length[0]
        episode.states[t] = step.state
        episode.actions[t] = step.action
        for i in range(step.reward.size):
            episode.rewards[t, i] = step.reward[i]
            episode.ahead[i] = 0.0
            if truncated:
                s, values = step.next_state, step.tables.values
                episode.ahead[i] = bootstrap_value(step.bootstrap, step.n_actions, values, s, -1, step.next_policy, i)
        episode.length[0] = t + 1


MOMENTS: dict[str, str] = dict.fromkeys(("number", "mean", "variance"), "float64[S, A]")
"""Arrays of a source with running moments per state (SARSA: per state–action pair)."""


def column_of(bootstrap, action):
    """Column of a state in an array [S, A]: SARSA has one entry per action, the others use the first."""
    return action if bootstrap == SARSA else 0


def add_to_moments(number, mean, variance, s, a, value, least):
    """Add a value at [s, a] with weight w = max(1/n, `least`).

    m ← m + w(x − m),   v ← (1 − w)(v + w(x − m)²);   with w = 1/n these are the mean and the variance of all values.
    """
    number[s, a] += 1.0
    w = max(1.0 / number[s, a], least)
    error = value - mean[s, a]
    mean[s, a] += w * error
    variance[s, a] = (1.0 - w) * (variance[s, a] + w * error * error)


def add_returns(source, episode):
    """Add the return from every transition of an episode (every visit), summed over reward components.

    G_t = r_{t+1} + γ G_{t+1}, with G_T = B(x_T) on truncation and 0 on termination.
    """
    returned = 0.0
    for i in range(episode.ahead.size):
        returned += episode.ahead[i]
    for t in range(episode.length[0] - 1, -1, -1):
        reward = 0.0
        for i in range(episode.ahead.size):
            reward += episode.rewards[t, i]
        returned = reward + episode.discount * returned
        s, a = episode.states[t], column_of(episode.bootstrap, episode.actions[t])
        add_to_moments(source.number, source.mean, source.variance, s, a, returned, source.least_weight)
