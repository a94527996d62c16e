"""The study with hidden state: fixed λ and λ from a recurrent percept model, in tasks that need a memory.

Every run, whatever its λ, has the same memory: a recurrent percept model trained on the run's own stream
(`chunked_td.deep.memory`). It is judged by `criteria`. A protocol is an agent, a memory, a task and its length N.

    t-maze         a signal at the start, a corridor of N cells that look alike, a junction (Bakker 2002)
    t-maze-look    the signal must be fetched by an action at the start; cells are numbered, without walls; prizes are
                   random
    memory-chain   gymnax's MemoryChain (bsuite), memory_length N: what was shown first is asked for last. Needs gymnax
"""

from __future__ import annotations

import itertools
from typing import Any

from chunked_td._checks import check_choice
from chunked_td.lab.studies.deep.protocol import agent_protocol
from chunked_td.lab.study import Environment, Protocol, Study

ARMS = ("recurrent", "recurrent-realised", "true-expected", "true-realised")
"""Besides fixed λ."""
AGENTS = ("sarsa", "actor-critic", "ppo")
MEMORIES = ("state", "kept")
TASKS = ("t-maze", "t-maze-look", "memory-chain")
LENGTHS = (5, 10, 20, 50, 100)


def hidden_protocols(profile: str) -> list[Protocol]:
    """Every agent with every memory on every task; one short maze and tiny where the profile is not "paper"."""
    tiny = profile != "paper"
    tasks, lengths = (TASKS[:1], (3,)) if tiny else (TASKS, LENGTHS)
    return [
        agent_protocol(
            f"hidden-{agent}-{memory}-{task}-{n}",
            f"{agent}, values read the memory's {memory}, {task}, N = {n}",
            Environment("chunked_td.lab.studies.hidden.protocol:make_hidden_task", {"name": task, "length": n}),
            agent,
            steps=100_000,
            groups=(ARMS,),
            tiny=tiny,
            explore=600 if tiny else 30_000,
            memory=memory,
        )
        for agent, memory, task, n in itertools.product(AGENTS, MEMORIES, tasks, lengths)
    ]


def make_hidden_task(name: str, length: int) -> Any:
    """A task of the study."""
    from chunked_td.envs.jax_task import CodedPercepts
    from chunked_td.envs.spaces import Continuous
    from chunked_td.envs.tasks import GymnaxTask, TMazeTask, make_foreign

    check_choice("task", name, TASKS)
    if name == "memory-chain":
        env, params = make_foreign("gymnax", "MemoryChain-bsuite")
        space = Continuous((0.0, 0.0, -1.0), (1.0, 1.0, 1.0), bins=(length + 1, 2, 3))
        return CodedPercepts(GymnaxTask(env, params.replace(memory_length=length), space, (-1.0, 1.0)))
    if name == "t-maze-look":
        return TMazeTask(length, numbered=True, look=True, prizes=4, walls=False)
    return TMazeTask(length)


STUDY = Study(
    "hidden",
    "Hidden state: memory, and λ from the history",
    hidden_protocols,
    order=63,
    table="runs.parquet",
    by_default=False,
)
