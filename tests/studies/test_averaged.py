"""Step sizes of 1/n and TDC's correction with any λ source, against the learners of Sutton and Singh (1994)."""

from __future__ import annotations

import numpy as np
import pytest

import chunked_td as ctd
from chunked_td.envs.face import DynamicsEnv
from chunked_td.envs.table import TransitionTable
from chunked_td.observations import HashedIndexer
from chunked_td.simulation import simulate
from helpers.compilation import uncompiled
from helpers.faces import check_both_faces, check_saving
from helpers.worlds import World
from studies.runner.averaged import Averaged, Corrected

NEVER = 1e-12  # a least step size that no average reaches


def tree():
    """Acyclic: two actions at the start, then chance, with ways that meet again."""

    def outcomes(state, action):
        level, place = state
        if level == 5:
            return [(0.5, "end", place + 1.0, True), (0.5, "end", place - 2.0, True)] if action == 0 else []
        ahead = [(0.3, (level + 1, place), 0.1 * level, False), (0.7, (level + 1, 0), -0.2, False)]
        if level == 0:
            return [(1.0, (1, 1 + action), 0.5 * action, False)]
        return ahead if action == 0 else []

    return TransitionTable.from_outcomes(outcomes, starts=[(0, 0)], n_actions=2, horizon=6)


@pytest.mark.parametrize(
    ("cls", "source", "view"),
    [
        uncompiled(ctd.NaiveTD0, 0.0, Averaged()),
        uncompiled(ctd.TDOneOverN, ctd.VisitLambda(), Averaged()),
        uncompiled(ctd.TDNOverN, ctd.BackwardLambda(), Averaged()),
        (ctd.CorrectedTD, ctd.BackwardLambda(), Corrected()),
    ],
)
def test_averages_are_the_algorithms_of_sutton_and_singh(cls, source, view):
    table = tree()
    agent = cls(DynamicsEnv(table), discount=0.9, seed=4)
    agent.learn(DynamicsEnv(table), 300)
    common = {"lambda_source": source, "view": view, "discount": 0.9, "step_sizes": NEVER, "seeds": [4]}
    common |= {"episodes": 300, "keep_values": True, "threads": 1}
    values = simulate(table, learner="td", **common).values
    assert np.abs(values).max() > 0.1
    np.testing.assert_allclose(values[0], agent.tables.values[: values.shape[1]], rtol=1e-9, atol=1e-12)
    later = [s for s in range(table.n_states) if table.legal_actions[s].sum() == 1]  # there SARSA has one row a state
    pairs = simulate(table, learner="sarsa", epsilon=1.0, **common).values.reshape(1, table.n_states, 2, 1)
    np.testing.assert_allclose(pairs[0, later, 0], values[0, later], rtol=1e-9, atol=1e-12)


@pytest.mark.uncompiled
def test_the_step_size_is_the_least_one():
    agent = ctd.TDLambda(World(1, (5,), 1), lambda_=0.0, discount=1.0, step_size=0.4, view=Averaged())
    value = 0.0
    for n, reward in enumerate((3.0, -1.0, 2.0, 2.0), start=1):
        agent.start(0)
        agent.step(reward, 4, True)
        value += max(0.4, 1 / n) * (reward - value)
        assert agent.tables.values[0, 0] == pytest.approx(value)


@pytest.mark.uncompiled
def test_averages_do_not_depend_on_what_values_were_at_first():
    """With λ = 1 and no least step size a value is the mean of the returns, wherever it began."""
    common = {"lambda_source": 1.0, "learner": "td", "step_sizes": NEVER, "seeds": [0], "episodes": 200}
    found = [
        simulate(tree(), view=Averaged(), initial_value=value, keep_values=True, **common).values for value in (0, 9)
    ]
    visited = np.abs(found[0]) > 0
    np.testing.assert_allclose(found[0][visited], found[1][visited], atol=1e-9)


@pytest.mark.parametrize(
    ("cls", "learner"),
    [(ctd.SarsaLambda, "sarsa"), uncompiled(ctd.TDLambda, "td")],
)
def test_averages_on_both_faces(cls, learner):
    check_both_faces(cls, learner, source=ctd.ConstantLambda(0.8), view=Averaged())


def test_averages_are_saved(tmp_path):
    agent = ctd.SarsaLambda(World(11, (9,), 3, 2, masked=False), view=Averaged(), epsilon=0.4, seed=2)
    twin = check_saving(agent, World(11, (9,), 3, 2, masked=False), tmp_path / "a.ctd", view=Averaged())
    assert twin.view == Averaged()
    np.testing.assert_array_equal(twin.trace.number, agent.trace.number)


@pytest.mark.uncompiled
def test_averages_grow_with_the_states():
    agent = ctd.TDLambda(World(1, (5,), 1), lambda_=1.0, indexer=HashedIndexer(), view=Averaged(), discount=1.0)
    agent.start("start")
    for k in range(100):
        agent.step(0.0, k, False)
    agent.step(1.0, "end", True)
    assert agent.trace.number.size > 100
    np.testing.assert_allclose(agent.tables.values[:101, 0], 1.0)
