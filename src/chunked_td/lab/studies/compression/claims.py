"""The paper's claims about the history compressor (§2.2, Figure 1), judged by `criteria`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chunked_td.lab.studies.compression import criteria as rule
from chunked_td.lab.studies.compression.protocol import ARMS
from chunked_td.lab.studies.compression.results import CompressionResults
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, Claim, Verdict

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
