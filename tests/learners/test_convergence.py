"""Where learners end up: exact values of dynamic programming, and the bias of a λ that knows the outcome."""

from __future__ import annotations

import numpy as np
import pytest

import chunked_td as ctd
from chunked_td.envs.dynamics import SkewedSplit
from chunked_td.simulation import simulate
from helpers.worlds import World

GAMMA = 0.9


def exact_values(world):
    """V of the uniform policy over legal actions, from (I − γP)V = r."""
    P, r = np.zeros((world.states, world.states)), np.zeros(world.states)
    for (s, a), outcomes in world.table.items():
        if world.terminal[s] or not world.legal[s, a]:
            continue
        for chance, s2, rewards in outcomes:
            weight = chance / world.legal[s].sum()
            r[s] += weight * rewards.mean()
            P[s, s2] += weight * (not world.terminal[s2])
    return np.linalg.solve(np.eye(world.states) - GAMMA * P, r)


SOURCES = [ctd.ConstantLambda(0.8), ctd.ExpectedLambda(), ctd.BackwardLambda(), ctd.VisitLambda()]


def play(agent, world, episodes):
    """Visits to every state."""
    visits = np.zeros(world.states, int)
    for _ in range(episodes):
        s = world.reset()
        action, ended = agent.start(s, world.info(s)), 0
        while not ended:
            visits[s] += 1
            reward, s, ended = world.step(action)
            action = agent.step(float(reward[0]), s, ended == 1, ended == 2, world.info(s))
    return visits


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: type(source).__name__)
def test_state_values_converge(source):
    """α falls as 0.2/(1 + k/50). A pilot over 8 seeds × 4 sources had errors up to 0.08, so 0.16 fails rarely."""
    world = World(5, (6,), actions=2)
    truth = exact_values(world)
    agent = ctd.ChunkedTD(world, lambda_source=source, discount=GAMMA, step_size=falling(2000), seed=1)
    visits = play(agent, world, 2000)
    assert (visits > 400).sum() == 4
    assert np.abs(truth).max() > 0.5
    assert np.abs(agent.tables.values[:6, 0] - truth)[visits > 0].max() < 0.16


@pytest.mark.uncompiled
@pytest.mark.parametrize("cls", [ctd.ChunkedSarsa, ctd.ChunkedExpectedSarsa])
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: type(source).__name__)
def test_action_values_converge(cls, source):
    """ε = 1 makes the policy uniform. A pilot over 8 seeds × 8 cases had errors up to 0.10, so 0.2 fails rarely."""
    world = World(5, (6,), actions=2)
    V = exact_values(world)
    agent = cls(world, lambda_source=source, discount=GAMMA, step_size=falling(2000), epsilon=1.0, seed=1)
    visits = play(agent, world, 2000)
    for s in np.flatnonzero(visits):
        for a in np.flatnonzero(world.legal[s]):
            ahead = [p * (r.mean() + GAMMA * (not world.terminal[t]) * V[t]) for p, t, r in world.table[s, a]]
            assert abs(agent.tables.values[2 * s + a, 0] - sum(ahead)) < 0.2


def falling(episodes):
    return ctd.Schedule(tuple((k, 0.2 / (1 + k / 50)) for k in range(0, episodes + 1, 50)))


def skewed(source, model, learner="td"):
    """Mean and standard error over 64 runs of V(s₀) on the smallest skewed split."""
    runs = simulate(
        SkewedSplit.make(probability=0.9, reward=10.0, length=1),
        learner=learner,
        lambda_source=source,
        model=model,
        step_sizes=0.002,
        seeds=np.arange(64),
        epsilon=0.0,
        episodes=8000,
        probes=[(0, 0)],
        threads=1,
    )
    values = runs.probes_at[:, -1, 0]
    return values.mean(), values.std() / 8


def of(source, model, fixed_point, *learners):
    """A case for each learner; it is long but for those named."""
    marks = {learner: () if learner in learners else pytest.mark.long for learner in ("td", "sarsa", "expected_sarsa")}
    return [pytest.param(learner, source, model, fixed_point, marks=mark) for learner, mark in marks.items()]


@pytest.mark.parametrize(
    ("learner", "source", "model", "fixed_point"),
    [
        *of(ctd.ForwardLambda(), "counts", 1 + 0.9 * 0.9 * (0 - 1) + 0.1 * 0.1 * (10 - 1), "td"),
        *of(ctd.ForwardLambda(), "oracle", 0.28, "expected_sarsa"),
        *of(ctd.ExpectedLambda(), "counts", 1.0, "td"),
        *of(ctd.ConstantLambda(0.9), None, 1.0),
    ],
)
def test_a_lambda_that_knows_the_outcome_moves_the_fixed_point(learner, source, model, fixed_point):
    """Within five standard errors (error rate below 1e-6): 0.28 for the paper's λ, 1 where λ knows the state alone."""
    mean, error = skewed(source, model, learner)
    assert error < 0.02
    assert abs(mean - fixed_point) < 5 * error
