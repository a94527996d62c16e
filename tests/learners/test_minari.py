"""Real Minari datasets, made here and read back, without a network: replayed, and learned from off-policy."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import chunked_td as ctd

minari = pytest.importorskip("minari", reason="needs Minari (pip install 'minari[hdf5]')")
pytest.importorskip("h5py", reason="needs h5py (pip install 'minari[hdf5]')")

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:minari"),
    pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning"),  # of its temporary folders
]


def recorded(collector, name):
    about = {"algorithm_name": "ours", "author": "us", "author_email": "us@example.org", "code_permalink": "none"}
    collector.create_dataset(name, description="a test", **about)
    collector.close()
    collector._tmp_dir._finalizer.detach()  # it has removed its folder itself, and would warn of it later
    return minari.load_dataset(name)  # from the files


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def test_a_dataset_of_our_own_run_gives_the_run():
    env = minari.DataCollector(gym.make("FrozenLake-v1", max_episode_steps=8))
    agent = ctd.ChunkedExpectedSarsa(env, seed=3)
    history = agent.learn(env, 40)
    data = recorded(env, "lake/own-v0")
    assert data.total_episodes == 40
    assert any(episode.truncations[-1] for episode in data.iterate_episodes())
    twin = ctd.ChunkedExpectedSarsa(gym.make("FrozenLake-v1"), seed=3)
    assert np.array_equal(twin.learn_from(data).returns, history.returns)
    assert np.array_equal(twin.tables.values, agent.tables.values)


def test_a_dataset_of_another_policy_with_tuple_observations():
    """Blackjack's observations are tuples. A uniform policy acted; the values are those of the ε-greedy one."""
    env = minari.DataCollector(gym.make("Blackjack-v1"))
    env.action_space.seed(0)
    for episode in range(300):
        env.reset(seed=0 if episode == 0 else None)
        ended = False
        while not ended:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            ended = terminated or truncated
    data = recorded(env, "blackjack/random-v0")
    agent = ctd.ChunkedExpectedSarsa(gym.make("Blackjack-v1"), step_size=0.2, discount=1.0)
    assert agent.learn_from(data, behaviour="uniform").returns.size == 300
    uniform = np.mean([episode.rewards.sum() for episode in data.iterate_episodes()])
    assert agent.evaluate(gym.make("Blackjack-v1"), 2_000).returns.mean() > uniform + 0.1
