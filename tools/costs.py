"""Measure what training costs: λ sources of deep learners beside a fixed λ, and the history compressor per symbol.

python tools/costs.py deep --agents sarsa ppo --runs 100 --out costs.json
python tools/costs.py luck --agents sarsa ppo --runs 100 --out costs.json
python tools/costs.py compression --out costs.parquet
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chunked_td._files import write_table
from chunked_td.compression.criteria import Criterion
from chunked_td.compression.training import start_runs, train_runs
from chunked_td.deep.lambdas import DeepLambda, DeepPercepts, read_source
from chunked_td.deep.training import make_agent, start_fleet, train_fleet
from chunked_td.envs.tasks import make_task_by_name
from chunked_td.lab.studies.compression.runner import CompressionRunner
from chunked_td.lab.studies.compression.tasks import make_task
from chunked_td.lab.studies.deep.protocol import deep_protocols, groups_of
from chunked_td.lab.studies.deep.runner import parts_of, source_of
from chunked_td.lab.studies.luck.protocol import ADDED, PLAIN
from chunked_td.lab.study import Arm


def deep(
    out: Path,
    agents: tuple[str, ...] = ("sarsa",),
    runs: int = 100,
    steps: int | None = None,
    task: str = "charge",
    processor_time: bool = False,
) -> None:
    """Time of training with each λ source alone, beside a fixed λ from the same code.

    Args:
      out: file to write. steps: transitions per run, instead of the study's.
      processor_time: seconds of the processor, for a CPU that others use, too.
    """

    def named(agent: str) -> dict[str, DeepLambda]:
        sources: dict[str, DeepLambda] = {name: source_of(name) for group in groups_of(agent) for name in group}
        sources = {name: source for name, source in sources.items() if not source.needs_draws}
        return sources | {"expected-32": DeepPercepts("expected", hidden=32)}  # half the units of the study's model

    _write_costs(out, named, agents, runs, steps, task, processor_time)


def luck(
    out: Path,
    agents: tuple[str, ...] = ("sarsa",),
    runs: int = 100,
    steps: int | None = None,
    task: str = "charge",
    processor_time: bool = False,
) -> None:
    """The same for the arms of the study of maturity and luck."""

    def named(_: str) -> dict[str, DeepLambda]:
        return {name: read_source(parts_of(name)[0].replace("-mature", "+mature")) for name in (*PLAIN, *ADDED)}

    _write_costs(out, named, agents, runs, steps, task, processor_time)


def _write_costs(
    out: Path, named: Any, agents: tuple[str, ...], runs: int, steps: int | None, task: str, processor_time: bool
) -> None:
    clock = time.process_time if processor_time else time.perf_counter
    whole = {protocol.arms[0].learner: protocol.episodes for protocol in deep_protocols("paper")}
    found = [row for a in agents for row in costs_of(a, named(a), runs, steps or whole[a], task, clock)]
    about = {"device": jax.devices()[0].device_kind, "jax": jax.__version__, "task": task, "costs": found}
    out.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def costs_of(
    agent: str, sources: dict[str, DeepLambda], runs: int, steps: int, task: str, clock: Callable[[], float]
) -> list[dict[str, Any]]:
    """One row per arm of an agent. Args: sources: by the names of arms, which say how many draws a TD error has."""
    named = {"0.95": read_source("0.95")} | sources
    rates = jnp.full(runs, 1e-3 if agent == "ppo" else 0.3)

    def build(name: str) -> tuple[Any, Any]:
        made = make_agent(agent, make_task_by_name(task), named[name], luck=parts_of(name)[1])
        states = start_fleet(made, jnp.arange(runs))
        return train_fleet.lower(made, rates, states, steps).compile(), states

    with ThreadPoolExecutor() as pool:
        programs = dict(zip(named, pool.map(build, named), strict=True))
    best = dict.fromkeys(programs, np.inf)
    for turn in range(4):  # programs take turns; the first turn warms up
        for name, (program, states) in programs.items():
            began = clock()
            jax.block_until_ready(program(rates, states))
            if turn:
                best[name] = min(best[name], clock() - began)
    rows = []
    for name, seconds in best.items():
        row = {"agent": agent, "source": name, "runs": runs, "seconds": seconds}
        rows.append({**row, "steps_per_second": runs * steps / seconds, "ratio": seconds / best["0.95"]})
        print(rows[-1], flush=True)
    return rows


def compression(out: Path, ns: tuple[int, ...] = (50, 100, 200, 500, 1_000), repeats: int = 5) -> None:
    """Seconds per symbol of online training, by length, when every symbol goes up (the dearest case).

    One run, two levels, batches of one sequence, an update per window, arrays with room for the longest. The least of
    several timings is taken.
    """
    import polars as pl

    runner = CompressionRunner(("known",), ns, unroll=5)
    plan = runner.plan(Arm("compressor-gru", "", "compressor", "gru"))
    plan = plan._replace(online=True, criterion=Criterion("threshold", math.inf))
    rows = []
    for n in ns:
        keys = jax.random.key(0)[None]
        kinds = make_task("known", n, runner.room, runner.alphabet).kinds[[0, 1] * 5]
        items = jnp.asarray(kinds)[None, :, None, :, None]
        given = (start_runs(plan, keys), items, jnp.full(items.shape[:3], n + 2, jnp.int32), jnp.full(1, 0.01), keys)
        seconds = []
        for _ in range(1 + repeats):
            began = time.perf_counter()
            jax.block_until_ready(train_runs(plan, *given))
            seconds.append(time.perf_counter() - began)
        rows.append({"n": n, "seconds_per_symbol": min(seconds) / (items.shape[1] * (n + 2))})
        print(rows[-1], flush=True)
    write_table(out, pl.DataFrame(rows))


if __name__ == "__main__":
    import tyro

    tyro.extras.subcommand_cli_from_dict({"deep": deep, "luck": luck, "compression": compression})
