"""Many runs in lockstep, one episode at a time: for λ that comes from outside, such as from networks.

    fleet.roll_out()          # every run plays an episode; nothing is learned yet
    λ = …                     # of fleet.states, fleet.actions, fleet.policies: what a model makes of the episodes
    fleet.take_lambda(λ)      # every run makes its updates (Prop. 1); with roll_on=True it plays on at once

The runs are those of `chunked_td.run.Run`, laid side by side in memory so that one compiled call serves them all.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from chunked_td.compiled import Stream, at, code, kernel, stacked
from chunked_td.lambdas import SARSA, ExpectedLambda
from chunked_td.learners.recursion import finish
from chunked_td.run import Run, compiled_for
from chunked_td.simulation_kernels import play


@kernel
def turn_many(
    envs,
    rule,
    tables,
    trace,
    counts,
    memory,
    worlds,
    streams,
    oracle,
    epsilon,
    step_sizes,
    progress,
    lambdas,
    columns,
    squared,
    learning,
    playing,
    first,
    last,
):
    """Let the runs first..last−1 learn from the episode behind them, play the next one, or both."""
    for b in range(first, last):
        own, memory_b, world = at(tables, b), at(memory, b), at(worlds, b)
        if learning:
            enter_lambda(rule, memory_b, world, lambdas[b], columns[b], squared)
            finish(rule, own, at(trace, b), memory_b, at(streams[2], b), step_sizes[b])
        if playing:
            play(
                at(envs, b),
                rule,
                own,
                at(trace, b),
                at(counts, b),
                memory_b,
                world,
                at(streams[0], b),
                at(streams[1], b),
                oracle,
                epsilon,
                step_sizes[b],
            )
            totals = at(progress, b)
            totals.returned[0] += world.outcome[0]
            totals.misses[0] += int(world.outcome[1])
            totals.steps[0] += int(world.outcome[2])


@kernel
def enter_lambda(rule, memory, world, lambdas, column, squared):
    """Enter λ float32[T, ≥1] of an episode: column `column` for all reward components, or column i for component i if
    that is −1. For SARSA the policy's factor is multiplied in here: π(a_{t+1}|x_{t+1}), or Σ_a π(a|x_{t+1})² if
    `squared`; the latter is taken at the state that came, so it is the expectation only where states after the first
    offer no choice.
    """
    length = memory.length[0]
    for t in range(length):
        factor = 1.0
        if code(rule.bootstrap) == SARSA and t + 1 < length:
            factor = world.policies[t + 1, world.actions[t + 1]]
            if squared:
                factor = 0.0
                for a in range(rule.actions):
                    factor += world.policies[t + 1, a] * world.policies[t + 1, a]
        for i in range(memory.lambda_.shape[1]):
            memory.lambda_[t, i] = lambdas[t, i if column < 0 else column] * factor


class Fleet:
    """Runs of one environment, learner and λ source, with a seed and a step size each.

    Args:
      dynamics, learner, lambda_source, discount, epsilons: as in `chunked_td.run.Run`.
      seeds, step_sizes: one of each per run.
      columns: which of the λs handed to `take_lambda` a run uses: a column for all reward components, or −1 for one
        column each. Default: column 0.
      threads: at a time; default: as many as pay, at most one per core. Results do not depend on it.
    """

    def __init__(
        self,
        dynamics: Any,
        *,
        learner: str,
        lambda_source: Any,
        discount: float,
        epsilons: np.ndarray,
        seeds: Sequence[int],
        step_sizes: Sequence[float],
        columns: Sequence[int] | None = None,
        threads: int | None = None,
    ):
        runs = [
            Run(
                dynamics,
                learner=learner,
                lambda_source=lambda_source,
                model="outside",
                view="offline",
                step_size=float(step_size),
                discount=discount,
                epsilons=epsilons,
                seed=int(seed),
                record_states=True,
            )
            for seed, step_size in zip(seeds, step_sizes, strict=True)
        ]
        self._kernel = compiled_for(dynamics, turn_many)
        self.rule, self.oracle, self.needs = runs[0].fixed_rule, runs[0].oracle, runs[0].needs
        self.squared = isinstance(lambda_source, ExpectedLambda)
        self.step_sizes, self.epsilons = np.asarray(step_sizes, np.float64), epsilons
        self.envs = stacked([run.env for run in runs])
        self.tables = stacked([run.tables for run in runs])
        self.trace, self.counts = stacked([run.trace for run in runs]), stacked([run.counts for run in runs])
        self.memory, self.worlds = stacked([run.memory for run in runs]), stacked([run.world for run in runs])
        self.progress = stacked([run.progress for run in runs])
        self.draws = [[run.draws[k] for run in runs] for k in range(3)]
        self.streams = tuple(stacked([draws.stream for draws in group]) for group in self.draws)
        for group, streams in zip(self.draws, self.streams, strict=True):
            for b, draws in enumerate(group):
                draws.stream = Stream(streams.block[b], streams.position[b])
        self.size, self.episode = len(runs), 0
        self._no_lambdas = np.zeros((self.size, 0, 1), np.float32)
        self.columns = np.zeros(self.size, np.int64) if columns is None else np.asarray(columns, np.int64)
        each = dynamics.rewards if (self.columns < 0).any() else 1
        self._width = max(each, int(self.columns.max()) + 1)  # λs per step that are read
        # w threads take work/w and w times what it costs to wake one, about 2,000 updates of a number: least at √
        numbers = self.size * dynamics.horizon * dynamics.rewards
        workers = max(1, min(threads or os.cpu_count() or 1, round(math.sqrt(numbers / 2000))))
        self._bounds = np.linspace(0, self.size, workers + 1).astype(int).tolist()
        self._pool = ThreadPoolExecutor(workers) if workers > 1 else None

    @property
    def states(self) -> np.ndarray:
        """int16[B, T + 1, c]: states of the latest episode."""
        return self.worlds.states

    @property
    def actions(self) -> np.ndarray:
        """int16[B, T]."""
        return self.worlds.actions

    @property
    def policies(self) -> np.ndarray:
        """float64[B, T, A]: π(·|x_t), t in 0..T−1."""
        return self.worlds.policies[:, :-1]

    def has_choices(self) -> bool:
        """Whether any state after the first offered more than one action in the latest episode."""
        return bool((self.policies[:, 1:].max(axis=2) < 1.0).any())

    def draw_ahead(self) -> None:
        """Draw the random numbers of the next episode. `roll_out` does it if you do not; do it while you wait for λ."""
        for group, streams, need in zip(self.draws, self.streams, self.needs[:3], strict=True):
            low = streams.block.shape[1] - streams.position[:, 0] < need
            for b in np.flatnonzero(low):
                group[b].reserve(int(need))

    def roll_out(self) -> None:
        """Every run plays one episode; its updates wait for `take_lambda`."""
        self._turn(self._no_lambdas, learning=False, playing=True)

    def take_lambda(self, lambdas: np.ndarray, *, roll_on: bool = False) -> None:
        """Finish the episode of `roll_out`, and play the next one if you are to `roll_on`.

        Args:
          lambdas: λ_t, float32[B, T], or float32[B, T, m] to choose `columns` from.
        """
        values = np.asarray(lambdas, np.float32)
        values = values if values.ndim == 3 else values[..., None]
        if values.ndim != 3 or values.shape[:2] != self.actions.shape or values.shape[2] < self._width:
            runs, steps = self.actions.shape
            raise ValueError(
                f"lambdas has the shape {np.shape(lambdas)}; it takes ({runs}, {steps}), or ({runs}, {steps}, m) with "
                f"m at least {self._width}"
            )
        if not np.isfinite(values).all():
            raise ValueError("lambdas has entries that are not finite")
        self._turn(values, learning=True, playing=roll_on)

    def _turn(self, lambdas: np.ndarray, *, learning: bool, playing: bool) -> None:
        lambdas = lambdas.view()
        lambdas.flags.writeable = False  # as JAX's arrays are: one type, one compilation
        epsilon = 0.0
        if playing:
            self.draw_ahead()
            epsilon = float(self.epsilons[self.episode])
            self.episode += 1
        self._spread(
            lambda first, last: self._kernel(
                self.envs,
                self.rule,
                self.tables,
                self.trace,
                self.counts,
                self.memory,
                self.worlds,
                self.streams,
                self.oracle,
                epsilon,
                self.step_sizes,
                self.progress,
                lambdas,
                self.columns,
                self.squared,
                learning,
                playing,
                first,
                last,
            )
        )

    def _spread(self, work: Callable[[int, int], Any]) -> None:
        """Call work(first, last) over slices of the runs, in threads if there are several."""
        slices = list(zip(self._bounds[:-1], self._bounds[1:], strict=True))
        if self._pool is None:
            for first, last in slices:
                work(first, last)
        else:
            for _ in self._pool.map(lambda bounds: work(*bounds), slices):
                pass
