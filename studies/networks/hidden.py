"""Hidden state: cells, reach, claims, table and figure by the registered rules (`registered_hidden.md`)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from chunked_td.statistics import reach
from studies.networks.criteria import FIXED, SOLVED, Moonshot, gate, moonshot
from studies.networks.results import AgentResults, judged_runs
from studies.networks.tables import grid
from studies.runner.criteria import FAILS, HOLDS, IN_PART, NOT_RUN, NOT_TESTABLE, Verdict
from studies.runner.plots import legend_below
from studies.runner.text import markdown

ARMS = ("recurrent", "recurrent-realised", "true-expected", "true-realised")
"""Arms other than fixed λs."""
AGENTS = ("sarsa", "actor-critic", "ppo")
MEMORIES = ("state", "kept")
TASKS = ("t-maze", "t-maze-look", "memory-chain")
LENGTHS = (5, 10, 20, 50, 100)
SHARE = 0.9
SOURCES = ("recurrent", "recurrent-realised")
_FIXED = tuple(map(str, FIXED))


def solved(curves: np.ndarray) -> np.ndarray:
    """Whether runs solved their task: bool[R], from scores [R, blocks]; blocks without an episode do not count."""
    quarter = max(1, curves.shape[-1] // 4)
    return np.nanmean(curves[..., -quarter:], -1) >= SOLVED


@dataclass(frozen=True)
class MemoryResults(AgentResults):
    """One agent with one memory; a task is (task, N)."""

    @cached_property
    def shares(self) -> dict[Any, dict[str, float]]:
        """(task, N) → arm → share of the judged runs that solved it."""
        return {cell: {arm: float(x["solved"].mean()) for arm, x in arms.items()} for cell, arms in self.runs.items()}

    @cached_property
    def reaches(self) -> dict[str, dict[str, int]]:
        """Task → arm → reach."""
        found: dict[str, dict[str, int]] = {}
        for task in dict.fromkeys(task for task, _ in self.runs):
            by_length = {n: shares for (name, n), shares in self.shares.items() if name == task}
            arms = (*_FIXED, *ARMS)
            found[task] = {arm: reach({n: shares[arm] for n, shares in by_length.items()}, SHARE) for arm in arms}
        return found

    @cached_property
    def best_fixed(self) -> dict[str, int]:
        """Task → the greatest reach of any fixed λ."""
        return {task: max(arms[x] for x in _FIXED) for task, arms in self.reaches.items()}

    @cached_property
    def moonshot(self) -> Moonshot:
        """Of both forms of λ from the history."""
        return moonshot(self.scores, SOURCES)


Hidden = dict[tuple[str, str], MemoryResults]
"""(agent, memory) → results."""


def results_of(frame: pl.DataFrame) -> Hidden:
    """Every agent with every memory, in cells that have all arms."""
    found: Hidden = {}
    for agent, memory in itertools.product(AGENTS, sorted(MEMORIES)):
        cells: dict[Any, Any] = {}
        for cell in itertools.product(TASKS, LENGTHS):
            rows = frame.filter(agent=agent, memory=memory, task=cell[0], length=cell[1])
            arms = {str(arm): part for (arm,), part in rows.group_by("arm", maintain_order=True)}
            if {*_FIXED, *ARMS} <= arms.keys():
                cells[cell] = {arm: judged_runs(part, ("score", "solved")) for arm, part in arms.items()}
        if cells:
            found[agent, memory] = MemoryResults(cells)
    return found


def better_memory(agent: str, results: Hidden) -> Verdict:
    """The claim "memory" of an agent: the greatest reach of any arm but the true model's, on every task."""
    if not {(agent, "kept"), (agent, "state")} <= results.keys():
        return Verdict(NOT_RUN, f"{agent} was not run with both memories")
    kept, state = (results[agent, memory].reaches for memory in ("kept", "state"))
    best = {task: [max(each[task][arm] for arm in (*_FIXED, *SOURCES)) for each in (kept, state)] for task in kept}
    gains = [ours - theirs for ours, theirs in best.values()]
    status = FAILS if min(gains) < 0 else HOLDS if max(gains) > 0 else IN_PART
    reach = "; ".join(f"{task}: {ours} and {theirs}" for task, (ours, theirs) in best.items())
    return Verdict(status, f"greatest N, kept percepts and recurrent state: {reach}")


def better_score(results: MemoryResults) -> Verdict:
    """The claim "score" of an agent with a memory."""
    source, rival = results.moonshot.best
    passed = [gate(found, ("true-expected",)) for found in results.estimates.values()].count("passed")
    evidence = (
        f"best form {source}, best fixed λ {rival}, 0.95 {results.moonshot.means['0.95'].value:.3f}; "
        f"the gate was passed on {passed} of {len(results.runs)} cells"
    )
    return Verdict(HOLDS if results.moonshot.holds else FAILS, evidence)


def longer_reach(results: MemoryResults) -> Verdict:
    """The claim "reach" of an agent with a memory."""
    ours, best = {task: arms[SOURCES[0]] for task, arms in results.reaches.items()}, results.best_fixed
    listed = "; ".join(f"{task}: {ours[task]} against {best[task]}" for task in best)
    evidence = f"greatest N against that of the best fixed λ: {listed}"
    if not any((*ours.values(), *best.values())):
        return Verdict(NOT_TESTABLE, f"{evidence}; no arm solves any length, so none can reach farther")

    def everywhere(arm: str) -> bool:
        return all(arms[arm] >= best[task] for task, arms in results.reaches.items())

    if not everywhere(SOURCES[0]):
        return Verdict(FAILS, evidence)
    return Verdict(IN_PART if any(map(everywhere, _FIXED)) else HOLDS, evidence)


def reach_table(results: Hidden) -> str:
    """The greatest N that 90 % of the seeds solve, per agent, memory and task."""
    rows = []
    for key, found in results.items():
        for task, arms in found.reaches.items():
            best = found.best_fixed[task]
            by = [x for x in _FIXED if arms[x] == best]
            names = "all" if len(by) == len(FIXED) else ", ".join(f"{float(x):g}" for x in by)
            cells = (str(n or "none") for n in (best, *(arms[source] for source in SOURCES)))
            first, *sources = cells
            rows.append((*key, task, first, names if best else "", *sources))
    return markdown(("agent", "values read", "task", "best fixed λ", "by λ", *SOURCES), rows)


def draw_success(results: Hidden) -> Figure:
    """A row per agent and memory, a column per task: share of seeds that solved it against N."""
    styles = {
        "0.0": ("0.75", "o-"),
        "0.8": ("0.55", "o-"),
        "0.95": ("0.35", "o-"),
        "1.0": ("0.1", "o-"),
        "recurrent": ("#0072B2", "s-"),
        "recurrent-realised": ("#D55E00", "^-"),
        "true-expected": ("#CC79A7", "d--"),
    }
    figure, axes = grid(len(TASKS), len(results), 3.0, 2.3, sharey=True)
    for ax, (key, task) in zip(axes, itertools.product(results, TASKS), strict=True):
        cells = {n: shares for (name, n), shares in results[key].shares.items() if name == task}
        for arm, (colour, mark) in styles.items():
            ax.plot(list(cells), [shares[arm] for shares in cells.values()], mark, color=colour, ms=4, label=arm)
        ax.set_xscale("log")
        ax.set_xticks(list(cells), [str(n) for n in cells])
        ax.minorticks_off()
        ax.set_ylim(-0.03, 1.03)
        ax.set_title(f"{task}: {', '.join(key)}", fontsize=9)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[-len(TASKS) :]:
        ax.set_xlabel("N", fontsize=9)
    figure.supylabel("share of seeds that solved it", fontsize=9)
    legend_below(figure, 7)
    return figure
