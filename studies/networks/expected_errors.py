"""Maturity and luck in networks: values that are still guesses, and TD errors without the draw of chance.

**How it is judged.** Written before its data. Score, tuning, seeds, grids, intervals, "better" and "worse" are those of
`criteria`: the area under the learning curve, the step size chosen on 10 seeds, 20 other
seeds judged, interquartile means with 95 % bootstrap intervals, a difference where intervals are disjoint.

*Tasks.* The five of the study of deep learners in which a step from one state with one action can end differently, and
which need no other package: *umbrella*, *umbrella-distractors*, *catch-wind*, *charge*, *charge-mirrored*. Elsewhere
luck changes nothing, because all draws are the same.

*Arms*, all in one program with every fixed λ. **Luck**: λ = 0.95, λ = 1 and the value kernel, each with TD errors that
are means over M draws from the same state and action, the one that came among them (M = 4 and 16; the kernel 16).
**Maturity**: λ = 0.5, λ = 0.8, the value kernel and the expected probability, each raised to 1 − (1 − λ)(1 − I).
**Both**: the value kernel with maturity and M = 16. Settings are those of the study of deep learners; nothing was
tuned.

*A pair* is an arm and the same λ without luck or maturity. For an agent it

    HOLDS          if its mean over tasks lies above that of the other, intervals disjoint (tasks weigh equally, seeds
                   are resampled within tasks), and it is worse on no task;
    HOLDS IN PART  if it is better on a task and worse on none, but the mean does not lie above;
    DOES NOT HOLD  if its mean lies below;
    is NOT SHOWN   otherwise, with half the widths of both intervals as the effect that could have been seen.

*Claims*, per agent. **luck**: the pair of λ = 0.95 with M = 16. **maturity**: all four pairs; it holds if all hold,
does not hold if one does not and none holds even in part, is not shown if all four are not, and holds in part
otherwise. **fixed λ**: the moonshot of the study of deep learners for the arms with luck, maturity or both, over these
tasks: one has a mean above that of every fixed λ without luck, intervals disjoint, and is within 5 % of the best of
them on every task.

*Cost* stands beside every gain: draws of the simulator per transition, and measured time. Luck needs a simulator that
can be stepped again, so a gain of M = 16 says what a perfect model would bring: where luck gains nothing, no learned
model will.

Looked at beforehand: that every arm runs (one task, 2,000 steps).
"""

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
"""Arms with luck, maturity or both; before the first "-" is the same λ without them."""
PLAIN = ("value", "expected")
"""Sources without either; fixed λs not counted."""
GROUPS = ((*LUCK, *MATURITY[:-1], *BOTH, "value"), ("expected", "expected-mature"))
"""Sources that run in one program; fixed λ run with the first group."""


class Pair(NamedTuple):
    """An arm beside the same λ without luck or maturity: means over tasks, and on how many it is better or worse."""

    status: str
    ours: Estimate
    theirs: Estimate
    better: int
    worse: int

    @property
    def text(self) -> str:
        """The means, and on how many tasks they differ."""
        return f"{self.ours.value:.3f} against {self.theirs.value:.3f} (tasks {self.better} ▲ {self.worse} ▼)"

    @property
    def visible(self) -> float:
        """The difference that intervals of this width would show."""
        return self.ours.half_width + self.theirs.half_width


class LuckResults(AgentResults):
    """One agent."""

    @cached_property
    def pairs(self) -> dict[str, Pair]:
        """Arm → comparison with the same λ without luck or maturity."""
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
