"""Tables of the study: what they show, what they leave out, and that the stored ones are those of the stored runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from chunked_td.deep import summaries, tables
from chunked_td.deep.agents.ppo import PpoSettings
from chunked_td.deep.criteria import FIXED, GATE, SOLVED, TWIN, estimate

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
    judged = tables.verdicts({"sarsa": found})
    assert rows_of(summaries.means_table(judged))["expected"] == ["0.500"]
    assert judged["sarsa"]["sets"]["without the twin"]["moonshot over"] == ["cart-pole", "catch"]
    assert judged["sarsa"]["moonshot over"] == ["cart-pole", TWIN, "catch"]  # the moonshot is judged as it was written
    assert rows_of(summaries.counts_table(judged))["expected"] == ["1 ▲ 1 ▼ 1 ★"]


def test_an_arm_that_was_not_run_everywhere_has_no_mean():
    table = rows_of(tables.score_table({"catch": arms(expected=0.7), "memory": arms()}))
    assert table["expected"] == ["0.700 ▲", "not run", ""]


def test_kinds_of_tasks_cover_every_task_once():
    named = [task for members in summaries.KINDS.values() for task in members]
    assert sorted(named) == sorted(task for tasks in tables.SETS.values() for task in tasks if task != TWIN)


def test_lambda_by_kind_of_task():
    found = {
        "catch": arms(**{"0_8": 0.9, "0_9": 0.8, "expected": 0.6}),
        "gymnax-catch": arms(**{"0_8": 0.9, "0_0": 0.1}),
    }
    text = summaries.kinds_table(tables.verdicts({"sarsa": found}))
    (row,) = [line.split(" | ") for line in text.split("\n")[2:]]
    assert row[1:4] == ["sarsa", "0.8, 0.8", "0.8"]
    assert row[4:] == ["0.8 (2 of 2), 0.9 (1 of 2)", "expected (1 of 2)", " |"]


def test_step_sizes_at_the_edge_of_the_grid_are_counted():
    sizes = {"0.0": 1.0, "0.5": 0.1, "0.8": 0.3, "expected": 1.0}
    cell = {arm: {"step_size": np.full(20, size, np.float32)} for arm, size in sizes.items()}
    text = summaries.edge_table({"sarsa": {"catch": cell}}, {"sarsa": (0.3, 1.0, 0.1)})
    assert rows_of(text)["sarsa"] == ["1, 0.3, 0.1", "1 of 3", "1 of 3", "1 of 1", "0 of 1"]


def test_success_is_the_share_of_runs_at_the_threshold_or_above():
    half = {"final": np.array([SOLVED, SOLVED - 0.01])}
    none = {"final": np.zeros(2)}
    chosen = {
        "sarsa": {"charge": {"0.0": half, "expected": none}, "xland-door-key": {"0.0": none}, "catch": {"0.0": half}}
    }
    text = summaries.success_table(chosen)  # tasks that nobody solved, and tasks of other kinds, are left out
    assert text.count("\n") == 2
    assert text.split("\n")[2].startswith("| sarsa | charge | 50 | ")


def test_the_gate_by_chance():
    """Equal arms pass rarely; of comparisons that truly differ all pass."""
    same, better = arms(), arms()
    same |= {"true-kernel": same["0.5"], "true-expected": same["0.5"]}
    better |= {"true-kernel": runs_near(0.9), "true-expected": runs_near(0.1)}
    text = rows_of(summaries.gate_luck_table({"q": {"catch": same}, "ppo": {"catch": better, "memory": same}}))
    assert text["q, 1 tasks"][:4] == ["0", "0", "2", "0"]
    assert text["ppo, 2 tasks"][:4] == ["1", "0", "4", "1"]
    assert float(text["all"][-1]) < 0.5


def test_verdicts_that_depend_on_the_draw_are_named():
    found = arms(expected=0.9)
    assert rows_of(summaries.draw_table({"q": {"catch": found}}))["q"][:3] == ["9", "1", "0"]
    low = found["0.95"]
    gap = estimate(low).high - estimate(low).low
    found["expected"] = low + gap  # touches: the ends of both intervals move with the draw
    assert "catch/expected (" in rows_of(summaries.draw_table({"q": {"catch": found}}))["q"][-1]


def test_stored_tables_are_those_of_the_stored_runs():
    """All that need no bootstrap of their own."""
    frame = pl.read_parquet(FOLDER / "runs.parquet")
    judged = json.loads((FOLDER / "verdicts.json").read_text(encoding="utf-8"))
    chosen = tables.chosen_runs(frame)
    with pytest.MonkeyPatch.context() as patch:
        for slow in ("gate_luck_table", "draw_table"):
            patch.setattr(summaries, slow, lambda _: "")
        texts = summaries.summary_tables(frame, chosen, tables.scores(chosen), judged)
    for name, text in texts.items():
        stored = (FOLDER / "tables" / f"{name}.md").read_text(encoding="utf-8")
        assert not text or stored.strip() == text, f"run python -m chunked_td.deep.tables --out {FOLDER}"


def test_what_ppo_ran_is_stated():
    about = json.loads((FOLDER / "study.json").read_text(encoding="utf-8"))
    settings, rollout = about["settings"], PpoSettings().environments * PpoSettings().steps
    whole = settings["steps"]["ppo"] // settings["blocks"] // rollout * rollout * settings["blocks"]
    assert about["transitions run"] == {**settings["steps"], "ppo": whole}
    assert f"{whole:,}" in (FOLDER.parents[1] / "docs" / "guide" / "deep.md").read_text(encoding="utf-8")
