"""The standing attack: what it finds is counted and put down to the right case."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SECONDS = float(os.environ.get("ATTACK_SECONDS", "15"))
"""How long the attack runs among the tests; by hand: `make attack`."""

GET_READY = ("deep states:*", "compressors:*", "pages:*")


def attack(*arguments):
    command = [sys.executable, "-m", "tools.attack", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)


@pytest.mark.long
def test_memory_stays_flat():
    """Steps, saves, loads and threads for a minute; by hand for an hour: `python -m tools.soak`."""
    command = [sys.executable, "-m", "tools.soak", "--minutes", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_bad_outcome_is_seen_and_belongs_to_its_case(tmp_path):
    done = attack("--only", "selftest", "--minutes", 10, "--table", tmp_path / "table.md")
    assert done.returncode == 1, done.stderr
    row = next(line for line in (tmp_path / "table.md").read_text().splitlines() if line.startswith("| selftest"))
    assert row == "| selftest | 7 | 0 | 2 | 0 | 1 | 1 | 1 | 1 | 0 | 1 |"
    for outcome, number in (("CRASH", 1), ("HANG", 2), ("TRACEBACK", 3), ("MEMORY", 4), ("SILENT CHANGE", 5)):
        assert f"{outcome}: 'selftest' --case {number}:" in done.stdout


def test_a_short_attack_finds_nothing(monkeypatch):
    """Without compilation, which would take most of the time; an index out of bounds is an error there too.

    A quick machine tries no other cases than a slow one: at most the first 30 of each attack. Networks and the browser
    take longer to get ready than all of this; `make attack` has them.
    """
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    done = attack("--minutes", SECONDS / 60, "--least", 1, "--tries", 30, "--without", *GET_READY)
    assert done.returncode == 0, done.stdout + done.stderr
