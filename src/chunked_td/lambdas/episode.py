"""For λ sources that learn: a whole episode; running means and variances, also those of Monte-Carlo returns."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td.bootstraps import SARSA
from chunked_td.lambdas.step import bootstrap_value


class Episode(NamedTuple):
    """The transitions 0..T−1 of an episode, T = `length[0]`; entries beyond that are left over from earlier ones."""

    states: Annotated[np.ndarray, "int64[T] in [0, S)"]
    actions: Annotated[np.ndarray, "int64[T] in [0, A)"]
    rewards: Annotated[np.ndarray, "float64[T, k]"]  # k = d reward components
    ahead: Annotated[np.ndarray, "float64[k]"]  # B(x_T): 0 on termination, the bootstrap on truncation
    length: Annotated[np.ndarray, "int64[1], unsaved"]
    discount: float  # γ
    bootstrap: Any  # see chunked_td.bootstraps


def add_transition(episode, step, truncated):
    """Write down a transition; `episode` is None where no source is shown one."""
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
"""The arrays of a source that keeps them for every state (SARSA: every pair)."""


def column_of(bootstrap, action):
    """Where an array [S, A] keeps what belongs to a state: SARSA has an entry per action, the others the first only."""
    return action if bootstrap == SARSA else 0


def add_to_moments(number, mean, variance, s, a, value, least):
    """One more value at [s, a]: its weight is 1/n, or `least` where that is more.

    m ← m + w(x − m),   v ← (1 − w)(v + w(x − m)²);   with w = 1/n these are the mean and the variance of all values.
    """
    number[s, a] += 1.0
    w = max(1.0 / number[s, a], least)
    error = value - mean[s, a]
    mean[s, a] += w * error
    variance[s, a] = (1.0 - w) * (variance[s, a] + w * error * error)


def add_returns(source, episode):
    """The return from every transition of an episode (every visit), summed over reward components.

    G_t = r_{t+1} + γ G_{t+1}, with G_T = B(x_T) where the episode was cut and 0 where it ended.
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
