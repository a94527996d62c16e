"""Compilation on first use, and a second process that finds its results on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from timing import Row

SCRIPT = """
import time
begin = time.perf_counter()
from chunked_td.envs.dynamics import AccumulatedCharge
from chunked_td.simulation import simulate
simulate(AccumulatedCharge.make(), lambda_source=0.9, step_sizes=0.1, seeds=0, episodes=10)
"""


def measure(quick: bool) -> list[Row]:
    """The same script twice with a cache of its own: empty, then filled."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"XDG_CACHE_HOME": folder}
        environment.pop("NUMBA_CACHE_DIR", None)
        times = []
        for _ in range(2 if quick else 4):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", SCRIPT], check=True, env=environment)
            times.append(time.perf_counter() - begin)
    first, later = times[0], min(times[1:])
    return [
        Row("first process, compiling", first, None, None, note="whole process, one simulation"),
        Row("second process", later, first, later, "≤ 2 s", later <= 2.0, "first process"),
    ]
