"""Tasks as pure JAX functions, by name.

umbrella, umbrella-distractors   a choice at the start, noisy rewards, a verdict at the end
catch, catch-wind                a grid of symbols, the reward is delayed
memory                           a cue to remember (the last percepts are the observation)
charge, charge-mirrored          Accumulated-Charge and its mirror image
cart-pole                        continuous observations
"""

from __future__ import annotations

from typing import Any

from chunked_td._checks import check_choice
from chunked_td.deep.envs.cart_pole import CartPoleTask
from chunked_td.deep.envs.catch import CatchTask
from chunked_td.deep.envs.charge import ChargeTask
from chunked_td.deep.envs.gymnax import GymnaxTask
from chunked_td.deep.envs.memory import MemoryTask, RecentPercepts
from chunked_td.deep.envs.protocol import JaxTask, TaskStep
from chunked_td.deep.envs.umbrella import UmbrellaTask

TASKS: dict[str, JaxTask] = {
    "umbrella": UmbrellaTask(noise=0.5),
    "umbrella-distractors": UmbrellaTask(noise=0.5, distractors=10),
    "catch": CatchTask(),
    "catch-wind": CatchTask(wind=0.2),
    "memory": RecentPercepts(MemoryTask(), 11),
    "charge": ChargeTask(),
    "charge-mirrored": ChargeTask(mirrored=True),
    "cart-pole": CartPoleTask(),
}


def make_task_by_name(name: str) -> Any:
    """A task of ours by its name, or `gymnax:ID` where gymnax is installed."""
    if name.startswith("gymnax:"):
        import gymnax  # pyright: ignore[reportMissingImports]

        return GymnaxTask(*gymnax.make(name.partition(":")[2]))
    return TASKS[check_choice("task", name, TASKS)]


__all__ = [
    "TASKS",
    "CartPoleTask",
    "CatchTask",
    "ChargeTask",
    "GymnaxTask",
    "JaxTask",
    "MemoryTask",
    "RecentPercepts",
    "TaskStep",
    "UmbrellaTask",
    "make_task_by_name",
]
