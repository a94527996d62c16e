"""Kernels of the simulation: an episode, and a block of episodes, without touching Python.

They call the kernels that `agent.step` calls, in the same order, on the same random numbers. An environment is a
NamedTuple with static kernels (`envs.protocol`). One loop is compiled per combination of environment,
bootstrap, λ source, model and view; everything that is known beforehand is known to the compiler.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._numba import code, dispatch, kernel, on_stack, static, static_if_small, zeros
from chunked_td.learners.planning.base import has_planning_room
from chunked_td.learners.update import ONGOING, TERMINATED, TRUNCATED, Arrival, Rates, advance, begin, finish

NO_STATE, NO_ACTIONS, NO_END, NO_DRAWS = 4, 8, 16, 32
"""What may be wrong with an environment's dynamics, as bits of `AgentState.watch`: a state outside `nvec`, a number of
legal actions outside 1..A, an episode longer than `horizon`, more random numbers taken than `draws` says."""

env_reset, env_step, env_legal = dispatch("reset"), dispatch("step"), dispatch("legal")


@kernel
def _first_action(env, choices):
    return 0 if choices == 1 else -1


time_limit, only_action = dispatch("time_limit", -1), dispatch("only_action", _first_action)
env_miss = dispatch("miss", False)
truth_for, leave = dispatch("truth", None), dispatch("leave", None)


class Sizes(NamedTuple):
    """Lengths of the small arrays of a run, `static` where they are small."""

    c: Any  # state components
    A: Any  # actions
    p: Any  # numbers that the environment pays
    d: Any  # reward components
    one: Any  # 1


class Record(NamedTuple):
    """The latest episode, step by step."""

    states: Annotated[np.ndarray, "int16[k, c]"]  # k = T + 1
    actions: Annotated[np.ndarray, "int16[T]"]
    policies: Annotated[np.ndarray, "float64[k, A]"]  # π(·|x_t)
    rewards: Annotated[np.ndarray, "float64[T, p]"]


class LambdaSums(NamedTuple):
    """λ since the latest record, summed over steps; a mean over reward components where each has its own."""

    total: Annotated[np.ndarray, "float64[1]"]
    steps: Annotated[np.ndarray, "int64[1]"]  # the first step of an episode has no λ


class Stage(NamedTuple):
    """Where a run plays: the environment's state, and a record of the latest episode where one is kept."""

    sizes: Sizes
    state: Annotated[np.ndarray, "int64[c]"]
    before: Annotated[np.ndarray, "int64[c]"]  # the state that the transition left; for the true model
    reward: Annotated[np.ndarray, "float64[p]"]
    strides: Annotated[np.ndarray, "int64[n]"]  # id = Σ state · stride
    legal: Annotated[np.ndarray, "bool[m, A]"]  # row m allows the first m actions, unless the dynamics have `masks`
    horizon: int
    trusted: Any  # static: 1 if the dynamics are ours, and keep to what they declare
    record: Any  # Record, or None
    lambdas: Any = None  # LambdaSums, or None

    @classmethod
    def empty(
        cls, nvec: np.ndarray, n_actions: Any, paid: int, rewards: int, masks: np.ndarray, horizon: int, trusted: bool,
        record: Record | None, lambdas: LambdaSums | None = None,
    ) -> Stage:  # fmt: skip
        """Before the first episode; the environment pays `paid` numbers, the learner has `rewards` components."""
        c = nvec.size
        return zeros(
            cls,
            {"c": c, "p": paid},
            sizes=Sizes(static_if_small(c), n_actions, static_if_small(paid), static_if_small(rewards), static(1)),
            strides=np.append(np.cumprod(nvec[:0:-1])[::-1], 1).astype(np.int64),
            legal=masks,
            horizon=horizon,
            trusted=static(int(trusted)),
            record=record,
            lambdas=lambdas,
        )


class EpisodeOutcome(NamedTuple):
    """What came of an episode."""

    returned: float
    discounted: float  # the return, discounted
    missed: bool
    length: int


class Streams(NamedTuple):
    """Random numbers of a run."""

    env: Any
    policy: Any
    coins: Any  # for sampled chunks


class Totals(NamedTuple):
    """Running totals of a run."""

    misses: Annotated[np.ndarray, "int64[1]"]
    returned: Annotated[np.ndarray, "float64[1]"]  # since the latest record
    discounted: Annotated[np.ndarray, "float64[1]"]  # likewise
    steps: Annotated[np.ndarray, "int64[1]"]


@kernel
def encode(state, strides):
    """Id of a state: the mixed-radix number of its components."""
    total = 0
    for i in range(state.size):
        total += state[i] * strides[i]
    return total


@kernel
def _write_record(record, stage, memory, t, action):
    """Write down the state at t and the policy there, and the action that led to it."""
    if record is not None:
        for i in range(stage.state.size):
            record.states[t, i] = stage.state[i]
        for a in range(memory.next_policy.size):
            record.policies[t, a] = memory.next_policy[a]
        if t > 0:
            record.actions[t - 1] = action
            for i in range(stage.reward.size):
                record.rewards[t - 1, i] = stage.reward[i]


@kernel
def _add_lambda(sums, memory, t):
    """Add λ of the transition that led to the state at t."""
    if sums is not None and t > 1:
        for i in range(memory.lambda_t.size):
            sums.total[0] += memory.lambda_t[i] / memory.lambda_t.size
        sums.steps[0] += 1


@kernel
def play(env, agent, stage, streams, rates):
    """One episode, up to but not including the updates at its end; returns its EpisodeOutcome.

    The small arrays are put on the stack, where the compiler keeps them in registers.
    """
    sizes = stage.sizes
    here, stage_here = on_stack(agent, sizes), on_stack(stage, sizes)
    env_rng, policy_rng = on_stack(streams.env, sizes), on_stack(streams.policy, sizes)
    env_rng.position[0], policy_rng.position[0] = streams.env.position[0], streams.policy.position[0]
    here.memory.previous[0], here.memory.length[0], here.watch[0] = -1, 0, 0
    outcome = _play(env, here, stage_here, env_rng, policy_rng, rates)
    streams.env.position[0], streams.policy.position[0] = env_rng.position[0], policy_rng.position[0]
    agent.memory.length[0], agent.watch[0] = here.memory.length[0], here.watch[0]
    return outcome


@kernel
def legal_actions(env, stage, nvec, rng, ended, length):
    """How many actions the state offers (or a row of `masks`), 0 at the end; below 0 what is wrong with the dynamics.

    Args:
      length: transitions so far that must leave room for one more.
    """
    if code(stage.trusted):
        return 0 if ended else env_legal(env, stage.state)
    for j in range(nvec.size):
        if not 0 <= stage.state[j] < nvec[j]:
            return -NO_STATE
    if rng.position[0] > rng.block.size:
        return -NO_DRAWS
    if ended:
        return 0
    if length >= stage.horizon:
        return -NO_END
    choices = env_legal(env, stage.state)
    return choices if 0 < choices < stage.legal.shape[0] else -NO_ACTIONS


@kernel
def _play(env, agent, stage, env_rng, policy_rng, rates):
    """The loop of `play`."""
    memory, state = agent.memory, stage.state
    env_reset(env, env_rng, state)
    choices = legal_actions(env, stage, agent.tables.nvec, env_rng, False, 0)
    if choices < 0:
        agent.watch[0] = -choices
        return EpisodeOutcome(0.0, 0.0, False, 0)
    s = encode(state, stage.strides)
    only, limit = only_action(env, choices), time_limit(env)
    a = first = begin(agent, policy_rng, s, stage.legal[choices], only, rates.epsilon)
    _write_record(stage.record, stage, memory, 0, a)
    total, discounted, gain = 0.0, 0.0, 1.0
    t = 0
    end = ONGOING
    while end == ONGOING:
        leave(agent.model, state, stage.before)
        ended = env_step(env, env_rng, state, a, stage.reward)
        t += 1
        choices = legal_actions(env, stage, agent.tables.nvec, env_rng, ended, t if t != limit else 0)
        if choices < 0:
            agent.watch[0] = -choices
            return EpisodeOutcome(total, discounted, False, t - 1)
        s2 = encode(state, stage.strides)
        end, only = TERMINATED if ended else TRUNCATED if t == limit else ONGOING, only_action(env, choices)
        arrival = Arrival(s, a, stage.reward, s2, state, s2, stage.legal[choices], only, end)
        a2 = advance(agent, policy_rng, arrival, rates, truth_for(agent.model, env, stage.before, state))
        for i in range(stage.reward.size):
            total += stage.reward[i]
            discounted += gain * stage.reward[i]
        gain *= agent.rule.discount
        _write_record(stage.record, stage, memory, t, a)
        _add_lambda(stage.lambdas, memory, t)
        s = s2
        a = a2
    return EpisodeOutcome(total, discounted, env_miss(env, first, state), t)


@kernel
def add_outcome(totals, outcome):
    """Add an episode to the totals."""
    totals.returned[0] += outcome.returned
    totals.discounted[0] += outcome.discounted
    totals.misses[0] += 1 if outcome.missed else 0
    totals.steps[0] += outcome.length


class Room(NamedTuple):
    """The most that an episode takes of each stream, and the most new pairs that it adds to each count model."""

    env: int
    policy: int
    coins: int
    pairs: int  # of the λ source's model
    transitions: int  # of the planner's model
    planning: int  # random numbers for the planner


@kernel
def _unread(stream):
    return stream.block.size - stream.position[0]


room_for = dispatch("has_room", True)


@kernel
def play_block(env, agent, stage, streams, room, epsilons, step_size, first, last, totals):
    """Episodes first..last−1, or as many as the random numbers and the count model have room for.

    An episode that sets `agent.watch` is the last one.

    Returns:
      The first episode not played.
    """
    for episode in range(first, last):
        if _unread(streams.env) < room.env or _unread(streams.policy) < room.policy:
            return episode
        if _unread(streams.coins) < room.coins or not room_for(agent.model, room.pairs):
            return episode
        if not room_for(agent.trace, stage.horizon):
            return episode
        if not has_planning_room(agent.planning, room.transitions, room.planning):
            return episode
        outcome = play(env, agent, stage, streams, Rates(epsilons[episode], step_size))
        add_outcome(totals, outcome)
        here = on_stack(agent, stage.sizes)
        here.memory.length[0], here.watch[0] = agent.memory.length[0], agent.watch[0]
        finish(here, streams.coins, step_size)
        if here.watch[0] != 0:
            agent.watch[0] = here.watch[0]
            return episode + 1
    return last
