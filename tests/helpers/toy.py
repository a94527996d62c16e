"""A protocol in a file of its own, as a user would write one, with a runner that needs neither Numba nor time.

Environment variables make it misbehave: TOY_SLEEP (seconds per batch), TOY_FAIL (the λ whose batches raise),
TOY_HOLD (the λ whose batches do not end), TOY_KILL (a file: whoever removes it dies by SIGKILL, once).
"""

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from chunked_td.lab.study import (
    Arm,
    Environment,
    NetworkSpec,
    Protocol,
    Selection,
    Size,
    constant_arms,
    misses_and_returns,
)
from chunked_td.learners.schedule import Schedule


def network(dynamics):
    raise NotImplementedError("the toy has no network; tests stand in for it")


class Nothing:
    @classmethod
    def make(cls, **arguments):
        return cls()


def run(dynamics, *, lambda_source, seeds, step_sizes, episodes, record_at, epsilon, threads=None, **rest):
    time.sleep(float(os.environ.get("TOY_SLEEP", "0")))
    if str(lambda_source) == os.environ.get("TOY_FAIL"):
        raise ValueError(f"asked to fail at λ = {lambda_source}")
    if str(lambda_source) == os.environ.get("TOY_HOLD"):
        time.sleep(3_600)
    fuse = os.environ.get("TOY_KILL")
    if fuse:
        try:
            Path(fuse).unlink()
        except FileNotFoundError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    misses, returns = [], []
    for seed, step_size in zip(seeds, step_sizes, strict=True):
        rng = np.random.default_rng([int(seed), int(step_size * 2**40), int(float(lambda_source) * 100)])
        missed = rng.random(episodes) < epsilon * (0.3 + 0.4 * float(lambda_source))
        misses.append(np.cumsum(missed)[np.asarray(record_at) - 1])
        returns.append(rng.random(len(record_at)))
    return SimpleNamespace(misses_at=np.array(misses), returns_at=np.array(returns))


PROTOCOL = Protocol(
    id="toy",
    title="Toy",
    environment=Environment(Nothing),
    arms=(
        *constant_arms("sarsa", "SARSA", (0.0, 0.5, 1.0), "sarsa"),
        Arm("net", "With a network", "sarsa", 0.2, NetworkSpec("toy", network)),
    ),
    exponents=(0, -1),
    episodes=40,
    record=((100, 10),),
    exploration=Schedule(((0, 1.0), (10, 0.5)), hold=True),
    scoring=misses_and_returns,
    score_label="misses",
    selection=Selection("least mean"),
    seeds=20,
    smoke=Size(seeds=2, episodes=10),
    steps_per_episode=10,
    runner=run,
)
