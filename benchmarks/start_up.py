"""The first lines of the README in a fresh process: one that compiles, and a second one that finds the code on disk.

Processes find the bytecode of all packages, as after `pip install`. Without it (`PYTHONDONTWRITEBYTECODE`, and packages
that were installed without) every process of any program with NumPy, Numba and Gymnasium reads their sources again.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time

from benchmarks.timing import Row

SCRIPT = """
import gymnasium as gym
import chunked_td as ctd
env = gym.make("FrozenLake-v1")
agent = ctd.{learner}(env, step_size=0.1, discount=0.99, epsilon=0.1, seed=0)
agent.learn(env, episodes=200, progress=False)
"""


def run(learner: str, environment: dict[str, str]) -> tuple[float, float]:
    """Seconds of a process by the clock, and its processor time."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", SCRIPT.format(learner=learner)], check=True, env=environment)
    end, after = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    return end - begin, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(quick: bool) -> list[Row]:
    """Start of Python and imports included: the least of a few processes, each pair with a cache of its own.

    One thread does all of it, so that on an idle machine the clock shows the processor time.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": f"{folder}/bytecode", "XDG_CACHE_HOME": f"{folder}/first"}
        for name in ("NUMBA_CACHE_DIR", "PYTHONDONTWRITEBYTECODE"):
            environment.pop(name, None)
        run("ChunkedSarsa", environment)  # writes the bytecode
        for learner in ("LineageExpectedSarsa", "ChunkedSarsa"):
            found = []
            for turn in range(1 if quick else 3):
                turns = environment | {"XDG_CACHE_HOME": f"{folder}/{learner}-{turn}"}
                found.append((run(learner, turns), run(learner, turns)))
            for kind, times, most in zip(("first", "second"), zip(*found, strict=True), (4.0, 2.0), strict=True):
                clock, ours = map(min, zip(*times, strict=True))
                note = f"{learner}; {clock:.2f} s by the clock"
                rows.append(Row(f"{kind} process", ours, None, ours, f"≤ {most:g} s", ours <= most, note))
    return rows
