"""`python -m tools.soak --minutes 60`: steps, saves, loads and threads over and over; memory must stay flat.

Two learners live all the time, one of them with a planner. Each round plays episodes in Gymnasium, saves and loads the
agents, and lets two threads use one agent at once. The memory of the process is read after every round. Exit code 1 if
it grew by more than `--megabytes` in the second half.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import threading
import time
from pathlib import Path

import gymnasium as gym

import chunked_td as ctd
from tools.attack.harness import _resident


def play_round(agents: list[ctd.Learner], env: gym.Env, folder: Path) -> list[ctd.Learner]:
    """One round; returns the agents as they were loaded."""
    loaded = []
    for agent in agents:
        agent.learn(env, 20, progress=False)
        agent.save(folder / "agent.ctd")
        loaded.append(ctd.load(folder / "agent.ctd"))
    threads = [threading.Thread(target=_use, args=(loaded[0], env)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return loaded


def _use(agent: ctd.Learner, env: gym.Env) -> None:
    for _ in range(50):
        try:
            agent.start(0)
            agent.step(1.0, 1, True)
        except RuntimeError as error:  # the other thread is at work, or has begun an episode
            if "in use" not in str(error):
                raise


def soak(minutes: float, rounds: int | None = None) -> list[int]:
    """Memory in kilobytes after every round, without the first, which compiles."""
    env = gym.make("FrozenLake-v1")
    agents: list[ctd.Learner] = [
        ctd.ChunkedSarsa(env, step_size=0.1, discount=0.9, epsilon=0.2, seed=0),
        ctd.ExpectedSarsaLambda(env, lambda_=0.9, step_size=0.1, discount=0.9, epsilon=0.2, seed=1, planner=ctd.Dyna()),
    ]
    memory: list[int] = []
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as folder:
        agents = play_round(agents, env, Path(folder))
        while time.monotonic() < end and (rounds is None or len(memory) < rounds):
            agents = play_round(agents, env, Path(folder))
            gc.collect()
            memory.append(_resident())
    return memory


def growth(memory: list[int]) -> float:
    """Megabytes between the middle and the end: medians of a tenth of the rounds at each."""
    tenth = max(len(memory) // 10, 1)
    middle, last = sorted(memory[len(memory) // 2 :][:tenth]), sorted(memory[-tenth:])
    return (last[len(last) // 2] - middle[len(middle) // 2]) / 1024


def main() -> int:
    """Exit code: 1 if memory grew."""
    parser = argparse.ArgumentParser(prog="python -m tools.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--megabytes", type=float, default=8.0)
    options = parser.parse_args()
    memory = soak(options.minutes)
    grown = growth(memory)
    print(f"{len(memory):,} rounds in {options.minutes:g} minutes; memory {memory[0] / 1024:.0f} to "
          f"{memory[-1] / 1024:.0f} MB, in the second half {grown:+.1f} MB")  # fmt: skip
    return int(grown > options.megabytes)


if __name__ == "__main__":
    sys.exit(main())
