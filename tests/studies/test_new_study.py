"""A new study is a new folder: that of studies/README.md goes through every command."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).parents[2]
FILE = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)


@pytest.fixture
def clone(tmp_path):
    """A folder with the studies' runner and one study, the coin."""
    shutil.copytree(ROOT / "studies" / "runner", tmp_path / "studies" / "runner")
    for name in ("__init__.py", "__main__.py"):
        shutil.copy(ROOT / "studies" / name, tmp_path / "studies" / name)
    for name, text in FILE.findall((ROOT / "studies" / "README.md").read_text("utf-8")):
        (tmp_path / "studies" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "studies" / name).write_text(text, "utf-8")
    return tmp_path


def studies(clone, *words, code=0):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-W", "error", "-m", "studies", *words]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True, env=environment)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_a_new_study_goes_through_every_command(clone):
    folder = clone / "studies" / "coin"
    question = "A coin: is a smaller step size closer to the truth after 1,000 tosses?"
    assert studies(clone, "list") == f"{'coin':20} {question}\n"
    assert "| 0.1 | 0." in studies(clone, "run", "coin", "--quick")
    assert not (folder / "runs.parquet").exists()
    studies(clone, "run", "coin")
    assert studies(clone, "store", "coin") == "coin: 400 new rows; next: python -m studies report coin\n"
    assert studies(clone, "store", "coin").startswith("coin: 0 new rows;")
    (source,) = json.loads((folder / "provenance.json").read_text("utf-8"))
    assert source["session"]["command"] == "python -m studies run coin"
    said = studies(clone, "claims", "coin")
    assert said.startswith("HOLDS         The smaller step size has the smaller error.\n")
    assert "Criterion: Paired test over arms and seeds." in said
    assert "coin; write the pages with" in studies(clone, "report", "--check", code=1)
    studies(clone, "report")
    assert "| 0.01 | 0." in (folder / "README.md").read_text("utf-8")
    assert (folder / "figures" / "figure.svg").read_text("utf-8").count("<svg") == 1
    assert "A coin" in (clone / "runs" / "studies.html").read_text("utf-8")
    studies(clone, "report", "--check")
    studies(clone, "report", "--quick")
    assert "ID must be one of coin, got dice" in studies(clone, "run", "dice", code=1)
    shutil.rmtree(folder)
    assert studies(clone, "list") == ""


def test_stored_rows_are_never_replaced(clone):
    studies(clone, "run", "coin")
    studies(clone, "store", "coin")
    stored = clone / "studies" / "coin" / "runs.parquet"
    table = pl.read_parquet(stored)
    table[3:].with_columns(error=pl.when(pl.col("seed") == 9).then(0.5).otherwise("error")).write_parquet(stored)
    before = stored.read_bytes()
    assert "runs of coin must equal the stored ones: error differ" in studies(clone, "store", "coin", code=1)
    assert stored.read_bytes() == before
    table[3:].write_parquet(stored)
    assert studies(clone, "store", "coin").startswith("coin: 3 new rows;")
    assert pl.read_parquet(stored).equals(pl.concat([table[3:], table[:3]]))
