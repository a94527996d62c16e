"""Whether kernels are compiled in these tests, and cases that are played without compilation."""

from __future__ import annotations

import os
import threading

import pytest

COMPILED = os.environ.get("NUMBA_DISABLE_JIT") != "1"


def uncompiled(*values):
    """Values of a parametrised test that `make test` plays as plain Python (`test_uncompiled.py`)."""
    return pytest.param(*values, marks=pytest.mark.uncompiled)


class AtOnce(threading.Timer):
    """A timer that does not wait: a busy machine gives a real one its turn when it likes."""

    def start(self):
        self.function(*self.args)
