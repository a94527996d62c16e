"""`chunked-td reproduce deep`: cells are kept, and what is there is not run again."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from chunked_td.cli.reproduce import Reproduce
from chunked_td.deep import tables
from chunked_td.deep.criteria import FIXED
from chunked_td.lab.results.further import further_claims
from chunked_td.lab.running import network_studies


def one_cell(agent, task):
    """Runs as `deep.study` gives them: two step sizes, a tuning seed and two judged ones."""
    names = [*map(str, FIXED), "expected", *tables.GATE]
    rows = [(arm, size, seed) for arm in names for size in (1.0, 0.1) for seed in range(3)]
    arm, size, seed = (np.array(column) for column in zip(*rows, strict=True))
    rng = np.random.default_rng(1)
    return {
        "agent": np.full(len(rows), agent), "task": np.full(len(rows), task), "arm": arm,
        "step_size": size.astype(np.float32), "seed": seed.astype(np.int16), "judged": seed > 0,
        "curve": rng.random((len(rows), 4)), "returns": rng.random((len(rows), 4)),
        "mean_lambda": np.full((len(rows), 4), 0.5), "histogram": np.ones((len(rows), 2)),
    }  # fmt: skip


@pytest.fixture
def ran(monkeypatch):
    """The cells that are run, by a study that makes them up; one needs a package that is not there."""
    cells = []

    def run(cell):
        cells.append(cell)
        yield one_cell(*cell)

    study = network_studies.NetworkStudy(
        {}, ("agent", "task"), [("sarsa", "charge"), ("sarsa", "catch"), ("q", "gymnax-catch")], run,
        tables.import_runs, tables.main, lambda cell: "no_such_package" if cell[0] == "q" else "",
    )  # fmt: skip
    monkeypatch.setattr(network_studies, "make_study", lambda *_: study)
    return cells


def test_a_study_runs_what_is_missing_and_judges_nothing_from_a_tiny_size(ran, tmp_path, capsys):
    reproduce = Reproduce(("deep",), out=tmp_path, dry_run=True)
    assert reproduce.run() == 0
    assert not ran
    assert not (tmp_path / "deep").exists()
    assert "note: 1 cells need no_such_package" in capsys.readouterr().out
    reproduce = Reproduce(("deep",), out=tmp_path)
    assert reproduce.run() == 0
    assert ran == [("sarsa", "charge"), ("sarsa", "catch")]
    assert "NOT RUN" in capsys.readouterr().out
    assert (tmp_path / "deep" / "tables" / "moonshot.md").is_file()
    (claim,) = further_claims(tmp_path)
    assert claim.status == "not run"
    assert "size 'quick'" in claim.evidence
    before = pl.read_parquet(tmp_path / "deep" / "runs.parquet")
    assert reproduce.run() == 0
    assert len(ran) == 2
    assert pl.read_parquet(tmp_path / "deep" / "runs.parquet").equals(before)
    assert Reproduce(("deep",), out=tmp_path, profile="paper").run() == 2
    assert "holds the study at size 'quick', asked for is 'full'" in capsys.readouterr().err
    about = json.loads((tmp_path / "deep" / "study.json").read_text(encoding="utf-8"))
    (tmp_path / "deep" / "study.json").write_text(json.dumps({**about, "size": "full"}), encoding="utf-8")
    assert further_claims(tmp_path)[0].status == "does not hold"


def test_studies_run_by_themselves(capsys):
    assert Reproduce(("deep", "charge-signs"), seeds=3).run() == 2
    assert "deep run by themselves, without charge-signs, --seeds" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "columns"), [("deep", 2), ("hidden", 4)])
def test_the_cells_of_the_studies(name, columns):
    full, quick = (network_studies.make_study(name, size) for size in ("full", "quick"))
    assert all(len(cell) == columns == len(full.columns) for cell in full.cells)
    assert len(full.cells) == len(set(full.cells)) > len(quick.cells)
    assert (
        {full.needs(cell) for cell in full.cells} == {"", "gymnax", "xminigrid"} if name == "deep" else {"", "gymnax"}
    )


@pytest.mark.parametrize("given", [{"engine": "ray"}, {"networks": False}, {"seeds": 0}, {"threads": 1}])
def test_studies_of_networks_refuse_what_they_would_not_hear(given, tmp_path, capsys):
    assert Reproduce(("deep",), out=tmp_path, dry_run=True, **given).run() == 2
    flag = "--no-networks" if "networks" in given else f"--{next(iter(given))}"
    assert f"deep run by themselves, without {flag}" in capsys.readouterr().err
