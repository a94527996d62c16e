"""Runs of λ sources that are plain Python: step by step on the Gymnasium face, with the results of a compiled run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from chunked_td.envs.face import DynamicsEnv
from chunked_td.envs.protocol import Dynamics
from chunked_td.lambdas.base import LambdaSource
from chunked_td.learners.exploration import Exploration
from chunked_td.learners.inputs import learner_by_name
from chunked_td.learners.loop import play_episode
from chunked_td.learners.schedule import Schedule
from chunked_td.learners.state import Diverged
from chunked_td.models.errors import ModelError

_LEARNERS = {
    "td": "ChunkedTD",
    "sarsa": "ChunkedSarsa",
    "expected_sarsa": "ChunkedExpectedSarsa",
    "q_learning": "QLambda",
}


class _WatchedEnv(DynamicsEnv):
    """Dynamics that remember the first action of the episode, and sum its discounted rewards."""

    first, discount = -1, 1.0

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        self.first, self.discounted, self._gain = -1, 0.0, 1.0
        return super().reset(**arguments)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.first = int(action) if self.first < 0 else self.first
        observed = super().step(action)
        self.discounted += self._gain * float(np.sum(observed[1]))
        self._gain *= self.discount
        return observed

    def missed(self) -> int:
        """Whether the episode was regretful."""
        return int(hasattr(self._env, "miss") and self._env.miss(self._env, self.first, self._state))


class PlainRun:
    """One run; as far as `record_run` is concerned, a `Run`."""

    def __init__(
        self,
        dynamics: Dynamics,
        *,
        seed: int,
        learner: str,
        lambda_source: LambdaSource,
        model: str | None,
        error: ModelError | None,
        epsilons: np.ndarray,
        exploration: Exploration | None = None,
        sum_lambda: bool = False,
        **settings: Any,
    ):
        if model == "oracle" or error is not None:
            raise ValueError(f"model must be 'counts' for {lambda_source!r}, plain Python, got {error or model!r}")
        self.env, self.episode, self.diverged = _WatchedEnv(dynamics), 0, -1
        self.env.discount = settings["discount"]
        explores = learner != "td" and (exploration is None or exploration.uses_epsilon)
        self.learner = learner_by_name(_LEARNERS[learner])(
            self.env,
            seed=seed,
            lambda_source=lambda_source,
            epsilon=Schedule(tuple(enumerate(epsilons.tolist()))) if explores else None,
            exploration=exploration,
            **settings,
        )
        whole, real = (lambda: np.zeros(1, np.int64)), (lambda: np.zeros(1))
        self.totals = SimpleNamespace(misses=whole(), returned=real(), discounted=real(), steps=whole())
        self.stage = SimpleNamespace(lambdas=[] if sum_lambda else None)
        self.rows = int(np.prod(dynamics.nvec)) * (1 if learner == "td" else dynamics.n_actions)

    @property
    def agent(self) -> Any:
        """The compiled state of the learner."""
        return self.learner._state

    @property
    def values(self) -> np.ndarray:
        """The table of values, float64[rows, d]."""
        return self.learner.tables.values[: self.rows]

    def play_to(self, episode: int) -> None:
        """Play until `episode` episodes are done, or until learning diverges: `diverged` is the episode of that."""
        while self.episode < episode and self.diverged < 0:
            seed, self.episode, begun = None if self.episode else self.learner.seed, self.episode + 1, []

            def watch(state: int, _: int, begun: list[int] = begun) -> None:
                if begun and self.stage.lambdas is not None:  # the first step has no λ
                    self.stage.lambdas.append(self.learner.memory.lambda_t.mean())
                begun.append(state)

            try:
                total, length, _ = play_episode(self.learner, self.env, seed, watch=watch)
            except Diverged:
                self.diverged = self.episode - 1
                return
            self.totals.returned[0] += total
            self.totals.discounted[0] += self.env.discounted
            self.totals.steps[0] += length
            self.totals.misses[0] += self.env.missed()

    def take_lambda(self) -> float:
        """Mean λ since this was last asked; NaN where no step had one."""
        mean = float(np.mean(self.stage.lambdas)) if self.stage.lambdas else np.nan
        self.stage.lambdas.clear()
        return mean
