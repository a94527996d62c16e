"""Learning that diverges is noticed where it happens, stops that run alone, and says why."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import pytest

import chunked_td as ctd
from chunked_td._link import kernel
from chunked_td.envs.dynamics import AccumulatedCharge
from chunked_td.seeding import uniform
from chunked_td.simulation import networks, simulate
from chunked_td.simulation.lockstep import LockstepRuns
from chunked_td.traces import LIMIT, backward_pass
from helpers.compilation import COMPILED

SMALL = AccumulatedCharge.make(horizon=4, points=2)

pytestmark = pytest.mark.skipif(not COMPILED, reason="without compilation, overflow warns")


def test_a_run_that_diverges_stops_and_the_others_go_on():
    settings = {"lambda_source": 0.9, "episodes": 2000, "epsilon": 0.1, "threads": 1}
    marks = {"record_at": [10, 1500], "probes": [(0, 0)], "keep_values": True}
    with pytest.warns(ctd.DivergenceWarning, match=r"seed 3 and step_size 9 diverged in episode \d+ .*too large"):
        runs = simulate(SMALL, step_sizes=[9.0, 0.1], seeds=3, **settings, **marks)
    alone = simulate(SMALL, step_sizes=0.1, seeds=3, **settings, **marks)
    assert runs.diverged[1] == alone.diverged[0] == -1
    assert 10 < runs.diverged[0] < 1500
    for name in ("misses_at", "probes_at", "returns_at", "values"):
        assert getattr(runs, name)[1].tobytes() == getattr(alone, name)[0].tobytes()
    assert np.isnan(runs.probes_at[0]).tolist() == [[False], [True], [True]]
    assert np.isnan(runs.returns_at[0]).tolist() == [False, True, True]
    assert runs.misses_at[0, 2] - runs.misses_at[0, 1] == 500  # not played: counted as regretful
    assert runs.steps[0] == 4 * (runs.diverged[0] + 1)
    assert np.isfinite(runs.values).all()


@pytest.mark.parametrize("view", ["traces", "offline", "sampled"])
def test_no_view_leaves_numbers_that_are_none(view):
    with pytest.warns(ctd.DivergenceWarning):
        runs = simulate(SMALL, step_sizes=50.0, seeds=0, lambda_source=0.5, view=view, episodes=999, keep_values=True)
    assert runs.diverged[0] >= 0
    assert np.isfinite(runs.values).all()


def test_many_runs_are_told_of_in_one_warning():
    with pytest.warns(ctd.DivergenceWarning, match="2 of 3 runs diverged") as said:
        simulate(SMALL, step_sizes=[50.0, 0.1, 50.0], seeds=[0, 1, 2], lambda_source=0.5, episodes=999)
    assert len(said) == 1


def test_the_step_that_exceeds_the_limit_is_the_one_that_counts():
    def sweep(delta, step_size, components=1):
        values = np.zeros((1, components))
        rows, each = np.zeros(1, np.int64), np.full((1, components), float(delta))
        return backward_pass(values, rows, each, np.zeros((1, components)), 1, 1.0, step_size)

    for components in (1, 2):
        assert sweep(1.0, 0.1, components)
        assert sweep(-0.99 * LIMIT, 1.0, components)
        assert not sweep(-1.01 * LIMIT, 1.0, components)
        assert not sweep(1.01, LIMIT, components)
        assert not sweep(np.nan, 0.1, components)
        assert not sweep(np.inf, 1e-300, components)


@dataclass(frozen=True)
class Wrong(ctd.LambdaSource):
    value: float

    @staticmethod
    @kernel
    def lambda_t(source, step, i):
        return source.value


@pytest.mark.parametrize("value", [np.nan, -0.5, 1.5])
@pytest.mark.parametrize("view", ["traces", "offline"])
def test_a_lambda_outside_the_unit_interval_is_noticed(value, view):
    with pytest.warns(ctd.DivergenceWarning, match="returned a λ that is not a number in"):
        runs = simulate(SMALL, step_sizes=0.1, seeds=0, lambda_source=Wrong(value), view=view, episodes=5)
    assert runs.diverged.tolist() == [0]
    agent = ctd.SarsaLambda(gym.make("ChunkedTD/AccumulatedCharge-v0"), lambda_source=Wrong(value), view=view)
    with pytest.warns(ctd.DivergenceWarning, match="returned a λ that is not a number in"):
        history = agent.learn(gym.make("ChunkedTD/AccumulatedCharge-v0"), 3)
    assert history.diverged == 0
    assert history.returns.size == 0


def test_rounding_is_not_divergence():
    runs = simulate(SMALL, step_sizes=0.1, seeds=0, lambda_source=Wrong(1.0 + 1e-9), episodes=5)
    assert runs.diverged.tolist() == [-1]


# ---- agents


@pytest.mark.parametrize("view", ["traces", "offline"])
@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_learn_stops_and_says_when(view, epsilon):
    env = gym.make("FrozenLake-v1", max_episode_steps=30)
    env = gym.wrappers.TransformReward(env, lambda reward: reward + 1.0)
    agent = ctd.SarsaLambda(env, lambda_=1.0, discount=1.0, step_size=5.0, epsilon=epsilon, view=view)
    with pytest.warns(ctd.DivergenceWarning, match=r"training stopped after \d+ episodes: .* step_size 5 is too large"):
        history = agent.learn(env, 3000)
    assert history.diverged == history.returns.size == agent.episode < 3000
    with pytest.raises(ctd.Diverged, match="learning diverged"):
        agent.start(0)
    assert agent.act(0) in range(4)
    assert agent.policy_probabilities(0).sum() == pytest.approx(1.0)


def test_an_episode_that_does_not_end_is_stopped_too():
    agent = ctd.SarsaLambda(gym.make("FrozenLake-v1"), lambda_=1.0, step_size=9.0, discount=1.0)
    agent.start(0)

    def walk(steps):
        for k in range(steps):
            agent.step(1.0, k % 3, False)

    with pytest.raises(ctd.Diverged, match="smaller step_size"):
        walk(2000)


def test_huge_rewards_are_noticed():
    agent = ctd.NaiveTD0(gym.make("FrozenLake-v1"))
    agent.start(0)
    with pytest.raises(ctd.Diverged):
        agent.step(1e300, 1, True)


def test_a_policy_over_values_that_are_none():
    agent = ctd.SarsaLambda(gym.make("FrozenLake-v1"), epsilon=0.2)
    agent.tables.values[:4, 0] = np.nan, 1.0, 2.0, np.nan
    assert agent.policy_probabilities(0) == pytest.approx([0.05, 0.05, 0.85, 0.05])
    agent.tables.values[:4, 0] = np.nan
    assert agent.policy_probabilities(0) == pytest.approx([0.25] * 4)


# ---- in lockstep


def fleet(step_sizes):
    return LockstepRuns(
        SMALL,
        learner="sarsa",
        lambda_source=ctd.ForwardLambda(),
        discount=1.0,
        epsilons=np.full(400, 0.1),
        seeds=range(len(step_sizes)),
        step_sizes=step_sizes,
    )


class Half:
    """A world whose networks always say one half."""

    def __init__(self, runs):
        self.runs, self.broken_at = runs, np.zeros(runs, np.int32)

    def episode(self, *_):
        return self

    def copy_to_host_async(self):
        pass

    def __array__(self, *_, **__):
        return np.full((self.runs, 4), 0.5, np.float32)

    def diagnostics(self):
        each, tenths = np.zeros(self.runs), np.zeros((self.runs, 1))
        return SimpleNamespace(
            loss=each, lambda_predictable=tenths, lambda_noisy=tenths, counted=tenths, predicted=tenths, observed=tenths
        )


def test_in_lockstep_the_others_go_on():
    results = {}
    for name, step_sizes in (("both", [0.1, 60.0]), ("alone", [0.1])):
        runs = fleet(step_sizes)
        records = networks._train(Half(runs.size), runs, SMALL, [5, 300, 400], np.array([0]), None)
        results[name] = networks._result(runs, records, slice(0, 2))
    both, alone = results["both"], results["alone"]
    assert both.diverged[0] == alone.diverged[0] == -1
    assert 5 < both.diverged[1] < 299
    for name in ("misses_at", "probes_at", "returns_at"):
        assert getattr(both, name)[0].tobytes() == getattr(alone, name)[0].tobytes()
    assert both.steps[1] == 4 * (both.diverged[1] + 1)
    assert np.isnan(both.probes_at[1, :, 0]).tolist() == np.isnan(both.returns_at[1]).tolist() == [False, True, True]
    assert both.misses_at[1, 2] - both.misses_at[1, 1] == 100


def test_in_lockstep_a_lambda_that_is_none_stops_its_run():
    broken, answers = fleet([0.1, 0.1]), np.full((2, 4), 0.5)
    answers[1, 2] = 7.0
    broken.roll_out()
    broken.learn(answers, roll_on=True)
    assert broken.diverged.tolist() == [-1, 0]


# ---- dynamics that do not keep to what they declare


class Walk(NamedTuple):
    """Two states in turn; each number says how one thing goes wrong."""

    horizon: int = 3
    state: int = 0
    legal_: int = 2
    end: int = 3
    taken: int = 1

    nvec = (2,)
    n_actions = 2
    n_rewards = 1
    draws = 1

    @staticmethod
    @kernel
    def prepare(env, rng):
        pass

    @staticmethod
    @kernel
    def reset(env, rng, state):
        state[0] = 0

    @staticmethod
    @kernel
    def step(env, rng, state, action, reward):
        state[0] = env.state if env.state != 0 else 1 - state[0]
        reward[0] = 0.0
        for _ in range(env.taken):
            reward[0] += uniform(rng)
        return reward[0] * 0.0 + state[0] >= 0 and env.end == 0

    @staticmethod
    @kernel
    def legal(env, state):
        return env.legal_

    @staticmethod
    @kernel
    def miss(env, first_action, state):
        return False

    @staticmethod
    @kernel
    def probability(env, state, action, next_state, out):
        out[0] = 1.0

    def outcomes(self, state, action):
        return []


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"state": 2}, "wrote a state component outside"),
        ({"state": -1}, "wrote a state component outside"),
        ({"state": 10**12}, "wrote a state component outside"),
        ({"legal_": 3}, "returned a number of legal actions outside"),
        ({"legal_": 0}, "returned a number of legal actions outside"),
        ({"legal_": -7}, "returned a number of legal actions outside"),
        ({"end": 9}, "did not end the episode within horizon"),
        ({"taken": 40_000}, "took more random numbers than draws"),
    ],
)
def test_dynamics_that_break_their_word_are_refused(wrong, match):
    env = Walk(**{"end": 0} | wrong)
    with pytest.raises(ValueError, match=rf"dynamics Walk {match}.*in episode 0"):
        simulate(env, step_sizes=0.1, seeds=0, lambda_source=0.5, episodes=3)
