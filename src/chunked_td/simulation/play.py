"""Kernels of the simulation: whole episodes in compiled code.

They call the kernels of `agent.step`, in the same order, with the same random numbers. An environment is a NamedTuple
with static kernels (`envs.protocol`). Small arrays are on the stack, so the compiler can keep them in registers.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._link import WORDS, Stream, slot
from chunked_td.envs.protocol import env_legal, env_miss, env_prepare, env_reset, env_step, only_action, time_limit
from chunked_td.learners.core import (
    EPSILON,
    FREE,
    ONGOING,
    RATES,
    TERMINATED,
    TRUNCATED,
    Arrival,
    Work,
    advance,
    begin,
    finish,
)

NO_STATE, NO_ACTIONS, NO_END, NO_DRAWS = 4, 8, 16, 32
"""Faults of an environment's dynamics, as bits of `watch`: a state outside `nvec`, a number of legal actions outside
1..A, an episode longer than `horizon`, more random numbers than `draws`."""

truth_for, leave = slot("model", "truth", None), slot("model", "leave", None)
model_has_room, view_has_room = slot("model", "has_room", True), slot("view", "has_room", True)
read, read_local = slot("arrays", "read"), slot("arrays", "read_local")


class Record(NamedTuple):
    """The latest episode, step by step."""

    states: Annotated[np.ndarray, "int16[k, c]"]  # k = T + 1
    actions: Annotated[np.ndarray, "int16[T]"]
    policies: Annotated[np.ndarray, "float64[k, A]"]  # π(·|x_t)
    rewards: Annotated[np.ndarray, "float64[T, p]"]


class LambdaSums(NamedTuple):
    """λ since the latest record, summed over steps; if each reward component has its own λ, their mean."""

    total: Annotated[np.ndarray, "float64[1]"]
    steps: Annotated[np.ndarray, "int64[1]"]  # the first step of an episode has no λ


class Totals(NamedTuple):
    """Running totals of a run."""

    misses: Annotated[np.ndarray, "int64[1]"]
    returned: Annotated[np.ndarray, "float64[1]"]  # since the latest record
    discounted: Annotated[np.ndarray, "float64[1]"]  # since the latest record
    steps: Annotated[np.ndarray, "int64[1]"]


class Stage(NamedTuple):
    """Environment state and buffers of a run."""

    state: Annotated[np.ndarray, "int64[c]"]
    before: Annotated[np.ndarray, "int64[c]"]  # the state that the transition left; for the true model
    strides: Annotated[np.ndarray, "int64[n]"]  # id = Σ state · stride
    legal: Annotated[np.ndarray, "bool[m, A]"]  # row m allows the first m actions, unless the dynamics have `masks`
    horizon: int
    draws: int  # largest number of random numbers of the dynamics in an episode
    pairs: int  # largest number of new pairs of the count model in an episode
    trusted: Any  # static: 1 for dynamics of this package, which need no checks
    record: Any  # Record, or None
    lambdas: Any  # LambdaSums, or None


class Scene(NamedTuple):
    """Arrays of a run: a learner in an environment."""

    m: Work
    env: Any
    rng: Stream  # of the environment
    stage: Stage
    totals: Totals
    epsilons: Annotated[np.ndarray, "float64[E]"]


def play(address, first, last):
    """Play episodes first..last − 1 while there is room; return the first one not played.

    An episode that sets `watch` is the last one. With first = −1 the environment only runs `prepare`.
    """
    kept, scene = read(address), read_local(address)
    if first < 0:
        env_prepare(kept.env, kept.rng)
        return 0
    carry(kept, scene)
    episode = first
    while episode < last and has_room(kept.m, kept.stage):
        scene.m.rates[EPSILON] = kept.epsilons[episode]
        play_episode(scene)
        finish(scene.m)
        episode += 1
        if scene.m.watch[0] != 0:
            break
    carry(scene, kept)
    return episode


def carry(source, target):
    """Copy the numbers that persist between calls from one scene to another, of which one is on the stack."""
    for k in range(WORDS):
        target.rng.words[k] = source.rng.words[k]
        target.m.rng.words[k] = source.m.rng.words[k]
        target.m.coins.words[k] = source.m.coins.words[k]
    for k in range(RATES):
        target.m.rates[k] = source.m.rates[k]
    target.m.watch[0] = source.m.watch[0]
    target.m.memory.length[0] = source.m.memory.length[0]
    target.m.memory.previous[0] = source.m.memory.previous[0]


def has_room(m, stage):
    """Whether an episode fits into the count models and the trace."""
    fits = model_has_room(m.model, stage.pairs) and view_has_room(m.trace, stage.horizon)
    return fits and plans_fit(m.planning, stage.horizon)


def plans_fit(planning, steps):
    """Whether `steps` steps fit into the planner's model, if there is a planner."""
    if planning is None:
        return True
    counts = planning.world.counts
    return counts.pairs.shape[0] - counts.size[0] >= steps


def play_episode(scene):
    """Play one episode without the updates at its end, and add its outcome to the totals."""
    m, env, stage, state, rng = scene.m, scene.env, scene.stage, scene.stage.state, scene.rng
    m.memory.previous[0], m.memory.length[0], m.watch[0] = -1, 0, 0
    drawn = rng.words[4]
    env_reset(env, rng, state)
    choices = legal_actions(scene, False, 0, drawn)
    if choices < 0:
        m.watch[0] = -choices
        return
    s = encode(state, stage.strides)
    limit = time_limit(env)
    a = first = begin(m, s, stage.legal[choices], only_action(env, choices), FREE)
    write_record(stage.record, scene, 0, a)
    returned, discounted, gain, t, ended = 0.0, 0.0, 1.0, 0, ONGOING
    while ended == ONGOING:
        leave(m.model, state, stage.before)
        over = env_step(env, rng, state, a, m.reward)
        t += 1
        choices = legal_actions(scene, over, t if t != limit else 0, drawn)
        if choices < 0:
            m.watch[0] = -choices
            add_outcome(scene.totals, returned, discounted, False, t - 1)
            return
        s2 = encode(state, stage.strides)
        ended = TERMINATED if over else TRUNCATED if t == limit else ONGOING
        here = Arrival(s, a, s2, state, s2, stage.legal[choices], only_action(env, choices), ended, FREE)
        a = advance(m, here, truth_for(m.model, env, stage.before, state))
        for i in range(m.reward.size):
            returned += m.reward[i]
            discounted += gain * m.reward[i]
        gain *= m.rule.discount
        write_record(stage.record, scene, t, here.action)
        add_lambda(stage.lambdas, m.memory, t)
        s = s2
    add_outcome(scene.totals, returned, discounted, env_miss(env, first, state), t)


def legal_actions(scene, ended, length, drawn):
    """Number of legal actions of the state (or a row of `legal`), 0 at the end; minus a fault bit if below 0.

    Args:
      length: transitions so far, which must allow one more. drawn: random numbers taken before the episode.
    """
    stage, state = scene.stage, scene.stage.state
    if stage.trusted:
        return 0 if ended else env_legal(scene.env, state)
    for j in range(scene.m.tables.nvec.size):
        if not 0 <= state[j] < scene.m.tables.nvec[j]:
            return -NO_STATE
    if scene.rng.words[4] - drawn > np.uint64(stage.draws):
        return -NO_DRAWS
    if ended:
        return 0
    if length >= stage.horizon:
        return -NO_END
    choices = env_legal(scene.env, state)
    return choices if 0 < choices < stage.legal.shape[0] else -NO_ACTIONS


def encode(state, strides):
    """Id of a state: the mixed-radix number of its components."""
    total = 0
    for i in range(state.size):
        total += state[i] * strides[i]
    return total


def write_record(record, scene, t, action):
    """Record the state at t, its policy, and the action and reward before it."""
    if record is not None:
        for i in range(scene.stage.state.size):
            record.states[t, i] = scene.stage.state[i]
        for a in range(scene.m.memory.next_policy.size):
            record.policies[t, a] = scene.m.memory.next_policy[a]
        if t > 0:
            record.actions[t - 1] = action
            for i in range(scene.m.reward.size):
                record.rewards[t - 1, i] = scene.m.reward[i]


def add_lambda(sums, memory, t):
    """Add λ of the transition to the state at t."""
    if sums is not None and t > 1:
        for i in range(memory.lambda_t.size):
            sums.total[0] += memory.lambda_t[i] / memory.lambda_t.size
        sums.steps[0] += 1


def add_outcome(totals, returned, discounted, missed, length):
    """Add an episode to the totals."""
    totals.returned[0] += returned
    totals.discounted[0] += discounted
    totals.misses[0] += 1 if missed else 0
    totals.steps[0] += length
