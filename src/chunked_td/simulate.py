"""Whole runs, compiled: environment × policy × λ × learner, many runs side by side.

A run plays thousands of episodes without touching Python. It calls the kernels that `agent.step` calls, in the same
order, on the same random numbers, so both give the same values bit for bit. Runs are independent; threads only
decide where each one executes.

Seeds: run `s` draws its environment from `SeedSequence(s)`, exactly as `env.reset(seed=s)` does in Gymnasium, its
policy from the first child of that sequence and its model (sampled chunks, networks) from the second.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from chunked_td.compiled import Draws, code, kernel, known
from chunked_td.envs.dynamics.protocol import Dynamics, independent_copy
from chunked_td.lambdas import (
    BACKWARD,
    EXPECTED_SARSA,
    EXTERNAL,
    FACTORED,
    SARSA,
    STATE,
    ForwardLambda,
    LambdaSource,
)
from chunked_td.learners.recursion import (
    SAMPLED,
    TRACES,
    VIEWS,
    Memory,
    Tables,
    advance,
    arrive,
    conclude,
    finish,
)
from chunked_td.learners.setup import component_groups, count_origins, make_rule
from chunked_td.models.counts import Counts
from chunked_td.traces import Trace

BOOTSTRAPS = {"td": STATE, "sarsa": SARSA, "expected_sarsa": EXPECTED_SARSA}
"""Learners by name; the λ source makes each of them a fixed-λ or a chunked one."""

_BLOCK = 1 << 14  # uniforms drawn ahead per stream


def _dispatch(name: str) -> Callable[..., Any]:
    """A function that calls the static kernel `name` of its first argument's class, compiled or not."""

    def call(env, *args):
        return getattr(type(env), name)(env, *args)

    @overload(call, jit_options={"_nrt": False, "nogil": True, "error_model": "numpy", "forceinline": True})
    def compiled(env, *args):
        target = getattr(env.instance_class, name)

        def implementation(env, *args):
            return target(env, *args)

        return implementation

    return call


env_reset, env_step, env_legal = _dispatch("reset"), _dispatch("step"), _dispatch("legal")
env_miss, env_probability = _dispatch("miss"), _dispatch("probability")


class World(NamedTuple):
    """The environment's side of a run, and the record of the latest episode."""

    state: np.ndarray  # int64[c]
    before: np.ndarray  # int64[c]: the state that the transition left
    strides: np.ndarray  # int64[c]: id = Σ state · stride
    reward: np.ndarray  # float64[d]
    legal: np.ndarray  # bool[A + 1, A]: row m allows the first m actions
    chances: np.ndarray  # float64[c]
    states: np.ndarray  # int16[T + 1, c], or [0, c] where no record is kept
    actions: np.ndarray  # int16[T]
    policies: np.ndarray  # float64[T + 1, A]: π(·|x_t)
    outcome: np.ndarray  # float64[3]: return of the episode, missed (0 or 1), length


@kernel
def encode(state, strides):
    """Id of a state: the mixed-radix number of its components."""
    total = 0
    for i in range(state.size):
        total += state[i] * strides[i]
    return total


@kernel
def _record(world, memory, t):
    for i in range(world.state.size):
        world.states[t, i] = world.state[i]
    for a in range(memory.next_policy.size):
        world.policies[t, a] = memory.next_policy[a]


@kernel
def oracle_lambda(env, rule, tables, memory, world, a, a2, per_component):
    """λ_t from the true dynamics, into `memory.lambda_t` (Alg. 2 for SARSA, Alg. 1, 3, 4 otherwise)."""
    out = memory.lambda_t
    for i in range(out.size):
        out[i] = 0.0
    for b in range(rule.actions):
        weight = memory.policy[b]
        if code(rule.bootstrap) == SARSA:
            weight = 1.0 if b == a else 0.0
        if weight <= 0.0:
            continue
        env_probability(env, world.before, b, world.state, world.chances)
        for i in range(out.size):
            p = 1.0
            for j in range(world.chances.size):
                if not per_component or tables.groups[i, j]:
                    p *= world.chances[j]
            out[i] += weight * p
    if code(rule.bootstrap) == SARSA and a2 >= 0:
        for i in range(out.size):
            out[i] *= memory.next_policy[a2]


@kernel
def play(env, rule, tables, trace, counts, memory, world, env_rng, policy_rng, oracle, epsilon, step_size):
    """One episode, up to but not including the updates at its end. Returns the last transition's number.

    Args:
      oracle: 0 = λ by `rule.source`; 1 = true probability of the percept; 2 = of each component.
    """
    recording = world.states.shape[0] > 0
    env_reset(env, env_rng, world.state)
    s = encode(world.state, world.strides)
    a = arrive(rule, tables, memory, policy_rng, s, world.legal[env_legal(env, world.state)], epsilon, True)
    for b in range(rule.actions):
        memory.policy[b] = memory.next_policy[b]
    first = a
    total = 0.0
    t = 0
    ended = False
    if recording:
        _record(world, memory, 0)
    while not ended:
        if code(oracle) > 0:
            for i in range(world.state.size):
                world.before[i] = world.state[i]
        ended = env_step(env, env_rng, world.state, a, world.reward)
        s2 = encode(world.state, world.strides)
        legal = world.legal[0 if ended else env_legal(env, world.state)]
        if code(oracle) > 0:
            a2 = -1
            if not ended:
                a2 = arrive(rule, tables, memory, policy_rng, s2, legal, epsilon, True)
            oracle_lambda(env, rule, tables, memory, world, a, a2, code(oracle) == 2)
            conclude(rule, tables, trace, memory, s, a, world.reward, s2, a2, ended, step_size)
        else:
            end = 1 if ended else 0
            a2 = advance(
                rule,
                tables,
                trace,
                counts,
                memory,
                policy_rng,
                s,
                a,
                world.reward,
                s2,
                s2,
                legal,
                end,
                epsilon,
                step_size,
            )
        for i in range(world.reward.size):
            total += world.reward[i]
        if recording:
            world.actions[t] = a
            _record(world, memory, t + 1)
        t += 1
        s = s2
        a = a2
    world.outcome[0] = total
    world.outcome[1] = 1.0 if env_miss(env, first, world.state) else 0.0
    world.outcome[2] = t
    return t


class Progress(NamedTuple):
    """Running totals of a run."""

    misses: np.ndarray  # int64[1]
    returned: np.ndarray  # float64[1]: since the latest record
    steps: np.ndarray  # int64[1]


@kernel
def play_block(
    env, rule, tables, trace, counts, memory, world, streams, needs, oracle, epsilons, step_size, first, last, progress
):
    """Episodes first..last−1, or as many as the random numbers and the count table have room for.

    Args:
      streams: Streams of the environment, the policy and the coins.
      needs: int64[4]: the most an episode takes of each stream, and new pairs it may add to the counts.
    Returns:
      The first episode not played.
    """
    for episode in range(first, last):
        for k in range(3):
            if streams[k].block.size - streams[k].position[0] < needs[k]:
                return episode
        if counts.origin.size - counts.size[0] < needs[3]:
            return episode
        play(
            env,
            rule,
            tables,
            trace,
            counts,
            memory,
            world,
            streams[0],
            streams[1],
            oracle,
            epsilons[episode],
            step_size,
        )
        finish(rule, tables, trace, memory, streams[2], step_size)
        progress.returned[0] += world.outcome[0]
        progress.misses[0] += int(world.outcome[1])
        progress.steps[0] += int(world.outcome[2])
    return last


@dataclass(frozen=True)
class Runs:
    """Results of R runs, recorded K times, with P probed values.

    Attributes:
      misses: int64[R], regretful episodes in all.
      misses_at: int64[R, K], regretful episodes among the first `record_at[k]`.
      probes_at: float64[R, K, P], Σ_i Q^i at the probed rows after `record_at[k]` episodes.
      returns_at: float64[R, K], sum of episode returns since the previous record.
      steps: int64[R], transitions.
      values: float64[R, rows, d], or None unless asked for.
    """

    misses: np.ndarray
    misses_at: np.ndarray
    probes_at: np.ndarray
    returns_at: np.ndarray
    steps: np.ndarray
    values: np.ndarray | None


class Run:
    """One run: its tables, its random numbers, and how far it has come. Arguments as in `simulate`."""

    def __init__(
        self,
        dynamics: Dynamics,
        *,
        learner: str,
        lambda_source: LambdaSource,
        model: str | None,
        view: str,
        step_size: float,
        discount: float,
        epsilons: np.ndarray,
        seed: int,
        record_states: bool = False,
    ):
        self.env: Any = independent_copy(dynamics)
        self.step_size, self.epsilons = float(step_size), epsilons
        external = model is not None and model not in ("counts",)
        bootstrap = BOOTSTRAPS[learner]
        self.rule = make_rule(bootstrap, lambda_source, VIEWS[view], dynamics.actions, discount, external=external)
        oracle = 0 if model != "oracle" else (2 if lambda_source.code == FACTORED else 1)
        self.oracle = known(oracle)
        self.fixed_rule = self.rule._replace(
            **{f: known(getattr(self.rule, f)) for f in ("bootstrap", "source", "mode", "policy")}
        )
        nvec = np.array(dynamics.nvec, np.int64)
        states = int(nvec.prod())
        self._tables(nvec, states, lambda_source)
        A, d, T = dynamics.actions, dynamics.rewards, dynamics.horizon
        offline = self.rule.mode != TRACES
        self.memory = Memory.empty(A, d, T if offline else 0)
        self.trace = Trace.empty(0 if offline else self.tables.values.shape[0], d, 0 if offline else T)
        strides = np.append(np.cumprod(nvec[:0:-1])[::-1], 1).astype(np.int64)
        record = T if record_states else -1
        self.world = World(
            *(np.zeros(nvec.size, np.int64) for _ in range(2)),
            strides,
            np.zeros(d),
            np.tril(np.ones((A + 1, A), bool), -1),
            np.zeros(nvec.size),
            np.zeros((record + 1, nvec.size), np.int16),
            np.zeros(max(record, 0), np.int16),
            np.zeros((record + 1, A)),
            np.zeros(3),
        )
        self._randomness(dynamics, seed)
        self.progress = Progress(np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.int64))
        self.episode = 0

    def _tables(self, nvec: np.ndarray, states: int, source: LambdaSource) -> None:
        A, d = self.rule.actions, self.env.rewards
        rows = states if self.rule.bootstrap == STATE else states * A
        from chunked_td.learners.recursion import needs_legal

        legal = np.zeros((states if needs_legal(self.rule) else 0, A), bool)
        groups = component_groups(source, d, nvec.size)
        self.tables = Tables(np.zeros((rows, d)), legal, nvec, groups)
        self.counts = Counts.empty(count_origins(self.rule, states, d))

    def _randomness(self, dynamics: Dynamics, seed: int) -> None:
        root = np.random.SeedSequence(seed)
        policy, model = root.spawn(2)
        T = dynamics.horizon
        sampled = T if self.rule.mode == SAMPLED else 0
        pairs = T * (dynamics.rewards if self.rule.source == FACTORED else 1)
        counting = pairs if count_origins(self.rule, 1, 1) > 0 else 0
        self.needs = np.array([dynamics.draws * (T + 1), T + 1, sampled, counting], np.int64)
        sizes = [max(_BLOCK, 4 * int(n)) for n in self.needs[:2]] + [4 * sampled]
        generators = [np.random.Generator(np.random.PCG64(sequence)) for sequence in (root, policy, model)]
        self.draws = [Draws(g, size) for g, size in zip(generators, sizes, strict=True)]
        type(self.env).prepare(self.env, self.draws[0].reserve(dynamics.draws))

    def _make_room(self) -> None:
        """Refill random numbers and grow the count table where the next episode might run out."""
        self.streams = tuple(draws.reserve(int(need)) for draws, need in zip(self.draws, self.needs[:3], strict=True))
        capacity = self.counts.origin.size
        if capacity - self.counts.size[0] < self.needs[3]:
            self.counts = self.counts.grown(self.counts.head.size, 2 * capacity + int(self.needs[3]))

    def play_to(self, episode: int) -> None:
        """Play until `episode` episodes are done."""
        while self.episode < episode:
            self._make_room()
            self.episode = play_block(
                self.env,
                self.fixed_rule,
                self.tables,
                self.trace,
                self.counts,
                self.memory,
                self.world,
                self.streams,
                self.needs,
                self.oracle,
                self.epsilons,
                self.step_size,
                self.episode,
                episode,
                self.progress,
            )

    def roll_out(self) -> int:
        """Play one episode without its updates (λ comes from outside); returns its length."""
        self._make_room()
        length = play(
            self.env,
            self.rule,
            self.tables,
            self.trace,
            self.counts,
            self.memory,
            self.world,
            self.streams[0],
            self.streams[1],
            self.oracle,
            self.epsilons[self.episode],
            self.step_size,
        )
        self.progress.returned[0] += self.world.outcome[0]
        self.progress.misses[0] += int(self.world.outcome[1])
        self.progress.steps[0] += length
        self.episode += 1
        return length

    def take_lambda(self, lambda_: np.ndarray) -> None:
        """Finish the episode of `roll_out` with λ_t, float[T] or float[T, d]; SARSA's policy factor is added here."""
        length = int(self.memory.length[0])
        values = np.asarray(lambda_, np.float64).reshape(length, -1)
        self.memory.lambda_[:length] = values
        if self.rule.bootstrap == SARSA and length > 1:
            actions = self.world.actions[1:length]
            factor = np.take_along_axis(self.world.policies[1:length], actions[:, None].astype(np.int64), axis=1)
            self.memory.lambda_[: length - 1] *= factor
        finish(self.rule, self.tables, self.trace, self.memory, self.streams[2], self.step_size)

    def probe(self, rows: np.ndarray) -> np.ndarray:
        """Σ_i Q^i of the given rows."""
        return self.tables.values[rows].sum(axis=1)


def simulate(
    dynamics: Dynamics,
    *,
    learner: str = "sarsa",
    lambda_source: LambdaSource | float | None = None,
    model: str | None = "counts",
    step_sizes: float | Sequence[float] | np.ndarray,
    seeds: int | Sequence[int] | np.ndarray,
    epsilon: float | np.ndarray = 0.1,
    discount: float = 1.0,
    episodes: int,
    record_at: Sequence[int] = (),
    probes: Sequence[tuple[int, int]] = (),
    view: str = "offline",
    threads: int | None = None,
    keep_values: bool = False,
) -> Runs:
    """Run a learner on compiled dynamics, once per (seed, step size).

    Args:
      dynamics: a dynamics NamedTuple, see `chunked_td.envs.dynamics`.
      learner: "sarsa", "expected_sarsa" (both act ε-greedily) or "td" (values of the uniform policy).
      lambda_source: where λ comes from; a number is a constant λ. Default: the paper's forward model.
      model: "counts" (learned), "oracle" (the true dynamics).
      step_sizes, seeds: broadcast against each other; one run each.
      epsilon: exploration, a number or one per episode.
      discount: γ.
      episodes: episodes per run.
      record_at: numbers of finished episodes at which to record; the end is always added.
      probes: (state id, action) pairs whose values are recorded.
      view: "offline" (O(1) per step; exact for acyclic problems), "traces" or "sampled".
      threads: runs at a time; default: one per core. Results do not depend on it.
      keep_values: return the final tables too.
    """
    settings = check_settings(dynamics, learner, lambda_source, model, view, discount, epsilon, episodes)
    seeds_, sizes = np.broadcast_arrays(np.atleast_1d(np.asarray(seeds)), np.atleast_1d(np.asarray(step_sizes, float)))
    if not np.all(np.isfinite(sizes)) or np.any(sizes <= 0):
        raise ValueError(f"step_sizes must be positive and finite, got {sizes}")
    marks = record_marks(record_at, episodes)
    rows = np.array([s if learner == "td" else s * dynamics.actions + a for s, a in probes], np.int64)

    def one(index: int) -> tuple[Any, ...]:
        run = Run(dynamics, seed=int(seeds_[index]), step_size=float(sizes[index]), **settings)
        return record_run(run, marks, rows, keep_values)

    workers = min(threads or os.cpu_count() or 1, len(sizes))
    if workers <= 1:
        results = [one(i) for i in range(len(sizes))]
    else:
        with ThreadPoolExecutor(workers) as pool:
            results = list(pool.map(one, range(len(sizes))))
    misses, probed, returned, steps, values = zip(*results, strict=True)
    return Runs(
        np.array([m[-1] for m in misses]),
        np.array(misses),
        np.array(probed).reshape(len(sizes), len(marks), len(rows)),
        np.array(returned),
        np.array(steps),
        np.array(values) if keep_values else None,
    )


def record_run(run: Run, marks: Sequence[int], rows: np.ndarray, keep_values: bool) -> tuple[Any, ...]:
    """Play a run through its marks; returns misses, probes and returns at each, steps and final values."""
    misses, probed, returned = [], [], []
    for mark in marks:
        run.play_to(mark)
        misses.append(int(run.progress.misses[0]))
        probed.append(run.probe(rows))
        returned.append(float(run.progress.returned[0]))
        run.progress.returned[0] = 0.0
    return misses, probed, returned, int(run.progress.steps[0]), run.tables.values if keep_values else None


def record_marks(record_at: Sequence[int], episodes: int) -> list[int]:
    """Sorted recording points; the end is always one."""
    marks = sorted({int(m) for m in record_at} | {episodes})
    if marks[0] < 0 or marks[-1] > episodes:
        raise ValueError(f"record_at must lie in 0..{episodes} (the number of episodes), got {sorted(record_at)}")
    return marks


def check_settings(
    dynamics: Dynamics,
    learner: str,
    lambda_source: LambdaSource | float | None,
    model: str | None,
    view: str,
    discount: float,
    epsilon: float | np.ndarray,
    episodes: int,
) -> dict[str, Any]:
    """Validate what all runs share; returns keyword arguments for `Run`."""
    from chunked_td.learners.setup import as_lambda_source, check_choice, check_unit

    check_choice("learner", learner, BOOTSTRAPS)
    check_choice("view", view, VIEWS)
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, got {episodes!r}")
    source = as_lambda_source(lambda_source, ForwardLambda())
    if not source.needs_model:
        model = None
    elif model is None:
        raise ValueError(f"model must be 'counts' or 'oracle' for {source!r}, got None")
    if model == "oracle" and source.code in (BACKWARD,):
        raise ValueError(f"lambda_source {source!r} has no oracle: the dynamics know only the future")
    epsilons = np.broadcast_to(np.asarray(epsilon, np.float64), (episodes,)).copy()
    if np.any(np.isnan(epsilons)) or epsilons.min() < 0.0 or epsilons.max() > 1.0:
        raise ValueError(f"epsilon must lie in [0, 1], got {epsilon!r}")
    return {
        "learner": learner,
        "lambda_source": source,
        "model": model,
        "view": view,
        "discount": check_unit("discount", discount),
        "epsilons": epsilons,
    }


__all__ = ["EXTERNAL", "Run", "Runs", "simulate"]
