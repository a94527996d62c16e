"""The paper's claim put to the test: two-level Chunker-RNNs "easily solve" what a single network finds challenging.

Sec. 2.2 of the paper states it for two sequences that differ in their first symbol and, N steps later, in their
last; it reports no experiment. Here the compressor of two levels competes with single networks that have at least as
many parameters as both its levels together, on the tasks of `tasks`, for N from 5 to 1,000.

Arms. Each exists with plain (tanh) and with gated (GRU) networks.

    compressor   two levels; gradients within windows of 10 items
    truncated    one network; gradients within windows of 10 symbols
    full         one network; gradients through the whole sequence

Every network of every arm is updated once per batch of sequences, by Adam on its mean gradient. So no arm has more
updates than another; the compressor's online form, which has many per sequence, is used in `families` only.

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
coin toss at the first symbol is predicted half of the time, and what goes up changes from batch to batch), batches of
four sequences, 16 units per level, the step sizes, the length of "noise". Nothing was chosen on N > 100.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chunked_td.statistics import reach

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
"""Columns of runs.parquet without the variants, one row per run."""


def verdict(table: Table) -> dict[str, str]:
    """The two claims, judged by the rule at the top of this module."""
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
    return reach({int(n): _best_rate(_select(rows, n=n)) for n in np.unique(rows["n"])}, EASY_RATE)


def solved_at(q: np.ndarray) -> np.ndarray:
    """The first of `IN_A_ROW` passed checks in a row, per run: int[R], from q [R, checks]; −1 for none."""
    runs, checks = q.shape
    if checks < IN_A_ROW:
        return np.full(runs, -1)
    rows = np.lib.stride_tricks.sliding_window_view(q >= SHARE, IN_A_ROW, axis=1).all(-1)
    return np.where(rows.max(1), rows.argmax(1), -1)


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
    sequences = np.where(rows["solved"], rows["sequences"], np.inf)  # a run that does not solve it needs ever more
    needed = [np.median(sequences[rows["n"] == n]) for n in (ns[0], ns[-1])]
    return "holds" if needed[1] <= EASY_GROWTH * needed[0] else "in part"


def _best_rate(rows: Table) -> float:
    """The share of seeds that solved, at the step size with the greatest share."""
    return max(_select(rows, learning_rate=r)["solved"].mean() for r in np.unique(rows["learning_rate"]))


def _select(table: Table, **wanted: Any) -> Table:
    """The rows in which these columns have these values."""
    rows = np.logical_and.reduce([table[name] == value for name, value in wanted.items()])
    return {name: column[rows] for name, column in table.items()}
