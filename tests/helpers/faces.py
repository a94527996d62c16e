"""The two faces of a learner: played step by step on the Gymnasium face, and simulated; bit for bit the same."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import chunked_td as ctd
from chunked_td._numba import kernel
from chunked_td.envs.dynamics import KeyToDoor
from chunked_td.envs.face import DynamicsEnv
from chunked_td.seeding import uniform
from chunked_td.simulation import simulate

SCALAR = KeyToDoor.make(horizon=5, distractors=2, scalar_reward=True)
VECTOR = KeyToDoor.make(horizon=5, distractors=2, distractor_reward=0.03)
EPISODES = 25


class Ring(NamedTuple):
    """Five places in a ring, left or right or a slip; states return. Ends at a place's odds or after twelve steps."""

    clock: np.ndarray

    nvec, n_actions, n_rewards, draws, horizon = (5,), 2, 2, 2, 12

    @staticmethod
    @kernel
    def prepare(env, rng):
        pass

    @staticmethod
    @kernel
    def reset(env, rng, state):
        state[0], env.clock[0] = 0, 0

    @staticmethod
    @kernel
    def step(env, rng, state, action, reward):
        go = 1 if (action == 1) != (uniform(rng) < 0.2) else -1
        state[0] = (state[0] + go) % 5
        env.clock[0] += 1
        reward[0], reward[1] = 1.0 * (state[0] == 3), 0.3 * go
        return uniform(rng) < 0.05 * state[0] or env.clock[0] == 12

    @staticmethod
    @kernel
    def legal(env, state):
        return 2

    @staticmethod
    @kernel
    def miss(env, first_action, state):
        return state[0] == 0


RING = Ring(np.zeros(1, np.int64))


def check_both_faces(cls, learner, dynamics=RING, *, source, view="traces", seed=3, **settings):
    """Play both and compare; returns the agent."""
    common = {"lambda_source": source, "view": view, "discount": 0.95, "epsilon": 0.3, **settings}
    agent = cls(DynamicsEnv(dynamics), step_size=0.3, seed=seed, **common)
    history = agent.learn(DynamicsEnv(dynamics), EPISODES)
    common |= {"step_sizes": 0.3, "seeds": [seed], "episodes": EPISODES, "keep_values": True, "threads": 1}
    runs = simulate(dynamics, learner=learner, **common)
    assert runs.values is not None
    assert runs.values[0].any()
    assert runs.values[0].tobytes() == agent.tables.values[: runs.values.shape[1]].tobytes()
    np.testing.assert_allclose(runs.returns_at[0, -1], history.returns.sum())
    return agent


def check_saving(agent, world, path, episodes=4, **given):
    """Save in the middle of an episode; the loaded learner goes on as the first one does. Args: given: to `load`."""
    _play(agent, world, episodes)
    s = world.reset()
    action = agent.start(world.observe(s), world.info(s))
    for _ in range(2):
        reward, s, ended = world.step(action)
        if ended:
            raise AssertionError("the world's episodes are too short for this check")
        action = agent.step(paid(reward), world.observe(s), False, False, world.info(s))
    agent.save(path)
    twin = ctd.load(path, **given)
    for _ in range(8):
        reward, s = np.random.default_rng(s).normal(size=world.rewards), (s + 1) % (world.states - 1)
        for each in (agent, twin):
            each.step(paid(reward), world.observe(s), False, False, world.info(s))
    for each in (agent, twin):
        each.step(paid(reward), world.observe(s), True)
        each.start(world.observe(0), world.info(0))
        each.step(paid(reward), world.observe(s), False, False, world.info(s))
    assert agent.tables.values.any()
    np.testing.assert_array_equal(twin.tables.values, agent.tables.values)
    for name in agent.lambda_source.arrays:
        learned = getattr(agent._state.source, name)
        np.testing.assert_array_equal(getattr(twin._state.source, name), learned)
    return twin


def paid(reward):
    """A reward vector as an environment pays it."""
    return reward if reward.size > 1 else float(reward[0])


def _play(agent, world, episodes):
    for _ in range(episodes):
        s = world.reset()
        action, ended = agent.start(world.observe(s), world.info(s)), 0
        while not ended:
            reward, s, ended = world.step(action)
            action = agent.step(paid(reward), world.observe(s), ended == 1, ended == 2, world.info(s))
