"""Two of bsuite's own problems, where bsuite is installed.

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
