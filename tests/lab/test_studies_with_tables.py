"""`chunked-td reproduce deep`: batches are kept, a table is collected, and what is there is not run again."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from chunked_td.cli.report import Report
from chunked_td.cli.reproduce import Reproduce
from chunked_td.lab.catalogue import catalogue
from chunked_td.lab.report.text import paper_claims
from chunked_td.lab.results.claims import judge_all, load_directory
from chunked_td.lab.studies.deep import tables
from chunked_td.lab.studies.deep.runner import AgentRunner

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def ran(monkeypatch):
    """The arms that are run, by a runner that makes curves up. PPO needs a package that is not there."""
    arms, rng = [], np.random.default_rng(0)

    def run(self, program, threads, report):
        arms.append([f"{batch.protocol.id} {batch.arm.id}" for batch in program])
        shapes = [(len(batch.pairs), len(batch.record_at)) for batch in program]
        judged = [np.repeat((batch.seeds >= self.tuning)[:, None], 4, 1) for batch in program]
        names = ("score", "returns", "mean_lambda")
        return [
            batch.columns({**{name: rng.random(shape) for name in names}, "judged": mark})
            for batch, shape, mark in zip(program, shapes, judged, strict=True)
        ]

    monkeypatch.setattr(AgentRunner, "run", run)
    needs = {"ppo": ("no_such_package",)}
    monkeypatch.setattr(AgentRunner, "packages", lambda self, batch: needs.get(batch.arm.learner, ()))
    for slow in ("gate_luck_table", "draw_table"):
        monkeypatch.setattr(tables, slow, lambda _: "")
    return arms


def test_a_study_runs_what_is_missing_and_judges_nothing_from_a_tiny_size(ran, tmp_path, capsys):
    assert Reproduce(("deep",), out=tmp_path, dry_run=True).run() == 0
    assert not ran
    assert not (tmp_path / "deep").exists()
    assert "no_such_package is not installed; left out: deep-ppo-charge 0.0" in capsys.readouterr().out
    some = Reproduce(("deep",), out=tmp_path, arms=("0.95", "true-*"))
    assert some.run() == 0
    assert sum(map(len, ran)) == 3 * 6
    capsys.readouterr()
    reproduce = Reproduce(("deep",), out=tmp_path)
    assert reproduce.run() == 0
    assert "deep-sarsa-charge 0.95" not in ran[3]
    assert len({arm for program in ran for arm in program}) == sum(map(len, ran))  # none twice
    said = capsys.readouterr().out
    assert "NOT RUN       A λ per step beats every fixed λ for sarsa" in said
    assert said.count("NOT RUN") == 1  # one reason, one line
    assert (tmp_path / "deep" / "tables" / "moonshot.md").is_file()
    before, times = pl.read_parquet(tmp_path / "deep" / "runs.parquet"), len(ran)
    assert reproduce.run() == 0
    assert "nothing to do" in capsys.readouterr().out
    assert len(ran) == times
    assert pl.read_parquet(tmp_path / "deep" / "runs.parquet").equals(before)
    assert set(before["agent"]) == {"sarsa", "q", "actor-critic"}
    assert Reproduce(("deep",), out=tmp_path, profile="paper").run() == 2
    assert "holds runs of 2,000 steps, asked for are 60,000: choose another --out" in capsys.readouterr().err


def test_a_table_without_its_batches_is_not_overwritten(ran, tmp_path, capsys):
    (tmp_path / "deep").mkdir()
    shutil.copy(RESULTS / "deep" / "runs.parquet", tmp_path / "deep" / "runs.parquet")
    assert Reproduce(("deep",), out=tmp_path, profile="paper").run() == 2
    assert "was collected from runs that are not in" in capsys.readouterr().err
    assert not ran


def test_a_damaged_table_is_left_out(ran, tmp_path, capsys):
    assert Reproduce(("deep",), out=tmp_path, arms=("0.*", "1.0", "true-*", "expected")).run() == 0
    assert "deep" in load_directory(tmp_path, catalogue()).results
    table = tmp_path / "deep" / "runs.parquet"
    table.write_bytes(table.read_bytes()[:-1] + b"x")
    assert any("do not match" in text for text in load_directory(tmp_path, catalogue()).damaged)


def test_the_committed_studies_are_judged_and_their_pages_written_again(tmp_path, capsys):
    loaded = load_directory(RESULTS / "paper", catalogue())
    judged = {claim.id: claim for claim in judge_all(loaded.results, catalogue())}
    told = (RESULTS / "paper" / "tables" / "paper-claims.md").read_text(encoding="utf-8")  # what the README shows
    assert told == paper_claims(judged.values())
    assert judged["compressor-easy"].status == "holds"
    assert judged["compressor-easy"].contradicted  # by noise in the middle
    assert judged["deep-ppo"].status == judged["hidden-score-ppo-kept"].status == "does not hold"
    assert judged["hidden-reach-ppo-state"].status == "not testable"  # 0 against 0 on every task
    shutil.copytree(RESULTS / "compression", tmp_path / "compression")
    (tmp_path / "compression" / "tables" / "known.md").unlink()
    assert Report(tmp_path / "compression").run() == 0
    for path in (RESULTS / "compression" / "tables").glob("*.md"):
        assert (tmp_path / "compression" / "tables" / path.name).read_bytes() == path.read_bytes()
