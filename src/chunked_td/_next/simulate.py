"""From settings to the results of many runs; see `chunked_td.simulation.simulate`, whose face this keeps."""

from __future__ import annotations

import functools
from typing import Any
from unittest import mock

from chunked_td._next.run import Run
from chunked_td.simulation import simulate as present

_PRESENT: Any = __import__("sys").modules["chunked_td.simulation.simulate"]


@functools.wraps(present)
def simulate(dynamics: Any, **settings: Any) -> Any:
    """`simulate`, on the next core."""
    with mock.patch.object(_PRESENT, "Run", Run):
        return present(dynamics, **settings)
