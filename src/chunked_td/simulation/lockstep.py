"""Many runs in lockstep, one episode at a time: for λ that networks compute for all runs together.

    lockstep.roll_out()       # every run plays an episode; nothing is learned yet
    answers = …               # of its states, actions and policies: what a reading makes of the episodes
    lockstep.learn(answers)   # every run computes its λs and makes its updates (Prop. 1)

The runs are those of `chunked_td.simulation.run.Run`, laid side by side in memory so that one compiled call serves all.
λ is computed by the same formula as everywhere, from what the networks answered (`readers`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._numba import at, check_layout, code, kernel, stacked
from chunked_td.lambdas.base import LambdaSource
from chunked_td.lambdas.step import Transition, make_step
from chunked_td.learners.state import NO_LAMBDA
from chunked_td.learners.update import Rates, finish, in_unit, lambda_of
from chunked_td.seeding import Stream
from chunked_td.simulation.kernels import Streams, add_outcome, encode, play
from chunked_td.simulation.readers import NumberReader, answers_at
from chunked_td.simulation.run import Run, check_dynamics, compiled_for
from chunked_td.simulation.simulate import check_threads


class Later(NamedTuple):
    """The λ source of a run whose λs are computed after the episode."""

    zero: float = 0.0

    @kernel
    def lambda_t(source, step, i):
        """Not known yet."""
        return 0.0


class Sources(NamedTuple):
    """The λ sources in lockstep: for runs with one λ, and for runs with a λ per reward component."""

    whole: Any
    parts: Any


class Turn(NamedTuple):
    """What the runs do in one call."""

    answers: Annotated[np.ndarray, "float32[B, T, m]"]  # of the networks, read-only
    columns: Annotated[np.ndarray, "int64[B]"]  # where a run finds the number for the whole percept; −1: one per part
    past_epsilon: float  # ε of the episode behind
    epsilon: float  # ε of the episode ahead
    learning: bool
    playing: bool


@kernel
def turn_many(envs, agents, sources, reader, stages, streams, step_sizes, totals, turn, first, last):
    """Let the runs first..last−1 learn from the episode behind them, play the next one, or both.

    A run that has set its `watch` does neither: its latest episode stays where it is.
    """
    for b in range(first, last):
        agent, stage, own = at(agents, b), at(stages, b), at(streams, b)
        if turn.learning and agent.watch[0] == 0:
            enter_lambda(agent, sources, at(reader, b), stage, turn, b)
            if agent.watch[0] == 0:
                finish(agent, own.coins, step_sizes[b])
        if turn.playing and agent.watch[0] == 0:
            add_outcome(at(totals, b), play(at(envs, b), agent, stage, own, Rates(turn.epsilon, step_sizes[b])))


@kernel
def enter_lambda(agent, sources, reader, stage, turn, b):
    """λ of every step of the episode behind, from what the networks answered about it."""
    memory, record, A = agent.memory, stage.record, code(agent.rule.n_actions)
    length = memory.length[0]
    previous = -1
    for t in range(length):
        state = encode(record.states[t], stage.strides)
        next_state = encode(record.states[t + 1], stage.strides)
        action = int(record.actions[t])
        next_action = int(record.actions[t + 1]) if t + 1 < length else -1
        seen, policies = record.rewards[t], (record.policies[t], record.policies[t + 1])
        transition = Transition(state, action, seen, next_state, None, next_state, next_action, previous)
        model = answers_at(reader, turn.answers[b, t], turn.columns[b], record.states[t])
        step = make_step(
            transition,
            policies,
            memory.delta[t],
            memory.scratch,
            turn.past_epsilon,
            agent.rule,
            agent.tables,
            model,
            None,
        )
        if turn.columns[b] < 0:
            for i in range(memory.lambda_.shape[1]):
                memory.lambda_[t, i] = lambda_of(sources.parts, step, i)
        else:
            value = lambda_of(sources.whole, step, 0)
            for i in range(memory.lambda_.shape[1]):
                memory.lambda_[t, i] = value
        for i in range(memory.lambda_.shape[1]):
            if t > 0 and not in_unit(memory.lambda_[t, i]):
                agent.watch[0] |= NO_LAMBDA
        previous = state * A + action


class LockstepRuns:
    """Runs of one environment and learner, with a seed and a step size each.

    Args:
      dynamics, learner, discount, epsilons: as in `chunked_td.simulation.run.Run`.
      lambda_source: of runs with one λ. part_source: of runs with a λ per reward component, where there are both.
      reader: turns the networks' answers into a model, see `chunked_td.simulation.readers`.
      seeds, step_sizes: one of each per run.
      columns: where a run finds the number for the whole percept among the answers; −1 for runs with a λ per reward
        component. Default: column 0.
      threads: at a time; default: as many as pay, at most one per core. Results do not depend on it.

    Attributes:
      states, actions, policies, lengths: of the latest episode, int16[B, T + 1, c], int16[B, T], float64[B, T, A] (of
        x_0 to x_{T−1}) and int64[B].
      values: float64[B, rows, d], the tables of values.
      watch: int64[B], 0 for runs that learn, else why a run has stopped (`chunked_td.learners.state`).
      diverged: int64[B], the episode (from 0) in which a run's learning diverged, −1 where it has not. Such a run
        plays and learns no more; its latest episode stays in the record.
    """

    def __init__(
        self,
        dynamics: Any,
        *,
        learner: str,
        lambda_source: LambdaSource,
        discount: float,
        epsilons: np.ndarray,
        seeds: Sequence[int],
        step_sizes: Sequence[float],
        reader: Any = None,
        part_source: LambdaSource | None = None,
        columns: Sequence[int] | None = None,
        threads: int | None = None,
    ):
        shared: dict[str, Any] = {"learner": learner, "lambda_source": lambda_source, "discount": discount}
        shared |= {"epsilons": epsilons, "model": None, "source": Later(), "view": "offline", "record": True}
        each = zip(seeds, step_sizes, strict=True)
        runs = [Run(dynamics, step_size=float(size), seed=int(seed), **shared) for seed, size in each]
        self.size, self.episode, self.diverged = len(runs), 0, np.full(len(runs), -1, np.int64)
        reader = NumberReader() if reader is None else reader
        sizes = {"S": 0, "A": dynamics.n_actions, "d": dynamics.n_rewards}
        self.sources = Sources(*(source.compiled(sizes) for source in (lambda_source, part_source or lambda_source)))
        self.reader = stacked([reader] * self.size)
        self.step_sizes, self.epsilons = np.asarray(step_sizes, np.float64), epsilons
        self.room, self.name = runs[0].room, runs[0].name
        self.envs, self.agents = stacked([run.env for run in runs]), stacked([run.agent for run in runs])
        self.stages, self.totals = stacked([run.stage for run in runs]), stacked([run.totals for run in runs])
        record, memory = self.stages.record, self.agents.memory
        self.states, self.actions, self.policies = record.states, record.actions, record.policies[:, :-1]
        self.lengths, self.watch, self.values = memory.length[:, 0], self.agents.watch[:, 0], self.agents.tables.values
        self._gather_streams(runs)
        self._kernel = compiled_for(turn_many, runs[0].env, *self.sources)
        self.columns = np.zeros(self.size, np.int64) if columns is None else np.asarray(columns, np.int64)
        self._no_answers = np.zeros((self.size, 0, 1), np.float32)
        parts = dynamics.n_rewards if (self.columns < 0).any() else 1
        self._width = max(parts, int(self.columns.max()) + 1, reader.width)  # numbers per step that are read
        # w threads take work/w and w times what it costs to wake one, about 2,000 updates of a number: least at √
        numbers = self.size * dynamics.horizon * dynamics.n_rewards
        most = check_threads(threads)
        workers = max(1, min(most, round(math.sqrt(numbers / 2000))))
        self._bounds = np.linspace(0, self.size, workers + 1).astype(int).tolist()
        self._pool = ThreadPoolExecutor(workers) if workers > 1 else None

    def _gather_streams(self, runs: Sequence[Run]) -> None:
        """Lay the random numbers of all runs side by side; each run's draws go on filling its part."""
        self.draws = [[run.draws[k] for run in runs] for k in range(3)]
        self.streams = Streams(*(stacked([draws.stream for draws in group]) for group in self.draws))
        for group, streams in zip(self.draws, self.streams, strict=True):
            for b, draws in enumerate(group):
                draws.stream = Stream(streams.block[b], streams.position[b])
        self.streams = self.streams._replace(env=runs[0].env_stream(self.streams.env))

    def draw_ahead(self) -> None:
        """Draw the random numbers of the next episode. `roll_out` does it if you do not; do it while you wait."""
        for group, streams, need in zip(self.draws, self.streams, self.room[:3], strict=True):
            low = streams.block.shape[1] - streams.position[:, 0] < need
            for b in np.flatnonzero(low):
                group[b].reserve(int(need))

    def roll_out(self) -> None:
        """Every run plays one episode; its updates wait for `learn`."""
        self._turn(self._no_answers, learning=False, playing=True)

    def learn(self, answers: np.ndarray, *, roll_on: bool = False) -> None:
        """Finish the episode of `roll_out`, and play the next one if you are to `roll_on`.

        Args:
          answers: of the networks about every step, float32[B, T], or float32[B, T, m] to choose `columns` from.
        """
        values = np.asarray(answers, np.float32)
        values = values if values.ndim == 3 else values[..., None]
        if values.ndim != 3 or values.shape[:2] != self.actions.shape or values.shape[2] < self._width:
            runs, steps = self.actions.shape
            raise ValueError(
                f"answers must have the shape ({runs}, {steps}), or ({runs}, {steps}, m) with m at least "
                f"{self._width}, got {np.shape(answers)}"
            )
        if not np.isfinite(values).all():
            raise ValueError("answers must be finite, got entries that are not")
        self._turn(np.ascontiguousarray(values), learning=True, playing=roll_on)

    def _turn(self, answers: np.ndarray, *, learning: bool, playing: bool) -> None:
        answers = answers.view()
        answers.flags.writeable = False  # as JAX's arrays are: one type, one compilation
        past, ahead = float(self.epsilons[max(self.episode - 1, 0)]), 0.0
        if playing:
            self.draw_ahead()
            ahead = float(self.epsilons[self.episode])
            self.episode += 1
        turn = check_layout(Turn(answers, self.columns, past, ahead, learning, playing))
        runs = (
            self.envs,
            self.agents,
            self.sources,
            self.reader,
            self.stages,
            self.streams,
            self.step_sizes,
            self.totals,
        )
        slices = list(pairwise(self._bounds))
        if self._pool is None:
            for first, last in slices:
                self._kernel(*runs, turn, first, last)
        else:
            list(self._pool.map(lambda bounds: self._kernel(*runs, turn, *bounds), slices))
        if self.watch.any():
            for b in np.flatnonzero((self.watch != 0) & (self.diverged < 0)):  # those that have stopped in this turn
                check_dynamics(self.name, int(self.watch[b]), self.episode - 1)
                self.diverged[b] = self.episode - 1 - int(playing)
