"""Tasks as pure JAX functions, by name.

umbrella, umbrella-distractors   a choice at the start, noisy rewards, a verdict at the end
fan-in, fan-in-32                many first states, two corridors, noise at the end
catch, catch-wind                a grid of symbols, the reward is delayed
memory                           a cue to remember (the last percepts are the observation)
t-maze                           a signal to remember through a corridor whose cells look alike; agents need a memory
t-maze-look                      the signal must be fetched first, and prizes are random; likewise
t-maze-timed, t-maze-timed-active   the T-mazes of Ni et al. (2023), of 10 steps; likewise
charge, charge-mirrored          Accumulated-Charge and its mirror image
cart-pole                        continuous observations

Tasks written by others, and readers of the packages gymnax and XLand-MiniGrid, are in `foreign`.
"""

from __future__ import annotations

from typing import Any

from chunked_td._checks import check_choice
from chunked_td.envs.accumulated_charge.jax import ChargeTask
from chunked_td.envs.cart_pole.jax import CartPoleTask
from chunked_td.envs.catch.jax import CatchTask
from chunked_td.envs.fan_in.jax import FanInTask
from chunked_td.envs.foreign import OTHERS, GymnaxTask, XLandTask, make_foreign, make_other
from chunked_td.envs.jax_task import JaxTask, RecentPercepts
from chunked_td.envs.memory_chain.jax import MemoryTask
from chunked_td.envs.t_maze.jax import TimedTMazeTask, TMazeTask
from chunked_td.envs.umbrella.jax import UmbrellaTask

TASKS: dict[str, JaxTask] = {
    "umbrella": UmbrellaTask(noise=0.5),
    "umbrella-distractors": UmbrellaTask(noise=0.5, distractors=10),
    "catch": CatchTask(),
    "catch-wind": CatchTask(wind=0.2),
    "memory": RecentPercepts(MemoryTask(), 11),
    "charge": ChargeTask(),
    "charge-mirrored": ChargeTask(mirrored=True),
    "cart-pole": CartPoleTask(),
    "fan-in": FanInTask(),
    "fan-in-32": FanInTask(starts=32),
}
"""Tasks whose observations tell the state."""

HIDDEN_TASKS: dict[str, JaxTask] = {
    "t-maze": TMazeTask(),
    "t-maze-look": TMazeTask(numbered=True, look=True, prizes=4, walls=False),
    "t-maze-timed": TimedTMazeTask(),
    "t-maze-timed-active": TimedTMazeTask(active=True),
}
"""Tasks whose observations hide it: agents need a memory."""


def make_task_by_name(name: str) -> Any:
    """A task of ours or of `OTHERS` by its name; `gymnax:ID` or `xland:ID` where those packages are installed."""
    package, _, of = name.partition(":")
    if of and package == "gymnax":
        return GymnaxTask(*make_foreign("gymnax", of))
    if of and package == "xland":
        return XLandTask(*make_foreign("xminigrid", of), colours=True)
    tasks = {**TASKS, **HIDDEN_TASKS}
    check_choice("task", name, (*tasks, *OTHERS))
    return tasks[name] if name in tasks else make_other(name)
