"""Tasks as pure JAX functions, by name.

umbrella, umbrella-distractors   a choice at the start, noisy rewards, a verdict at the end
catch, catch-wind                a grid of symbols, the reward is delayed
memory                           a cue to remember (the last percepts are the observation)
t-maze                           a signal to remember through a corridor whose cells look alike; agents need a memory
t-maze-look                      the signal must be fetched first, and prizes are random; likewise
t-maze-timed, t-maze-timed-active   the T-mazes of Ni et al. (2023), of 10 steps; likewise
charge, charge-mirrored          Accumulated-Charge and its mirror image
cart-pole                        continuous observations

Tasks of the packages gymnax and XLand-MiniGrid are in `others`.
"""

from __future__ import annotations

from typing import Any

from chunked_td._checks import check_choice
from studies.networks.spaces import Continuous
from studies.networks.tasks.base import CodedPercepts, JaxTask, RecentPercepts
from studies.networks.tasks.cart_pole import CartPoleTask
from studies.networks.tasks.catch import CatchTask
from studies.networks.tasks.charge import ChargeTask
from studies.networks.tasks.memory_chain import MemoryTask
from studies.networks.tasks.others import OTHERS, GymnaxTask, make_foreign, make_other
from studies.networks.tasks.t_maze import TimedTMazeTask, TMazeTask
from studies.networks.tasks.umbrella import UmbrellaTask

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
    "t-maze-timed": TimedTMazeTask(),
    "t-maze-timed-active": TimedTMazeTask(active=True),
}
"""Tasks whose observations hide it: agents need a memory."""


def make_task(name: str, length: int = 0) -> Any:
    """A task of ours or of `OTHERS` by its name. Args: length: N of the tasks with hidden state."""
    if length:
        return make_hidden_task(name, length)
    tasks = {**TASKS, **HIDDEN_TASKS}
    check_choice("task", name, (*tasks, *OTHERS))
    return tasks[name] if name in tasks else make_other(name)


def make_hidden_task(name: str, length: int) -> Any:
    """A task that needs a memory over about `length` steps."""
    check_choice("task", name, ("t-maze", "t-maze-look", "t-maze-timed", "memory-chain"))
    if name == "memory-chain":
        env, params = make_foreign("gymnax", "MemoryChain-bsuite")
        space = Continuous((0.0, 0.0, -1.0), (1.0, 1.0, 1.0), bins=(length + 1, 2, 3))
        return CodedPercepts(GymnaxTask(env, params.replace(memory_length=length), space, (-1.0, 1.0)))
    if name == "t-maze-timed":
        return TimedTMazeTask(length)
    if name == "t-maze-look":
        return TMazeTask(length, numbered=True, look=True, prizes=4, walls=False)
    return TMazeTask(length)
