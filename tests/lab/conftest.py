"""Fixtures: the toy protocol, and the command on it."""

from __future__ import annotations

import pytest
from lab_helpers import TOY

from chunked_td.lab import commands
from chunked_td.lab.experiments import load


@pytest.fixture
def toy():
    return load(TOY)[0]


@pytest.fixture
def reproduce(tmp_path):
    """`reproduce(out=…, …)` on the toy protocol, in this process, without network arms."""

    def call(out=None, **options):
        return commands.reproduce([TOY], out=out or tmp_path / "run", **{"networks": False, **options})

    return call
