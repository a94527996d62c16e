"""Expected TD errors by a simulator, and maturity: pairs, claims, table by the registered rules (`registered.md`)."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import polars as pl

from chunked_td.statistics import Estimate, interquartile_estimate
from studies.networks.criteria import FIXED, Scores, compared, mean_of_tasks, moonshot
from studies.networks.results import AgentResults, agents_of
from studies.runner.criteria import FAILS, HOLDS, IN_PART, NOT_SHOWN, Verdict
from studies.runner.text import markdown

TASKS = ("umbrella", "umbrella-distractors", "catch-wind", "charge", "charge-mirrored")
LUCK = ("0.95-luck-4", "0.95-luck-16", "1.0-luck-4", "1.0-luck-16", "value-luck-16")
MATURITY = ("0.5-mature", "0.8-mature", "value-mature", "expected-mature")
BOTH = ("value-mature-luck-16",)
ADDED = (*LUCK, *MATURITY, *BOTH)
"""Arms with averaged TD errors, maturity or both; the name before the first "-" is the same λ without them."""
PLAIN = ("value", "expected")
"""Sources without either; fixed λs not counted."""
GROUPS = ((*LUCK, *MATURITY[:-1], *BOTH, "value"), ("expected", "expected-mature"))
"""Sources that run in one program; fixed λ run with the first group."""


class Pair(NamedTuple):
    """Comparison of an arm with its λ alone: means over tasks, and numbers of tasks with better and worse results."""

    status: str
    ours: Estimate
    theirs: Estimate
    better: int
    worse: int

    @property
    def text(self) -> str:
        """The means, and the numbers of tasks with a difference."""
        return f"{self.ours.value:.3f} against {self.theirs.value:.3f} (tasks {self.better} ▲ {self.worse} ▼)"

    @property
    def visible(self) -> float:
        """The difference that intervals of this width would show."""
        return self.ours.half_width + self.theirs.half_width


class LuckResults(AgentResults):
    """One agent."""

    @cached_property
    def pairs(self) -> dict[str, Pair]:
        """Arm → comparison with its λ alone."""
        return {arm: judge_pair(self.scores, arm, arm.partition("-")[0]) for arm in ADDED}


def results_of(frame: pl.DataFrame) -> dict[str, LuckResults]:
    """Every agent of this part."""
    needed = {*map(str, FIXED), *PLAIN, *ADDED}
    return {agent: LuckResults(results.runs) for agent, results in agents_of(frame, needed).items()}


def judge_pair(tasks: Scores, arm: str, plain: str) -> Pair:
    """The rule for a pair. Args: plain: the other arm."""
    ours, theirs = mean_of_tasks(tasks, arm), mean_of_tasks(tasks, plain)
    said = [compared(*(interquartile_estimate(runs[name]) for name in (arm, plain))) for runs in tasks.values()]
    better, worse = said.count("better"), said.count("worse")
    status = NOT_SHOWN
    if theirs.above(ours):
        status = FAILS
    elif not worse and (better or ours.above(theirs)):
        status = HOLDS if ours.above(theirs) else IN_PART
    return Pair(status, ours, theirs, better, worse)


def beats_fixed(results: LuckResults) -> Verdict:
    """The claim "fixed λ"."""
    found = moonshot(results.scores, ADDED)
    arm, rival = found.best
    return Verdict(HOLDS if found.holds else FAILS, f"best arm {arm}, best fixed λ {rival}")


def together(arms: tuple[str, ...], results: LuckResults) -> Verdict:
    """The verdict on several pairs: the claims "luck" and "maturity"."""
    pairs = {arm: results.pairs[arm] for arm in arms}
    found = [pair.status for pair in pairs.values()]
    evidence = "; ".join(f"{arm}: {pair.status}, {pair.text}" for arm, pair in pairs.items())
    if all(status == NOT_SHOWN for status in found):
        widest = max(pair.visible for pair in pairs.values())
        return Verdict(NOT_SHOWN, evidence, f"a difference above {widest:.3f}")
    if all(status == HOLDS for status in found):
        return Verdict(HOLDS, evidence)
    return Verdict(IN_PART if HOLDS in found or IN_PART in found else FAILS, evidence)


COLOURS = {
    "0.95-luck-16": "#0072B2",
    "1.0-luck-16": "#56B4E9",
    "0.8-mature": "#009E73",
    "value-mature": "#D55E00",
    "value-mature-luck-16": "#CC79A7",
}


def pairs_table(agents: dict[str, LuckResults]) -> str:
    """An arm per row, an agent per column: the mean over tasks minus that of the same λ without it, and the verdict."""
    pairs = {arm: [results.pairs[arm] for results in agents.values()] for arm in ADDED}
    rows = [(arm, *(f"{p.ours.value - p.theirs.value:+.3f}, {p.status}" for p in each)) for arm, each in pairs.items()]
    return markdown(("arm", *agents), [tuple(cell.replace("-0.", "−0.") for cell in row) for row in rows])
