"""What steps, simulated runs, saving, loading, storing and resuming cost, against another version of this package.

    python tools/benchmarks/saving.py --against ../before/src        # the `src` folder of another checkout

Each version has a process of its own. They do the same work in turns; the least processor time of each counts. A
small agent has 16 states, a big one a million. `agent.step` is a thousand steps of the small one, `simulate` eight runs
of 2,000 episodes on a chain of 100 steps, `store.write` stores a batch of 600 rows. A resumed `reproduce` finds
all tabular runs of `results/paper` there: the whole process counts.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TURNS = {"agent.step": 40, "simulate": 25, "save, small": 60, "load, small": 60, "save, big": 6, "load, big": 6,
         "store.write": 100}  # fmt: skip
WORK = """
import pathlib, sys, time
import gymnasium, numpy as np
import chunked_td as ctd
from chunked_td.envs.dynamics import ChainAndSplit
from chunked_td.lab.store.batch_store import Store
from chunked_td.lab.store.directory import RunDirectory
from chunked_td.lab.store.settings import BatchSettings
from chunked_td.simulation import simulate

folder = pathlib.Path(sys.argv[1])
assert ctd.__file__.startswith(sys.argv[2]), ctd.__file__


class Ring(gymnasium.Env):
    def __init__(self, states):
        self.observation_space, self.action_space = gymnasium.spaces.Discrete(states), gymnasium.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.age = 0, 0
        return self.at, {}

    def step(self, action):
        self.at = int((5 * self.at + 7919 * action + self.np_random.integers(3)) % self.observation_space.n)
        self.age += 1
        return self.at, float(self.age == 200), self.age == 200, False, {}


agents, works = {}, {}
for name, states in (("small", 16), ("big", 1_000_000)):
    agents[name] = agent = ctd.ChunkedSarsa(Ring(states), seed=0)
    agent.learn(Ring(states), episodes=300)
    path = folder / f"{name}.ctd"
    works[f"save, {name}"] = lambda agent=agent, path=path: agent.save(path)
    works[f"load, {name}"] = lambda path=path: ctd.load(path)
    works[f"save, {name}"]()

driven = ctd.ChunkedSarsa(Ring(16), seed=0)
walk = np.random.default_rng(0).integers(16, size=1_000).tolist()


def step():
    driven.start(0)
    for state in walk:
        driven.step(0.0, state, False)


chain = ChainAndSplit.make(horizon=100, actions=2, width=10)
works["agent.step"] = step
works["simulate"] = lambda: simulate(chain, step_sizes=0.1, seeds=range(8), episodes=2_000, threads=1)

pairs = tuple((seed, exponent) for seed in range(10) for exponent in range(12))
record_at = (1, 10, 100, 1_000, 10_000)
rows = np.array([(*pair, episode) for pair in pairs for episode in record_at])
numbers = {
    "seed": rows[:, 0], "exponent": rows[:, 1], "step_size": 0.1 * 2.0 ** rows[:, 1], "episode": rows[:, 2],
    "score": np.random.default_rng(0).random(len(rows)),
}
with RunDirectory.for_writing(folder / "store") as directory:
    store, arms = Store(directory), iter(range(10**6))

    def write():
        family = {"protocol": "benchmark", "arm": f"arm-{next(arms)}"}
        store.write(BatchSettings(family, pairs, 10_000, record_at), numbers)

    works["store.write"] = write
    for work in works.values():
        work()
    print("ready", flush=True)
    for line in sys.stdin:
        begin = time.process_time()
        works[line.strip()]()
        print(time.process_time() - begin, flush=True)
"""


class Version:
    """A process with one version of the package, which does one piece of work when it is asked."""

    def __init__(self, source: Path, folder: Path):
        self.environment = os.environ | {"PYTHONPATH": str(source)}
        self.folder = folder
        folder.mkdir()
        command = [sys.executable, "-c", WORK, str(folder), str(source)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, env=self.environment, text=True, **pipes)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.ask, self.hear = self.process.stdin, self.process.stdout
        if self.hear.readline() != "ready\n":
            raise SystemExit(f"the version in {source} did not start")

    def seconds(self, work: str) -> float:
        """Processor time of one piece of work."""
        print(work, file=self.ask, flush=True)
        return float(self.hear.readline())

    def resumed(self) -> float:
        """Processor time of a resumed `reproduce`, a process of its own."""
        out = self.folder / "paper"
        if not out.exists():
            shutil.copytree(ROOT / "results" / "paper", out)
        again = ["reproduce", "--profile", "paper", "--no-networks", "--no-report", "--out", str(out)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "chunked_td", *again]
        subprocess.run(command, env=self.environment, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, required=True, help="the src folder of the other version")
    parser.add_argument("--rounds", type=int, default=5, help="times as many turns")
    parser.add_argument("--resumed", type=int, default=3, help="turns of a resumed reproduce")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        before = Version(options.against.resolve(), Path(folder) / "before")
        now = Version(ROOT / "src", Path(folder) / "now")
        print(f"{'work':20}{'before':>12}{'now':>12}{'ratio':>8}   load {os.getloadavg()[0]:.1f}")
        jobs = {work: (options.rounds * turns, Version.seconds, (work,)) for work, turns in TURNS.items()}
        jobs["resumed reproduce"] = (options.resumed, Version.resumed, ())
        for work, (turns, measure, arguments) in jobs.items():
            found = [(measure(before, *arguments), measure(now, *arguments)) for _ in range(turns)]
            if found:
                old, new = map(min, zip(*found, strict=True))
                print(f"{work:20}{1e3 * old:9.3f} ms{1e3 * new:9.3f} ms{new / old:8.3f}", flush=True)
        for version in (before, now):
            version.ask.close()
            version.process.wait()


if __name__ == "__main__":
    main()
