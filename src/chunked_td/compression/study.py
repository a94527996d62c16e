"""The paper's claim put to the test: two-level Chunker-RNNs "easily solve" what a single network finds challenging.

Sec. 2.2 of the paper states it for two sequences that differ in their first symbol and, N steps later, in their
last; it reports no experiment. Here the compressor of two levels competes with single networks that have at least as
many parameters as both its levels together, on the tasks of `tasks`, for N from 5 to 1,000.

Arms. Each exists with plain (tanh) and with gated (GRU) networks.

    compressor   two levels; gradients within windows of 10 items
    truncated    one network; gradients within windows of 10 symbols
    full         one network; gradients through the whole sequence

Every network of every arm is updated once per batch of sequences, by Adam on its mean gradient. So no arm has more
updates than another; the compressor's online form, which has many per sequence, is measured in `costs` and used
nowhere else.

How it is judged. This was written before the first run of the study.

    solved       A check looks at test sequences of both kinds. It is passed if q ≥ 0.9 on each of them (q: see
                 `experiment`). A run has solved its task with the first of three passed checks in a row.
    sequences    How many training sequences a run had seen by then.

    The claim "easily solves" HOLDS if, on the task "known", one of the two compressors with one step size for all N
      (1) solves it in at least 95 % of the seeds at every N of the grid, and
      (2) needs at the largest N at most twice the median number of sequences that it needs at the smallest.
    It holds IN PART if (1) is true for every N up to 100 only, or (1) is true and (2) is not. Otherwise it FAILS.
    The claim that a standard RNN "finds it challenging" HOLDS if, on the same task, the plain network with full
    back-propagation solves it in fewer than half of the seeds for every N ≥ 100, at the best step size of each N.

What was chosen beforehand, on trials with N ≤ 100 and six seeds: the criterion "threshold" with 0.75 (with "hard", a
coin toss at the first symbol is predicted half of the time, and what goes up changes from batch to batch; `criteria`
measures that), batches of four sequences, 16 units per level, the step sizes, the length of "noise". Nothing was
chosen on N > 100.

    python -m chunked_td.compression.study --size quick --out DIR
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import json
import logging
import math
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chunked_td.compression.criteria import Criterion
from chunked_td.compression.experiment import Block, Check, ExperimentRuns, run_arm, run_block, stack_tasks, start
from chunked_td.compression.predictor import CELLS, Shape
from chunked_td.compression.tasks import alphabet_of, make_task
from chunked_td.compression.training import Plan, start_runs, train_runs

log = logging.getLogger(__name__)

SHARE = 0.9
IN_A_ROW = 3
EASY_RATE = 0.95
EASY_GROWTH = 2.0
HARD_RATE = 0.5
HARD_FROM = 100
LEAST_SEEDS = 20
LONGEST = 1_000
_ORDER = ("fails", "in part", "holds")

Table = dict[str, np.ndarray]
ARMS = tuple(itertools.product(("compressor", "truncated", "full"), CELLS))


@dataclass(frozen=True)
class Group:
    """Lengths that are run in one program, with the same budget."""

    ns: tuple[int, ...]
    updates: int
    tasks: tuple[str, ...]


@dataclass(frozen=True)
class Settings:
    """A size of the study.

    Attributes:
      groups: of the comparison. arms: what is compared, with the cells of the networks.
      variants: what `variants` tries; side: its group. cost_ns: lengths of `costs`.
      seeds: runs of every cell of the design. learning_rates: step sizes of Adam.
      hidden: units of each level of the compressor. window: items per gradient of "compressor" and "truncated".
      batch: sequences per update. check_every: updates between checks.
      threshold: of the criterion. foresight: weight of the automatizer's loss, in `variants`.
      unroll: steps per iteration of the compiled loops.
    """

    groups: tuple[Group, ...]
    side: Group
    cost_ns: tuple[int, ...]
    seeds: int
    learning_rates: tuple[float, ...]
    arms: tuple[tuple[str, str], ...] = ARMS
    variants: tuple[str, ...] = ("hard", "sampled", "automatizer")
    hidden: int = 16
    window: int = 10
    batch: int = 4
    check_every: int = 20
    tests: int = 4
    threshold: float = 0.75
    foresight: float = 1.0
    unroll: int = 1


MIDDLES = ("known", "noise", "half-noise", "distractors", "learned")

SIZES = {
    "quick": Settings(
        groups=(Group((5, 20, 40), 400, ("known",)),),
        side=Group((40,), 800, ("known",)),
        cost_ns=(50, 200, 800),
        seeds=4,
        learning_rates=(0.01,),
        arms=(("compressor", "gru"), ("truncated", "gru"), ("full", "gru"), ("full", "tanh")),
        variants=("hard", "automatizer"),
    ),
    "full": Settings(
        groups=(
            Group((5, 10, 20, 50), 1_500, MIDDLES),
            Group((100, 200), 700, MIDDLES),
            Group((500, 1_000), 350, MIDDLES),
            Group((5, 10, 20, 50), 1_000, ("distinct",)),  # apart, because its alphabet is larger
        ),
        side=Group((5, 10, 20, 50), 1_000, ("known",)),
        cost_ns=(50, 100, 200, 500, 1_000),
        seeds=20,
        learning_rates=(0.003, 0.01, 0.03),
        unroll=5,
    ),
}


class Job(NamedTuple):
    """One program: an arm on a group of lengths."""

    columns: dict[str, Any]  # what to write into the table beside what varies between runs
    plan: Plan
    group: Group
    room: int
    alphabet: int


def comparison(settings: Settings, pool: Executor) -> Callable[[], Table]:
    """Every arm on every task and length: one row per run."""
    jobs = [
        _job(settings, arm, cell, group) for group, (arm, cell) in itertools.product(settings.groups, settings.arms)
    ]
    return _submit(settings, jobs, pool)


def variants(settings: Settings, pool: Executor) -> Callable[[], Table]:
    """The compressor with other criteria for what goes up, and with an automatizer.

    What they are compared with, "threshold" and no automatizer, is in `comparison`. All run to the end of their budget,
    because the automatizer goes on after the task was solved. The question to it: does the lower level alone come to
    know the last symbol (columns `lowest_…`)?
    """
    jobs = []
    for variant in settings.variants:
        job = _job(settings, "compressor", "gru", settings.side)
        lower, upper = job.plan.shapes
        if variant == "automatizer":
            shapes = (lower._replace(foresees=True), upper)
            plan = job.plan._replace(foresight=settings.foresight, shapes=shapes)
        else:
            plan = job.plan._replace(criterion=Criterion(variant))
        jobs.append(job._replace(plan=plan, columns={**job.columns, "variant": variant}))
    return _submit(settings, jobs, pool, stop_early=False)


def costs(settings: Settings, _pool: Executor, repeats: int = 5) -> Callable[[], Table]:
    """Seconds per symbol of online training, by length, when every symbol goes up (the dearest case).

    One run, two levels, batches of one sequence, an update per window, arrays with room for the longest. The least of
    several timings is taken. It is compiled at once, while the pool is busy; call what is returned when it is idle.
    """
    job = _job(settings, "compressor", "gru", Group(settings.cost_ns, 0, ("known",)))
    plan = job.plan._replace(online=True, criterion=Criterion("threshold", math.inf))

    def arguments(n: int) -> tuple[Any, ...]:
        keys = jax.random.key(0)[None]
        kinds = make_task("known", n, job.room, job.alphabet).kinds[[0, 1] * 5]
        items = jnp.asarray(kinds)[None, :, None, :, None]
        return start_runs(plan, keys), items, jnp.full(items.shape[:3], n + 2, jnp.int32), jnp.full(1, 0.01), keys

    program = _compiled(train_runs.lower(plan, *arguments(settings.cost_ns[0])))

    def run() -> Table:
        rows = []
        for n in settings.cost_ns:
            given = arguments(n)
            seconds = min(_seconds(program, given) for _ in range(1 + repeats))
            rows.append({"n": n, "seconds_per_symbol": seconds / (given[1].shape[1] * (n + 2))})
        return _columns(rows)

    return run


def verdict(table: Table) -> dict[str, str]:
    """The two claims, judged by the rule at the top of this module, on the table of `comparison`."""
    hard = _select(table, task="known", arm="full", cell="tanh")
    claims = {"easily solves": "not tested", "a standard RNN finds it challenging": "not tested"}
    if len(np.unique(table["seed"])) < LEAST_SEEDS or table["n"].max() < LONGEST:
        return claims
    claims["easily solves"] = max((_easy(table, str(cell)) for cell in np.unique(table["cell"])), key=_ORDER.index)
    rates = [_best_rate(_select(hard, n=n)) for n in np.unique(hard["n"]) if n >= HARD_FROM]
    claims["a standard RNN finds it challenging"] = "holds" if max(rates) < HARD_RATE else "fails"
    return claims


def longest_solved(table: Table, arm: str, cell: str, task: str = "known") -> int:
    """The largest N of a task up to which `EASY_RATE` of the seeds solve it, at the best step size; or 0."""
    rows = _select(table, task=task, arm=arm, cell=cell)
    longest = 0
    for n in np.unique(rows["n"]):
        if _best_rate(_select(rows, n=n)) < EASY_RATE:
            break
        longest = int(n)
    return longest


def solved_at(q: np.ndarray) -> np.ndarray:
    """The first of `IN_A_ROW` passed checks in a row, per run: int[R], from q [R, checks]; −1 for none."""
    runs, checks = q.shape
    if checks < IN_A_ROW:
        return np.full(runs, -1)
    rows = np.lib.stride_tricks.sliding_window_view(q >= SHARE, IN_A_ROW, axis=1).all(-1)
    return np.where(rows.max(1), rows.argmax(1), -1)


def single_hidden(alphabet: int, hidden: int, cell: str) -> int:
    """Units of a single network that has at least as many parameters as both levels of the compressor."""
    both = sum(Shape(alphabet, level, hidden, cell).parameters for level in (0, 1))
    return next(units for units in itertools.count(hidden) if Shape(alphabet, 0, units, cell).parameters >= both)


def _easy(table: Table, cell: str) -> str:
    """The verdict on the compressor with this cell, at its best step size."""
    rows = _select(table, task="known", arm="compressor", cell=cell)
    return max(
        (_easy_at(_select(rows, learning_rate=rate)) for rate in np.unique(rows["learning_rate"])),
        key=_ORDER.index,
    )


def _easy_at(rows: Table) -> str:
    """The verdict on the compressor with one step size."""
    ns = np.unique(rows["n"])
    enough = {n: _select(rows, n=n)["solved"].mean() >= EASY_RATE for n in ns}
    if not all(enough.values()):
        return "in part" if all(enough[n] for n in ns if n <= HARD_FROM) else "fails"
    needed = [np.median(_solved_sequences(_select(rows, n=n))) for n in (ns[0], ns[-1])]
    return "holds" if needed[1] <= EASY_GROWTH * needed[0] else "in part"


def _solved_sequences(rows: Table) -> np.ndarray:
    """Sequences needed; a run that did not solve its task needs infinitely many."""
    return np.where(rows["solved"], rows["sequences"], np.inf)


def _best_rate(rows: Table) -> float:
    """The share of seeds that solved, at the step size with the greatest share."""
    return max(_select(rows, learning_rate=r)["solved"].mean() for r in np.unique(rows["learning_rate"]))


def _select(table: Table, **wanted: Any) -> Table:
    """The rows in which these columns have these values."""
    rows = np.logical_and.reduce([table[name] == value for name, value in wanted.items()])
    return {name: column[rows] for name, column in table.items()}


def _job(settings: Settings, arm: str, cell: str, group: Group) -> Job:
    alphabet = max(alphabet_of(task, n) for task in group.tasks for n in group.ns)
    room = max(group.ns) + 2
    if arm == "compressor":
        shapes = tuple(Shape(alphabet, level, settings.hidden, cell) for level in (0, 1))
    else:
        shapes = (Shape(alphabet, 0, single_hidden(alphabet, settings.hidden, cell), cell),)
    window = room if arm == "full" else settings.window
    criterion = Criterion("threshold", settings.threshold)
    plan = Plan(shapes, criterion, window, online=False, unroll=settings.unroll)
    size = sum(shape.parameters for shape in shapes)
    return Job({"arm": arm, "cell": cell, "parameters": size}, plan, group, room, alphabet)


def _runs(settings: Settings, job: Job) -> tuple[ExperimentRuns, list[dict[str, Any]]]:
    """All runs of a job, and the columns that say which is which."""
    design = itertools.product(job.group.tasks, job.group.ns, settings.learning_rates, range(settings.seeds))
    names = ("task", "n", "learning_rate", "seed")
    rows: list[dict[str, Any]] = [dict(zip(names, values, strict=True)) for values in design]
    made = {(r["task"], r["n"]): make_task(r["task"], r["n"], job.room, job.alphabet) for r in rows}
    tasks = stack_tasks([made[r["task"], r["n"]] for r in rows])
    rates = np.array([r["learning_rate"] for r in rows], np.float32)
    return ExperimentRuns(tasks, rates, np.array([r["seed"] for r in rows], np.int32)), rows


def _submit(settings: Settings, jobs: list[Job], pool: Executor, stop_early: bool = True) -> Callable[[], Table]:
    """Gives all jobs to the pool; the function returned waits for their rows."""
    running = [pool.submit(_run_job, settings, job, stop_early) for job in jobs]
    return lambda: _columns([row for future in running for row in future.result()])


def _run_job(settings: Settings, job: Job, stop_early: bool) -> list[dict[str, Any]]:
    """Compile and run one job: one row per run."""
    block = Block(settings.check_every, settings.batch, settings.tests)
    run, which = _runs(settings, job)

    def passed(q: np.ndarray) -> np.ndarray:
        return stop_early & (solved_at(q) >= 0)

    began = time.perf_counter()
    first = jnp.zeros((), jnp.int32)
    program = _compiled(run_block.lower(job.plan, block, start(job.plan, run.seeds), run, first))
    compiled = time.perf_counter() - began
    with contextlib.nullcontext() if jax.default_backend() == "cpu" else _DEVICE:
        began = time.perf_counter()
        _, checks = run_arm(job.plan, block, run, job.group.updates // block.updates, passed, program)
        spent = {"job_seconds": time.perf_counter() - began}
    log.info("%s, N = %s: %.1f + %.1f s", job.columns, job.group.ns, compiled, spent["job_seconds"])
    return [{**job.columns, **w, **r, **spent} for w, r in zip(which, _rows(block, checks), strict=True)]


def _compiled(lowered: Any) -> Any:
    """The program. On a CPU less is optimised: that takes a third less time, and programs run as fast."""
    return lowered.compile(
        compiler_options={"xla_backend_optimization_level": 1} if jax.default_backend() == "cpu" else None
    )


def _rows(block: Block, checks: Check) -> list[dict[str, Any]]:
    """What to write of each run of an arm."""
    per_check = block.updates * block.batch
    at, lowest = solved_at(checks.q), solved_at(checks.q_lowest)
    return [
        {
            "solved": bool(at[r] >= 0),
            "sequences": int((at[r] + 1) * per_check) if at[r] >= 0 else -1,
            "lowest_solved": bool(lowest[r] >= 0),
            "lowest_sequences": int((lowest[r] + 1) * per_check) if lowest[r] >= 0 else -1,
            "seen": checks.q.shape[1] * per_check,
            "q": float(checks.q[r, -1]),
            "q_lowest": float(checks.q_lowest[r, -1]),
            "bits": float(checks.bits[r, -1]),
            "received": float(checks.received[r, -1]),
        }
        for r in range(len(at))
    ]


def _columns(rows: list[dict[str, Any]]) -> Table:
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _seconds(program: Any, arguments: tuple[Any, ...]) -> float:
    began = time.perf_counter()
    jax.block_until_ready(program(*arguments))
    return time.perf_counter() - began


_DEVICE = threading.Lock()
"""Held by the job that runs on a GPU, while others compile. Runs side by side only get in each other's way there."""

TABLES = {"comparison": comparison, "variants": variants, "costs": costs}
"""By name: a function that gives the work for a table to a pool, and returns one that waits for it."""


def main(arguments: list[str] | None = None) -> None:
    """Run the study and write one .npz file per table, and study.json with the settings and the verdicts."""
    parser = argparse.ArgumentParser(prog="python -m chunked_td.compression.study", description=main.__doc__)
    parser.add_argument("--size", choices=SIZES, default="quick")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    chosen = parser.parse_args(arguments)
    logging.basicConfig(format="%(message)s")
    log.setLevel(logging.INFO)
    settings = SIZES[chosen.size]
    record: dict[str, Any] = {}
    chosen.out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        tables = {name: TABLES[name](settings, pool) for name in TABLES if name in chosen.tables}
        for name, wait in tables.items():
            table = wait()
            np.savez_compressed(chosen.out / f"{name}.npz", **table)  # type: ignore[arg-type]
            record[name] = {"rows": len(next(iter(table.values())))}
            if name == "comparison":
                record[name]["verdict"] = verdict(table)
            log.info("after %.1f s, %s: %s", time.perf_counter() - began, name, record[name])
    seconds = round(time.perf_counter() - began, 1)
    about: dict[str, Any] = {"size": chosen.size, "device": str(jax.devices()[0].device_kind), "jax": jax.__version__}
    about["seconds"] = seconds
    text = json.dumps({**about, "settings": dataclasses.asdict(settings), "tables": record}, indent=1)
    (chosen.out / "study.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
