"""The golden cases on the next core."""

from __future__ import annotations

import logging

import pytest

from golden.cases import CASES
from golden.check import differences, expected
from next.adapter import api

RECORDED = expected()
QUICK = ("study/accumulated-charge/sarsa-0.9", "study/chain-and-split/chunked", "agent/ChunkedSarsa", "network/charge")


@pytest.fixture(autouse=True)
def quiet():
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.long) for n in CASES])
def test_the_next_core_gives_the_same_bits(name):
    assert not differences(name, CASES[name](api), RECORDED)
