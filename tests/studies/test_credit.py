"""Three scores against their definitions, exact numbers, and cross-fitting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import chunked_td as ctd
from chunked_td.simulation import simulate
from chunked_td.statistics import cross_fitted
from studies.credit import again, study
from studies.credit import families as credit_families
from studies.credit.exploration import ReturnBonus
from studies.credit.families import DESIGN, HELD_OUT, Family, middles
from studies.credit.methods import ARMS, FIXED, RULE, STEPS, FallingLambda
from studies.credit.normalised import on_common_seeds, raw_scores, scored, with_tied
from studies.credit.scoring import ChainRoom, checkpoints, greedy_return, prepare, scores_of_values
from studies.runner.text import score_text

LOOP = {
    0: {0: [(0.8, 1, 0.0, False), (0.2, 0, -0.1, False)], 1: [(1.0, 2, 0.0, False)]},
    1: {0: [(0.5, 3, 1.0, True), (0.5, 0, 0.3, False)], 1: [(1.0, 3, 0.4, True)]},
    2: {0: [(1.0, 0, 0.0, False)], 1: [(0.5, 3, 2.0, True), (0.5, 3, -1.0, True)]},
    3: {0: [(1.0, 3, 0.0, True)], 1: [(1.0, 3, 0.0, True)]},
}
TABLE = ctd.TransitionTable.from_outcomes(LOOP, starts=[0, 2], horizon=15)


EPISODES = 40
MARKS = [int(mark) for mark in checkpoints(EPISODES)]
FAMILY = Family("loop", "Loop", "", "size", (1, 2, 3), lambda size: TABLE, episodes=EPISODES, discount=0.9)


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setitem(credit_families.FAMILIES, "loop", FAMILY)
    study.problem.cache_clear()


def columns_of(name, behaviour, seeds=3):
    """Score and decision of an arm's runs."""
    sizes = np.full(seeds, 0.25)
    found = study.run(sizes, np.arange(seeds), family="loop", setting=2, behaviour=behaviour, **ARMS[name])
    return {key: [run[key] for run in found] for key in found[0]}


def greedy_by_definition(q, steps=15):
    """Return over so many steps of the policy that is greedy in q, ties shared, outcome by outcome."""
    returns = np.zeros(4)
    for _ in range(steps):
        each = [
            [sum(p * (r + (0 if e else 0.9 * returns[y])) for p, y, r, e in LOOP[x][a]) for a in (0, 1)] for x in LOOP
        ]
        best = np.array(q) == np.max(q, axis=1, keepdims=True)
        returns = (best * each).sum(1) / best.sum(1)
    return returns[[0, 2]].mean()


@pytest.mark.parametrize("name", [RULE, STEPS, "accumulating-0.8", "replacing-0.6"])
def test_scores_are_those_of_a_learner_played_step_by_step(name):
    """Values and decisions from an agent's Q at the checkpoints; control from the rewards that it was paid."""
    arm = dict(ARMS[name], lambda_=ARMS[name]["lambda_source"])
    own = {key: value for key, value in arm.items() if key not in ("learner", "lambda_source")}
    exact = prepare(TABLE, 0.9)
    ways = {"given": {"exploration": ctd.GivenPolicy(exact.policy)}}
    ways |= {"bonus": {"exploration": ReturnBonus(), "epsilon": 0.1}, "greedy": {"epsilon": 0.1}}
    for behaviour, way in ways.items():
        columns = columns_of(name, behaviour)
        for seed in range(3):
            env = TABLE.env()
            agent = ctd.ExpectedSarsaLambda(env, discount=0.9, step_size=0.25, seed=seed, **way, **own)
            errors, decisions, paid = [], [], []
            for episode in range(1, EPISODES + 1):
                action, gain, total = agent.start(*env.reset(seed=seed if episode == 1 else None)), 1.0, 0.0
                while action is not None:
                    observation, reward, terminated, truncated, info = env.step(action)
                    total, gain = total + gain * reward, gain * 0.9
                    action = agent.step(reward, observation, terminated, truncated, info)
                paid.append(total)
                if episode in MARKS:
                    q = np.array([agent.q_values(x) for x in range(4)])
                    errors.append(np.sqrt((exact.weight * (q - exact.exact) ** 2).sum()))
                    decisions.append(greedy_by_definition(q))
            score, decision = (-np.mean(errors), np.mean(decisions)) if behaviour == "given" else (np.mean(paid), 0.0)
            assert columns["score"][seed] == pytest.approx(score)
            assert columns["decision"][seed] == pytest.approx(decision)


@pytest.mark.uncompiled
def test_exact_numbers_of_a_problem():
    """V* and Q^π satisfy their equations, outcome by outcome; a policy greedy in Q* earns V*."""
    exact = prepare(TABLE, 0.9)
    values, optimal = (exact.policy * exact.exact).sum(1), np.zeros((4, 2))
    for (x, a), q in np.ndenumerate(exact.exact):
        assert q == pytest.approx(sum(p * (r + (0.0 if e else 0.9 * values[y])) for p, y, r, e in LOOP[x][a]))
        optimal[x, a] = sum(p * (r + (0.0 if e else 0.9 * exact.best[y])) for p, y, r, e in LOOP[x][a])
    assert optimal.max(1) == pytest.approx(exact.best)
    greedy = optimal >= optimal.max(1, keepdims=True) - 1e-9
    assert exact.policy == pytest.approx(0.25 + 0.5 * greedy / greedy.sum(1, keepdims=True))
    assert exact.weight.sum() == pytest.approx(1.0)
    long = exact._replace(limit=400)
    assert greedy_return(long, optimal.ravel(), ChainRoom.of(long)) == pytest.approx(exact.best[[0, 2]].mean())
    tied = np.zeros(8)
    assert greedy_return(exact, tied, ChainRoom.of(exact)) == pytest.approx(greedy_by_definition(tied.reshape(4, 2)))


def test_a_run_that_diverges_has_the_worst_scores():
    q = np.zeros((2, 3, 8))
    q[1, 2, 4] = np.nan
    score, decision = scores_of_values(prepare(TABLE, 0.9), q, 1)
    assert np.isfinite([score[0], decision[0]]).all()
    assert np.isnan([score[1], decision[1]]).all()


def test_lambda_falls_with_episodes_and_is_tied_to_step_sizes():
    common = {"learner": "expected_sarsa", "step_sizes": 0.1, "seeds": [1], "view": "traces", "keep_lambda": True}
    found = simulate(TABLE, lambda_source=FallingLambda(), episodes=9, record_at=range(1, 10), **common).lambda_at
    there = ~np.isnan(found[0])  # an episode of one step has no λ
    assert there.sum() > 3
    assert found[0][there] == pytest.approx(1 / np.sqrt(np.arange(1, 10)[there]))
    rows = [("given", m, e, s, float(e) if m == "replacing-1" else 9.0) for m in ("replacing-1", "replacing-0.4")
            for e in (0, -2, -4) for s in (0, 1)]  # fmt: skip
    table = pl.DataFrame(rows, ["behaviour", "arm", "exponent", "seed", "score"], orient="row")
    table = table.with_columns(family=pl.lit("loop"), setting=pl.lit("1"), decision=pl.lit(0.0))
    tied = with_tied(raw_scores(table)["values"], (0, -2, -4))["loop", "1"]["tied"]
    assert tied.tolist() == [[9.0, 9.0], [9.0, 9.0], [-4.0, -4.0]]


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


def test_families_are_of_one_kind_each_and_claims_wait_for_held_out_ones():
    assert (len(DESIGN), len(HELD_OUT)) == (12, 17)
    assert not any(family.held_out for family in DESIGN.values())
    assert checkpoints(300)[-1] == 300
    rows = [(name, "4", "given", arm, 0, seed, float(seed), 0.0) for name in DESIGN for arm in [*FIXED, RULE]
            for seed in range(4)]  # fmt: skip
    table = pl.DataFrame(rows, ["family", "setting", "behaviour", "arm", "exponent", "seed", "score", "decision"],
                         orient="row")  # fmt: skip
    for claim in study.CLAIMS:
        assert claim(table).status == "not run"


def test_scores_of_diverged_runs_are_no_numbers():
    assert score_text(-2.8e28) == score_text(-np.inf) == "−∞"
    assert score_text(-302.92) == "−302.92"
    assert score_text(float("nan")) == "–"


def test_runs_have_the_columns_of_the_stored_ones(tmp_path):
    """And they are the same numbers, run again."""
    arms = {name: ARMS[name] for name in (RULE, "replacing-0.8")}
    table = study.run_all(tmp_path, middles("rooms"), arms, [0.25], range(4), quiet=True)
    again = pl.read_parquet(study.again.HERE / "again.parquet")
    assert table.schema == again.schema == pl.read_parquet_schema(study.again.HERE / "runs.parquet")
    both = table.join(again, on=list(study.KEY))
    assert len(both) == len(table) == 2 * 2 * 4
    for name in ("score", "decision"):
        np.testing.assert_array_equal(both[name], both[f"{name}_right"])


def test_families_of_one_setting_run(tmp_path, monkeypatch):
    monkeypatch.setitem(credit_families.FAMILIES, "loop", replace(FAMILY, settings=(2,)))
    table = study.run_all(tmp_path, middles("loop"), {"mine": ARMS["replacing-0.8"]}, [0.25], range(2), quiet=True)
    assert table["setting"].unique().to_list() == ["2"]
    assert len(table) == 4


def test_methods_with_fewer_seeds_are_left_out_or_all_are_cut_to_theirs():
    rng = np.random.default_rng(2)
    runs = {name: rng.normal(size=(9, 40)) + 10.0 * k for k, name in enumerate([*FIXED, RULE])}
    few = {("order", "1"): runs | {STEPS: runs[RULE][:, :20]}, ("order", "2"): runs}
    assert STEPS not in scored(few).cells["order"]["1"]
    assert scored(few).cells["order"]["1"][RULE].size == 40
    cut = on_common_seeds(few, [*FIXED, RULE, STEPS])
    assert list(cut) == [("order", "1")]
    np.testing.assert_array_equal(cut["order", "1"][RULE], runs[RULE][:, :20])
    np.testing.assert_array_equal(*(scored(cut).cells["order"]["1"][name] for name in (RULE, STEPS)))


def test_a_replicated_run_comes_out_again_to_the_bit(tmp_path):
    stored = pl.read_parquet(again.HERE / "again.parquet").filter(family="slope", arm="replacing-0.8")
    found = again.runs_again(tmp_path, ["slope"], ["replacing-0.8"], quiet=True)
    keys = ["behaviour", "exponent", "seed"]
    assert found.sort(keys).equals(stored.select(found.columns).sort(keys))
