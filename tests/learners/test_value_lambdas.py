"""The value kernel: against plain definitions, on both faces, saved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chunked_td as ctd
from chunked_td.analysis.exact import ExactModel
from chunked_td.envs.face import DynamicsEnv
from chunked_td.simulation import simulate
from helpers.compilation import uncompiled
from helpers.faces import SCALAR, check_both_faces, check_saving
from helpers.naive import EXPECTED_SARSA, SARSA, Naive, TrueModel, V
from helpers.worlds import World, side_by_side

CLASSES = {V: ctd.ChunkedTD, SARSA: ctd.ChunkedSarsa, EXPECTED_SARSA: ctd.ChunkedExpectedSarsa}
MASKED = ctd.TransitionTable.from_outcomes(
    {
        0: {0: [(0.5, 1, 0, False), (0.5, 2, 0, False)], 2: [(1, 1, 0.3, False)]},
        1: {0: [(0.3, 0, 0, False), (0.7, 3, 1, True)]},
        2: {1: [(0.6, 3, -1, True), (0.4, 1, 0, False)], 2: [(1, 3, 0, True)]},
        3: {},
    },
    starts=0,
    horizon=9,
    n_actions=3,
)


class Comparing(Naive):
    """Every pair of next states compared, every time."""

    def __init__(self, *args, width, **others):
        super().__init__(*args, **others)
        self.width, self.square, self.errors = width, 0.0, 0

    def value(self, s):
        if self.bootstrap == V:
            return self.values[s].sum()
        if s not in self.acted_in:
            return 0.0
        return self.greedy_policy(s, self.acted_in[s]) @ self.values[s].sum(axis=1)

    def kernel(self, s, a):
        A = self.world.actions
        if self.bootstrap == SARSA or (self.bootstrap == EXPECTED_SARSA and not self.policy_noise):
            return self.overlap(s, np.eye(A)[a])
        weights = self.mixture_weights(s)
        if self.policy_noise:
            return self.overlap(s, weights)
        return sum(weights[b] * self.overlap(s, np.eye(A)[b]) for b in range(A) if weights[b] > 0)

    def overlap(self, s, weights):
        S, A = self.world.states, self.world.actions
        p = np.array([sum(weights[b] * self.estimate((s, b), x, S) for b in range(A)) for x in range(S)])
        total = 0.0
        for x in range(S):
            for y in range(S):
                if p[x] > 0 and p[y] > 0:
                    apart = (self.gamma * (self.value(x) - self.value(y))) ** 2
                    tau = 2 * self.width**2 * self.square
                    same = 1.0 if apart == 0 else 0.0 if tau == 0 else np.exp(-apart / tau)
                    total += p[x] * p[y] * same
        return min(total, 1.0)

    def lambda_now(self, s, a, reward, s2, a2):
        return np.full(self.world.rewards, self.kernel(s, a))

    def learn(self, lambda_t, reward, bootstrap, ended):
        error = (reward + self.gamma * bootstrap - self.values[self.place]).sum()
        super().learn(lambda_t, reward, bootstrap, ended)
        self.errors = min(self.errors + 1, 1000)
        self.square += (error**2 - self.square) / self.errors


@pytest.mark.uncompiled
@settings(max_examples=60)
@given(
    st.integers(0, 10**6),
    st.sampled_from(list(CLASSES)),
    st.sampled_from([0.01, 0.5, 3.0]),
    st.booleans(),
    st.booleans(),
)
def test_against_the_definition(seed, bootstrap, width, masked, policy_noise):
    world = World(seed, (6,), 3, 2, acyclic=False, masked=masked, sudden=0.1)
    common = {"epsilon": 0.4, "seed": seed % 50}
    source = ctd.ValueLambda(width, policy_noise=policy_noise)
    agent = CLASSES[bootstrap](world, lambda_source=source, discount=0.9, step_size=0.3, **common)
    common |= {"width": width, "policy_noise": policy_noise}
    reference = Comparing(world, bootstrap, ("value",), gamma=0.9, alpha=0.3, **common)
    side_by_side(agent, reference, world, episodes=6, check_steps=True)


class ComparingTruth(TrueModel, Comparing):
    """The same with the true model: every action is known."""


@pytest.mark.uncompiled
@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from(list(CLASSES)), st.booleans())
def test_with_the_true_model_against_the_definition(seed, bootstrap, policy_noise):
    world = World(seed, (6,), 3, 2, acyclic=False, masked=False, sudden=0.1)
    table = {
        s: {a: [(p, t, 0.0, False) for p, t, _ in world.table[s, a]] for a in range(world.actions)}
        for s in range(world.states)
    }
    common = {"epsilon": 0.4, "seed": seed % 50}
    source, model = ctd.ValueLambda(0.5, policy_noise=policy_noise), ctd.TableModel(table, world.actions)
    agent = CLASSES[bootstrap](world, lambda_source=source, model=model, discount=0.9, step_size=0.3, **common)
    common |= {"width": 0.5, "policy_noise": policy_noise}
    reference = ComparingTruth(world, bootstrap, ("value",), gamma=0.9, alpha=0.3, **common)
    side_by_side(agent, reference, world, episodes=4, check_steps=True)


@pytest.mark.parametrize(
    ("cls", "learner", "dynamics", "source"),
    [
        (ctd.ChunkedExpectedSarsa, "expected_sarsa", SCALAR, ctd.ValueLambda()),
        uncompiled(ctd.ChunkedTD, "td", SCALAR, ctd.ValueLambda()),
        uncompiled(ctd.ChunkedSarsa, "sarsa", MASKED, ctd.ValueLambda(policy_noise=False)),
    ],
    ids=str,
)
def test_the_true_model_gives_the_same_in_agents_and_in_the_simulation(cls, learner, dynamics, source):
    """The agent reads it off a table, the simulation asks the dynamics; sums go in another order."""
    model = ctd.TableModel(ExactModel(dynamics).P, dynamics.n_actions)
    common = {"lambda_source": source, "view": "traces", "discount": 0.95, "epsilon": 0.3}
    agent = cls(DynamicsEnv(dynamics), step_size=0.3, seed=3, model=model, **common)
    agent.learn(DynamicsEnv(dynamics), 25, progress=False)
    common |= {"step_sizes": 0.3, "seeds": [3], "episodes": 25, "keep_values": True, "threads": 1}
    runs = simulate(dynamics, learner=learner, model="oracle", **common)
    assert runs.values[0].any()
    np.testing.assert_allclose(runs.values[0], agent.tables.values[: runs.values.shape[1]], rtol=1e-9, atol=1e-12)


def test_agent_and_simulation_give_the_same_bits_and_saving_loses_nothing(tmp_path):
    source = ctd.ValueLambda(0.3)
    check_both_faces(ctd.ChunkedExpectedSarsa, "expected_sarsa", source=source)
    world = World(11, (9,), 3, 2, masked=False)
    check_saving(ctd.ChunkedExpectedSarsa(world, lambda_source=source, epsilon=0.4, seed=2), world, tmp_path / "a.ctd")


@pytest.mark.uncompiled
def test_a_narrow_kernel_is_the_expected_lambda_and_a_wide_one_is_one():
    made = {}
    for name, source in (
        ("narrow", ctd.ValueLambda(1e-12)),
        ("expected", ctd.ExpectedLambda()),
        ("wide", ctd.ValueLambda(1e12)),
        ("one", 1.0),
    ):
        world = World(3, (5,), 2, 1, acyclic=False, masked=False, sudden=0.1)
        made[name] = ctd.ChunkedExpectedSarsa(world, lambda_source=source, discount=0.9, step_size=0.1, seed=1)
        agent = made[name]
        agent.tables.values[:] = np.arange(agent.tables.values.size).reshape(agent.tables.values.shape)  # no two alike
        for _ in range(20):
            s = world.reset()
            action, ended = agent.start(world.observe(s), world.info(s)), 0
            while not ended:
                reward, s, ended = world.step(action)
                action = agent.step(float(reward[0]), world.observe(s), ended == 1, ended == 2, world.info(s))
    np.testing.assert_allclose(made["wide"].tables.values, made["one"].tables.values, rtol=1e-9)
    assert not np.allclose(made["narrow"].tables.values, made["one"].tables.values)
    np.testing.assert_allclose(made["narrow"].tables.values, made["expected"].tables.values, rtol=0.05)


@pytest.mark.uncompiled
def test_noise_that_changes_no_value_cuts_no_credit():
    """A step into one of two states of equal value: λ = 1 with the value kernel, ½ with the probability."""

    def outcomes(state, action):
        if state == "start":
            return [(0.5, "left", 0.0, False), (0.5, "right", 0.0, False)]
        return [(1.0, "end", 1.0, True)]

    table = ctd.TransitionTable.from_outcomes(outcomes, starts=["start"], n_actions=1)
    run = simulate(
        table,
        learner="td",
        lambda_source=ctd.ValueLambda(),
        step_sizes=0.5,
        seeds=0,
        episodes=400,
        view="traces",
        keep_values=True,
    )
    np.testing.assert_allclose(run.values[0, :3, 0], 1.0, atol=1e-9)


@pytest.mark.parametrize("width", [0.0, -1.0, float("nan"), "wide"])
def test_width_is_checked(width):
    with pytest.raises(ValueError, match="width"):
        ctd.ValueLambda(width)
