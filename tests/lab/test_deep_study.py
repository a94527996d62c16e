"""Tables of the study: what they show, what they leave out, and that the stored ones are those of the stored runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from chunked_td.deep.agents.ppo import PpoSettings
from chunked_td.lab.running.batches import Batch, programs_of, runner_of, silent
from chunked_td.lab.studies.deep import tables
from chunked_td.lab.studies.deep.claims import CLAIMS, PAGE
from chunked_td.lab.studies.deep.criteria import FIXED, GATE, SOLVED, TWIN, compared, gate, moonshot
from chunked_td.lab.studies.deep.protocol import GROUPS, OTHERS, STREAMING_ONLY, STUDY, TASKS, deep_protocols
from chunked_td.lab.studies.deep.results import COLLECT, LOAD, SETS, judge_agent
from chunked_td.lab.studies.deep.runner import source_of
from chunked_td.statistics import Estimate
from chunked_td.statistics import interquartile_estimate as estimate
from helpers.fake_runs import fake_agents
from helpers.lab_helpers import twelve

FOLDER = Path(__file__).parents[2] / "results" / "deep"
RNG = np.random.default_rng(0)


def runs_near(mean, n=20):
    return mean + 0.001 * (RNG.permutation(n) - (n - 1) / 2) / n


def arms(**given):
    """Scores near 0.5 for every fixed λ and the true model, and what is given, "_" for the dot."""
    names = [*map(str, FIXED), *GATE]
    return {name: runs_near(0.5) for name in names} | {k.replace("_", "."): runs_near(v) for k, v in given.items()}


def rows_of(text):
    return {row.split(" | ")[0].strip("| "): [c.strip(" |") for c in row.split(" | ")[1:]] for row in text.split("\n")}


def test_a_cell_shows_that_the_best_fixed_lambda_is_better_than_the_usual_one():
    table = rows_of(tables.score_table({"catch": arms(**{"0_0": 0.9, "1_0": 0.1, "expected": 0.7})}))
    assert table["0.0"][0] == "**0.900** ▲"
    assert table["1.0"][0].endswith(" ▼")
    assert table["expected"][0] == "0.700 ▲"
    usual_is_best = rows_of(tables.score_table({"catch": arms(**{"0_95": 0.9})}))
    assert usual_is_best["0.95"][0] == "**0.900**"


def test_means_leave_the_second_cart_pole_out():
    found = {"cart-pole": arms(expected=0.9), TWIN: arms(expected=0.9), "catch": arms(expected=0.1)}
    assert rows_of(tables.score_table(found))["expected"][-1] == "0.500"
    judged = {"sarsa": judge_agent(found)}
    assert rows_of(tables.means_table(judged))["expected"] == ["0.500"]
    assert judged["sarsa"]["sets"]["without the twin"]["moonshot over"] == ["cart-pole", "catch"]
    assert judged["sarsa"]["moonshot over"] == ["cart-pole", TWIN, "catch"]  # the moonshot is judged as it was written
    assert rows_of(tables.counts_table(judged))["expected"] == ["1 ▲ 1 ▼ 1 ★"]


def test_an_arm_that_was_not_run_everywhere_has_no_mean():
    table = rows_of(tables.score_table({"catch": arms(expected=0.7), "memory": arms()}))
    assert table["expected"] == ["0.700 ▲", "not run", ""]


def test_kinds_of_tasks_cover_every_task_once():
    named = [task for members in tables.KINDS.values() for task in members]
    assert sorted(named) == sorted(task for tasks in SETS.values() for task in tasks if task != TWIN)


def test_lambda_by_kind_of_task():
    found = {
        "catch": arms(**{"0_8": 0.9, "0_9": 0.8, "expected": 0.6}),
        "gymnax-catch": arms(**{"0_8": 0.9, "0_0": 0.1}),
    }
    text = tables.kinds_table({"sarsa": judge_agent(found)})
    (row,) = [line.split(" | ") for line in text.split("\n")[2:]]
    assert row[1:4] == ["sarsa", "0.8, 0.8", "0.8"]
    assert row[4:] == ["0.8 (2 of 2), 0.9 (1 of 2)", "expected (1 of 2)", " |"]


def test_step_sizes_at_the_edge_of_the_grid_are_counted():
    sizes = {"0.0": 1.0, "0.5": 0.1, "0.8": 0.3, "expected": 1.0}
    cell = {arm: {"step_size": np.full(20, size, np.float32)} for arm, size in sizes.items()}
    text = tables.edge_table({"sarsa": {"catch": cell}}, {"sarsa": (0.3, 1.0, 0.1)})
    assert rows_of(text)["sarsa"] == ["1, 0.3, 0.1", "1 of 3", "1 of 3", "1 of 1", "0 of 1"]


def test_success_is_the_share_of_runs_at_the_threshold_or_above():
    half = {"final": np.array([SOLVED, SOLVED - 0.01])}
    none = {"final": np.zeros(2)}
    chosen = {
        "sarsa": {"charge": {"0.0": half, "expected": none}, "xland-door-key": {"0.0": none}, "catch": {"0.0": half}}
    }
    text = tables.success_table(chosen)  # tasks that nobody solved, and tasks of other kinds, are left out
    assert text.count("\n") == 2
    assert text.split("\n")[2].startswith("| sarsa | charge | 50 | ")


def test_the_gate_by_chance():
    """Equal arms pass rarely; of comparisons that truly differ all pass."""
    same, better = arms(), arms()
    same |= {"true-kernel": same["0.5"], "true-expected": same["0.5"]}
    better |= {"true-kernel": runs_near(0.9), "true-expected": runs_near(0.1)}
    text = rows_of(tables.gate_luck_table({"q": {"catch": same}, "ppo": {"catch": better, "memory": same}}))
    assert text["q, 1 tasks"][:4] == ["0", "0", "2", "0"]
    assert text["ppo, 2 tasks"][:4] == ["1", "0", "4", "1"]
    assert float(text["all"][-1]) < 0.5
    assert rows_of(tables.gate_luck_table({}))["all"] == ["0", "0", "0", "0", "0.00"]  # too few arms were run


def test_verdicts_that_depend_on_the_draw_are_named():
    found = arms(expected=0.9)
    assert rows_of(tables.draw_table({"q": {"catch": found}}))["q"][:3] == ["9", "1", "0"]
    low = found["0.95"]
    gap = estimate(low).high - estimate(low).low
    found["expected"] = low + gap  # touches: the ends of both intervals move with the draw
    assert "catch/expected (" in rows_of(tables.draw_table({"q": {"catch": found}}))["q"][-1]


def test_stored_tables_and_verdicts_are_those_of_the_stored_runs(monkeypatch, tmp_path):
    """All but the tables with bootstraps of their own."""
    for slow in ("gate_luck_table", "draw_table"):
        monkeypatch.setattr(tables, slow, lambda _: "")
    monkeypatch.setattr(tables, "draw_scores", lambda *_: Figure())
    (tmp_path / "costs.json").write_bytes((FOLDER / "costs.json").read_bytes())
    PAGE(tmp_path, LOAD(FOLDER))
    made, stored = (json.loads((at / "verdicts.json").read_text(), parse_float=twelve) for at in (tmp_path, FOLDER))
    assert made == stored
    for path in (FOLDER / "tables").glob("*.md"):
        text = (tmp_path / "tables" / path.name).read_text(encoding="utf-8")
        assert text in ("\n", path.read_text(encoding="utf-8")), path.name


def test_the_criteria_say_what_they_say():
    rng = np.random.default_rng(0)
    low, high = Estimate(0.5, 0.4, 0.6), Estimate(0.9, 0.8, 1.0)
    assert [compared(*pair) for pair in ((high, low), (low, high), (low, low))] == ["better", "worse", "no difference"]
    middle = Estimate(0.7, 0.65, 0.75)
    fixed = {str(x): low for x in FIXED} | {"0.5": middle}
    assert gate(fixed | {"true-kernel": high, "true-expected": low}) == "passed"
    assert gate(fixed | {"true-kernel": middle, "true-expected": low}) == "half"
    assert gate(fixed | {"true-kernel": low, "true-expected": low}) == "closed"
    assert estimate(np.full(5, 0.3)) == Estimate(*[pytest.approx(0.3)] * 3)
    runs = {str(x): 0.5 + 0.01 * rng.random(20) for x in FIXED}
    good, bad = 0.8 + 0.01 * rng.random(20), 0.4 + 0.01 * rng.random(20)
    assert moonshot({"a": runs | {"s": good}, "b": runs | {"s": good}}, ("s",))["by"] == ["s"]
    assert moonshot({"a": runs | {"s": good}, "b": runs | {"s": bad}}, ("s",))["verdict"] == "fails"


def test_claims_are_judged_by_the_rule(monkeypatch):
    results = LOAD(FOLDER)
    (claim,) = [claim for claim in CLAIMS if claim.id == "deep-ppo"]
    verdict = claim.judge(results, {})
    assert verdict.status == "does not hold"
    assert "the gate was passed on 1 of 13 tasks" in verdict.evidence
    results.verdicts["ppo"]["moonshot"]["verdict"] = "holds"
    assert claim.judge(results, {}).status == "holds"
    few = type(results)(results.frame.filter(results.frame["seed"] < 15))
    assert claim.judge(few, {}).status == "not run"


def test_the_study_names_what_there_is():
    """Planning needs no JAX, so names stand in the protocol, too."""
    from chunked_td.envs import tasks

    assert set(TASKS) <= set(tasks.TASKS)
    assert tasks.OTHERS == OTHERS
    for name in (name for group in GROUPS for name in group):
        assert source_of(name).streaming_only == (name in STREAMING_ONLY)
    assert "jax" in deep_protocols("smoke")[0].batch_runner.packages(batch_of("sarsa", "charge", "0.95"))
    assert batch_of("q", "gymnax-catch", "0.95").protocol.batch_runner.packages(
        batch_of("q", "gymnax-catch", "0.95")
    ) == ("jax", "gymnax")


def batch_of(agent, task, arm, pairs=((0, 0),), episodes=80, record_at=(40, 80)):
    (protocol,) = [p for p in STUDY.protocols("paper") if p.id == f"deep-{agent}-{task}"]
    return Batch(protocol, protocol.arm(arm), pairs, episodes, record_at)


def test_arms_of_a_group_are_one_program():
    given = [batch_of("sarsa", "charge", arm) for arm in ("0.95", "expected", "realised", "value-kernel")]
    given.append(batch_of("sarsa", "catch", "0.95"))
    programs = [[(b.protocol.id, b.arm.id) for b in program] for program in programs_of(given)]
    assert programs == [
        [("deep-sarsa-charge", "0.95"), ("deep-sarsa-charge", "value-kernel")],
        [("deep-sarsa-charge", "expected"), ("deep-sarsa-charge", "realised")],
        [("deep-sarsa-catch", "0.95")],
    ]


def test_a_program_trains_every_arm_with_its_own_lambda():
    batches = [batch_of("sarsa", "charge", arm, ((0, 0), (11, 0))) for arm in ("0.5", "meta-gradient")]
    fixed, moved = (runner_of(program[0]).run(program, None, silent)[0] for program in programs_of(batches))
    assert fixed["mean_lambda"] == pytest.approx([0.5] * 4)
    assert fixed["judged"].tolist() == [0, 0, 1, 1]
    assert len(set(moved["mean_lambda"].tolist())) > 1
    for found in (fixed, moved):
        assert found["episode"].tolist() == [40, 80, 40, 80]
        assert sum(found[f"lambda_{k}"] for k in range(10)) == pytest.approx([40.0] * 4)


def test_a_tiny_study_is_collected_and_tabled(tmp_path, monkeypatch):
    COLLECT(fake_agents(deep_protocols("smoke"), tmp_path, monkeypatch)).write_parquet(tmp_path / "runs.parquet")
    results = LOAD(tmp_path)
    assert len(results.frame) == sum(3 * len(protocol.arms) for protocol in deep_protocols("smoke"))
    assert results.frame.dtypes == LOAD(FOLDER).frame.dtypes
    assert PAGE(tmp_path, results).read_text(encoding="utf-8").startswith("| agent | tasks |")
    assert "| 0.95 |" in (tmp_path / "tables" / "sarsa-ours.md").read_text(encoding="utf-8")
    assert (tmp_path / "figures" / "deep-sarsa.svg").stat().st_size > 1_000
    assert {claim.judge(results, {}).status for claim in CLAIMS} == {"not run"}


def test_what_ppo_ran_is_stated():
    about = json.loads((FOLDER / "study.json").read_text(encoding="utf-8"))
    settings, rollout = about["settings"], PpoSettings().environments * PpoSettings().steps
    whole = settings["steps"]["ppo"] // settings["blocks"] // rollout * rollout * settings["blocks"]
    assert about["transitions run"] == {**settings["steps"], "ppo": whole}
    assert f"{whole:,}" in (FOLDER.parents[1] / "docs" / "experiments" / "networks-protocol.md").read_text(
        encoding="utf-8"
    )
