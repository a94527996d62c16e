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

import numpy as np
import polars as pl

from chunked_td.statistics import reach
from studies.runner.criteria import FAILS, HOLDS, IN_PART, NOT_RUN

SHARE = 0.9
IN_A_ROW = 3
EASY_RATE = 0.95
EASY_GROWTH = 2.0
HARD_RATE = 0.5
HARD_FROM = 100
LEAST_SEEDS = 20
LONGEST = 1_000


def is_whole(table: pl.DataFrame) -> bool:
    """Whether the runs are of full size."""
    return table["seed"].n_unique() >= LEAST_SEEDS and table["n"].max() >= LONGEST  # type: ignore[operator]


def easily_solves(table: pl.DataFrame) -> str:
    """The status of the first claim: that of the best cell and step size of the compressor."""
    if not is_whole(table):
        return NOT_RUN
    statuses = []
    needed = pl.when("solved").then("sequences").otherwise(np.inf).median()  # a run that does not solve it needs ∞
    for _, rows in table.filter(task="known", arm="compressor").group_by("cell", "learning_rate"):
        by_length = rows.group_by("n").agg(pl.mean("solved"), needed.alias("needed")).sort("n")
        few, needs = by_length.filter(pl.col("solved") < EASY_RATE)["n"].to_list(), by_length["needed"].to_list()
        if few:
            statuses.append(IN_PART if min(few) > HARD_FROM else FAILS)
        else:
            statuses.append(HOLDS if needs[-1] <= EASY_GROWTH * needs[0] else IN_PART)
    return max(statuses, key=(FAILS, IN_PART, HOLDS).index)


def is_challenging(table: pl.DataFrame) -> str:
    """The status of the second claim."""
    if not is_whole(table):
        return NOT_RUN
    found = shares(table, "full", "tanh", "known")
    return HOLDS if max(share for n, share in found.items() if n >= HARD_FROM) < HARD_RATE else FAILS


def longest_solved(table: pl.DataFrame, arm: str, cell: str, task: str = "known") -> int:
    """The largest N of a task up to which `EASY_RATE` of the seeds solve it, at the best step size; or 0."""
    return reach(shares(table, arm, cell, task), EASY_RATE)


def shares(table: pl.DataFrame, arm: str, cell: str, task: str) -> dict[int, float]:
    """{N: the share of seeds that solved it, at the step size with the greatest share}."""
    rows = table.filter(task=task, arm=arm, cell=cell)
    by_size = rows.group_by("n", "learning_rate").agg(pl.mean("solved"))
    return dict(by_size.group_by("n").agg(pl.max("solved")).sort("n").rows())


def solved_at(q: np.ndarray) -> np.ndarray:
    """The first of `IN_A_ROW` passed checks in a row, per run: int[R], from q [R, checks]; −1 for none."""
    runs, checks = q.shape
    if checks < IN_A_ROW:
        return np.full(runs, -1)
    rows = np.lib.stride_tricks.sliding_window_view(q >= SHARE, IN_A_ROW, axis=1).all(-1)
    return np.where(rows.max(1), rows.argmax(1), -1)
