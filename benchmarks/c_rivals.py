"""The rivals in C (`rivals.c`): compiled with the C compiler at hand, called through ctypes."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td.learners.core import STEP_SIZE
from chunked_td.simulation import Run

FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC")
NOTICE = "no C compiler (cc) found: comparisons with C are left out"


@functools.cache
def library() -> Any:
    """The compiled rivals, or None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    target = Path(tempfile.mkdtemp(prefix="chunked-td-bench-")) / "rivals.so"
    subprocess.run([compiler, *FLAGS, str(Path(__file__).with_name("rivals.c")), "-o", str(target)], check=True)
    loaded = ctypes.CDLL(str(target))
    loaded.backward_pass.restype = None
    for name in ("accumulated_charge", "chain_and_split", "key_to_door"):
        getattr(loaded, name).restype = ctypes.c_int64
    return loaded


def call(name: str, *arguments: Any) -> int:
    """Call a rival with arrays, whole numbers and floats."""
    return prepared(name, *arguments)()


def prepared(name: str, *arguments: Any) -> Callable[[], int]:
    """The same call, its arguments already turned into C's. The arrays must stay alive."""
    return functools.partial(getattr(library(), name), *map(_as_c, arguments))


def _as_c(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int64(value)


class Rival:
    """A run in C, with the random numbers of `run` and tables of its own.

    Args:
      run: ours, before its first episode.
      kind: function of `rivals.c`.
      episodes: how many to play.
    """

    def __init__(self, run: Run, kind: str, episodes: int):
        self.run, self.kind, self.episodes = run, kind, episodes
        self.values = np.zeros_like(run.values)
        self.totals = np.zeros(run.values.shape[0], np.int64)
        slots = 1
        while slots < 8 * self.values.size and slots < 1 << 19:
            slots *= 2
        self.table, self.mask = np.zeros((slots, 2), np.int64), slots - 1
        T, d = run.env.horizon, self.values.shape[1]
        self.rows, self.delta, self.lambda_ = np.zeros(T, np.int64), np.zeros((T, d)), np.zeros((T, d))
        self.streams = [draws.stream.words.copy() for draws in run.draws[:2]]

    def play(self) -> int:
        """Play all episodes; returns the regretful ones."""
        env, run = self.run.env, self.run
        rest = (*self.streams, self.episodes, float(run.epsilons[0]))
        learning = (run.agent.rule.discount, float(run.work["rates"][STEP_SIZE]))
        counting = (self.table, self.mask, self.totals, self.rows, self.delta, self.lambda_)
        if self.kind == "accumulated_charge":
            numbers = (env.horizon, env.success, env.bonus, env.slope, env.cdf, env.guide, env.charging)
            constant = (run.agent.source.value, *learning, self.rows, self.delta)
            return call(self.kind, self.values, *numbers, *rest, *constant)
        if self.kind == "chain_and_split":
            numbers = (env.horizon, env.n_actions, env.width, env.chain_reward, env.leaf_rewards)
        else:
            numbers = (env.horizon, env.distractors, env.weights)
        return call(self.kind, self.values, *numbers, *rest, *learning, *counting)
