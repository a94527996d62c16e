"""Learners on environments that other people wrote."""

from __future__ import annotations

import warnings

import gymnasium as gym
import numpy as np
import pytest

import chunked_td as ctd


def trained(cls, env, episodes=30, **settings):
    agent = cls(env, seed=3, **settings)
    history = agent.learn(env, episodes, progress=False)
    assert history.returns.shape == history.lengths.shape == (episodes,)
    assert np.isfinite(agent.tables.values).all()
    return agent, history


@pytest.mark.parametrize("name", ctd.LEARNERS)
def test_frozen_lake_with_every_learner(name):
    env = gym.make("FrozenLake-v1", is_slippery=False)
    agent, history = trained(getattr(ctd, name), env, 300)
    if "Sarsa" in name:  # control: finds the goal and keeps finding it
        assert history.returns[-100:].mean() > 0.5
        assert agent.q_values(14)[2] > 0.5
    else:
        assert agent.values(0) >= 0.0
        assert agent.act(0) in range(4)


def test_frozen_lake_learns_with_a_true_model():
    env = gym.make("FrozenLake-v1")
    oracle = ctd.TableModel(env.unwrapped.P, 4)
    agent, _ = trained(ctd.ChunkedSarsa, env, model=oracle, lambda_source=ctd.ExpectedLambda())
    assert agent.counts is None
    trained(ctd.ChunkedTD, env, model=oracle)


def test_cliff_walking():
    env = gym.wrappers.TimeLimit(gym.make("CliffWalking-v1"), 200)
    _, history = trained(ctd.ChunkedExpectedSarsa, env, 300, discount=1.0, epsilon=0.05, step_size=0.5)
    assert history.returns[-50:].mean() > history.returns[:20].mean() + 50


def test_taxi_obeys_the_action_mask():
    env = gym.make("Taxi-v4")
    agent = ctd.ChunkedSarsa(env, seed=0, epsilon=0.5)
    observation, info = env.reset(seed=1)
    action = agent.start(observation, info)
    masked = 0
    for _ in range(500):
        assert info["action_mask"][action] == 1
        masked += 6 - int(info["action_mask"].sum())
        observation, reward, terminated, truncated, info = env.step(action)
        action = agent.step(reward, observation, terminated, truncated, info)
        if action is None:
            observation, info = env.reset()
            action = agent.start(observation, info)
        assert agent.policy_probabilities(observation, info)[info["action_mask"] == 0].sum() == 0.0
        assert info["action_mask"][agent.act(observation, info)] == 1
    assert masked > 0


def test_blackjack_has_tuple_observations():
    env = gym.make("Blackjack-v1")
    agent, _ = trained(ctd.ChunkedSarsa, env, 2000, discount=1.0, epsilon=0.2, step_size=0.05)
    assert agent.indexer.fixed
    assert agent.values((21, 10, 1)) > agent.values((12, 10, 0))


def test_minigrid_has_dict_observations_that_get_ids_on_first_sight():
    import minigrid  # noqa: F401 (registers its environments)

    env = gym.make("MiniGrid-Empty-5x5-v0")
    agent, _ = trained(ctd.ChunkedSarsa, env, 15)
    assert not agent.indexer.fixed
    observation, _ = env.reset(seed=1)
    assert agent.indexer.size > 5
    assert agent.q_values(observation).shape == (7,)
    trained(ctd.ChunkedTD, env, 5, percept="reward-state")
    trained(ctd.CorrectedTD, env, 5)
    trained(ctd.ChunkedSarsa, env, 5, lambda_source=ctd.ExpectedLambda())


def test_resource_gathering_has_vector_rewards():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*precision lowered by casting", category=UserWarning)
        mo_gymnasium = pytest.importorskip("mo_gymnasium")
        env = gym.wrappers.TimeLimit(mo_gymnasium.make("resource-gathering-v0"), 100)
    groups = ctd.FactoredLambda(components=((0, 1), 2, 3))
    agent, _ = trained(ctd.FactoredChunkedExpectedSarsa, env, lambda_source=groups)
    observation, _ = env.reset(seed=0)
    assert agent.q_values(observation, components=True).shape == (4, 3)
    assert agent.q_values(observation) == pytest.approx(agent.q_values(observation, components=True).sum(axis=1))
    trained(ctd.ChunkedExpectedSarsa, env)


def test_cart_pole_in_bins():
    env = gym.make("CartPole-v1")
    bins = ctd.Discretise(env, bins=6, low=[-2.4, -3, -0.21, -3], high=[2.4, 3, 0.21, 3])
    _, history = trained(ctd.ChunkedSarsa, env, 400, indexer=bins, epsilon=0.05, step_size=0.2)
    assert history.returns[-100:].mean() > 60  # random play lasts 22 steps


def test_actions_that_do_not_start_at_zero():
    class Shifted(gym.Env):
        observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2, start=5)

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            assert action in (5, 6)
            return 1, float(action == 6), True, False, {}

    agent, _ = trained(ctd.ChunkedSarsa, Shifted(), 50)
    assert agent.act(0) == 6


def test_what_cannot_be_a_table():
    with pytest.raises(ValueError, match="Discretise"):
        ctd.ChunkedSarsa(gym.make("CartPole-v1"))

    class Many:
        observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.MultiBinary(3)

    with pytest.raises(ValueError, match=r"env\.action_space must be Discrete"):
        ctd.ChunkedSarsa(Many())


def test_history_and_callback():
    env = gym.make("FrozenLake-v1")
    agent, seen = ctd.ChunkedSarsa(env), []
    history = agent.learn(env, 10, progress=False, callback=lambda *step: seen.append(step) or len(seen) == 4)
    assert len(seen) == history.returns.size == 4
    assert [length for *_, length in seen] == history.lengths.tolist()
    smooth = ctd.History(np.array([1.0, 0.0, 2.0]), np.ones(3)).smoothed(2)
    assert smooth.tolist() == [1.0, 0.5, 1.0]
    with pytest.raises(ValueError, match="episodes must be a whole number"):
        agent.learn(env, 1.5)
    assert agent.learn(env, 0).returns.size == 0


def test_learning_nothing_first_does_not_use_up_the_seed():
    tables = []
    for first in (0, None):
        env = gym.make("FrozenLake-v1")
        agent = ctd.ChunkedTD(env, seed=5)
        if first is not None:
            agent.learn(env, first)
        agent.learn(env, 20, progress=False)
        tables.append(agent.counts.pairs[: agent.counts.size[0], 0].tolist())
    assert tables[0] == tables[1]


def test_expected_lambda_of_sarsa_counts_the_policy_in_with_a_model_object_too():
    """Σ_{x'} P(x'|x,a)² Σ_{a'} π(a'|x')²: with ε = 1 the second factor is 1/4 wherever one has acted."""
    env = gym.make("FrozenLake-v1", is_slippery=False)  # certain steps: P = 1
    model = ctd.TableModel(env.unwrapped.P, 4)  # pyright: ignore
    agent = ctd.ChunkedSarsa(env, model=model, lambda_source=ctd.ExpectedLambda(), epsilon=1.0, seed=0)
    agent.learn(env, 50)
    agent.start(0)
    agent.step(0.0, int(model.table[0][agent.action][0][1]), False)
    assert agent.memory.lambda_t.tolist() == [0.25]


def test_the_names_of_stable_baselines3():
    """`total_timesteps` is `steps`; `predict` is `act`, greedy if asked to be deterministic, and returns the state."""
    ours, theirs = (
        ctd.SarsaLambda(gym.make("FrozenLake-v1"), step_size=0.1, discount=0.9, epsilon=0.5, seed=0, lambda_=0.5)
        for _ in range(2)
    )
    assert (
        ours.learn(gym.make("FrozenLake-v1"), steps=40).returns.tolist()
        == theirs.learn(gym.make("FrozenLake-v1"), total_timesteps=40).returns.tolist()
    )
    with pytest.raises(ValueError, match="total_timesteps is steps"):
        theirs.learn(gym.make("FrozenLake-v1"), steps=40, total_timesteps=40)
    assert theirs.predict(3, state="kept", deterministic=True) == (ours.act(3), "kept")
    assert [theirs.predict(3)[0] for _ in range(20)] == [ours.act(3, explore=True) for _ in range(20)]
