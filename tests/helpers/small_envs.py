"""Small environments and helpers that the tests of this folder share."""

from __future__ import annotations

import numpy as np

from chunked_td.envs.dynamics import AccumulatedCharge, ChainAndSplit, KeyToDoor, SkewedSplit
from chunked_td.seeding import Draws


def prepare(env, rng):
    """Draw what a seed fixes."""
    if hasattr(env, "prepare"):
        env.prepare(env, rng)


def env_miss(env, first_action, state):
    """Whether an episode was a regretful one."""
    return hasattr(env, "miss") and env.miss(env, first_action, state)


def prepared(env, seed=0):
    prepare(env, Draws.of(np.random.SeedSequence(seed)).stream)
    return env


SMALL = {
    "chain": ChainAndSplit.make(horizon=4, actions=3, width=5),
    "chain-shortest": ChainAndSplit.make(horizon=2, actions=2, width=2, chain_reward=-1.0),
    "charge": prepared(AccumulatedCharge.make(horizon=6, points=3), seed=1),
    "charge-mirrored": prepared(AccumulatedCharge.make(horizon=6, points=2, success=0.3, mirrored=True), seed=2),
    "charge-certain": prepared(AccumulatedCharge.make(horizon=4, points=2, success=1.0), seed=3),
    "key": KeyToDoor.make(horizon=4, distractors=2),
    "key-scalar": KeyToDoor.make(horizon=4, distractors=2, scalar_reward=True),
    "key-bare": KeyToDoor.make(horizon=2, distractors=0),
    "skewed": SkewedSplit.make(probability=0.7, reward=3.0, length=2),
    "skewed-bare": SkewedSplit.make(length=0),
}


def array(state):
    return np.array(state, dtype=np.int64)


def start(env):
    state = np.full(len(env.nvec), -1, dtype=np.int64)
    env.reset(env, Draws.of(np.random.SeedSequence(0)).stream, state)
    return tuple(state.tolist())


def legal(env, state):
    return env.legal(env, array(state))


def all_pairs(env):
    """Every (state, action) that an episode can meet, found by following `outcomes`."""
    pairs, seen, ahead = [], set(), [start(env)]
    while ahead:
        state = ahead.pop()
        if state in seen:
            continue
        seen.add(state)
        for action in range(legal(env, state)):
            pairs.append((state, action))
            ahead += [s for _, s, _, ended in env.outcomes(state, action) if not ended]
    return pairs


def component_probability(env, state, action, next_state):
    out = np.full(len(env.nvec), np.nan)
    env.probability(env, array(state), action, array(next_state), out)
    return out
