"""Tasks written by others, by name, as the study uses them.

gymnax-umbrella               UmbrellaChain of bsuite, chain_length 20
gymnax-umbrella-distractors   the same with 20 distractors
gymnax-catch                  Catch of bsuite, 10 × 5; the reward comes where an episode ends
gymnax-cart-pole              CartPole-v1
xland-door-key                MiniGrid-DoorKey-5x5 of XLand-MiniGrid: fetch a key, open a door; no noise

Chain length and distractors are those that bsuite's two experiments with umbrellas hold fixed; everything else is as
the packages have it. They are installed by `pip install 'chunked-td[jax-tasks]'`.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from chunked_td._checks import check_choice
from chunked_td.deep.envs.gymnax import GymnaxTask
from chunked_td.deep.envs.memory import CodedPercepts
from chunked_td.deep.envs.xland import XLandTask
from chunked_td.deep.spaces import Continuous

OTHERS = (
    "gymnax-umbrella",
    "gymnax-umbrella-distractors",
    "gymnax-catch",
    "gymnax-cart-pole",
    "xland-door-key",
)

_CHAIN = 20
_DISTRACTORS = 20


@functools.cache
def make_other(name: str) -> Any:
    """A task of `OTHERS`; always the same object, because programs are compiled per task."""
    check_choice("task", name, OTHERS)
    if name == "xland-door-key":
        return XLandTask(*make_foreign("xminigrid", "MiniGrid-DoorKey-5x5"))
    if name == "gymnax-catch":
        return GymnaxTask(*make_foreign("gymnax", "Catch-bsuite"), returns=(-1.0, 1.0))
    if name == "gymnax-cart-pole":
        bounds = (2.4, 3.0, 0.21, 3.0)  # of what is seen in balancing; gymnax's space is unbounded
        space = Continuous(tuple(-x for x in bounds), bounds)
        return GymnaxTask(*make_foreign("gymnax", "CartPole-v1"), space, (0.0, 500.0))
    return _umbrella(_DISTRACTORS if name.endswith("distractors") else 0)


def make_foreign(package: str, name: str, **settings: Any) -> tuple[Any, Any]:
    """(environment, parameters) as `package.make` gives them."""
    try:
        module = importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        message = f"task: {name!r} needs the package {package}: pip install 'chunked-td[jax-tasks]'"
        raise ValueError(message) from None
    return module.make(name, **settings)


def _umbrella(distractors: int) -> CodedPercepts:
    """Its observations are numbers between 0 and 1; a code per bit, and one per moment. The last step's reward, 1 or
    −1, is the score; the rewards before are noise."""
    env, params = make_foreign("gymnax", "UmbrellaChain-bsuite", n_distractor=distractors)
    bins = (2, 2, _CHAIN + 1, *(2,) * distractors)
    space = Continuous((0.0,) * len(bins), (1.0,) * len(bins), bins)
    return CodedPercepts(GymnaxTask(env, params.replace(chain_length=_CHAIN), space, (-1.0, 1.0), last_reward=True))
