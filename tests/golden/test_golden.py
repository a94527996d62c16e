"""Every golden case gives what was recorded, to the last bit. What fails here changes stored numbers."""

from __future__ import annotations

import logging

import pytest

from .cases import CASES
from .check import differences, expected
from .mistakes import MISTAKES, fails
from .today import api

RECORDED = expected()
GROUPS = sorted({"/".join(name.split("/")[:2]) for name in CASES})


@pytest.fixture(autouse=True)
def quiet():
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def test_every_case_is_recorded():
    assert set(RECORDED) == set(CASES)


@pytest.mark.parametrize("group", GROUPS)
def test_nothing_has_changed(group):
    names = [name for name in CASES if "/".join(name.split("/")[:2]) == group]
    assert not [text for name in names for text in differences(name, CASES[name](api), RECORDED)]


@pytest.mark.long
@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_planted_mistakes_are_seen(mistake, tmp_path):
    assert fails(MISTAKES[mistake], tmp_path)


@pytest.mark.long
def test_a_copy_without_a_mistake_passes(tmp_path):
    assert not fails(MISTAKES["a trace one step off"]._replace(old="", new=""), tmp_path)
