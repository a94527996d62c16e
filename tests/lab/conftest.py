"""Fixtures: the toy protocol, and the command on it."""

from __future__ import annotations

import pytest

from chunked_td.lab.catalogue import load_protocols
from chunked_td.lab.running.reproduce import reproduce as run_sweep
from helpers.lab_helpers import TOY


@pytest.fixture
def toy():
    return load_protocols([TOY])[0]


@pytest.fixture
def reproduce(tmp_path):
    """`reproduce(out=…, …)` on the toy protocol, in this process, without network arms."""

    def call(out=None, **options):
        return run_sweep([TOY], out=out or tmp_path / "run", **{"networks": False, **options})

    return call
