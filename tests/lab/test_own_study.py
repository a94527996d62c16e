"""A study from outside the package, with a runner, a table, claims and a page of its own, through every command."""

from __future__ import annotations

import sys

import polars as pl
import pytest

from chunked_td._loading import USER_MODULES
from chunked_td.cli.claims import Claims
from chunked_td.cli.report import Report
from chunked_td.cli.reproduce import Reproduce
from chunked_td.lab.catalogue import catalogue, load
from chunked_td.lab.store.batch_store import Store

PROTOCOL = '''
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chunked_td.lab.study import Arm, BatchRunner, Environment, Protocol, Size, Study

PROGRAMS = Path(__file__).with_name("programs.txt")


@dataclass(frozen=True)
class Coins(BatchRunner):
    """Every run is a mean of coins, weighed by its step size; the arms of a protocol are one program."""

    kind = "coins"

    def programs(self, batches):
        found = {}
        for batch in batches:
            found.setdefault(batch.protocol.id, []).append(batch)
        return list(found.values())

    def run(self, program, threads, report):
        with PROGRAMS.open("a") as file:
            file.write(" ".join(batch.arm.id for batch in program) + "\\n")
        columns = []
        for batch in program:
            rows = [np.random.default_rng(seed).random(len(batch.record_at)) for seed in batch.seeds]
            score = np.array(rows) * batch.step_sizes[:, None] + float(batch.arm.lambda_source)
            columns.append(batch.columns({"score": score, "twice": 2 * score}))
        return columns


def cell(name):
    return Protocol(
        id=f"coins-{name}",
        title=f"Coins, {name}",
        environment=Environment("no.such:Thing", {"name": name}),
        arms=(Arm("low", "low", "mine", 0.0, in_paper=False), Arm("high", "high", "mine", 10.0, in_paper=False)),
        exponents=(0, -1),
        step_sizes=(1.0, 0.3),
        episodes=40,
        record=((40, 10),),
        scoring="no.such:scoring",
        score_label="coins",
        smoke=Size(seeds=2, episodes=20),
        runner=Coins(),
        unit="steps",
    )


def protocols(profile):
    return [cell("one"), cell("two")]


STUDY = Study("coins", "Coins", protocols, table="coins.parquet", page="coins.html", by_default=False)
'''
RESULTS = """
import polars as pl

from chunked_td.lab.study import NOT_RUN, Verdict


def COLLECT(store):
    names = store.directory.protocol_ids
    return pl.concat([store.table(name).with_columns(pl.lit(name).alias("cell")) for name in names])


def LOAD(folder):
    table = pl.read_parquet(folder / "coins.parquet")
    return table if table.height else Verdict(NOT_RUN, "no rows")
"""
CLAIMS = """
from chunked_td.lab.study import FAILS, HOLDS, Claim, Verdict


def judge(table, others):
    means = {name: float(rows["score"].mean()) for (name,), rows in table.group_by("arm")}
    return Verdict(HOLDS if means["high"] > means["low"] else FAILS, f"{means['high']:.2f} and {means['low']:.2f}")


CLAIMS = (Claim("coins-high", "ours", "High coins are higher.", "Their mean is.", (), judge, figure="coins.html"),)
"""
REPORT = """
def PAGE(folder, table):
    (folder / "coins.html").write_text(f"<p>{table.height} rows</p>")


SUMMARY = "Coins were tossed."
"""


@pytest.fixture
def study(tmp_path):
    folder = tmp_path / "my_coins"
    folder.mkdir()
    for name, text in {"protocol": PROTOCOL, "results": RESULTS, "claims": CLAIMS, "report": REPORT}.items():
        (folder / f"{name}.py").write_text(text)
    yield folder
    for name in [name for name in sys.modules if name.startswith(f"{USER_MODULES}my_coins")]:
        del sys.modules[name]


def programs_run(folder):
    """The programs that ran since the last call."""
    file = folder / "programs.txt"
    found = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return found


def test_a_study_of_ones_own_goes_through_every_command(study, tmp_path, capsys):
    out, name = tmp_path / "runs", str(study)
    plan = Reproduce(experiments=(name,), profile="smoke", out=out, dry_run=True)
    assert plan.run() == 0
    assert "16 of 16 runs to do" in capsys.readouterr().out
    assert not out.exists()

    assert Reproduce(experiments=(name,), profile="smoke", out=out).run() == 0
    assert programs_run(study) == ["low high", "low high"]  # arms of a protocol are one program
    table = pl.read_parquet(out / "coins" / "coins.parquet")
    assert set(table["cell"]) == {"coins-one", "coins-two"}
    assert set(table["step_size"]) == {1.0, 0.3}
    assert (table["twice"] == 2 * table["score"]).all()
    assert "coins.parquet" in (out / "coins" / "digests.sha256").read_text()
    assert (out / "coins" / "coins.html").read_text() == f"<p>{table.height} rows</p>"
    assert "HOLDS         High coins are higher." in capsys.readouterr().out

    content = (out / "coins" / "coins.parquet").read_bytes()
    assert Reproduce(experiments=(name,), profile="smoke", out=out).run() == 0  # nothing is left to do
    assert programs_run(study) == []
    assert (out / "coins" / "coins.parquet").read_bytes() == content

    assert Claims(directory=out, experiments=(name,)).run() == 0
    assert "coins, ours" in capsys.readouterr().out
    (out / "coins" / "coins.html").unlink()
    assert Report(directory=out, experiments=(name,)).run() == 0
    assert (out / "coins" / "coins.html").exists()
    assert "coins" not in catalogue()


def test_a_stopped_study_goes_on_with_what_is_missing(study, tmp_path):
    out, name = tmp_path / "runs", str(study)
    assert Reproduce(experiments=(name,), profile="smoke", out=out, arms=("low",), report=False).run() == 0
    assert programs_run(study) == ["low", "low"]
    assert Reproduce(experiments=(name,), profile="smoke", out=out, report=False).run() == 0
    assert programs_run(study) == ["high", "high"]
    assert not Store.read(out / "coins").damaged


def test_a_table_that_was_changed_is_left_out(study, tmp_path, capsys):
    out, name = tmp_path / "runs", str(study)
    assert Reproduce(experiments=(name,), profile="smoke", out=out, report=False).run() == 0
    path = out / "coins" / "coins.parquet"
    pl.read_parquet(path).with_columns(pl.col("score") + 1).write_parquet(path)
    assert Claims(directory=out, experiments=(name,)).run() == 1
    assert "its bytes do not match" in capsys.readouterr().out


def test_a_table_without_its_runs_is_not_written_over(study, tmp_path, capsys):
    (tmp_path / "coins").mkdir()
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "coins" / "coins.parquet")
    assert Reproduce(experiments=(str(study),), profile="smoke", out=tmp_path).run() == 2
    assert "choose another --out" in capsys.readouterr().err


def test_the_loaded_study_is_what_its_folder_says(study):
    (loaded,) = load(str(study))
    assert (loaded.id, loaded.table, loaded.by_default) == ("coins", "coins.parquet", False)
    assert [claim.origin for claim in loaded.claims] == ["ours"]


def test_the_old_name_of_the_module_warns():
    from chunked_td.lab.study import Protocol

    with pytest.warns(DeprecationWarning, match=r"now chunked_td\.lab\.study"):
        from chunked_td.lab.protocol import Protocol as Old
    assert Old is Protocol
