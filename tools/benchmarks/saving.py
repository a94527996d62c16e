"""What saving, loading, storing and resuming cost, against another version of this package.

    python tools/benchmarks/saving.py --against ../before/src        # the `src` folder of another checkout

Both versions do the same work in processes of their own, in turns; the least processor time of each counts. A small
agent has 16 states, a big one a million. `store.write` stores a batch of 600 rows. A resumed `reproduce` finds
all tabular runs of `results/paper` there: the whole process counts.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
WORK = """
import json, pathlib, sys, time
import gymnasium, numpy as np
import chunked_td as ctd
from chunked_td.lab.store.batch_store import Store
from chunked_td.lab.store.directory import RunDirectory
from chunked_td.lab.store.settings import BatchSettings

folder = pathlib.Path(sys.argv[1])
assert ctd.__file__.startswith(sys.argv[2]), ctd.__file__


def least(times, work):
    taken = []
    for _ in range(times):
        begin = time.process_time()
        work()
        taken.append(time.process_time() - begin)
    return min(taken)


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


found = {}
for name, states, times in (("small", 16, 200), ("big", 1_000_000, 8)):
    agent, path = ctd.ChunkedSarsa(Ring(states), seed=0), folder / f"{name}.ctd"
    agent.learn(Ring(states), episodes=300)
    found[f"save, {name}"] = least(times, lambda: agent.save(path))
    found[f"load, {name}"] = least(times, lambda: ctd.load(path))

rng = np.random.default_rng(0)
pairs = tuple((seed, exponent) for seed in range(10) for exponent in range(12))
record_at = (1, 10, 100, 1_000, 10_000)
rows = np.array([(*pair, episode) for pair in pairs for episode in record_at])
numbers = {
    "seed": rows[:, 0], "exponent": rows[:, 1], "step_size": 0.1 * 2.0 ** rows[:, 1], "episode": rows[:, 2],
    "score": rng.random(len(rows)),
}
with RunDirectory.for_writing(folder / "store") as directory:
    store, arms = Store(directory), iter(range(10**6))

    def write():
        family = {"protocol": "benchmark", "arm": f"arm-{next(arms)}"}
        store.write(BatchSettings(family, pairs, 10_000, record_at), numbers)

    write()
    found["store.write"] = min(least(1, write) for _ in range(150))
print(json.dumps(found))
"""


def _processor_time(command: list[str], environment: dict[str, str]) -> tuple[float, str]:
    """Of a process and its children, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, done.stdout


def measure(source: Path, folder: Path) -> dict[str, float]:
    """Seconds of every kind of work with the package in `source`."""
    environment = os.environ | {"PYTHONPATH": str(source)}
    _, printed = _processor_time([sys.executable, "-c", WORK, str(folder), str(source)], environment)
    found = json.loads(printed.splitlines()[-1])
    out = folder / "paper"
    shutil.copytree(HERE / "results" / "paper", out)
    again = [sys.executable, "-m", "chunked_td", "reproduce", "--profile", "paper", "--no-networks", "--out", str(out)]
    found["resumed reproduce"] = min(_processor_time([*again, "--no-report"], environment)[0] for _ in range(3))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, required=True, help="the src folder of the other version")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    sources = {"before": options.against.resolve(), "now": HERE / "src"}
    best: dict[str, dict[str, float]] = {name: {} for name in sources}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.rounds):
            for name, source in sources.items():
                place = Path(folder) / name
                place.mkdir()
                for work, seconds in measure(source, place).items():
                    best[name][work] = min(seconds, best[name].get(work, float("inf")))
                shutil.rmtree(place)
            print(f"round {turn + 1} of {options.rounds}", file=sys.stderr)
    print(f"{'work':20}{'before':>12}{'now':>12}{'ratio':>8}   load {os.getloadavg()[0]:.1f}")
    for work, before in best["before"].items():
        now = best["now"][work]
        print(f"{work:20}{1e3 * before:9.2f} ms{1e3 * now:9.2f} ms{now / before:8.2f}")


if __name__ == "__main__":
    main()
