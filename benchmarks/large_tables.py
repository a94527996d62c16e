"""Large tables: memory and time of ten million states, and of a million observations that get ids on first sight.

    python -m benchmarks.large_tables            # all, each part in a process of its own; needs about 4 GB
    python -m benchmarks.large_tables --quick    # a hundredth of the states

Prints, for every part: what the process held in memory at most (beyond the imports), and the processor time that it
took to make, to train for a while, to save and to load the learner; and the size of the file.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PARTS = {
    "10 million states, 4 actions": ("fixed", 10_000_000),
    "1 million hashed observations, 4 actions": ("hashed", 1_000_000),
}
STEPS = 200_000
"""Steps of training; each leads to a state drawn at random."""


def measure(kind: str, states: int, steps: int) -> dict[str, float]:
    """Make, train, save and load one learner."""
    import gymnasium as gym
    import numpy as np

    import chunked_td as ctd

    class Somewhere(gym.Env):
        """Every step leads to a state drawn at random; hashed ones are tuples."""

        observation_space = gym.spaces.Discrete(states)
        action_space = gym.spaces.Discrete(4)

        def show(self):
            place = int(self.np_random.integers(states))
            return place if kind == "fixed" else ("place", place)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.show(), {}

        def step(self, action):
            return self.show(), 1.0, bool(self.np_random.random() < 0.05), False, {}

    def make():
        indexer = None if kind == "fixed" else ctd.make_indexer()
        return ctd.ChunkedSarsa(env, indexer=indexer, step_size=0.1, seed=0)

    env = Somewhere()
    small = ctd.ChunkedSarsa(gym.make("FrozenLake-v1"))  # compile first, and count the imports
    small.learn(gym.make("FrozenLake-v1"), 2, progress=False)
    before = peak()
    found = {}
    begin = time.process_time()
    agent = make()
    if kind == "hashed":  # all ids at once, as a long run would have given them
        for place in range(states):
            agent.indexer(("place", place))
    found["make_s"] = time.process_time() - begin
    begin = time.process_time()
    agent.learn(env, steps=steps, progress=False)
    found["step_us"] = 1e6 * (time.process_time() - begin) / steps
    found["memory_mb"] = (peak() - before) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.ctd"
        begin = time.process_time()
        agent.save(path)
        found["save_s"] = time.process_time() - begin
        found["file_mb"] = path.stat().st_size / 1e6
        begin = time.process_time()
        again = ctd.load(path)
        found["load_s"] = time.process_time() - begin
        assert np.array_equal(again.tables.values, agent.tables.values)
        assert again.indexer.size == states
    found["memory_with_save_and_load_mb"] = (peak() - before) / 1e6
    return found


def peak() -> float:
    """The most memory that this process has held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Every part in a fresh process."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--part", nargs=3)
    arguments = parser.parse_args()
    if arguments.part:
        kind, states, steps = arguments.part
        print(json.dumps(measure(kind, int(states), int(steps))))
        return
    smaller = 100 if arguments.quick else 1
    print("| | memory | with save and load | make | a step | save | file | load |\n|---|---|---|---|---|---|---|---|")
    for title, (kind, states) in PARTS.items():
        command = [sys.executable, __file__, "--part", kind, str(states // smaller), str(STEPS // smaller)]
        got = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")[-2])
        print(
            f"| {title}{' ÷ 100' if arguments.quick else ''} | {got['memory_mb']:,.0f} MB | "
            f"{got['memory_with_save_and_load_mb']:,.0f} MB | {got['make_s']:.1f} s | {got['step_us']:.0f} µs | "
            f"{got['save_s']:.1f} s | {got['file_mb']:,.0f} MB | {got['load_s']:.1f} s |",
            flush=True,
        )


if __name__ == "__main__":
    main()
