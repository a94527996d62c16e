"""The study of three scores: its runs against the package's learners, its exact numbers, and cross-fitting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import chunked_td as ctd
from chunked_td._numba import form, kernel
from chunked_td.lab.statistics import cross_fitted
from chunked_td.lab.studies.three_scores.methods import FIXED, METHODS, RULE, STEPS
from chunked_td.lab.studies.three_scores.problems import checkpoints, prepare
from chunked_td.lab.studies.three_scores.protocol import STUDY, families
from chunked_td.lab.studies.three_scores.results import scored
from chunked_td.lab.studies.three_scores.runs import BONUS, GIVEN, GREEDY, greedy_return, new_state, run, scores
from chunked_td.lab.study import NOT_RUN, Verdict

LOOP = {
    0: {0: [(0.8, 1, 0.0, False), (0.2, 0, -0.1, False)], 1: [(1.0, 2, 0.0, False)]},
    1: {0: [(0.5, 3, 1.0, True), (0.5, 0, 0.3, False)], 1: [(1.0, 3, 0.4, True)]},
    2: {0: [(1.0, 0, 0.0, False)], 1: [(0.5, 3, 2.0, True), (0.5, 3, -1.0, True)]},
    3: {0: [(1.0, 3, 0.0, True)], 1: [(1.0, 3, 0.0, True)]},
}
TABLE = ctd.TransitionTable.from_outcomes(LOOP, starts=[0, 2], horizon=15)


@dataclass(frozen=True)
class Given(ctd.Exploration):
    """A policy that does not depend on the values."""

    rows: tuple = ()

    def compiled(self, sizes):
        table = np.zeros((sizes["S"], sizes["A"]))
        table[: len(self.rows)] = self.rows
        return form(type(self), ("table",))(table)

    @staticmethod
    @kernel
    def probabilities(exploration, q, state, legal, rate, out):
        for a in range(out.size):
            out[a] = exploration.table[state, a]


def recorded(problem, episodes):
    """The transitions of a run, drawn again with NumPy's legacy generator, which Numba's follows."""
    rng = np.random.RandomState(5)

    def draw(chances):
        u = rng.random_sample()
        for k, p in enumerate(chances[:-1]):
            if p > 0 and u < p:
                return k
            u -= p
        return int(np.flatnonzero(chances)[-1])

    A = problem.legal.shape[1]
    for _ in range(episodes):
        x, steps = int(problem.start[draw(problem.start_chance)]), []
        for _ in range(problem.limit):
            a = draw(problem.policy[x])
            first, last = problem.first[x * A + a], problem.first[x * A + a + 1]
            k = first + draw(problem.chance[first:last])
            steps.append((x, a, problem.reward[k], int(problem.target[k]), bool(problem.ends[k])))
            x = int(problem.target[k])
            if problem.ends[k]:
                break
        yield steps


@pytest.mark.parametrize(
    "name", [RULE, STEPS, "lineage-zero", "accumulating-0.9", "replacing-0.6", "lineage-all-expected"]
)
@pytest.mark.uncompiled
def test_runs_are_those_of_the_learners(name):
    """The same transitions of a given policy, which the learner draws as an exploration of its own."""
    problem, method = prepare(TABLE, 0.9, 0.1), METHODS[name]
    state, out = new_state(problem, method), np.zeros((1, 2))
    run(problem, state, method, GIVEN, 0.3, 5, np.array([40]), out)
    options = {
        0: {},
        1: {"replacing": True},
        2: {"view": ctd.Lineage(method.prior, ("share", "zero")[method.zero], ("pairs", "steps")[method.steps])},
    }
    agent = ctd.ExpectedSarsaLambda(
        TABLE.env(),
        lambda_=method.lambda_,
        discount=0.9,
        step_size=0.3,
        exploration=Given(tuple(map(tuple, problem.policy))),
        reward_source=ctd.ExpectedError(method.expected) if method.expected else None,
        **options[method.trace],
    )
    for steps in recorded(problem, 40):
        agent.start(steps[0][0], action=steps[0][1])
        for t, (_, _, reward, x, ended) in enumerate(steps):
            last = t + 1 == len(steps)
            agent.step(reward, x, ended, last and not ended, next_action=None if last else steps[t + 1][1])
    np.testing.assert_allclose(agent.tables.values[: state.values.size, 0], state.values, rtol=1e-9, atol=1e-12)


@pytest.mark.uncompiled
def test_exact_numbers_of_a_problem():
    """V* and Q^π satisfy their equations, outcome by outcome; a policy greedy in Q* earns V*."""
    problem = prepare(TABLE, 0.9, 0.1)
    values = (problem.policy * problem.exact).sum(1)
    for (x, a), exact in np.ndenumerate(problem.exact):
        listed = [(p, r + (0.0 if ended else 0.9 * values[y]), y, r, ended) for p, y, r, ended in LOOP[x][a]]
        assert exact == pytest.approx(sum(p * target for p, target, *_ in listed))
        optimal = sum(p * (r + (0.0 if ended else 0.9 * problem.best[y])) for p, _, y, r, ended in listed)
        assert problem.advantage[x, a] == pytest.approx(optimal - problem.best[x])
    assert problem.advantage.max(1) == pytest.approx(0.0, abs=1e-9)
    assert problem.weight.sum() == pytest.approx(1.0)
    state = new_state(prepare(TABLE._replace(limit=400), 0.9, 0.1), METHODS["tied"])
    state.values[:] = (problem.best[:, None] + problem.advantage).ravel()
    assert greedy_return(problem._replace(limit=400), state) == pytest.approx(problem.best[[0, 2]].mean())


@pytest.mark.uncompiled
@pytest.mark.parametrize("limit", [2, 15])
def test_the_score_of_control_is_the_return_on_average(limit):
    """A run that learns nothing (α = 0) acts uniformly among ties: the exact return of that policy, so many steps long.

    Returns without the noise of outcomes differ by less than 2; 3,000 episodes give a standard error below 0.02.
    """
    problem = prepare(TABLE._replace(limit=limit), 0.9, 0.1)
    found = scores(problem, METHODS["replacing-0"], GREEDY, np.zeros(1), np.arange(1), np.array([3000]))
    returns = np.zeros(4)
    for _ in range(limit):
        q = [[sum(p * (r + (0 if e else 0.9 * returns[y])) for p, y, r, e in LOOP[x][a]) for a in (0, 1)] for x in LOOP]
        returns = np.mean(q, axis=1)
    assert found[0, 0, 0] == pytest.approx(returns[[0, 2]].mean(), abs=0.06)


def test_what_is_chosen_is_chosen_on_other_seeds():
    """Pure noise: the best of many arms is no better than the worst where it is scored on other seeds."""
    rng = np.random.default_rng(1)
    runs = {name: rng.normal(size=(9, 400)) for name in [*FIXED, RULE]}
    found, best, worst = cross_fitted(runs, list(FIXED))
    assert abs(np.mean(list(found.values()))) < 4 / np.sqrt(400 * len(found))
    assert abs(best.mean() - worst.mean()) < 4 * np.sqrt(2 / 400)
    assert scored({("noise", "1"): runs}).unclear == ("noise 1",)
    runs = {name: each + 10.0 * k for k, (name, each) in enumerate(runs.items())}
    cells = scored({("order", "1"): runs}).cells["order"]["1"]
    names = list(FIXED)
    assert cells[names[0]].mean() == pytest.approx(0.0)
    assert cells[names[-1]].mean() == pytest.approx(1.0)
    assert cells[RULE].mean() == pytest.approx(1 + 1 / (len(names) - 1), abs=0.01)


def test_protocols_cover_every_family_and_claims_wait_for_held_out_ones():
    protocols = STUDY.protocols("paper")
    assert {protocol.environment.arguments["family"] for protocol in protocols} == {*families(False), *families(True)}
    assert not any(family.held_out for family in families(False).values())
    assert checkpoints(300)[-1] == 300
    from chunked_td.lab.studies.three_scores.claims import CLAIMS

    for claim in CLAIMS:
        assert claim.judge(Verdict(NOT_RUN, "none"), {}).status == NOT_RUN
        assert claim.judge({}, {}).status == NOT_RUN


def test_a_compiled_run_with_a_bonus_is_the_same_twice():
    problem = prepare(TABLE, 0.9, 0.1)
    sizes, seeds, at = np.array([0.5, 0.5, 0.25]), np.array([3, 3, 3]), np.array([5, 20])
    found = scores(problem, METHODS[RULE], BONUS, sizes, seeds, at)
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
