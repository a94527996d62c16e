"""Tasks as pure JAX functions, by name.

umbrella, umbrella-distractors   a choice at the start, noisy rewards, a verdict at the end
catch, catch-wind                a grid of symbols, the reward is delayed
memory                           a cue to remember (the last percepts are the observation)
t-maze                           a signal to remember through a corridor whose cells look alike; agents need a memory
t-maze-look                      the signal must be fetched first, and prizes are random; likewise
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
from chunked_td.deep.envs.memory import CodedPercepts, MemoryTask, RecentPercepts
from chunked_td.deep.envs.protocol import JaxTask, TaskStep
from chunked_td.deep.envs.t_maze import TMazeTask
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
"""Tasks whose observations tell the state."""

HIDDEN_TASKS: dict[str, JaxTask] = {
    "t-maze": TMazeTask(),
    "t-maze-look": TMazeTask(numbered=True, look=True, prizes=4, walls=False),
}
"""Tasks whose observations hide it: agents need a memory."""


def make_task_by_name(name: str) -> Any:
    """A task of ours by its name, or `gymnax:ID` where gymnax is installed."""
    if name.startswith("gymnax:"):
        import gymnax  # pyright: ignore[reportMissingImports]

        return GymnaxTask(*gymnax.make(name.partition(":")[2]))
    tasks = {**TASKS, **HIDDEN_TASKS}
    return tasks[check_choice("task", name, tasks)]


__all__ = [
    "HIDDEN_TASKS",
    "TASKS",
    "CartPoleTask",
    "CatchTask",
    "ChargeTask",
    "CodedPercepts",
    "GymnaxTask",
    "JaxTask",
    "MemoryTask",
    "RecentPercepts",
    "TMazeTask",
    "TaskStep",
    "UmbrellaTask",
    "make_task_by_name",
]
