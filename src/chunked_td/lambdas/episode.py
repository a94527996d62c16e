"""A whole episode, for λ sources that learn from returns."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._numba import kernel
from chunked_td.lambdas.step import bootstrap_value


class Episode(NamedTuple):
    """The transitions 0..T−1 of an episode, T = `length[0]`; entries beyond that are left over from earlier ones."""

    states: Annotated[np.ndarray, "int64[T]"]
    actions: Annotated[np.ndarray, "int64[T]"]
    rewards: Annotated[np.ndarray, "float64[T, k]"]  # k = d reward components
    ahead: Annotated[np.ndarray, "float64[k]"]  # B(x_T): 0 on termination, the bootstrap on truncation
    length: Annotated[np.ndarray, "int64[1]"]
    discount: float  # γ
    bootstrap: Any  # see chunked_td.bootstraps


@kernel
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
