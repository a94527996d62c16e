"""Parts from outside, compiled and as plain Python: in `agent.step`, in `simulate`, in `compare`, saved and loaded."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import chunked_td as ctd
from chunked_td.simulation import simulate
from extension.parts import Again, Clipped, Drift, Half, Hats, LessAndLess, Recent, discrete

PARTS = {
    "source": {"lambda_source": Half(0.4)},
    "view": {"view": Clipped(1.2), "lambda_source": 0.9},
    "planner": {"planner": Again(0.5), "lambda_source": 0.3},
    "exploration": {"exploration": LessAndLess(), "lambda_source": 0.5},
    "model": {"model": Recent(0.3), "lambda_source": ctd.ForwardLambda()},
    "all": {
        "lambda_source": Half(0.8),
        "view": Clipped(1.4),
        "planner": Again(0.1),
        "exploration": LessAndLess(),
        "model": Recent(0.1),
    },
}


def learner(settings, seed=3):
    return ctd.ChunkedExpectedSarsa(
        discrete(Drift.make()), step_size=0.2, discount=0.95, epsilon=0.3, seed=seed, **settings
    )


@pytest.mark.parametrize("name", PARTS)
def test_agent_step_and_simulate_give_the_same_values(name):
    settings = {"view": "traces"} | PARTS[name]
    agent, env = learner(settings), discrete(Drift.make())
    agent.learn(env, episodes=30)
    runs = simulate(
        Drift.make(), learner="expected_sarsa", step_sizes=0.2, seeds=3, episodes=30, discount=0.95, epsilon=0.3,
        keep_values=True, threads=1, **settings,
    )  # fmt: skip
    np.testing.assert_array_equal(runs.values[0], agent.tables.values[: 7 * 2])
    assert np.abs(runs.values).max() > 0.1


@pytest.mark.parametrize("name", PARTS)
def test_a_saved_learner_goes_on_with_its_parts(name, tmp_path):
    agent = learner(PARTS[name])
    world = discrete(Drift.make())
    agent.learn(world, episodes=5)
    agent.save(tmp_path / "a.ctd")
    given = {k: v for k, v in PARTS[name].items() if not isinstance(v, float | ctd.ForwardLambda)}
    twin = ctd.load(tmp_path / "a.ctd", **given)
    for each in (agent, twin):
        rng = np.random.default_rng(0)
        each.start(0)
        for _ in range(20):
            each.step(float(rng.normal()), int(rng.integers(7)), False)
    np.testing.assert_array_equal(agent.tables.values, twin.tables.values)
    with pytest.raises(ValueError, match="pass it as"):
        ctd.load(tmp_path / "a.ctd")


def test_every_part_decides_something():
    plain = learner({"lambda_source": 0.5})
    env = discrete(Drift.make())
    plain.learn(env, episodes=30)
    for name, settings in PARTS.items():
        agent = learner(settings)
        agent.learn(discrete(Drift.make()), episodes=30)
        assert not np.array_equal(agent.tables.values, plain.tables.values), name


def test_features_from_outside():
    class Slide(gym.Env):
        observation_space, action_space = gym.spaces.Box(0.0, 1.0, (1,)), gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.x = 0.0
            return np.array([self.x], np.float32), {}

        def step(self, action):
            self.x = min(max(self.x + (0.1 if action else -0.1), 0.0), 1.0)
            return np.array([self.x], np.float32), -1.0, self.x >= 1.0, False, {}

    agent = ctd.ExpectedSarsaLambda(Slide(), lambda_=0.8, step_size=0.5, epsilon=0.1, seed=0, indexer=Hats())
    history = agent.learn(Slide(), episodes=40)
    assert history.lengths[-10:].mean() < 20  # ten steps are the least
