"""λ over training: the mean λ of every state, in windows of episodes."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunked_td._loading import require
from chunked_td.analysis.causes import BREAK, certain_lambda
from chunked_td.learners.learner import Learner
from chunked_td.learners.loop import History, train
from chunked_td.observations.indexers import place_text


@dataclass(frozen=True)
class LambdaHistory:
    """λ by state over training.

    Attributes:
      episodes: int64[n + 1], the boundaries of n windows of training.
      places: the states as short text, by id.
      steps: by state id, int64[n], the number of steps from the state in each window.
      sums: by state id, float64[n, d], the sum of their λ.
      certain: float64[n], the share of steps that count as certain given the policy's ε (`certain_lambda`, for every
        reward component).
      threshold: the least λ of a certain step at the end of training.
      breaks: float64[n], the share of steps at which a chunk breaks (λ < `BREAK` for every reward component).
      history: returns and lengths of the episodes.
    """

    episodes: np.ndarray
    places: dict[int, str]
    steps: dict[int, np.ndarray]
    sums: dict[int, np.ndarray]
    certain: np.ndarray
    threshold: float
    breaks: np.ndarray
    history: History

    def most_visited(self, count: int) -> list[int]:
        """Ids of the most visited states, in the order of their first window and id."""
        return sorted(sorted(self.steps, key=lambda state: -int(self.steps[state].sum()))[:count])

    def mean(self, state: int) -> np.ndarray:
        """float64[n, d]: mean λ of a state in each window; NaN without a visit."""
        steps = self.steps[state][:, None]
        return np.where(steps > 0, self.sums[state] / np.maximum(steps, 1), np.nan)

    def table(self) -> Any:
        """One row per window, state and reward component with a visit, as a polars DataFrame."""
        rows = []
        for state, steps in sorted(self.steps.items()):
            for window in np.flatnonzero(steps):
                often, span = int(steps[window]), (int(self.episodes[window]) + 1, int(self.episodes[window + 1]))
                for i, total in enumerate(self.sums[state][window]):
                    mean = float(total) / often
                    rows.append((*span, state, self.places[state], i, often, mean, mean >= self.threshold))
        names = ["from_episode", "to_episode", "state", "place", "component", "steps", "mean_lambda", "certain"]
        require("a table", "polars")
        return importlib.import_module("polars").DataFrame(rows, schema=names, orient="row")


def watch_training(
    agent: Learner, env: Any, episodes: int, *, windows: int = 20, progress: bool = True
) -> LambdaHistory:
    """Train a learner as `agent.learn(env, episodes)` does, and record λ by state.

    Args: windows: number of windows of equal length.
    """
    bounds = np.unique(np.linspace(0, episodes, min(windows, max(episodes, 1)) + 1).astype(np.int64))
    n, d, begun = bounds.size - 1, agent.n_rewards, agent.episode
    steps: dict[int, np.ndarray] = {}
    sums: dict[int, np.ndarray] = {}
    places: dict[int, str] = {}
    certain, breaks, total = np.zeros(n), np.zeros(n), np.zeros(n)

    def watch(state: int, episode: int) -> None:
        window = int(np.searchsorted(bounds, episode - begun, side="right")) - 1
        lambda_t = agent.memory.lambda_t
        if state not in steps:
            steps[state], sums[state] = np.zeros(n, np.int64), np.zeros((n, d))
            places[state] = place_text(agent.indexer, state)
        steps[state][window] += 1
        sums[state][window] += lambda_t
        total[window] += 1
        certain[window] += bool((lambda_t >= certain_lambda(agent)).all())
        breaks[window] += bool((lambda_t < BREAK).all())

    history = train(agent, env, episodes, progress=progress, watch=watch)
    safe = np.maximum(total, 1)
    return LambdaHistory(bounds, places, steps, sums, certain / safe, certain_lambda(agent), breaks / safe, history)
