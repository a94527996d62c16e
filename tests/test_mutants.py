"""The planted mistakes of `make mutants` still fit the sources; running them takes too long for the tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def edits():
    found = importlib.util.spec_from_file_location("mutants.edits", ROOT / "tools" / "mutants" / "edits.py")
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module.EDITS


EDITS = edits()


def test_there_are_forty_with_names_of_their_own():
    assert len(EDITS) == len({edit.name for edit in EDITS}) >= 40


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_a_mistake_can_be_planted(edit):
    source = ROOT / "src" / "chunked_td" / edit.file
    assert source.read_text(encoding="utf-8").count(edit.old) == 1
    assert edit.new != edit.old
    compile(source.read_text(encoding="utf-8").replace(edit.old, edit.new), edit.file, "exec")
    tests = [name for name in edit.tests if name.endswith(".py")]
    assert tests
    assert all((ROOT / name).exists() for name in tests)
