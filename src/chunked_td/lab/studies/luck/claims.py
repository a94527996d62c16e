"""Table, claims and page of the study of maturity and luck; their rule is in the package's docstring."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from chunked_td.lab.results.runs import collector
from chunked_td.lab.results.tables import markdown
from chunked_td.lab.studies.deep.criteria import FIXED, compared, mean_of_tasks, moonshot
from chunked_td.lab.studies.deep.protocol import GRIDS
from chunked_td.lab.studies.deep.results import DeepResults, agent_rows, best_arms, task_estimates
from chunked_td.lab.studies.deep.tables import write_scores
from chunked_td.lab.studies.luck.protocol import ADDED, MATURITY, PLAIN, luck_protocols
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_SHOWN, Claim, Verdict
from chunked_td.statistics import Estimate, interquartile_estimate


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


class PairedResults(DeepResults):
    """Results of a study of pairs of arms."""

    beside: ClassVar[tuple[tuple[str, str, str], ...]]
    """Of each pair: its name, the arm, and the arm it is compared with."""
    added: ClassVar[tuple[str, ...]] = ()
    """Arms that are held against every fixed λ."""

    @cached_property
    def pairs(self) -> dict[str, dict[str, Pair]]:
        """agent → name → pair."""
        return {
            agent: {name: judge_pair(tasks, *arms) for name, *arms in self.beside}
            for agent, tasks in self.scores.items()
        }

    @cached_property
    def verdicts(self) -> dict[str, Any]:
        """Scores and pairs of every agent, and the moonshot of the added arms."""
        found = {}
        for agent, tasks in self.scores.items():
            pairs = {name: pair._asdict() for name, pair in self.pairs[agent].items()}
            found[agent] = {"tasks": task_estimates(tasks), "pairs": pairs}
            if self.added:
                found[agent]["moonshot"] = moonshot(tasks, self.added)
        return found


class LuckResults(PairedResults):
    """Results of the study of maturity and luck."""

    needed = frozenset({*map(str, FIXED), *PLAIN, *ADDED})
    beside = tuple((arm, arm, arm.partition("-")[0]) for arm in ADDED)
    added = ADDED


COLLECT, LOAD = collector(luck_protocols, agent_rows), LuckResults.load


def judge_pair(tasks: dict[str, dict[str, np.ndarray]], arm: str, plain: str) -> Pair:
    """The rule for a pair. Args: tasks: task → arm → scores. plain: the other arm."""
    ours, theirs = mean_of_tasks(tasks, arm), mean_of_tasks(tasks, plain)
    said = [compared(*(interquartile_estimate(runs[name]) for name in (arm, plain))) for runs in tasks.values()]
    better, worse = said.count("better"), said.count("worse")
    status = NOT_SHOWN
    if theirs.above(ours):
        status = FAILS
    elif not worse and (better or ours.above(theirs)):
        status = HOLDS if ours.above(theirs) else IN_PART
    return Pair(status, ours, theirs, better, worse)


def beats_fixed(agent: str, results: LuckResults, _: Mapping[str, Any]) -> Verdict:
    """The claim "fixed λ"."""
    if missing := results.missing(agent):
        return missing
    found = results.verdicts[agent]["moonshot"]
    arm, rival = best_arms(found["means"])
    return Verdict(HOLDS if found["verdict"] == "holds" else FAILS, f"best arm {arm}, best fixed λ {rival}")


def together(agent: str, arms: tuple[str, ...], results: PairedResults, _: Mapping[str, Any]) -> Verdict:
    """The verdict on several pairs: the claims "luck" and "maturity"."""
    if missing := results.missing(agent):
        return missing
    pairs = {arm: results.pairs[agent][arm] for arm in arms}
    found = [pair.status for pair in pairs.values()]
    evidence = "; ".join(f"{arm}: {pair.status}, {pair.text}" for arm, pair in pairs.items())
    if all(status == NOT_SHOWN for status in found):
        widest = max(pair.visible for pair in pairs.values())
        return Verdict(NOT_SHOWN, evidence, f"a difference above {widest:.3f}")
    if all(status == HOLDS for status in found):
        return Verdict(HOLDS, evidence)
    return Verdict(IN_PART if HOLDS in found or IN_PART in found else FAILS, evidence)


def _of(agent: str) -> tuple[Claim, ...]:
    by_pair = (
        "Its mean over tasks lies above that of the same λ without it, intervals disjoint, and it is worse on none"
    )
    shown = {"arms": (), "figure": f"figures/luck-{agent}.svg"}
    return (
        Claim(
            f"luck-{agent}",
            "ours",
            f"TD errors that are means over 16 draws make {agent} with λ = 0.95 learn faster where chance enters.",
            f"{by_pair}. In part: better on a task, worse on none.",
            judge=partial(together, agent, ("0.95-luck-16",)),
            short=f"{agent}: luck helps",
            **shown,
        ),
        Claim(
            f"maturity-{agent}",
            "ours",
            f"λ that is 1 while values are guesses makes {agent} learn faster than the same λ all along.",
            f"{by_pair}; for λ = 0.5, λ = 0.8, the value kernel and the expected probability. In part: for some.",
            judge=partial(together, agent, MATURITY),
            short=f"{agent}: maturity helps",
            **shown,
        ),
        Claim(
            f"luck-fixed-{agent}",
            "ours",
            f"An arm with luck or maturity beats every fixed λ for {agent}.",
            "One has a mean over tasks above that of every fixed λ, intervals disjoint, and is no worse than 5 % on "
            "any task.",
            judge=partial(beats_fixed, agent),
            short=f"{agent}: luck or maturity beats every fixed λ",
            **shown,
        ),
    )


CLAIMS = tuple(claim for agent in GRIDS for claim in _of(agent))


COLOURS = {
    "0.95-luck-16": "#0072B2",
    "1.0-luck-16": "#56B4E9",
    "0.8-mature": "#009E73",
    "value-mature": "#D55E00",
    "value-mature-luck-16": "#CC79A7",
}
_ARMS = (*map(str, FIXED), *PLAIN, *ADDED)


def PAGE(folder: Path, results: LuckResults) -> Path:
    """Write verdicts.json, tables/ and figures/; returns the table of the pairs."""
    write_scores(folder, results, "luck", _ARMS, COLOURS, {"pairs": pairs_table(results)})
    return folder / "tables" / "pairs.md"


def pairs_table(results: LuckResults) -> str:
    """An arm per row, an agent per column: the mean over tasks minus that of the same λ without it, and the verdict."""
    agents = list(results.pairs)
    rows = [
        (arm, *(f"{p.ours.value - p.theirs.value:+.3f}, {p.status}" for p in (results.pairs[a][arm] for a in agents)))
        for arm in ADDED
    ]
    return markdown(("arm", *agents), [tuple(cell.replace("-0.", "−0.") for cell in row) for row in rows])
