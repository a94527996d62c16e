"""`sweep` against a plain loop over `simulate` with the same runs: what it adds, and what a second core takes away.

python -m benchmarks sweep
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial

import chunked_td as ctd
from benchmarks.timing import Row, at_least, at_most, fastest
from chunked_td.envs.dynamics import ChainAndSplit
from chunked_td.simulation import simulate

ARMS = {"sarsa": {"lambda_source": 0.9}, "chunked": {"lambda_source": ctd.ForwardLambda()}}
STEP_SIZES, EPISODES = [0.1, 0.025, 0.00625], 100_000


def run(step_size: float, seed: int, *, lambda_source, episodes: int) -> dict:
    """One run of Chain-and-Split: 2.3 million steps at its full length."""
    problem, record = ChainAndSplit.make(), range(episodes // 10, episodes + 1, episodes // 10)
    how = {"learner": "sarsa", "lambda_source": lambda_source, "epsilon": 1.0, "record_at": record, "threads": 1}
    found = simulate(problem, step_sizes=step_size, seeds=seed, episodes=episodes, **how)
    return {"episode": list(record), "mean_return": found.returns_at[0]}


def loop(episodes: int, seeds: int) -> int:
    """Every run in turn; returns their number."""
    keys = [(arm, size, seed) for arm in ARMS for size in STEP_SIZES for seed in range(seeds)]
    for arm, size, seed in keys:
        run(size, seed, **ARMS[arm], episodes=episodes)
    return len(keys)


def swept(episodes: int, seeds: int, jobs: int = 1) -> int:
    """The same by `sweep`, stored in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        how = {"out": folder, "jobs": jobs, "quiet": True, "episodes": episodes}
        return ctd.sweep(run, ARMS, STEP_SIZES, range(seeds), **how).height // 10


def cold(what: str, episodes: int, seeds: int) -> float:
    """Processor time of a fresh process that finds nothing compiled, per run."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"XDG_CACHE_HOME": folder}
        environment.pop("NUMBA_CACHE_DIR", None)
        command = [sys.executable, "-m", "benchmarks.sweep", what, str(episodes), str(seeds)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        return seconds / (len(ARMS) * len(STEP_SIZES) * seeds)


def measure(quick: bool) -> list[Row]:
    """Overhead cold and warm, in processor time; and two threads against one, by the clock on the wall."""
    episodes, seeds, turns = (2_000, 2, 1) if quick else (EPISODES, 40, 2)
    loop(100, 1)  # compiles
    sizes, note = (episodes, seeds), "plain loop over simulate"
    found = fastest(turns, partial(swept, *sizes), partial(loop, *sizes))
    one, two = fastest(turns, partial(swept, *sizes), partial(swept, *sizes, jobs=2), clock=time.perf_counter)
    firsts = [cold(what, *sizes) for what in ("sweep", "loop")]
    load = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    return [
        at_most("sweep, per run", found[0], found[1], 1.05, note),
        at_most("sweep in a process that compiles, per run", *firsts, 1.1, note),
        at_least("sweep, two threads", two, one, 1.8, f"one thread; {load}"),
    ]


if __name__ == "__main__":
    {"loop": loop, "sweep": swept}[sys.argv[1]](*map(int, sys.argv[2:]))
