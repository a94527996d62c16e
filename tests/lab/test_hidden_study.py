"""The study with hidden state: its rule, its runs, and that stored verdicts are those of the stored runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from chunked_td.lab.studies.deep.criteria import FIXED
from chunked_td.lab.studies.hidden import claims as tables
from chunked_td.lab.studies.hidden import criteria as rule
from chunked_td.lab.studies.hidden.claims import CLAIMS, COLLECT, LOAD, PAGE
from chunked_td.lab.studies.hidden.protocol import ARMS, STUDY, hidden_protocols, make_hidden_task
from chunked_td.statistics import reach
from helpers.fake_runs import fake_agents
from helpers.lab_helpers import twelve

FOLDER = Path(__file__).parents[2] / "results" / "hidden"


def test_the_rule_reads_reaches_as_it_says():
    rows = np.full((3, 8), 0.5)
    rows[1, -2:], rows[2] = 0.95, np.nan
    rows[2, -1] = 1.0
    assert rule.solved(rows).tolist() == [False, True, True]
    assert reach({20: 0.5, 5: 1.0, 10: 0.9, 50: 1.0}, rule.SHARE) == 10
    assert reach({5: 0.85}, rule.SHARE) == 0

    def reaches(**sources):
        fixed = {"a": dict.fromkeys(map(str, FIXED), 5), "b": dict.fromkeys(map(str, FIXED), 5)}
        fixed["a"]["0.9"], fixed["b"]["0.5"] = 20, 10
        return {task: {**arms, "recurrent": sources[task], "recurrent-realised": 0} for task, arms in fixed.items()}

    assert rule.reach_claim(reaches(a=20, b=10)) == "holds"
    assert rule.reach_claim(reaches(a=20, b=5)) == "fails"
    alone = {"a": reaches(a=20, b=10)["a"]}
    assert rule.reach_claim(alone) == "in part"
    assert rule.memory_claim(reaches(a=50, b=10), reaches(a=20, b=10))["memory"] == "holds"
    assert rule.memory_claim(reaches(a=20, b=10), reaches(a=20, b=20))["memory"] == "fails"
    assert rule.memory_claim(alone, alone)["memory"] == "in part"


def test_a_tiny_study_is_collected_and_tabled(tmp_path, monkeypatch):
    COLLECT(fake_agents(hidden_protocols("smoke"), tmp_path, monkeypatch)).write_parquet(tmp_path / "runs.parquet")
    results = LOAD(tmp_path)
    assert len(results.frame) == 3 * 2 * (len(FIXED) + len(ARMS)) * 3
    cell = results.verdicts["memories"]["sarsa, kept"]["cells"]["t-maze 3"]
    assert set(cell["solved"]) == {*map(str, FIXED), *ARMS}
    assert PAGE(tmp_path, results).read_text(encoding="utf-8").startswith("| agent | values read |")
    assert {claim.judge(results, {}).status for claim in CLAIMS} == {"not run"}


def test_protocols_are_cells_of_the_design():
    whole = STUDY.protocols("paper")
    assert len({protocol.id for protocol in whole}) == len(whole) == 3 * 2 * 3 * 5
    with pytest.raises(ValueError, match=r"task must be one of"):
        make_hidden_task("maze", 3)


def test_stored_verdicts_are_those_of_the_stored_runs():
    results = LOAD(FOLDER)
    stored = (FOLDER / "verdicts.json").read_text(encoding="utf-8")
    made, stored = (json.loads(text, parse_float=twelve) for text in (json.dumps(results.verdicts), stored))
    assert made == stored
    for name, text in (("reach", tables.reach_table), ("gate", tables.gate_table)):
        assert (FOLDER / "tables" / f"{name}.md").read_text(encoding="utf-8") == text(results.verdicts) + "\n"
    found = {claim.id: claim.judge(results, {}) for claim in CLAIMS}
    assert found["hidden-memory-sarsa"].status == "holds"
    assert "t-maze: 100 and 10" in found["hidden-memory-sarsa"].evidence
    beats = [verdict.status for name, verdict in found.items() if name.startswith("hidden-score")]
    assert sorted(beats) == ["does not hold"] * 5 + ["not run"]
