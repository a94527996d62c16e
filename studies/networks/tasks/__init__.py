"""Tasks as pure JAX functions, by name.

umbrella, umbrella-distractors   a choice at the start, noisy rewards, a verdict at the end
catch, catch-wind                a grid of symbols, the reward is delayed
memory                           a cue to remember (the last percepts are the observation)
charge, charge-mirrored          Accumulated-Charge and its mirror image
cart-pole                        continuous observations

For agents with a memory:

t-maze                           a signal to remember through a corridor whose cells look alike (passive)
t-maze-look                      the signal must be fetched first (active), and prizes are random
t-maze-timed                     the passive T-maze of Ni et al. (2023)

Tasks of the packages gymnax and XLand-MiniGrid are in `others`.
"""

from __future__ import annotations

from typing import Any

from studies.networks.tasks.base import JaxTask, RecentPercepts
from studies.networks.tasks.others import make_other
from studies.networks.tasks.ours import CartPoleTask, CatchTask, ChargeTask, MemoryTask, UmbrellaTask
from studies.networks.tasks.t_maze import TimedTMazeTask, TMazeTask

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
"""Tasks whose observations determine the state."""


def make_task(name: str, length: int = 0) -> Any:
    """Return a task by its name. Args: length: N, for tasks with hidden state."""
    if name == "t-maze":
        return TMazeTask(length)
    if name == "t-maze-look":
        return TMazeTask(length, numbered=True, look=True, prizes=4, walls=False)
    if name == "t-maze-timed":
        return TimedTMazeTask(length)
    return make_other(name, length) if name not in TASKS else TASKS[name]
