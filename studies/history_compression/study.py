"""The history compressor (§2.2, Figure 1): do two levels easily solve what a single network finds challenging?

Two sequences differ in their first symbol and, N steps later, in their last. The lower of two recurrent networks
predicts the next symbol; only symbols that it failed to predict go up to the higher one. Single networks have at least
as many parameters as both. Rules were written before the first run (`registered.md`); sequences are in `tasks`, the
networks in `compressor`, `predictor`, `training` and `passing_up`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from chunked_td import sweep
from studies.history_compression import judging
from studies.history_compression.judging import EASY_RATE, LONGEST, solved_at
from studies.runner import plots
from studies.runner.criteria import FAILS, HOLDS, NOT_RUN, Verdict, source
from studies.runner.text import markdown

HERE = Path(__file__).parent
NETWORKS = tuple(itertools.product(("compressor", "truncated", "full"), ("tanh", "gru")))
GROUPS = (((5, 10, 20, 50), 1_500), ((100, 200), 700), ((500, 1_000), 340))
"""Lengths that run in one program, and their budget of updates."""
LEARNING_RATES, SEEDS = (0.003, 0.01, 0.03), 20
HIDDEN, WINDOW, BATCH, CHECK_EVERY, TESTS = 16, 10, 4, 20, 4
KEY = ("arm", "cell", "variant", "task", "n", "learning_rate", "seed")


def run(
    step_size: np.ndarray,
    seed: np.ndarray,
    *,
    network: str,
    cell: str,
    tasks: Sequence[str],
    ns: Sequence[int],
    updates: int,
    unroll: int = 5,
) -> list[dict[str, Any]]:
    """Runs of one program, a row per task and length: when each was solved, and what the last check found."""
    from studies.history_compression.experiment import Block, ExperimentRuns, run_arm
    from studies.history_compression.tasks import make_task, stack_tasks

    cells = list(itertools.product(tasks, ns))
    room = max(ns) + 2
    plan, block = plan_of(network, cell, room, unroll), Block(CHECK_EVERY, BATCH, TESTS)
    made = [make_task(task, n, room) for task, n in cells for _ in seed]
    rates, seeds = np.tile(step_size.astype(np.float32), len(cells)), np.tile(seed.astype(np.int32), len(cells))

    def passed(q: np.ndarray) -> np.ndarray:
        return solved_at(q) >= 0  # a program stops once all its runs have solved their task

    checks = run_arm(plan, block, ExperimentRuns(stack_tasks(made), rates, seeds), updates // CHECK_EVERY, passed)
    columns: dict[str, np.ndarray] = {}
    for prefix, q in (("", checks.q), ("lowest_", checks.q_lowest)):
        at = solved_at(q)
        columns |= {f"{prefix}solved": at >= 0}
        columns |= {f"{prefix}sequences": np.where(at >= 0, (at + 1) * CHECK_EVERY * BATCH, -1)}
    columns |= {"seen": np.full(len(seeds), checks.q.shape[1] * CHECK_EVERY * BATCH)}
    columns |= {name: np.asarray(values[:, -1], np.float64) for name, values in checks._asdict().items()}
    by_run = {name: values.reshape(len(cells), len(seed)) for name, values in columns.items()}
    about = {"task": [task for task, _ in cells], "n": [n for _, n in cells]}
    size = [sum(shape.parameters for shape in plan.shapes)] * len(cells)
    return [{**about, "parameters": size, **{k: x[:, r] for k, x in by_run.items()}} for r in range(len(seed))]


def plan_of(network: str, cell: str, room: int, unroll: int) -> Any:
    """The networks of an arm and how they are trained."""
    from studies.history_compression.predictor import Shape
    from studies.history_compression.tasks import ALPHABET
    from studies.history_compression.training import Plan

    shapes = tuple(Shape(ALPHABET, level, HIDDEN, cell) for level in (0, 1))
    if network != "compressor":  # a single network with at least as many parameters as both levels
        least = sum(shape.parameters for shape in shapes)
        single = (Shape(ALPHABET, 0, units, cell) for units in itertools.count(HIDDEN))
        shapes = (next(shape for shape in single if shape.parameters >= least),)
    return Plan(shapes, room if network == "full" else WINDOW, online=False, unroll=unroll)


def programs(quick: bool) -> dict[str, dict[str, Any]]:
    """{name: settings} of every program; quick: gated networks on the plain task up to N = 40."""
    networks, tasks, groups, unroll = NETWORKS, ("known", "noise"), GROUPS, 5
    if quick:
        networks = (("compressor", "gru"), ("truncated", "gru"), ("full", "gru"))
        tasks, groups, unroll = ("known",), (((5, 20, 40), 400),), 1
    return {
        f"{network} {cell} {k}": {"network": network, "cell": cell, "tasks": tasks, "ns": ns}
        | {"updates": updates, "unroll": unroll}
        for k, (ns, updates) in enumerate(groups)
        for network, cell in networks
    }


def runs(out: Path, quick: bool, **how: Any) -> pl.DataFrame:
    """All runs: five minutes on a GPU. Quick: three programs, four seeds."""
    settings = programs(quick)
    rates, seeds = ((0.01,), range(4)) if quick else (LEARNING_RATES, range(SEEDS))
    table = sweep(run, settings, rates, seeds, out=out, **{**how, "together": 60, "jobs": 1})
    about = pl.DataFrame(
        [{"program": name, "arm": own["network"], "cell": own["cell"]} for name, own in settings.items()]
    )
    table = table.rename({"arm": "program", "step_size": "learning_rate"})
    table = table.join(about, on="program", maintain_order="left").with_columns(variant=pl.lit(""))
    return table.select(*KEY, pl.exclude(*KEY, "program"))


def main(table: pl.DataFrame) -> pl.DataFrame:
    """Return the runs of the comparison, without the stored variants of the compressor."""
    return table.filter(variant="")


@source("§2.2", controls=("with_noise",))
def easily_solves(table: pl.DataFrame) -> Verdict:
    """Two-level Chunker-RNNs easily solve two sequences that differ in their first and last symbol, N steps apart.

    One step size for all N from 5 to 1,000: solved in 95% of the seeds at every N, with at most 2 times the sequences
    at the largest N. In part: only up to N = 100, or more sequences.
    """
    rows = main(table)
    solved = {cell: judging.longest_solved(rows, "compressor", cell) for cell in ("tanh", "gru")}
    return Verdict(
        judging.easily_solves(rows),
        f"{rows['seed'].n_unique()} seeds; largest N that {EASY_RATE:.0%} of the seeds solve: "
        + "; ".join(f"{cell}: {n:,}" for cell, n in solved.items()),
    )


@source("ours, a control")
def with_noise(table: pl.DataFrame) -> Verdict:
    """With noise in the middle it solves them, too.

    With a GRU, 95% of the seeds solve them at N = 1,000.
    """
    rows = main(table)
    if not judging.is_whole(rows):
        return Verdict(NOT_RUN, "too few seeds, or sequences too short")
    longest = judging.longest_solved(rows, "compressor", "gru", "noise")
    return Verdict(HOLDS if longest >= LONGEST else FAILS, f"gru: up to N = {longest:,}")


@source("§2.2")
def challenging(table: pl.DataFrame) -> Verdict:
    """A standard RNN finds the same problem challenging.

    A plain network with full back-propagation solves it in fewer than 50% of the seeds for every N ≥ 100.
    """
    rows = main(table)
    single = [each for each in NETWORKS if each[0] != "compressor"]
    longest = {f"{arm}, {cell}": judging.longest_solved(rows, arm, cell) for arm, cell in single}
    return Verdict(
        judging.is_challenging(rows),
        f"largest N that {EASY_RATE:.0%} of the seeds of a single network solve, at its best step size: "
        + "; ".join(f"{name}: {n:,}" if n else f"{name}: none" for name, n in longest.items()),
    )


CLAIMS = (easily_solves, with_noise, challenging)


def tables(table: pl.DataFrame) -> dict[str, str]:
    """Share of seeds that solved each task, the cost per symbol, and five families without tuning."""
    rows = main(table)
    shown = {task: success_table(rows.filter(task=task)) for task in TITLES if task in rows["task"]}
    if table["seed"].n_unique() < SEEDS:
        return shown
    costs = pl.read_parquet(HERE / "costs.parquet")
    micros = [f"{1e6 * s:.0f}" for s in costs["seconds_per_symbol"]]
    from studies.history_compression.families import table as family_table

    shown["costs"] = markdown(("N", *(f"{n:,}" for n in costs["n"])), [("µs per symbol", *micros)])
    return shown | {"families": family_table(pl.read_parquet(HERE / "families.parquet").to_dicts())}


TITLES = {"known": "a middle that can be predicted", "noise": "noise in the middle"}
NAMES = {"compressor": "compressor", "truncated": "one network, truncated", "full": "one network, full BPTT"}


def success_table(rows: pl.DataFrame) -> str:
    """Per network and N, at its best step size: share of seeds that solved it, and the median sequences they needed."""
    lengths = sorted(rows["n"].unique().to_list())
    lines = []
    for (arm, cell), some in sorted(rows.group_by("arm", "cell"), key=lambda group: group[0]):
        entries = (entry(some.filter(n=n)) for n in lengths)
        lines.append((f"{NAMES[str(arm)]}, {'gated' if cell == 'gru' else 'plain'}", *entries))
    return markdown(("network", *(f"N = {n:,}" for n in lengths)), lines)


def entry(rows: pl.DataFrame) -> str:
    """Share solved and median sequences of the step size with most solved, then fewest sequences."""
    needed = pl.col("sequences").filter("solved").median().alias("needed")
    by_size = rows.group_by("learning_rate").agg(pl.mean("solved"), needed)
    _, share, median = by_size.sort("solved", "needed", descending=[True, False]).row(0)
    return "0 %" if share == 0 else f"{share:.0%} in {median:,.0f}".replace("%", " %")


def figures(table: pl.DataFrame) -> dict[str, Figure]:
    """Success against N; and Figure 1 of the paper, one sequence in a trained compressor (`drawing`)."""
    if table["seed"].n_unique() < SEEDS:
        return {"figure": success_figure(table)}
    from studies.history_compression.drawing import draw_figure

    data = json.loads((HERE / "figure-1.json").read_text("utf-8"))
    return {"figure": success_figure(table), "figure-1": draw_figure(data)}


def success_figure(table: pl.DataFrame) -> Figure:
    """Share of seeds that solved the sequences against N: a middle that can be predicted, and noise in it."""
    rows = main(table)
    tasks = [task for task in TITLES if task in rows["task"]]
    drawn, axes = plots.new_figure(len(tasks), height=2.8, sharey=True)
    for panel, task in zip(axes if len(tasks) > 1 else [axes], tasks, strict=True):
        for k, (arm, cell) in enumerate(sorted(rows.filter(task=task).select("arm", "cell").unique().rows())):
            shares = judging.shares(rows, arm, cell, task)
            label = f"{NAMES[arm]}, {'gated' if cell == 'gru' else 'plain'}"
            panel.plot(
                list(shares), list(shares.values()), marker=plots.MARKERS[k], color=plots.PALETTE[k], label=label
            )
        panel.set(xscale="log", xlabel="N", ylabel="share of seeds that solved it", ylim=(-0.03, 1.03))
        panel.set_title(TITLES[task], loc="left")
    plots.legend_below(drawn, 2)
    return drawn
