"""Many runs in lockstep, one episode at a time: for λ that comes from outside, such as from networks.

    fleet.roll_out()          # every run plays an episode; nothing is learned yet
    λ = …                     # of fleet.states, fleet.actions, fleet.policies: what a model makes of the episodes
    fleet.take_lambda(λ)      # every run makes its updates (Prop. 1)

The runs are those of `chunked_td.run.Run`, laid side by side in memory so that one compiled call serves them all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from chunked_td.compiled import Stream, at, code, kernel, stacked
from chunked_td.lambdas import SARSA, ExpectedLambda
from chunked_td.learners.recursion import finish
from chunked_td.run import Run
from chunked_td.simulation_kernels import play


@kernel
def play_many(
    envs,
    rule,
    tables,
    trace,
    counts,
    memory,
    worlds,
    env_rng,
    policy_rng,
    oracle,
    epsilon,
    step_sizes,
    progress,
    first,
    last,
):
    """One episode of the runs first..last−1, without the updates at its end."""
    for b in range(first, last):
        world = at(worlds, b)
        totals = at(progress, b)
        length = play(
            at(envs, b),
            rule,
            at(tables, b),
            at(trace, b),
            at(counts, b),
            at(memory, b),
            world,
            at(env_rng, b),
            at(policy_rng, b),
            oracle,
            epsilon,
            step_sizes[b],
        )
        totals.returned[0] += world.outcome[0]
        totals.misses[0] += int(world.outcome[1])
        totals.steps[0] += length


@kernel
def learn_many(rule, tables, trace, memory, worlds, coins, lambdas, columns, squared, step_sizes, first, last):
    """Enter λ float32[B, T, ≥1] for the runs first..last−1 and make their updates.

    A run uses column `columns[b]` for all reward components, or column i for component i if that is −1. For SARSA
    the policy's factor is multiplied in here: π(a_{t+1}|x_{t+1}), or Σ_a π(a|x_{t+1})² if `squared`; the latter is
    taken at the state that came, so it is the expectation only where states after the first offer no choice.
    """
    for b in range(first, last):
        column = columns[b]
        m = at(memory, b)
        world = at(worlds, b)
        length = m.length[0]
        for t in range(length):
            factor = 1.0
            if code(rule.bootstrap) == SARSA and t + 1 < length:
                factor = world.policies[t + 1, world.actions[t + 1]]
                if squared:
                    factor = 0.0
                    for a in range(rule.actions):
                        factor += world.policies[t + 1, a] * world.policies[t + 1, a]
            for i in range(m.lambda_.shape[1]):
                m.lambda_[t, i] = lambdas[b, t, i if column < 0 else column] * factor
        finish(rule, at(tables, b), at(trace, b), m, at(coins, b), step_sizes[b])


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
        self.rule, self.oracle, self.needs = runs[0].fixed_rule, runs[0].oracle, runs[0].needs
        self.squared = isinstance(lambda_source, ExpectedLambda)
        self.step_sizes, self.epsilons = np.asarray(step_sizes, np.float64), epsilons
        self.envs = stacked([run.env for run in runs])
        self.tables = stacked([run.tables for run in runs])
        self.trace, self.counts = stacked([run.trace for run in runs]), stacked([run.counts for run in runs])
        self.memory, self.worlds = stacked([run.memory for run in runs]), stacked([run.world for run in runs])
        self.progress = stacked([run.progress for run in runs])
        self.draws = [[run.draws[k] for run in runs] for k in range(3)]
        self.streams = [stacked([draws.stream for draws in group]) for group in self.draws]
        for group, streams in zip(self.draws, self.streams, strict=True):
            for b, draws in enumerate(group):
                draws.stream = Stream(streams.block[b], streams.position[b])
        self.size, self.episode = len(runs), 0
        self.columns = np.zeros(self.size, np.int64) if columns is None else np.asarray(columns, np.int64)
        # waking a thread costs about as much as an episode of forty runs
        workers = max(1, min(threads or os.cpu_count() or 1, self.size // 40))
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

    def roll_out(self) -> None:
        """Every run plays one episode; its updates wait for `take_lambda`."""
        for group, streams, need in zip(self.draws, self.streams, self.needs[:3], strict=True):
            low = streams.block.shape[1] - streams.position[:, 0] < need
            for b in np.flatnonzero(low):
                group[b].reserve(int(need))
        epsilon = float(self.epsilons[self.episode])
        self._spread(
            lambda first, last: play_many(
                self.envs,
                self.rule,
                self.tables,
                self.trace,
                self.counts,
                self.memory,
                self.worlds,
                self.streams[0],
                self.streams[1],
                self.oracle,
                epsilon,
                self.step_sizes,
                self.progress,
                first,
                last,
            )
        )
        self.episode += 1

    def take_lambda(self, lambdas: np.ndarray) -> None:
        """Finish the episode of `roll_out` with λ_t, float32[B, T], or float32[B, T, m] to choose `columns` from."""
        values = np.asarray(lambdas, np.float32)
        values = values if values.ndim == 3 else values[..., None]
        self._spread(
            lambda first, last: learn_many(
                self.rule,
                self.tables,
                self.trace,
                self.memory,
                self.worlds,
                self.streams[2],
                values,
                self.columns,
                self.squared,
                self.step_sizes,
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
