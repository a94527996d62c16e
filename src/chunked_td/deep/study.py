"""The study: fixed λ and every source on every task, for streaming learners and PPO. Judged by `criteria`.

Arms of a group, all step sizes and all seeds are one program: every run asks all sources of its group and uses one
(`DeepSwitch`). All arms share tasks, first networks and random numbers.

    python -m chunked_td.deep.study --size quick --out DIR             # writes study.npz and study.json
    python -m chunked_td.deep.study --size full --agents sarsa --out DIR
    python -m chunked_td.deep.study --size full --tasks gymnax-catch xland-door-key --out DIR    # tasks of others
    python -m chunked_td.deep.study --costs --out DIR                  # seconds of training with each source alone
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chunked_td.deep.criteria import FIXED
from chunked_td.deep.lambdas import (
    SOURCES,
    DeepConstant,
    DeepLambda,
    DeepPercepts,
    DeepSwitch,
    DeepTrueModel,
    DeepValueKernel,
)
from chunked_td.deep.training import DeepAgent, make_settings, start_fleet, train_curve, train_fleet
from chunked_td.envs.tasks import OTHERS, TASKS, make_task_by_name

log = logging.getLogger(__name__)

GROUPS: dict[str, dict[str, DeepLambda]] = {
    "heads": {
        "value-kernel": SOURCES["value"],
        "value-kernel-1": DeepValueKernel(c=1.0),
        "lambda-greedy": SOURCES["greedy"],
        "true-kernel": SOURCES["true-kernel"],
        "true-kernel-1": DeepTrueModel("kernel", c=1.0),
        "true-expected": SOURCES["true-expected"],
        "true-per-action": SOURCES["true-per-action"],
        "true-realised": SOURCES["true-realised"],
    },
    "percepts": {"expected": SOURCES["expected"], "realised": SOURCES["forward"]},
    "meta": {"meta-gradient": SOURCES["meta-gradient"]},
}
"""Arms besides fixed λ, by what runs in one program; fixed λ run with the first group."""


@dataclass(frozen=True)
class StudySize:
    """A size of the study.

    Attributes:
      tasks: names. steps: transitions per run and agent. blocks: points of a learning curve.
      tuning, seeds: how many seeds choose the step size, and how many others are judged.
      step_sizes: the grid of each agent. arms: these alone; empty is all.
    """

    tasks: tuple[str, ...]
    steps: dict[str, int]
    blocks: int
    tuning: int
    seeds: int
    step_sizes: dict[str, tuple[float, ...]]
    arms: tuple[str, ...] = ()


STREAMING = ("sarsa", "q", "actor-critic")
GRIDS = {**dict.fromkeys(STREAMING, (1.0, 0.3, 0.1)), "ppo": (3e-3, 1e-3, 3e-4)}
_QUICK = {agent: grid[:1] for agent, grid in GRIDS.items()}

SIZES = {
    "quick": StudySize(("charge",), dict.fromkeys(GRIDS, 2_000), 4, 1, 2, _QUICK),
    "full": StudySize(tuple(TASKS), {**dict.fromkeys(STREAMING, 60_000), "ppo": 160_000}, 20, 10, 20, GRIDS),
}


def sources_of(agent: str, group: str) -> dict[str, DeepLambda]:
    """The sources of a group that an agent can use."""
    return {name: source for name, source in GROUPS[group].items() if agent != "ppo" or not source.streaming_only}


def design(size: StudySize, agent: str, group: str) -> list[dict[str, Any]]:
    """One row per run: arm, λ or number of its source, step size, seed."""
    fixed = FIXED if group == next(iter(GROUPS)) else ()
    rows = design_rows(fixed, tuple(sources_of(agent, group)), size.step_sizes[agent], size.tuning + size.seeds)
    return [row for row in rows if not size.arms or row["arm"] in size.arms]


def design_rows(
    fixed: tuple[float, ...], sources: tuple[str, ...], step_sizes: tuple[float, ...], seeds: int
) -> list[dict[str, Any]]:
    """One row per run: fixed λ first, then the sources of a `DeepSwitch` in their order."""
    arms = [(str(x), 0, x) for x in fixed] + [(name, 1 + k, 0.0) for k, name in enumerate(sources)]
    names = ("arm", "index", "fixed", "step_size", "seed")
    return [
        dict(zip(names, (*arm, rate, seed), strict=True))
        for arm, rate, seed in itertools.product(arms, step_sizes, range(seeds))
    ]


def make_program(size: StudySize, agent: str, task: str, group: str) -> tuple[Any, Any]:
    """The compiled program of a group of arms on a task, and its arguments."""
    settings = make_settings(agent, **({} if agent == "ppo" else {"explore": max(1, size.steps[agent] // 10)}))
    made = DeepAgent(make_task_by_name(task), DeepSwitch(tuple(sources_of(agent, group).values())), settings)
    return fleet_program(made, design(size, agent, group), size.steps[agent] // size.blocks, size.blocks)


def fleet_program(made: DeepAgent, rows: list[dict[str, Any]], steps: int, blocks: int) -> tuple[Any, Any]:
    """The compiled program of all runs of a `DeepSwitch`, one per row of a design, and its arguments."""
    column = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    states = start_fleet(made, jnp.asarray(column["seed"], jnp.int32))
    chosen = states.source._replace(
        which=jnp.asarray(column["index"], jnp.int32), fixed=jnp.asarray(column["fixed"], jnp.float32)
    )
    arguments = (jnp.asarray(column["step_size"], jnp.float32), states._replace(source=chosen))
    return train_curve.lower(made, *arguments, steps, blocks).compile(), arguments


def run_program(
    program: Any, arguments: Any, rows: list[dict[str, Any]], tuning: int, about: dict[str, str]
) -> dict[str, np.ndarray]:
    """The learning curves of a program's runs: one row per run, with `about` in every row."""
    began = time.perf_counter()
    _, tally = jax.block_until_ready(program(*arguments))
    seconds = time.perf_counter() - began
    log.info("%s: %.1f s", ", ".join(about.values()), seconds)
    episodes = np.asarray(tally.episodes).T
    with np.errstate(invalid="ignore", divide="ignore"):
        curve = np.asarray(tally.score).T / episodes
        returns = np.asarray(tally.returns).T / episodes
    return {
        **{name: np.full(len(rows), value) for name, value in about.items()},
        "arm": np.array([row["arm"] for row in rows]),
        "step_size": np.array([row["step_size"] for row in rows], np.float32),
        "seed": np.array([row["seed"] for row in rows], np.int16),
        "judged": np.array([row["seed"] >= tuning for row in rows]),
        "curve": curve.astype(np.float32),
        "returns": returns.astype(np.float32),
        "mean_lambda": (np.asarray(tally.lambda_) / np.asarray(tally.steps)).T.astype(np.float32),
        "histogram": np.asarray(tally.histogram).sum(0).astype(np.float32),
        "seconds": np.full(len(rows), seconds, np.float32),
    }


def study(size: StudySize, agents: tuple[str, ...], tasks: tuple[str, ...]) -> Iterator[dict[str, np.ndarray]]:
    """Learning curves of every run so far, after each program: one row per run, curves [rows, blocks].

    Programs are compiled side by side.
    """
    wanted = {(agent, group) for agent in agents for group in GROUPS if design(size, agent, group)}
    jobs = [job for job in itertools.product(agents, tasks, GROUPS) if (job[0], job[2]) in wanted]
    tables: list[dict[str, np.ndarray]] = []
    with ThreadPoolExecutor(8) as pool:
        programs = [pool.submit(make_program, size, *job) for job in jobs]
        for (agent, task, group), future in zip(jobs, programs, strict=True):
            rows = design(size, agent, group)
            tables.append(run_program(*future.result(), rows, size.tuning, {"agent": agent, "task": task}))
            yield {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def costs(
    agents: tuple[str, ...],
    runs: int,
    steps: dict[str, int],
    task: str = "charge",
    clock: Callable[[], float] = time.perf_counter,
) -> list[dict[str, Any]]:
    """Seconds of training with each source alone, beside a fixed λ from the same code. Args: clock: what tells time."""
    rows = []
    for agent in agents:
        named: dict[str, DeepLambda] = {"0.95": DeepConstant(0.95)}
        for group in GROUPS:
            named |= {n: s for n, s in sources_of(agent, group).items() if not s.needs_draws}
        named["expected-32"] = DeepPercepts("expected", hidden=32)  # half the units of the study's model
        rates = jnp.full(runs, 1e-3 if agent == "ppo" else 0.3)

        def build(source: DeepLambda, agent: str = agent, rates: jax.Array = rates) -> tuple[Any, jax.Array, Any]:
            made = DeepAgent(make_task_by_name(task), source, make_settings(agent))
            states = start_fleet(made, jnp.arange(runs))
            return train_fleet.lower(made, rates, states, steps[agent]).compile(), rates, states

        with ThreadPoolExecutor() as pool:
            programs = dict(zip(named, pool.map(build, named.values()), strict=True))
        best = dict.fromkeys(programs, np.inf)
        for turn in range(4):  # programs take turns; the first turn warms up
            for name, (program, rates, states) in programs.items():
                began = clock()
                jax.block_until_ready(program(rates, states))
                if turn:
                    best[name] = min(best[name], clock() - began)
        for name, seconds in best.items():
            speed = runs * steps[agent] / seconds
            row = {"agent": agent, "source": name, "runs": runs, "seconds": seconds, "steps_per_second": speed}
            rows.append({**row, "ratio": seconds / best["0.95"]})
            log.info("%s", rows[-1])
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Run the study, or measure costs, and write what was found."""
    parser = argparse.ArgumentParser(prog="python -m chunked_td.deep.study", description=main.__doc__)
    parser.add_argument("--size", choices=SIZES, default="quick")
    parser.add_argument("--agents", nargs="+", choices=list(GRIDS), default=["sarsa"])
    parser.add_argument("--tasks", nargs="+", choices=[*TASKS, *OTHERS], default=None)
    parser.add_argument("--arms", nargs="+", default=[], help="these alone, such as meta-gradient or 0.95")
    parser.add_argument("--costs", action="store_true", help="time each source alone instead")
    parser.add_argument("--processor-time", action="store_true", help="of --costs on a CPU that others use, too")
    parser.add_argument("--runs", type=int, default=100, help="of each program of --costs")
    parser.add_argument("--steps", type=int, default=None, help="transitions per run, instead of the size's")
    parser.add_argument("--name", default="study", help="of the files")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    chosen = parser.parse_args(arguments)
    logging.basicConfig(format="%(message)s")
    log.setLevel(logging.INFO)
    size, agents = SIZES[chosen.size], tuple(chosen.agents)
    known = [*map(str, FIXED), *itertools.chain.from_iterable(GROUPS.values())]
    if unknown := [arm for arm in chosen.arms if arm not in known]:
        parser.error(f"--arms: got {', '.join(unknown)}, takes {', '.join(known)}")
    size = dataclasses.replace(size, arms=tuple(chosen.arms))
    if chosen.steps is not None:
        size = dataclasses.replace(size, steps=dict.fromkeys(size.steps, chosen.steps))
    chosen.out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    about: dict[str, Any] = {"device": str(jax.devices()[0].device_kind), "jax": jax.__version__, "agents": agents}
    if chosen.costs:
        clock = time.process_time if chosen.processor_time else time.perf_counter
        about["costs"] = costs(agents, chosen.runs, size.steps, clock=clock)
    else:
        about |= {"size": chosen.size, "settings": dataclasses.asdict(size)}
        for table in study(size, agents, chosen.tasks or size.tasks):
            np.savez_compressed(chosen.out / f"{chosen.name}.npz", **table)  # type: ignore[arg-type]
            about["rows"] = len(table["arm"])
    about["seconds"] = round(time.perf_counter() - began, 1)
    (chosen.out / f"{chosen.name}.json").write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
