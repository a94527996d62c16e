"""Table, claims and page of the history compressor (§2.2, Figure 1); claims are judged by `criteria`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td.lab.report.page import write_parts
from chunked_td.lab.results.runs import RunArrays, collector
from chunked_td.lab.results.tables import markdown
from chunked_td.lab.store.tables import load_table
from chunked_td.lab.studies.compression import criteria as rule
from chunked_td.lab.studies.compression.criteria import Table, solved_at
from chunked_td.lab.studies.compression.protocol import ARMS, compression_protocols
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, Claim, Protocol, Verdict


def _rows(protocol: Protocol, arm: str, runs: RunArrays) -> Any:
    """One row per run: when it was solved, and what the last check found."""
    import polars as pl

    about, task, runner = protocol.arm(arm), protocol.environment.arguments, protocol.batch_runner
    checks = {name: x.reshape(-1, x.shape[-1]) for name, x in runs.columns.items()}
    named = {"arm": about.learner, "cell": about.lambda_source, "variant": about.options.get("variant", "")}
    named |= {"task": task["name"], "n": task["n"], "parameters": int(checks["parameters"][0, 0])}
    columns = {name: np.full(len(checks["score"]), value) for name, value in named.items()}
    columns["learning_rate"] = np.repeat(runs.step_sizes, len(runs.seeds))
    columns["seed"] = np.tile(runs.seeds, len(runs.exponents))
    per_check, done = runner.check_every * runner.batch, int(np.sum(~np.isnan(checks["score"][0])))  # type: ignore[union-attr]
    for prefix, q in (("", checks["score"]), ("lowest_", checks["q_lowest"])):
        at = solved_at(q)
        columns[f"{prefix}solved"] = at >= 0
        columns[f"{prefix}sequences"] = np.where(at >= 0, (at + 1) * per_check, -1)
    last = {"q": "score", "q_lowest": "q_lowest", "bits": "bits", "received": "received"}
    columns |= {name: checks[column][:, done - 1] for name, column in last.items()}
    return pl.DataFrame({**columns, "seen": np.full(len(checks["score"]), done * per_check)})


COLLECT = collector(compression_protocols, _rows)


def LOAD(folder: Path) -> CompressionResults:
    """The results in a folder with comparison.parquet; older ones have the variants in a file of their own."""
    import polars as pl

    frame = load_table(folder / "comparison.parquet")
    if "variant" in frame.columns:
        frame = frame.filter(pl.col("variant") == "")
    costs = folder / "costs.parquet"
    return CompressionResults(frame, load_table(costs) if costs.is_file() else None)


@dataclass(frozen=True)
class CompressionResults:
    """Results of the study. Args: frame: comparison.parquet without the variants. costs: costs.parquet, or None."""

    frame: Any
    costs: Any = None

    @property
    def table(self) -> Table:
        """The columns as arrays, for `criteria`."""
        return {column.name: column.to_numpy() for column in self.frame}


_STATUS = {"holds": HOLDS, "in part": IN_PART, "fails": FAILS, "not tested": NOT_RUN}


def easily_solves(results: CompressionResults, _: Mapping[str, Any]) -> Verdict:
    """The paper's claim about the compressor."""
    table = results.table
    solved = {cell: rule.longest_solved(table, "compressor", cell) for _, cell in ARMS}
    return Verdict(
        _STATUS[rule.verdict(table)["easily solves"]],
        f"{len(set(table['seed'].tolist()))} seeds; largest N that {rule.EASY_RATE:.0%} of the seeds solve: "
        + "; ".join(f"{cell}: {n:,}" for cell, n in solved.items()),
    )


def with_noise(results: CompressionResults, _: Mapping[str, Any]) -> Verdict:
    """The control: noise in the middle."""
    if rule.verdict(results.table)["easily solves"] == "not tested":
        return Verdict(NOT_RUN, "too few seeds, or sequences too short")
    longest = rule.longest_solved(results.table, "compressor", "gru", "noise")
    return Verdict(HOLDS if longest >= rule.LONGEST else FAILS, f"gru: up to N = {longest:,}")


def challenging(results: CompressionResults, _: Mapping[str, Any]) -> Verdict:
    """The paper's claim about single networks."""
    table = results.table
    longest = {f"{arm}, {cell}": rule.longest_solved(table, arm, cell) for arm, cell in ARMS if arm != "compressor"}
    return Verdict(
        _STATUS[rule.verdict(table)["a standard RNN finds it challenging"]],
        f"largest N that {rule.EASY_RATE:.0%} of the seeds of a single network solve, at its best step size: "
        + "; ".join(f"{name}: {n:,}" if n else f"{name}: none" for name, n in longest.items()),
    )


CLAIMS = (
    Claim(
        "compressor-easy",
        "§2.2",
        "Two-level Chunker-RNNs easily solve two sequences that differ in their first and last symbol, N steps apart.",
        f"One step size for all N from 5 to {rule.LONGEST:,}: solved in {rule.EASY_RATE:.0%} of the seeds at every "
        f"N, with at most {rule.EASY_GROWTH:g} times the sequences at the largest N. In part: only up to N = 100, or "
        "more sequences.",
        (),
        easily_solves,
        "easily solves the long sequences",
        controls=("compressor-noise",),
        figure="tables/known.md",
    ),
    Claim(
        "compressor-noise",
        "ours, a control",
        "With noise in the middle it solves them, too.",
        f"With a GRU, {rule.EASY_RATE:.0%} of the seeds solve them at N = {rule.LONGEST:,}.",
        (),
        with_noise,
        "with noise in the middle, too",
        figure="tables/noise.md",
    ),
    Claim(
        "compressor-rnn",
        "§2.2",
        "A standard RNN finds the same problem challenging.",
        f"A plain network with full back-propagation solves it in fewer than {rule.HARD_RATE:.0%} of the seeds for "
        f"every N ≥ {rule.HARD_FROM}.",
        (),
        challenging,
        "a standard RNN does not",
        figure="tables/known.md",
    ),
)


_NAMES = {"compressor": "compressor", "truncated": "one network, truncated", "full": "one network, full BPTT"}


def PAGE(folder: Path, results: CompressionResults) -> Path:
    """Write tables/; returns the table of the paper's task."""
    write_parts(folder, all_tables(results))
    return folder / "tables" / "known.md"


def all_tables(results: CompressionResults) -> dict[str, str]:
    """Every table by name."""
    tasks = results.frame["task"].unique(maintain_order=True)
    tables = {task: success_table(results.frame.filter(results.frame["task"] == task)) for task in tasks}
    return tables if results.costs is None else {**tables, "costs": cost_table(results.costs)}


def success_table(frame: Any) -> str:
    """Per arm and N, at its best step size: share of seeds that solved it, and the median sequences they needed."""
    lengths = sorted(frame["n"].unique().to_list())
    rows = []
    for (arm, cell), runs in sorted(frame.group_by("arm", "cell"), key=lambda group: group[0]):
        entries = (_entry(runs.filter(runs["n"] == n)) for n in lengths)
        rows.append((f"{_NAMES.get(arm, arm)}, {'gated' if cell == 'gru' else 'plain'}", *entries))
    return markdown(("network", *(f"N = {n:,}" for n in lengths)), rows)


def _entry(rows: Any) -> str:
    """Share solved and median sequences of the step size with most solved, then fewest sequences."""
    best = (-1.0, 0.0)
    for _, some in rows.group_by("learning_rate"):
        solved = some["solved"].to_numpy()
        median = float(np.median(some["sequences"].to_numpy()[solved])) if solved.any() else np.inf
        best = max(best, (float(solved.mean()), -median))
    share, median = best[0], -best[1]
    return "0 %" if share == 0 else f"{share:.0%} in {median:,.0f}".replace("%", " %")


def cost_table(costs: Any) -> str:
    """Training cost per symbol against N."""
    seconds = [f"{1e6 * s:.0f}" for s in costs["seconds_per_symbol"].to_list()]
    return markdown(("N", *(f"{n:,}" for n in costs["n"].to_list())), [("µs per symbol", *seconds)])
