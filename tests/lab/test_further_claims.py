"""Claims judged from studies beside the lab's experiments."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from chunked_td.lab.results.further import further_claims

RESULTS = Path(__file__).parents[2] / "results"


def test_studies_that_are_not_there_are_left_out(tmp_path):
    assert further_claims(tmp_path) == []
    (tmp_path / "deep").mkdir()
    (tmp_path / "compression").mkdir()
    assert further_claims(tmp_path) == []


def test_the_compressor_is_judged_from_its_runs(tmp_path):
    folder = tmp_path / "compression"
    folder.mkdir()
    path = folder / "comparison.parquet"
    shutil.copy(RESULTS / "compression" / "comparison.parquet", path)
    easy, _, hard = further_claims(tmp_path)
    assert (easy.status, hard.status) == ("holds", "holds")
    frame = pl.read_parquet(path)
    frame.with_columns(
        pl.when(pl.col("n") >= 500).then(False).otherwise(pl.col("solved")).alias("solved")
    ).write_parquet(path)
    easy, _, hard = further_claims(tmp_path)
    assert easy.status == "holds in part"  # up to N = 200
    assert "tanh: 200" in easy.evidence
    frame.with_columns(pl.lit(True).alias("solved")).write_parquet(path)
    assert [claim.status for claim in further_claims(tmp_path)] == ["holds", "holds", "does not hold"]


@pytest.mark.parametrize(("verdict", "status"), [("holds", "holds"), ("fails", "does not hold")])
def test_the_deep_study_is_judged_by_its_verdicts(tmp_path, verdict, status):
    (tmp_path / "deep").mkdir()
    means = {"0.0": 0.1, "0.95": 0.4, "value-kernel": 0.5}
    found = {"verdict": verdict, "means": {name: {"value": value} for name, value in means.items()}}
    tasks = {"catch": {"gate": "passed"}, "umbrella": {"gate": "closed"}}
    once = {"verdict": "fails", "means": {name: {"value": value / 2} for name, value in means.items()}}
    sets = {"without the twin": {"moonshot": once, "moonshot over": ["umbrella"]}}
    judged = {"moonshot": found, "tasks": tasks, "sets": sets}
    (tmp_path / "deep" / "verdicts.json").write_text(json.dumps({"ppo": judged}))
    (claim,) = further_claims(tmp_path)
    assert claim.status == status
    assert "best source value-kernel 0.500, best fixed λ 0.95 0.400" in claim.evidence
    assert "CartPole once instead of twice: value-kernel 0.250 and 0.95 0.200, fails" in claim.evidence
    assert "1 of 2 tasks" in claim.evidence


def test_the_study_with_hidden_state_is_judged_by_its_verdicts(tmp_path):
    shutil.copytree(RESULTS / "hidden", tmp_path / "hidden")
    found = further_claims(tmp_path)
    memory = next(claim for claim in found if "recurrent state" in claim.text)
    assert memory.status == "holds"
    assert "t-maze: 100 and 10" in memory.evidence
    beats = [claim for claim in found if "beats every fixed λ" in claim.text]
    assert [claim.status for claim in beats] == ["does not hold"] * 5
    (tmp_path / "hidden" / "verdicts.json").unlink()
    assert further_claims(tmp_path) == []
