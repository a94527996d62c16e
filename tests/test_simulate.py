"""The simulation: bit for bit what `agent.step` does on the Gymnasium face, whatever the threads.

A loop is compiled for every combination of environment, learner, λ source, model and view. Combinations are played
without compilation (by `test_uncompiled.py`, in a process of its own); compiled, every environment, learner, source,
model and view is played at least once.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import chunked_td as ctd
from chunked_td._link import kernel
from chunked_td.bootstraps import STATE
from chunked_td.envs.dynamics import AccumulatedCharge, ChainAndSplit, KeyToDoor, SkewedSplit, TransitionTable
from chunked_td.envs.face import DynamicsEnv
from chunked_td.lambdas.step import WHOLE, chance, expected_mixture, first, following, mixture, weight
from chunked_td.seeding import uniform
from chunked_td.simulation import simulate
from chunked_td.simulation.lockstep import LockstepRuns
from helpers.compilation import COMPILED
from helpers.small_envs import env_miss

EPISODES = 25
ENVS = {
    "charge": AccumulatedCharge.make(horizon=6, points=2),
    "charge-mirrored": AccumulatedCharge.make(horizon=6, points=2, mirrored=True),
    "chain": ChainAndSplit.make(horizon=4, actions=3, width=3),
    "key": KeyToDoor.make(horizon=5, distractors=2, distractor_reward=0.03),
    "key-scalar": KeyToDoor.make(horizon=5, distractors=2, scalar_reward=True),
    "skewed": SkewedSplit.make(length=2),
    # states return, action 0 is not always legal, one next state comes with two rewards, episodes are cut after 5 steps
    "table": TransitionTable.from_outcomes(
        {
            0: {0: [(0.5, 1, 0.5, False), (0.5, 2, 1.0, False)], 1: [(1.0, 0, -0.25, False)]},
            1: {1: [(0.25, 0, 1.0, False), (0.5, 2, -1.0, False), (0.25, 2, 2.0, True)]},
            2: {0: [(1.0, 1, 0.0, False)], 2: [(0.75, 2, 0.5, True), (0.25, 0, -0.5, False)]},
        },
        starts={0: 0.75, 1: 0.25},
        horizon=5,
        bad_first=[1],
        bad_end=[2],
    ),
}
CLASSES = {"td": ctd.ChunkedTD, "sarsa": ctd.ChunkedSarsa, "expected_sarsa": ctd.ChunkedExpectedSarsa}
COUNTED = [ctd.ForwardLambda(), ctd.ExpectedLambda(), ctd.BackwardLambda(), ctd.VisitLambda()]
FIXED = [ctd.ConstantLambda(0.7), ctd.ConstantLambda(0.0), ctd.ConstantLambda(1.0), ctd.WatkinsLambda(0.8)]


@dataclass(frozen=True)
class Taken(ctd.LambdaSource):
    """The probability of what came, for the action taken; the policy is left out."""

    def asks(self, bootstrap):
        return ("chance",)

    @staticmethod
    @kernel
    def lambda_t(source, step, i):
        return chance(step, step.action, WHOLE)


@dataclass(frozen=True)
class Mixed(ctd.LambdaSource):
    """The mixture under the policy, with every bootstrap."""

    def asks(self, bootstrap):
        return ("mixture",)

    @staticmethod
    @kernel
    def lambda_t(source, step, i):
        return mixture(step, WHOLE)


@dataclass(frozen=True)
class MixedExpected(ctd.LambdaSource):
    """The expected mixture, with every bootstrap."""

    def asks(self, bootstrap):
        return ("expected_mixture",)

    @staticmethod
    @kernel
    def lambda_t(source, step, i):
        return expected_mixture(step, WHOLE)


@dataclass(frozen=True)
class Listed(ctd.LambdaSource):
    """Σ P̂² of the action taken, by listing its outcomes."""

    def asks(self, bootstrap):
        return ("outcomes",)

    @staticmethod
    @kernel
    def lambda_t(source, step, i):
        total = 0.0
        k = first(step, step.action)
        while k >= 0:
            total += weight(step, step.action, k) ** 2
            k = following(step, step.action, k)
        return total


OWN = [Taken(), Mixed(), MixedExpected(), Listed()]


def combinations(dynamics, learner):
    """(λ source, model, view) that this learner takes here."""
    components = None if dynamics.n_rewards == len(dynamics.nvec) else ((0, len(dynamics.nvec) - 1),)
    factored = [] if learner == "sarsa" else [ctd.FactoredLambda(components)]
    views = ["offline", "traces"] + ([] if learner == "expected_sarsa" else ["sampled"])
    asked = [(source, "counts") for source in COUNTED + factored] + [(source, None) for source in FIXED]
    asked += [(source, "oracle") for source in [ctd.ForwardLambda(), ctd.ExpectedLambda(), *OWN, *factored]]
    asked += [(source, "counts") for source in OWN]
    return [(*pair, view) for pair, view in itertools.product(asked, views)]


class Oracle:
    """The true model as an object that a learner asks, from the dynamics of the environment it plays in."""

    def __init__(self, dynamics):
        self.dynamics = dynamics

    def observe(self, *_):
        pass

    def component_probabilities(self, state, next_state, reward):
        env = self.dynamics
        before, after = (np.array(np.unravel_index(s, env.nvec), np.int64) for s in (state, next_state))
        out = np.zeros((env.n_actions, len(env.nvec)))
        for a in range(env.n_actions):
            env.probability(env, before, a, after, out[a])
        return out

    def probabilities(self, state, next_state, reward):
        return np.array([np.prod(row) for row in self.component_probabilities(state, next_state, reward)])

    def distribution(self, state, action):
        """All next states of a component-wise odometer, in the order of their ids."""
        env = self.dynamics
        before = np.array(np.unravel_index(state, env.nvec), np.int64)
        each, out = [], np.zeros(len(env.nvec))
        for j, size in enumerate(env.nvec):
            chances = []
            for value in range(size):
                after = before.copy()
                after[j] = value
                env.probability(env, before, action, after, out)
                chances.append(out[j])
            each.append([(value, chance) for value, chance in enumerate(chances) if chance > 0])
        for combination in itertools.product(*each):
            values, chances = zip(*combination, strict=True)
            product = 1.0
            for each_chance in reversed(chances):
                product *= each_chance
            yield int(np.ravel_multi_index(values, env.nvec)), product


def epsilons():
    return np.linspace(1.0, 0.1, EPISODES)


def played_by_hand(dynamics, learner, source, model, view, seed):
    """Values, misses and sum of returns of a learner on the Gymnasium face."""
    env = DynamicsEnv(dynamics)
    agent = CLASSES[learner](
        env,
        lambda_source=source,
        model=Oracle(env.dynamics) if model == "oracle" else None,
        view=view,
        step_size=0.3,
        discount=0.95,
        epsilon=ctd.Schedule(tuple(enumerate(epsilons())), hold=True),
        seed=seed,
    )
    misses, returned = 0, 0.0
    for episode in range(EPISODES):
        observation, info = env.reset(seed=seed if episode == 0 else None)
        action = first = agent.start(observation, info)
        total = 0.0
        while action is not None:
            observation, reward, terminated, truncated, info = env.step(action)
            for part in np.atleast_1d(reward):
                total += float(part)
            action = agent.step(reward, observation, terminated, truncated, info)
        returned += total
        misses += bool(env_miss(env.dynamics, first, np.atleast_1d(np.asarray(observation, np.int64))))
    return agent, misses, returned


def fused(dynamics, learner, source, model, view, seeds, **settings):
    common = {"step_sizes": 0.3, "discount": 0.95, "epsilon": epsilons(), "episodes": EPISODES}
    common |= {"keep_values": True, "threads": 1}
    return simulate(
        dynamics, learner=learner, lambda_source=source, model=model, view=view, seeds=seeds, **(common | settings)
    )


def check_both_faces(dynamics, learner, case):
    runs = fused(dynamics, learner, *case, seeds=[3, 11])
    for k, seed in enumerate((3, 11)):
        agent, misses, returned = played_by_hand(dynamics, learner, *case, seed)
        rows = runs.values[k].shape[0]
        same = (
            np.testing.assert_allclose
            if case[1] == "oracle" and {"overlaps", "outcomes"} & case[0].inputs(STATE)
            else equal
        )
        same(runs.values[k], agent.tables.values[:rows])
        assert (runs.misses[k], runs.returns_at[k, 0]) == (misses, returned), case
        assert runs.values[k].any()


def equal(ours, theirs):
    assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize(
    ("name", "learner", "case"),
    [
        ("charge", "expected_sarsa", (MixedExpected(), "oracle", "offline")),
        ("charge-mirrored", "td", (ctd.BackwardLambda(), "counts", "traces")),
        ("charge-mirrored", "sarsa", (Mixed(), "oracle", "sampled")),
        ("chain", "sarsa", (Taken(), "counts", "traces")),
        ("chain", "expected_sarsa", (ctd.ExpectedLambda(), "counts", "traces")),
        ("key", "expected_sarsa", (ctd.FactoredLambda(), "counts", "offline")),
        ("key-scalar", "sarsa", (ctd.ForwardLambda(), "oracle", "offline")),
        ("skewed", "td", (ctd.VisitLambda(), "counts", "traces")),
        ("skewed", "expected_sarsa", (ctd.ConstantLambda(0.7), None, "traces")),
        ("table", "td", (Listed(), "oracle", "traces")),
        ("table", "sarsa", (ctd.WatkinsLambda(0.8), None, "traces")),
    ],
)
def test_both_faces_are_bit_identical(name, learner, case):
    check_both_faces(ENVS[name], learner, case)


@pytest.mark.uncompiled
@pytest.mark.parametrize("share", [5, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("learner", CLASSES)
@pytest.mark.parametrize("name", ENVS)
def test_every_combination_is_bit_identical(name, learner, share):
    """Each environment plays a fifth of them, all environments together every one; compiled, one."""
    place = list(ENVS).index(name)
    cases = combinations(ENVS[name], learner)[place % share :: share]
    for case in [cases[7 * place % len(cases)]] if COMPILED else cases:
        check_both_faces(ENVS[name], learner, case)


def test_through_the_registry_and_learn():
    import gymnasium as gym

    env = gym.make("ChunkedTD/AccumulatedCharge-v0", horizon=6, points=2)
    agent = ctd.ChunkedSarsa(env, step_size=0.3, discount=1.0, seed=5)
    history = agent.learn(env, EPISODES, progress=False)
    case = (ENVS["charge"], "sarsa", ctd.ForwardLambda(), "counts", "traces")
    runs = fused(*case, [5], discount=1.0, epsilon=0.1)
    assert runs.values[0].tobytes() == agent.tables.values[: runs.values.shape[1]].tobytes()
    assert runs.returns_at[0, 0] == pytest.approx(history.returns.sum())


def test_threads_do_not_matter():
    case = (ENVS["charge"], "sarsa", ctd.ForwardLambda(), "counts", "sampled")
    seeds, sizes = np.arange(12), np.linspace(0.1, 0.6, 12)
    results = [fused(*case, seeds, step_sizes=sizes, threads=threads) for threads in (1, 2, 5, None)]
    alone = [fused(*case, [s], step_sizes=x).values[0] for s, x in zip(seeds, sizes, strict=True)]
    for runs in results:
        assert runs.values.tobytes() == np.array(alone).tobytes()
        assert runs.misses.tolist() == results[0].misses.tolist()


def test_records_are_what_shorter_runs_give():
    case = (ENVS["key"], "expected_sarsa", ctd.FactoredLambda(), "counts", "offline")
    probes = [(0, 0), (0, 1), (5, 1)]
    runs = fused(*case, [4], record_at=(0, 5, 12), probes=probes, epsilon=0.2)
    assert runs.misses_at.shape == (1, 4)
    assert runs.probes_at.shape == (1, 4, 3)
    assert runs.probes_at[0, 0].tolist() == [0.0, 0.0, 0.0]
    total = 0.0
    for k, episodes in enumerate((5, 12, EPISODES), start=1):
        shorter = fused(*case, [4], episodes=episodes, probes=probes, epsilon=0.2)
        total += runs.returns_at[0, k]
        assert runs.misses_at[0, k] == shorter.misses[0]
        assert runs.probes_at[0, k].tolist() == shorter.probes_at[0, -1].tolist()
        assert total == pytest.approx(shorter.returns_at[0, -1])
        rows = [s * 2 + a for s, a in probes]
        assert shorter.probes_at[0, -1].tolist() == shorter.values[0][rows].sum(axis=1).tolist()
    assert runs.steps.tolist() == [EPISODES * 5]
    assert runs.misses[0] == runs.misses_at[0, -1]


@pytest.mark.parametrize("learner", [name for name in CLASSES if name != "td"])
def test_lambda_from_outside(learner):
    """Runs handed the true probabilities give what the oracle gives; the formula adds SARSA's policy factor."""
    dynamics, source = ENVS["key-scalar"], ctd.ForwardLambda()  # two actions everywhere: the factor matters
    lockstep = LockstepRuns(
        dynamics,
        learner=learner,
        lambda_source=source,
        discount=0.95,
        epsilons=epsilons(),
        seeds=[6],
        step_sizes=[0.3],
    )
    oracle = Oracle(dynamics)
    for _ in range(EPISODES):
        lockstep.roll_out()
        ids = (lockstep.states[0].astype(np.int64) @ lockstep.scenes.stage.strides[0]).tolist()
        lambdas = np.zeros((1, len(ids) - 1))
        for t in range(len(ids) - 1):
            chances, policy = oracle.probabilities(ids[t], ids[t + 1], None), lockstep.policies[0, t]
            lambdas[0, t] = chances[lockstep.actions[0, t]] if learner == "sarsa" else min(policy @ chances, 1.0)
        lockstep.learn(lambdas)
    runs = fused(dynamics, learner, source, "oracle", "offline", [6])
    np.testing.assert_allclose(lockstep.values[0], runs.values[0], rtol=1e-5, atol=1e-7)  # λ travels as float32
    assert lockstep.totals.misses[0, 0] == runs.misses[0]


def test_lambda_from_outside_is_checked():
    lockstep = LockstepRuns(
        ENVS["key"],
        learner="expected_sarsa",
        lambda_source=ctd.FactoredLambda(),
        discount=0.95,
        epsilons=epsilons(),
        seeds=[6],
        step_sizes=[0.3],
        columns=[-1],
    )
    lockstep.roll_out()
    steps, rewards = lockstep.actions.shape[1], ENVS["key"].n_rewards
    for shape in ((1, 3, rewards), (1, steps), (2, steps, rewards), (1, steps, rewards - 1), (1, steps, 1, 1)):
        with pytest.raises(ValueError, match=rf"answers must have the shape .* m at least {rewards}"):
            lockstep.learn(np.zeros(shape))
    with pytest.raises(ValueError, match="answers must be finite"):
        lockstep.learn(np.full((1, steps, rewards), np.nan))
    lockstep.learn(np.zeros((1, steps, rewards)))


class Maze(NamedTuple):
    """Somebody's own dynamics: six steps in which every action changes the odds."""

    odds: np.ndarray

    nvec, n_actions, n_rewards, draws, horizon = (3, 7), 2, 1, 1, 6

    @staticmethod
    @kernel
    def prepare(env, rng):
        pass

    @staticmethod
    @kernel
    def reset(env, rng, state):
        state[:] = 0

    @staticmethod
    @kernel
    def step(env, rng, state, action, reward):
        state[0] = 0 if uniform(rng) < env.odds[action, state[0]] else 1 + action
        state[1] += 1
        reward[0] = state[0] - 0.7 * action
        return state[1] == 6

    @staticmethod
    @kernel
    def legal(env, state):
        return 2

    @staticmethod
    @kernel
    def miss(env, first_action, state):
        return state[0] == 0

    @staticmethod
    @kernel
    def probability(env, state, action, next_state, out):
        stay = env.odds[action, state[0]]
        out[0] = stay if next_state[0] == 0 else (1.0 - stay if next_state[0] == 1 + action else 0.0)
        out[1] = 1.0 if next_state[1] == state[1] + 1 else 0.0


@pytest.mark.uncompiled
@pytest.mark.parametrize("learner", CLASSES)
def test_both_faces_where_every_action_matters(learner):
    dynamics = Maze(np.array([[0.3, 0.9, 0.5], [0.6, 0.2, 0.8]]))
    for case in combinations(dynamics, learner)[:: 20 if COMPILED else 1]:
        check_both_faces(dynamics, learner, case)


def test_seeds_fix_the_charging_steps_and_leave_the_dynamics_alone():
    dynamics = AccumulatedCharge.make(horizon=6, points=2)
    before = dynamics.charging.copy()
    runs = fused(dynamics, "td", 0.5, None, "offline", np.arange(6))
    assert dynamics.charging.tolist() == before.tolist()
    assert len({values.tobytes() for values in runs.values}) == 6


GOOD = {"step_sizes": 0.1, "seeds": 0, "episodes": 5}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"learner": "sarsaa"}, "learner must be one of .*did you mean 'sarsa'"),
        ({"view": "online"}, "view must be one of"),
        ({"model": "orcale"}, "model must be one of .*did you mean 'oracle'"),
        ({"model": None}, "model must be 'counts' or 'oracle'"),
        ({"model": "oracle", "lambda_source": ctd.BackwardLambda()}, "model must be 'counts'"),
        ({"model": "oracle", "lambda_source": ctd.VisitLambda()}, "model must be 'counts'"),
        ({"lambda_source": 1.5}, r"lambda_source must be a number in \[0, 1\]"),
        ({"lambda_source": ctd.FactoredLambda()}, "got SARSA"),
        ({"learner": "expected_sarsa", "view": "sampled"}, "view='sampled' requires"),
        ({"learner": "td", "lambda_source": ctd.FactoredLambda()}, "one reward per state component"),
        ({"step_sizes": 0.0}, "step_sizes must be positive and finite"),
        ({"step_sizes": [0.1, np.nan]}, "step_sizes must be positive and finite"),
        ({"step_sizes": [0.1, 0.2], "seeds": [1, 2, 3]}, "equal numbers of entries"),
        ({"seeds": -1}, "seeds must be whole numbers from 0"),
        ({"seeds": 0.5}, "seeds must be whole numbers from 0"),
        ({"episodes": 0}, "episodes must be a whole number from 1"),
        ({"episodes": 2.5}, "episodes must be a whole number from 1"),
        ({"epsilon": 1.5}, r"epsilon must be in \[0, 1\]"),
        ({"epsilon": np.nan}, r"epsilon must be in \[0, 1\]"),
        ({"epsilon": np.zeros(3)}, r"one per episode \(5\), got shape \(3,\)"),
        ({"discount": 1.5}, r"discount must be a number in \[0, 1\]"),
        ({"record_at": (6,)}, r"record_at must be in 0\.\.5"),
        ({"probes": [(10**9, 0)]}, "probes must be"),
        ({"probes": [(0, 2)]}, "probes must be"),
    ],
)
def test_bad_settings(change, match):
    with pytest.raises(ValueError, match=match):
        simulate(ENVS["charge"], **(GOOD | change))
