"""Verdicts of the study by its registered rules (`registered.md`)."""

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
