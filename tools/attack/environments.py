"""Attacks by environments: one thing that they say is odd, at one moment, in every loop that plays in them."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tools.attack.api import strange, text_of
from tools.attack.inputs import ODD
from tools.attack.registry import Case, Found, Outcome, attack

SAID = ("observation", "reward", "terminated", "truncated", "mask")


def is_valid(what: str, value: Any) -> bool:
    """Whether an environment of five states, two actions and one reward may say this."""
    if isinstance(value, np.ndarray) and (value.shape == () or (what == "reward" and value.shape == (1,))):
        value = value.item()
    if what == "reward":
        try:
            return isinstance(value, bool | int | float | np.number | np.bool_) and math.isfinite(value)
        except (OverflowError, TypeError):
            return False
    if what == "mask":
        return value is None or (isinstance(value, list | tuple | np.ndarray) and np.shape(value) == (2,))
    whole = isinstance(value, bool | int | np.integer | np.bool_)
    return whole and 0 <= value < (5 if what == "observation" else 2)


def is_cell(value: Any) -> bool:
    """Whether networks may read this as a cell: a whole number of any dtype, alone or in one row."""
    try:
        row = np.asarray(value)
    except ValueError:
        return False
    return row.size == 1 and row.dtype.kind in "biuf" and float(np.float32(row.item())) in range(5)


@functools.cache
def lying() -> Any:
    """The class of a walk on five cells that says one odd thing."""
    import gymnasium as gym

    class Lying(gym.Env):
        observation_space, action_space = gym.spaces.Discrete(5), gym.spaces.Discrete(2)

        def __init__(self, what: str, value: Any, moment: int, ignored: str = ""):
            self.what, self.value, self.moment, self.steps, self.unread = what, value, moment, 0, True
            self.ignored = ignored

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self.cell, self.left = 2, 20
            return self.cell, {"action_mask": [1, 1]}

        def step(self, action: Any) -> Any:
            self.cell, self.steps = min(max(self.cell + 2 * int(action) - 1, 0), 4), self.steps + 1
            said: dict[str, Any] = {"observation": self.cell, "reward": 0.5, "terminated": self.cell in (0, 4)}
            self.left -= 1
            said |= {"truncated": self.left == 0, "mask": [1, 1]}
            if self.steps == self.moment:  # nobody asks what is legal after the end
                self.unread = (said["terminated"] or said["truncated"]) and self.what in ("mask", self.ignored)
                said[self.what] = self.value
            info = {"action_mask": said["mask"]} if said["mask"] is not None else {}
            return said["observation"], said["reward"], said["terminated"], said["truncated"], info

    return Lying


@functools.cache
def agents() -> dict[str, Any]:
    """A learner with a table and one with a network, which have learned a little; compiled."""
    import chunked_td as ctd
    from chunked_td.deep import DeepLearner

    env = lying()("reward", 0.5, 0)
    table, network = ctd.ChunkedSarsa(env, seed=0), DeepLearner(env, "sarsa", hidden=(4,))
    table.learn(env, 3, progress=False)
    network.learn(env, 3, progress=False)
    return {"table": table, "network": network}


def loops() -> dict[str, Callable[[Any], Any]]:
    """Everything that plays in an environment."""
    import chunked_td as ctd
    from chunked_td.indexing import make_indexer
    from chunked_td.lab.comparison import facts

    facts.STEPS = 40
    table, network = agents()["table"], agents()["network"]
    return {
        "learn": lambda env: ctd.ChunkedSarsa(env, seed=0).learn(env, 8, progress=False),
        "evaluate": lambda env: table.evaluate(env, 8),
        "explain": lambda env: [table.explain(env) for _ in range(8)],
        "record": lambda env: ctd.ChunkedSarsa(env, seed=0).learn(ctd.Recorder(env), 8, progress=False),
        "facts": lambda env: facts._played(env, make_indexer(env.observation_space), masks=True),
        "networks learn": lambda env: network.learn(env, 30, progress=False),
        "networks evaluate": lambda env: network.evaluate(env, 8),
    }


@attack("environments: one thing that they say is odd", prepare=loops, megabytes=1024.0)
def environment(case: Case) -> Outcome:
    """Refused by its name, or it was something that an environment may say."""
    from chunked_td import Diverged

    what = str(case.rng.choice(SAID))
    value = ODD[int(case.rng.integers(len(ODD)))] if case.rng.random() < 0.5 else strange(case.rng)
    played = loops()
    loop = list(played)[int(case.rng.integers(len(played)))]
    network, last = loop.startswith("networks"), "observation" if loop.endswith("evaluate") else ""
    env = lying()(what, value, int(case.rng.integers(1, 12)), last)  # who does not learn reads no last observation
    case.say(f"{loop}: {what} is {text_of(value)} in step {env.moment}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            played[loop](env)
        except Diverged:
            return Outcome.HARMLESS
        except (ValueError, TypeError) as error:
            if what not in str(error):
                raise Found(Outcome.TRACEBACK, f"the error does not name {what}: {error}") from error
            return Outcome.REFUSED
    unread = env.unread or (network and what == "mask")
    if not unread and not is_valid(what, value) and not (network and what == "observation" and is_cell(value)):
        raise Found(Outcome.SILENT, f"{text_of(value)} was taken for {what}")
    return Outcome.HARMLESS
