"""Many runs in lockstep, one episode at a time: for λ that networks compute for all runs together.

    lockstep.roll_out()       # every run plays an episode without learning
    answers = …               # outputs of the networks for its states, actions and policies
    lockstep.learn(answers)   # every run computes its λs and makes its updates (Prop. 1)

The arrays of each `run.Run` are views of arrays of all runs; one call of a compiled entry takes the addresses of some
of them. λ is computed by the λ source's own kernel from the outputs of the networks (`simulation.readers`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._link import Counted, Packed, Program, at, number, slot, stacked, word_at
from chunked_td.lambdas.base import LambdaSource
from chunked_td.lambdas.step import Transition, make_step
from chunked_td.learners.core import EPSILON, ONGOING, finish, in_unit
from chunked_td.learners.state import NO_LAMBDA
from chunked_td.models.predictions import Predictions
from chunked_td.simulation.play import Scene, carry, encode, play_episode
from chunked_td.simulation.readers import GivenNumbers, NetworkOutcomes, NumberReader, OutcomeReader
from chunked_td.simulation.run import KNOWN, Run, check_dynamics
from chunked_td.simulation.simulate import check_threads

whole_lambda, part_lambda = slot("whole", "lambda_t"), slot("parts", "lambda_t")
answers_at = slot("reader", "answers_at")
read, read_local = slot("arrays", "read"), slot("arrays", "read_local")


class Later(NamedTuple):
    """λ source of a run whose λs are computed after the episode."""

    zero: float = 0.0

    def lambda_t(source, step, i):  # pyright: ignore[reportSelfClsParameterName]
        """Return 0, a placeholder."""
        return 0.0


PAST_EPSILON, LEARNING, PLAYING = range(3)


class Turn(NamedTuple):
    """A run, and its tasks in one call."""

    scene: Scene
    whole: Any  # λ source of runs with one λ
    parts: Any  # λ source of runs with a λ per reward component
    reader: Any
    answers: Annotated[np.ndarray, "float32[T, m]"]  # outputs of the networks
    column: Annotated[np.ndarray, "int64[1]"]  # column of the number for the whole percept; −1: one per part
    now: Annotated[
        np.ndarray, "float64[3]"
    ]  # ε of the played episode; whether to learn from it; whether to play the next


def turn_many(addresses, first, last):
    """Call `take_turn` for runs first..last−1; `addresses` is the address of an array of their addresses."""
    for b in range(first, last):
        take_turn(word_at(addresses + 8 * b))
    return 0


def take_turn(address):
    """Learn from the played episode, play the next one, or both. A run that has set its `watch` does neither."""
    kept, here = read(address), read_local(address)
    carry(kept.scene, here.scene)
    if kept.now[LEARNING] > 0.0 and here.scene.m.watch[0] == 0:
        enter_lambda(here, kept.column[0], kept.now[PAST_EPSILON])
        if here.scene.m.watch[0] == 0:
            finish(here.scene.m)
    if kept.now[PLAYING] > 0.0 and here.scene.m.watch[0] == 0:
        play_episode(here.scene)
    carry(here.scene, kept.scene)


def enter_lambda(turn, column, epsilon):
    """Write λ of every step of the played episode, from the outputs of the networks."""
    m, stage = turn.scene.m, turn.scene.stage
    memory, record, A = m.memory, stage.record, m.rule.n_actions
    length, previous = memory.length[0], -1
    for t in range(length):
        state, next_state = encode(record.states[t], stage.strides), encode(record.states[t + 1], stage.strides)
        action = int(record.actions[t])
        next_action = int(record.actions[t + 1]) if t + 1 < length else -1
        seen = record.rewards[t]
        transition = Transition(state, action, seen, next_state, None, next_state, next_action, previous, ONGOING)
        policies = record.policies[t], record.policies[t + 1]
        model = answers_at(turn.reader, turn.answers[t], column, record.states[t])
        delta = memory.delta[t]
        step = make_step(transition, policies, delta, memory.scratch, epsilon, m.rule, m.tables, model, None)
        if column < 0:
            for i in range(memory.lambda_.shape[1]):
                memory.lambda_[t, i] = number(part_lambda(turn.parts, step, i))
        else:
            value = number(whole_lambda(turn.whole, step, 0))
            for i in range(memory.lambda_.shape[1]):
                memory.lambda_[t, i] = value
        for i in range(memory.lambda_.shape[1]):
            if t > 0 and not in_unit(memory.lambda_[t, i]):
                m.watch[0] |= NO_LAMBDA
        previous = state * A + action


def answering(reader: Any) -> Any:
    """Class of the model that a reader returns."""
    kinds = {NumberReader: GivenNumbers, OutcomeReader: NetworkOutcomes}
    return kinds.get(type(reader), Predictions)


class LockstepRuns:
    """Runs of one environment and learner, with a seed and a step size each.

    Args:
      dynamics, learner, discount, epsilons: as in `Run`.
      lambda_source: of runs with one λ. part_source: of runs with a λ per reward component, if there are both.
      reader: makes a model of the networks' outputs, see `simulation.readers`.
      seeds, step_sizes: one of each per run.
      columns: column of the number for the whole percept in the outputs, for each run; −1 for runs with a λ per reward
        component. Default: 0.
      threads: number of threads. Default: by the number of updates, at most one per core. Results do not depend on it.

    Attributes:
      states, actions, policies, lengths: of the latest episode, int16[B, T + 1, c], int16[B, T], float64[B, T, A] (of
        x_0 to x_{T−1}) and int64[B].
      values: float64[B, rows, d], the tables of values. totals, envs: of all runs.
      watch: int64[B], 0 for runs that learn, else the reason why a run has stopped (`learners.state`).
      diverged: int64[B], the episode (from 0) in which a run's learning diverged, −1 for none. Such a run stops; its
        latest episode stays in the record.
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
        shared |= {"epsilons": np.asarray(epsilons, np.float64), "model": None, "source": Later(), "view": "offline"}
        each = zip(seeds, step_sizes, strict=True)
        runs: list[Run] = []
        for seed, size in each:
            program = runs[0].program if runs else None
            runs.append(Run(dynamics, step_size=float(size), seed=int(seed), record=True, program=program, **shared))
        self.size, self.episode, self.diverged = len(runs), 0, np.full(len(runs), -1, np.int64)
        reader, self.name, self.epsilons = NumberReader() if reader is None else reader, runs[0].name, epsilons
        self.columns = np.zeros(self.size, np.int64) if columns is None else np.asarray(columns, np.int64)
        parts = dynamics.n_rewards if (self.columns < 0).any() else 1
        self._width = max(parts, int(self.columns.max()) + 1, reader.width)  # numbers per step that are read
        self.step_sizes = np.asarray(step_sizes, np.float64)
        self._lay_out(runs, (lambda_source, part_source or lambda_source), reader, dynamics)
        # w threads take work/w + w·c; the cost c of waking one is about 2,000 updates, so the best w is √(work/c)
        numbers = self.size * dynamics.horizon * dynamics.n_rewards
        workers = max(1, min(check_threads(threads), round(math.sqrt(numbers / 2000))))
        self._bounds = np.linspace(0, self.size, workers + 1).astype(int).tolist()
        self._pool = ThreadPoolExecutor(workers) if workers > 1 else None

    def _lay_out(self, runs: Sequence[Run], sources: Any, reader: Any, dynamics: Any) -> None:
        """Stack the arrays of all runs, and link the entry for them."""
        sizes = {"S": 0, "A": dynamics.n_actions, "d": dynamics.n_rewards}
        self.scenes = stacked([run.scene for run in runs])
        self.readers = stacked([reader] * self.size)
        self.now = np.zeros(3)
        self.answers = np.zeros((self.size, dynamics.horizon, self._width), np.float32)
        whole, part = (source.compiled(sizes) for source in sources)
        turns = [
            Turn(at(self.scenes, b), whole, part, at(self.readers, b), self.answers[b], column, self.now)
            for b, column in enumerate(self.columns.reshape(-1, 1))
        ]
        known = {"c": len(dynamics.nvec), "p": dynamics.n_rewards, "d": dynamics.n_rewards, "A": dynamics.n_actions}
        if getattr(dynamics, "one_loop", False):
            del known["A"]
        roles = {"whole": type(sources[0]), "parts": type(sources[1]), "reader": type(reader)}
        scopes: dict[str, Any] = {role: {"model": answering(reader)} for role in ("whole", "parts")}
        if not runs[0].stage.trusted:
            scopes["dynamics"] = {"rng": Counted}
        program = Program(turns[0], {**runs[0].program.parts, **roles}, known | KNOWN, scopes=scopes)
        self.packed = [Packed(turn, program.compiled) for turn in turns]
        self.addresses = np.array([one.address for one in self.packed], np.int64)
        self._turn_many = program(turn_many, 2) if program.compiled else self._each_turn(program)
        m, record = self.scenes.m, self.scenes.stage.record
        self.envs, self.totals = self.scenes.env, self.scenes.totals
        self.states, self.actions, self.policies = record.states, record.actions, record.policies[:, :-1]
        self.lengths, self.watch, self.values = m.memory.length[:, 0], m.watch[:, 0], m.tables.values

    def _each_turn(self, program: Program) -> Any:
        """`turn_many` in Python."""
        one = program(take_turn, 0)
        return lambda addresses, first, last: [one(int(self.addresses[b])) for b in range(first, last)]

    def roll_out(self) -> None:
        """Play one episode of every run; `learn` makes its updates."""
        self._turn(learning=False, playing=True)

    def learn(self, answers: np.ndarray, *, roll_on: bool = False) -> None:
        """Make the updates of the episode of `roll_out`, and play the next one if `roll_on`.

        Args:
          answers: outputs of the networks for every step, float32[B, T], or float32[B, T, m] with the `columns`.
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
            raise ValueError(f"answers must be finite, got {values[~np.isfinite(values)][0]}")
        self.answers[:] = values[..., : self._width]
        self._turn(learning=True, playing=roll_on)

    def _turn(self, *, learning: bool, playing: bool) -> None:
        self.now[:] = float(self.epsilons[max(self.episode - 1, 0)]), learning, playing
        if playing:
            self.scenes.m.rates[:, EPSILON] = self.epsilons[self.episode]
            self.episode += 1
        table, slices = self.addresses.ctypes.data, list(pairwise(self._bounds))
        if self._pool is None:
            for first, last in slices:
                self._turn_many(table, first, last)
        else:
            list(self._pool.map(lambda bounds: self._turn_many(table, *bounds), slices))
        if self.watch.any():
            for b in np.flatnonzero((self.watch != 0) & (self.diverged < 0)):  # runs that stopped in this turn
                check_dynamics(self.name, int(self.watch[b]), self.episode - 1)
                self.diverged[b] = self.episode - 1 - int(playing)
