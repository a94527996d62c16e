"""Kernels of the fused simulation: an episode, and a block of episodes, without touching Python.

They call the kernels that `agent.step` calls, in the same order, on the same random numbers. An environment is a
NamedTuple with static kernels (`envs.dynamics.protocol`); `env_step` and its kin call the kernel of whatever class
they are given, so that one loop is compiled per environment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from chunked_td.compiled import Stream, code, kernel, known_if_small
from chunked_td.lambdas import SARSA
from chunked_td.learners.recursion import Memory, Rule, Tables, advance, choose, conclude, finish
from chunked_td.placed import local, narrow


def _dispatch(name: str) -> Callable[..., Any]:
    """A function that calls the static kernel `name` of its first argument's class, compiled or not."""

    def call(env, *args):
        return getattr(type(env), name)(env, *args)

    options: Any = {"_nrt": False, "nogil": True, "error_model": "numpy", "forceinline": True}

    @overload(call, jit_options=options)
    def compiled(env, *args):
        target = getattr(env.instance_class, name)

        def implementation(env, *args):
            return target(env, *args)

        return implementation

    return call


env_reset, env_step, env_legal = _dispatch("reset"), _dispatch("step"), _dispatch("legal")
env_miss, env_probability = _dispatch("miss"), _dispatch("probability")


class Sizes(NamedTuple):
    """Lengths of the small arrays of a run: plain numbers, or `known` ones for a loop of its own."""

    components: Any  # c
    actions: Any  # A
    rewards: Any  # d
    one: Any  # 1
    recorded: Any  # 1 if a record is kept of every episode, 0 if not


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
    sizes: Sizes

    @classmethod
    def empty(cls, nvec: np.ndarray, actions: int, components: int, record: int, specialise: bool = True) -> World:
        """Before the first episode. `record` is the most transitions to keep a record of; −1 keeps none."""
        c = nvec.size
        fix = known_if_small if specialise else int
        return cls(
            state=np.zeros(c, np.int64),
            before=np.zeros(c, np.int64),
            strides=np.append(np.cumprod(nvec[:0:-1])[::-1], 1).astype(np.int64),
            reward=np.zeros(components),
            legal=np.tril(np.ones((actions + 1, actions), bool), -1),
            chances=np.zeros(c),
            states=np.zeros((record + 1, c), np.int16),
            actions=np.zeros(max(record, 0), np.int16),
            policies=np.zeros((record + 1, actions)),
            outcome=np.zeros(3),
            sizes=Sizes(fix(c), fix(actions), fix(components), fix(1), fix(1 if record >= 0 else 0)),
        )


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
    for i in range(out.size):
        out[i] = min(out[i], 1.0)  # policies sum to 1 up to rounding
        if code(rule.bootstrap) == SARSA and a2 >= 0:
            out[i] *= memory.next_policy[a2]


@kernel
def play(env, rule, tables, trace, counts, memory, world, env_rng, policy_rng, oracle, epsilon, step_size):
    """One episode, up to but not including the updates at its end. Returns its length.

    Its small arrays are `local`: in a loop of its own the compiler keeps them in registers.

    Args:
      trace, counts: as in `learners.recursion.advance`.
      oracle: None or 0 = λ by `rule.source`; 1 = true probability of the percept; 2 = of each component.
    """
    c, A, d, one, _ = world.sizes
    memory_here = Memory(
        local(memory.policy, A),
        local(memory.next_policy, A),
        local(memory.scratch, A),
        local(memory.lambda_t, d),
        local(memory.delta_t, d),
        local(memory.previous, one),
        memory.rows,
        narrow(memory.delta, d),
        narrow(memory.lambda_, d),
        local(memory.length, one),
    )
    memory_here.previous[0] = -1
    memory_here.length[0] = 0
    world_here = World(
        local(world.state, c),
        local(world.before, c),
        local(world.strides, c),
        local(world.reward, d),
        world.legal,
        local(world.chances, c),
        world.states,
        world.actions,
        world.policies,
        world.outcome,
        world.sizes,
    )
    for i in range(world_here.strides.size):
        world_here.strides[i] = world.strides[i]
    rule_here = Rule(
        rule.bootstrap,
        rule.source,
        rule.mode,
        rule.policy,
        rule.constant,
        rule.discount,
        rule.cutoff,
        rule.replacing,
        code(A),
    )
    tables_here = Tables(narrow(tables.values, d), tables.legal, tables.nvec, tables.groups)
    env_draws = Stream(env_rng.block, local(env_rng.position, one))
    policy_draws = Stream(policy_rng.block, local(policy_rng.position, one))
    env_draws.position[0] = env_rng.position[0]
    policy_draws.position[0] = policy_rng.position[0]
    length = _play(
        env,
        rule_here,
        tables_here,
        trace,
        counts,
        memory_here,
        world_here,
        env_draws,
        policy_draws,
        oracle,
        epsilon,
        step_size,
    )
    env_rng.position[0] = env_draws.position[0]
    policy_rng.position[0] = policy_draws.position[0]
    memory.length[0] = memory_here.length[0]
    return length


@kernel
def _play(env, rule, tables, trace, counts, memory, world, env_rng, policy_rng, oracle, epsilon, step_size):
    """The loop of `play`, on the arrays it is given."""
    recording = code(world.sizes.recorded) > 0
    env_reset(env, env_rng, world.state)
    s = encode(world.state, world.strides)
    choices = env_legal(env, world.state)
    only = 0 if choices == 1 else -1
    a = choose(rule, tables, memory, policy_rng, s, world.legal[choices], only, epsilon, True)
    for b in range(rule.actions):
        memory.policy[b] = memory.next_policy[b]
    first = a
    total = 0.0
    t = 0
    ended = False
    if recording:
        _record(world, memory, 0)
    while not ended:
        if oracle is not None and code(oracle) > 0:
            for i in range(world.state.size):
                world.before[i] = world.state[i]
        ended = env_step(env, env_rng, world.state, a, world.reward)
        s2 = encode(world.state, world.strides)
        choices = 0 if ended else env_legal(env, world.state)
        legal = world.legal[choices]
        only = 0 if choices == 1 else -1
        if oracle is not None and code(oracle) > 0:
            a2 = -1
            if not ended:
                a2 = choose(rule, tables, memory, policy_rng, s2, legal, only, epsilon, True)
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
                only,
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
    d = world.sizes.rewards
    narrow_tables = Tables(narrow(tables.values, d), tables.legal, tables.nvec, tables.groups)
    narrow_memory = Memory(
        memory.policy,
        memory.next_policy,
        memory.scratch,
        memory.lambda_t,
        memory.delta_t,
        memory.previous,
        memory.rows,
        narrow(memory.delta, d),
        narrow(memory.lambda_, d),
        memory.length,
    )
    for episode in range(first, last):
        for k in range(3):
            if streams[k].block.size - streams[k].position[0] < needs[k]:
                return episode
        if counts is not None:
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
        finish(rule, narrow_tables, trace, narrow_memory, streams[2], step_size)
        progress.returned[0] += world.outcome[0]
        progress.misses[0] += int(world.outcome[1])
        progress.steps[0] += int(world.outcome[2])
    return last
