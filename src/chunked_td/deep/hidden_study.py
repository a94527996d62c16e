"""The study with hidden state: fixed λ and λ from a recurrent percept model, in tasks that need a memory.

Every run, whatever its λ, has the same memory: a recurrent percept model trained on the run's own stream (`memory`).
It is judged by `hidden_criteria`.

    t-maze         a signal at the start, a corridor of N cells that look alike, a junction (Bakker 2002)
    t-maze-look    the signal must be fetched by an action at the start; cells are numbered, without walls; prizes are
                   random
    memory-chain   gymnax's MemoryChain (bsuite), memory_length N: what was shown first is asked for last. Needs gymnax

    python -m chunked_td.deep.hidden_study --size quick --out DIR       # writes hidden.npz and hidden.json
    python -m chunked_td.deep.hidden_study --size full --agents sarsa --memories kept --out DIR
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from chunked_td._checks import check_choice
from chunked_td.deep import study
from chunked_td.deep.criteria import FIXED
from chunked_td.deep.lambdas import SOURCES, DeepSwitch
from chunked_td.deep.memory import READS, RecurrentMemory
from chunked_td.deep.training import DeepAgent, make_settings
from chunked_td.envs.spaces import Continuous
from chunked_td.envs.tasks import CodedPercepts, GymnaxTask, TMazeTask, make_foreign

log = logging.getLogger(__name__)

ARMS = ("recurrent", "recurrent-realised", "true-expected", "true-realised")
"""Besides fixed λ."""
TASK_NAMES = ("t-maze", "t-maze-look", "memory-chain")


@dataclass(frozen=True)
class HiddenSize:
    """A size of the study.

    Attributes:
      tasks, lengths: names, and N. steps: transitions per run; PPO makes as many whole rollouts as fit into a block.
      explore: steps until ε is small; actor-critic and PPO have none.
      blocks: points of a learning curve.
      tuning, seeds: how many seeds choose the step size, and how many others are judged.
      step_sizes: the grid of each agent.
    """

    tasks: tuple[str, ...]
    lengths: tuple[int, ...]
    steps: int
    explore: int
    blocks: int
    tuning: int
    seeds: int
    step_sizes: dict[str, tuple[float, ...]]


SIZES = {
    "quick": HiddenSize(("t-maze",), (3,), 2_000, 600, 4, 1, 2, study.SIZES["quick"].step_sizes),
    "full": HiddenSize(TASK_NAMES, (5, 10, 20, 50, 100), 100_000, 30_000, 20, 10, 20, study.GRIDS),
}


def make_hidden_task(name: str, length: int) -> Any:
    """A task of the study."""
    check_choice("task", name, TASK_NAMES)
    if name == "memory-chain":
        env, params = make_foreign("gymnax", "MemoryChain-bsuite")
        space = Continuous((0.0, 0.0, -1.0), (1.0, 1.0, 1.0), bins=(length + 1, 2, 3))
        return CodedPercepts(GymnaxTask(env, params.replace(memory_length=length), space, (-1.0, 1.0)))
    if name == "t-maze-look":
        return TMazeTask(length, numbered=True, look=True, prizes=4, walls=False)
    return TMazeTask(length)


def hidden_study(
    size: HiddenSize, agents: tuple[str, ...], memories: tuple[str, ...]
) -> Iterator[dict[str, np.ndarray]]:
    """Learning curves of every run so far, after each program: one row per run, curves [rows, blocks]."""
    jobs = list(itertools.product(agents, memories, size.tasks, size.lengths))
    designs = {a: study.design_rows(FIXED, ARMS, size.step_sizes[a], size.tuning + size.seeds) for a in agents}
    tables: list[dict[str, np.ndarray]] = []

    def build(agent: str, reads: str, task: str, length: int) -> tuple[Any, Any]:
        memory = RecurrentMemory(reads)
        steps = size.steps // size.blocks // memory.window * memory.window
        made = DeepAgent(
            make_hidden_task(task, length),
            DeepSwitch(tuple(SOURCES[arm] for arm in ARMS)),
            make_settings(agent, memory=memory, **({} if agent == "ppo" else {"explore": size.explore})),
        )
        return study.fleet_program(made, designs[agent], steps, size.blocks)

    with ThreadPoolExecutor(12) as pool:
        programs = [pool.submit(build, *job) for job in jobs]
        for (agent, reads, task, length), future in zip(jobs, programs, strict=True):
            about = {"agent": agent, "memory": reads, "task": task, "length": str(length)}
            tables.append(study.run_program(*future.result(), designs[agent], size.tuning, about))
            yield {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def main(arguments: list[str] | None = None) -> None:
    """Run the study and write what was found."""
    parser = argparse.ArgumentParser(prog="python -m chunked_td.deep.hidden_study", description=main.__doc__)
    parser.add_argument("--size", choices=SIZES, default="quick")
    parser.add_argument("--agents", nargs="+", choices=list(study.GRIDS), default=["sarsa"])
    parser.add_argument("--memories", nargs="+", choices=READS, default=["kept"])
    parser.add_argument("--tasks", nargs="+", choices=TASK_NAMES, default=None)
    parser.add_argument("--lengths", nargs="+", type=int, default=None)
    parser.add_argument("--steps", type=int, default=None, help="transitions per run, instead of the size's")
    parser.add_argument("--name", default="hidden", help="of the files")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    chosen = parser.parse_args(arguments)
    logging.basicConfig(format="%(message)s")
    log.setLevel(logging.INFO)
    study.log.setLevel(logging.INFO)
    given = {name: getattr(chosen, name) for name in ("tasks", "lengths", "steps")}
    changes = {name: tuple(x) if isinstance(x, list) else x for name, x in given.items() if x is not None}
    size = dataclasses.replace(SIZES[chosen.size], **changes)
    chosen.out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    about: dict[str, Any] = {"device": str(jax.devices()[0].device_kind), "jax": jax.__version__}
    about |= {"agents": chosen.agents, "memories": chosen.memories, "settings": dataclasses.asdict(size)}
    for table in hidden_study(size, tuple(chosen.agents), tuple(chosen.memories)):
        np.savez_compressed(chosen.out / f"{chosen.name}.npz", **table)  # type: ignore[arg-type]
        about |= {"rows": len(table["arm"]), "seconds": round(time.perf_counter() - began, 1)}
        (chosen.out / f"{chosen.name}.json").write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
