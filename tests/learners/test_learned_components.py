"""The learned division of the reward against least squares solved afresh at every step; rewards of known parts."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import pytest

import chunked_td as ctd
from chunked_td.envs.dynamics import ChainAndSplit, KeyToDoor
from chunked_td.envs.face import DynamicsEnv
from chunked_td.simulation import simulate
from helpers.naive import EXPECTED_SARSA, Naive, V
from helpers.worlds import World, side_by_side

SMALL = KeyToDoor.make(horizon=5, distractors=2, scalar_reward=True)
RIDGE = 0.1


def one_hot(digits, nvec):
    return np.concatenate([np.eye(n)[digit] for digit, n in zip(digits, nvec, strict=True)])


class Divided(Naive):
    """Alg. 4 on rewards that least squares divides: all transitions so far, by the normal equations."""

    def __init__(self, world, bootstrap, **settings):
        c = len(world.nvec)
        self.pays_parts = copy.copy(world)
        self.pays_parts.rewards = c + 1
        super().__init__(self.pays_parts, bootstrap, ("factored", [*((i,) for i in range(c)), range(c)]), **settings)
        self.features, self.paid = [], []

    def step(self, reward, s2, ended, legal):
        digits, nvec = np.unravel_index(s2, self.world.nvec), self.world.nvec
        self.features.append(one_hot(digits, nvec))
        self.paid.append(reward[0])
        X = np.array(self.features)
        f = np.linalg.solve(X.T @ X + RIDGE * np.eye(X.shape[1]), X.T @ np.array(self.paid))
        parts = [f[sum(nvec[:i]) + digit] for i, digit in enumerate(digits)]
        return super().step(np.array([*parts, reward[0] - sum(parts)]), s2, ended, legal)


@pytest.mark.uncompiled
@pytest.mark.parametrize(("bootstrap", "cls"), [(EXPECTED_SARSA, ctd.FactoredChunkedExpectedSarsa), (V, ctd.ChunkedTD)])
def test_the_plain_definition(bootstrap, cls):
    world = World(7, (3, 2, 2), actions=2, sudden=0.1)
    agent = cls(
        world,
        lambda_source=ctd.FactoredLambda(),
        reward_source=ctd.LearnedComponents(RIDGE),
        step_size=0.2,
        discount=0.9,
        epsilon=0.3,
        seed=5,
    )
    reference = Divided(world, bootstrap, gamma=0.9, alpha=0.2, epsilon=0.3, seed=5)
    side_by_side(agent, reference, world, 40, check_steps=True)
    assert agent.tables.values.shape[1] == 4
    assert np.abs(agent.tables.values).max(axis=0).min() > 0.01  # every part was paid


class Additive:
    """Components that change at random and pay by the value of each; no noise in the reward."""

    observation_space = gym.spaces.MultiDiscrete([2, 4, 3])
    action_space = gym.spaces.Discrete(2)
    parts = (np.array([0.0, 1.0]), np.array([0.0, -2.0, 0.5, 3.0]), np.array([0.0, 0.25, -1.0]))

    def __init__(self, noise=0.0):
        self.rng, self.noise = np.random.default_rng(3), noise

    def reset(self, seed=None):
        self.time = 0
        return self.rng.integers(self.observation_space.nvec), {}

    def step(self, action):
        self.time += 1
        state = self.rng.integers(self.observation_space.nvec)
        reward = 5.0 + sum(part[x] for part, x in zip(self.parts, state, strict=True)) + self.noise * self.rng.normal()
        return state, float(reward), self.time == 10, False, {}


@pytest.mark.parametrize(("noise", "error"), [(0.0, 1e-4), (1.0, 0.2)])  # 0.2: more than six standard errors
def test_parts_of_an_additive_reward_are_found_up_to_constants(noise, error):
    agent = ctd.FactoredChunkedExpectedSarsa(
        Additive(), reward_source=ctd.LearnedComponents(), lambda_source=ctd.FactoredLambda()
    )
    assert not np.concatenate(agent.reward_parts).any()
    agent.learn(Additive(noise), 500, progress=False)
    for learned, true in zip(agent.reward_parts, Additive.parts, strict=True):
        np.testing.assert_allclose(learned - learned[0], true, atol=error)
    assert sum(part[0] for part in agent.reward_parts) == pytest.approx(5.0, abs=error)


@pytest.mark.parametrize("view", ["traces", "offline"])
def test_the_simulation_gives_the_values_of_the_agent(view):
    more = {"lambda_source": ctd.FactoredLambda(), "reward_source": ctd.LearnedComponents(), "view": view}
    runs = simulate(
        SMALL,
        learner="expected_sarsa",
        step_sizes=0.2,
        seeds=[4],
        epsilon=0.2,
        episodes=300,
        keep_values=True,
        **more,
    )
    env = DynamicsEnv(SMALL)
    agent = ctd.FactoredChunkedExpectedSarsa(env, step_size=0.2, discount=1.0, epsilon=0.2, seed=4, **more)
    history = agent.learn(env, 300, progress=False)
    np.testing.assert_array_equal(runs.values[0], agent.tables.values)
    assert agent.tables.values.shape == (SMALL.n_actions * np.prod(SMALL.nvec), len(SMALL.nvec) + 1)
    assert runs.returns_at[0, -1] == pytest.approx(history.returns.sum())


def learner(env):
    return ctd.FactoredChunkedExpectedSarsa(env, reward_source=ctd.LearnedComponents(0.5), seed=2)


def test_a_saved_learner_goes_on_as_if_nothing_had_happened(tmp_path):
    env = DynamicsEnv(SMALL)
    whole, first = learner(env), learner(env)
    whole.learn(env, 40, progress=False)
    first.learn(DynamicsEnv(SMALL), 20, progress=False)
    first.save(tmp_path / "agent.ctd")
    second = ctd.load(tmp_path / "agent.ctd")
    assert second.reward_source == first.reward_source
    second.learn(DynamicsEnv(SMALL), 20, progress=False)
    np.testing.assert_array_equal(second.tables.values, whole.tables.values)
    for ours, theirs in zip(second.reward_parts, whole.reward_parts, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_bad_input():
    parts, env = ctd.LearnedComponents(), DynamicsEnv(SMALL)
    with pytest.raises(ValueError, match=r"ridge must be .*, got 0"):
        ctd.LearnedComponents(0)
    with pytest.raises(ValueError, match=r"reward_source LearnedComponents.* two countable components or more, got 1"):
        ctd.FactoredChunkedExpectedSarsa(gym.make("FrozenLake-v1"), reward_source=parts)
    with pytest.raises(ValueError, match=r"requires scalar rewards, got 6 components"):
        ctd.FactoredChunkedExpectedSarsa(DynamicsEnv(SMALL._replace(scalar_reward=False)), reward_source=parts)
    with pytest.raises(ValueError, match=r"requires a λ per reward component, such as FactoredLambda"):
        ctd.ChunkedExpectedSarsa(env, reward_source=parts)
    with pytest.raises(ValueError, match=r"requires one reward per state component"):
        ctd.FactoredChunkedExpectedSarsa(env)
    with pytest.raises(ValueError, match=r"components must have one entry per reward \(7\)"):
        ctd.FactoredChunkedExpectedSarsa(env, lambda_source=ctd.FactoredLambda((0,)), reward_source=parts)
    with pytest.raises(ValueError, match=r"two countable components or more, got"):
        simulate(
            ChainAndSplit.make(horizon=4, actions=3, width=3)._replace(),
            learner="expected_sarsa",
            lambda_source=ctd.FactoredLambda(),
            reward_source=parts,
            step_sizes=0.1,
            seeds=1,
            episodes=1,
        )
