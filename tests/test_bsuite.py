"""bsuite's own problems, where bsuite is installed: learned, and equal to ours in `chunked_td.lab.studies.bsuite`.

It is not among the development dependencies: bsuite 0.3.6 (the latest) has no wheel, and brings two dozen packages for
its plots (pandas, plotnine, statsmodels, scikit-image, …). Its own adapter needs the old package `gym`. It works with
Python 3.11 all the same: `pip install bsuite`, then this file runs. `test_new_user.py` has stand-ins with the same
spaces.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import chunked_td as ctd
from chunked_td.lab.studies.bsuite.claims import BsuiteResults
from chunked_td.lab.studies.bsuite.problems import MemoryChain, UmbrellaChain, discounting_chain
from chunked_td.lab.studies.bsuite.protocol import EPISODES, SETTINGS

bsuite = pytest.importorskip("bsuite", reason="needs bsuite (pip install bsuite)")


class FromBsuite(gym.Env):
    """A bsuite problem (dm_env) as a Gymnasium environment."""

    def __init__(self, name):
        self.inner = bsuite.load_from_id(name)
        spec = self.inner.observation_spec()
        low, high = float(getattr(spec, "minimum", -np.inf)), float(getattr(spec, "maximum", np.inf))
        self.observation_space = gym.spaces.Box(low, high, spec.shape, spec.dtype)
        self.action_space = gym.spaces.Discrete(self.inner.action_spec().num_values)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.inner.reset().observation, {}

    def step(self, action):
        shown = self.inner.step(action)
        ended = shown.last()
        return (
            shown.observation,
            float(shown.reward),
            ended and shown.discount == 0.0,
            ended and shown.discount > 0.0,
            {},
        )


@pytest.mark.parametrize(("name", "least", "episodes"), [("memory_len/0", 0.9, 600), ("catch/0", 0.5, 3_000)])
def test_bsuite_is_learned(name, least, episodes, tmp_path, capsys):
    """memory_len/0 is one step long: the sign is seen when it is asked for. Chance is 0 in both, the best is 1."""
    env = FromBsuite(name)
    with pytest.raises(ValueError, match=r"finitely many different arrays.*\n.*indexer=chunked_td\.make_indexer\(\)"):
        ctd.ChunkedSarsa(env)
    agent = ctd.ChunkedExpectedSarsa(env, indexer=ctd.make_indexer(), step_size=0.3, epsilon=0.1, seed=0)
    history = agent.learn(env, episodes)
    assert agent.indexer.decode(0).shape == env.observation_space.shape
    assert agent.evaluate(env, 100).returns.mean() > least
    assert history.returns[:20].mean() < agent.evaluate(env, 100).returns.mean()
    agent.save(tmp_path / "agent.ctd")
    observation, _ = env.reset()
    assert np.array_equal(ctd.load(tmp_path / "agent.ctd").q_values(observation), agent.q_values(observation))


def _episode(ours, theirs, actions):
    """Observations, rewards and ends of one episode in both, our observations first; both have been reset."""
    for action in actions:
        shown, reward, ended, _, _ = ours.step(action)
        expected = theirs.step(action)
        yield shown, expected.observation[0], reward, expected.reward, ended, expected.last()
        if ended:
            return


@pytest.mark.parametrize(("length", "bits"), [(1, 1), (2, 1), (7, 1), (2, 5)])
def test_memory_chain_is_bsuites(length, bits):
    from bsuite.environments.memory_chain import MemoryChain as Theirs

    rng = np.random.default_rng(0)
    ours, theirs = MemoryChain(length, bits), Theirs(length, bits, seed=1)
    for k in range(20):
        first, start = ours.reset(seed=k)[0], theirs.reset()
        ours.bits, ours.query = theirs._context.copy(), theirs._query
        first = ours._observation()
        np.testing.assert_array_equal(first, start.observation[0])
        for row in _episode(ours, theirs, rng.integers(2, size=length + 1).tolist()):
            np.testing.assert_array_equal(row[0], row[1])
            assert row[2:6:2] == row[3:6:2]
    assert 2 * ours.mistakes == theirs._total_regret > 0


@pytest.mark.parametrize("length", [1, 2, 9])
def test_umbrella_chain_is_bsuites(length):
    """All but the coins."""
    from bsuite.environments.umbrella_chain import UmbrellaChain as Theirs

    rng = np.random.default_rng(0)
    ours, theirs = UmbrellaChain(length), Theirs(length, 20, seed=1)
    for k in range(20):
        ours.reset(seed=k)
        theirs.reset()
        ours.rain, ours.has = theirs._need_umbrella, theirs._has_umbrella
        for row in _episode(ours, theirs, rng.integers(2, size=length).tolist()):
            np.testing.assert_array_equal(row[0][:3], row[1][:3])
            assert row[0].shape == row[1].shape
            assert set(row[0][3:].tolist()) <= {0.0, 1.0}
            assert row[4] == row[5]
            assert abs(row[2]) == 1.0
            assert not row[4] or row[2] == row[3]
    assert 2 * ours.mistakes == theirs._total_regret > 0


@pytest.mark.parametrize("mapping", [0, 8, 19])
def test_discounting_chain_is_bsuites(mapping):
    from bsuite.environments.discounting_chain import DiscountingChain as Theirs

    table = discounting_chain(mapping)
    ours, theirs = table.env(), Theirs(mapping)
    for chain in range(5):
        ours.reset(seed=0)
        theirs.reset()
        for number, shown, reward, expected, ended, last in _episode(ours, theirs, [chain] + [0] * 99):
            place, time = table.names[int(np.ravel(number)[0])]
            np.testing.assert_allclose([place, time / 100], shown, atol=1e-6)
            assert (reward, ended) == (expected, last)


def test_scores_are_bsuites():
    """Of random shares of mistakes, by bsuite's own functions."""
    import polars as pl
    from bsuite.experiments.discounting_chain import analysis as discounting
    from bsuite.experiments.memory_len import analysis as memory
    from bsuite.experiments.umbrella_length import analysis as umbrella

    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    for name, module in {"memory_len": memory, "umbrella_length": umbrella, "discounting_chain": discounting}.items():
        episodes, settings = EPISODES.get(name, 10_000), SETTINGS[name]
        wrong = rng.integers(0, episodes // 2, size=len(settings))
        rows = {"experiment": name, "arm": "fixed-0", "episodes": episodes, "setting": settings}
        frame = pl.DataFrame({**rows, "seed": np.arange(len(settings)), "mistakes": wrong / episodes})
        theirs = pd.DataFrame({"memory_length": settings, "chain_length": settings, "episode": episodes})
        theirs["total_perfect"], theirs["total_regret"] = episodes - wrong, 2.0 * wrong
        theirs["total_return"] = 1.1 * (episodes - wrong) + 1.0 * wrong
        assert BsuiteResults(frame).scores(name, "fixed-0") == pytest.approx([module.score(theirs)]), name
