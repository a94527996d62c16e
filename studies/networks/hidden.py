"""How the study with hidden state is judged. Written before its data; no rule was changed afterwards.

**Cells.** A cell is an agent (SARSA(λ), actor-critic(λ)), what its values read (the last kept percepts, or the
recurrent state), a task and its length N. In a cell all arms have the same network, memory, grid of step sizes and
seeds.

**Score, tuning, intervals, "better" and "worse"**: those of `criteria`. The step size of an arm is chosen per cell on
10 tuning seeds; 20 other seeds are judged.

**Solved.** A run has solved its task if the mean of its episodes' scores over the last quarter of its blocks is at
least 0.9. Guessing scores 0.5. An arm's *reach* on a task is the greatest N such that at least 90 % of its judged seeds
solve the task there and at every smaller N; 0 where there is none.

**The gate.** λ from the true model in the form "expected", as in `criteria`: passed, half or closed, per cell. (In a
T-maze it is 1 all along the corridor.)

**Claims**, per agent and memory:

    score   λ from the recurrent percept model beats every fixed λ: HOLDS if "recurrent" or "recurrent-realised" passes
            the moonshot of `criteria` over all cells; FAILS otherwise.
    reach   It reaches at least as far as a fixed λ chosen per task: HOLDS if on every task the reach of "recurrent" is
            at least the greatest reach of any fixed λ, and no single fixed λ can say that of itself; IN PART if it is,
            but some single fixed λ can; FAILS otherwise.

and per agent

    memory  Kept percepts carry the signal farther than a recurrent state does: HOLDS if the greatest reach of any arm
            (the true model's not counted) is with "kept" at least that with "state" on every task, and greater on one;
            FAILS if it is less on some task; IN PART if it is equal on all.

What was looked at beforehand: all arms with six seeds and two step sizes at N = 10 and 50, SARSA only, to see what can
be learned in 100,000 steps at all. After that the task with a signal to fetch was made easier (no walls), with fixed λ
and the true model on eight seeds alone, and nothing else was changed. The threshold for keeping percepts, 0.75, is that
of the compression study; 0.5 was tried first and keeps a fair coin only half of the time. Rewards of the T-maze were ±1
at first: agents then learned to avoid both arms.

**Added later, before the data it speaks of**: PPO, with the same memory; policy and values read it. Its cells are
judged by the rules above, with PPO's own grid of step sizes.

**Added after the data**: PPO learns from whole rollouts of 1,024 transitions, so its 100,000 steps in 20 blocks were 4
rollouts a block, 81,920 transitions. Most arms with kept percepts chose the largest step size of the grid, which may
not enclose the best one.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Any

import numpy as np

from chunked_td.statistics import Estimate, reach
from studies.networks.criteria import FIXED, SOLVED, USUAL, compared, moonshot
from studies.networks.results import AgentResults, best_arms, chosen_columns, judge_cell
from studies.networks.tables import SIGNS, grid
from studies.runner.criteria import FAILS, HOLDS, IN_PART, NOT_RUN, NOT_TESTABLE, Verdict
from studies.runner.plots import legend_below
from studies.runner.text import markdown

ARMS = ("recurrent", "recurrent-realised", "true-expected", "true-realised")
"""Besides fixed λ."""
AGENTS = ("sarsa", "actor-critic", "ppo")
MEMORIES = ("state", "kept")
TASKS = ("t-maze", "t-maze-look", "memory-chain")
LENGTHS = (5, 10, 20, 50, 100)
CELL = ("agent", "memory", "task", "length")
SHARE = 0.9
GATE = ("true-expected",)
SOURCES = ("recurrent", "recurrent-realised")

Reaches = dict[str, dict[str, int]]
"""task → arm → reach."""


def solved(curves: np.ndarray) -> np.ndarray:
    """Which runs solved their task: bool[R], from scores [R, blocks]; blocks without an episode do not count."""
    quarter = max(1, curves.shape[-1] // 4)
    return np.nanmean(curves[..., -quarter:], -1) >= SOLVED


def reach_claim(reaches: Reaches) -> str:
    """The claim "reach" for one agent and memory."""
    best = {task: max(arms[str(x)] for x in FIXED) for task, arms in reaches.items()}

    def everywhere(arm: str) -> bool:
        return all(arms[arm] >= best[task] for task, arms in reaches.items())

    if not everywhere(SOURCES[0]):
        return "fails"
    return "in part" if any(everywhere(str(x)) for x in FIXED) else "holds"


def memory_claim(kept: Reaches, state: Reaches) -> dict[str, Any]:
    """The claim "memory" for one agent, with the greatest reach of any arm on every task."""
    arms = (*map(str, FIXED), *SOURCES)
    both = {"kept": kept, "state": state}
    best = {task: {name: max(found[task][a] for a in arms) for name, found in both.items()} for task in kept}
    gains = [reach["kept"] - reach["state"] for reach in best.values()]
    verdict = "fails" if min(gains) < 0 else "holds" if max(gains) > 0 else "in part"
    return {"memory": verdict, "reach": best}


def describe(reaches: Reaches) -> dict[str, Any]:
    """The greatest reach of fixed λ, which λ have it, and the reach of the sources, per task."""
    found = {}
    for task, arms in reaches.items():
        best = max(arms[str(x)] for x in FIXED)
        found[task] = {
            "best fixed": best,
            "by": [str(x) for x in FIXED if arms[str(x)] == best],
            **{source: arms[source] for source in SOURCES},
        }
    return found


Cells = dict[tuple[str, str], dict[tuple[str, int], dict[str, Any]]]
"""(agent, memory) → (task, N) → arm → judged runs: a dict of columns."""


class HiddenResults(AgentResults):
    """Results of the study with hidden state."""

    @cached_property
    def cells(self) -> Cells:
        """The judged runs of every arm at the step size that its tuning seeds chose, where no arm is missing."""
        found: Cells = {}
        names = ("score", "solved", "last_lambda", "step_size")
        for (agent, memory, task, length), cell in self.frame.group_by(*CELL, maintain_order=True):
            arms = {arm: chosen_columns(rows, names) for (arm,), rows in cell.group_by("arm", maintain_order=True)}
            if {*map(str, FIXED), *ARMS} <= arms.keys():
                found.setdefault((agent, memory), {})[task, int(length)] = arms
        return {
            key: dict(sorted(found[key].items(), key=lambda cell: (TASKS.index(cell[0][0]), cell[0][1])))
            for key in sorted(found, key=lambda key: (AGENTS.index(key[0]), key[1]))
        }

    @cached_property
    def scores(self) -> dict[tuple[str, str], dict[str, dict[str, np.ndarray]]]:
        """(agent, memory) → "task N" → arm → scores."""
        return {
            key: {f"{t} {n}": {arm: runs["score"] for arm, runs in arms.items()} for (t, n), arms in cells.items()}
            for key, cells in self.cells.items()
        }

    @cached_property
    def verdicts(self) -> dict[str, Any]:
        """Gate and comparisons of every cell, and the claims, by `criteria`."""
        reaches = {key: _reaches_of(cells) for key, cells in self.cells.items()}
        result: dict[str, Any] = {"memories": {}, "claims": {}}
        for (agent, memory), cells in self.cells.items():
            scores, reached = self.scores[agent, memory], reaches[agent, memory]
            each = {}
            for (name, runs), arms in zip(scores.items(), cells.values(), strict=True):
                each[name] = {
                    **judge_cell(runs, ARMS, GATE),
                    "solved": {arm: float(columns["solved"].mean()) for arm, columns in arms.items()},
                    "last λ": {arm: float(arms[arm]["last_lambda"].mean()) for arm in ARMS},
                }
            found = moonshot(scores, SOURCES)
            result["memories"][f"{agent}, {memory}"] = {
                "cells": each,
                "moonshot": found,
                "reach": describe(reached),
                "score claim": found["verdict"],
                "reach claim": reach_claim(reached),
            }
        for agent in dict.fromkeys(agent for agent, _ in reaches):
            if (agent, "kept") in reaches and (agent, "state") in reaches:
                result["claims"][agent] = memory_claim(reaches[agent, "kept"], reaches[agent, "state"])
        return result


def _reaches_of(cells: dict[tuple[str, int], dict[str, Any]]) -> Reaches:
    """task → arm → reach."""
    return {
        task: {
            arm: reach({n: arms[arm]["solved"].mean() for (t, n), arms in cells.items() if t == task}, SHARE)
            for arm in (*map(str, FIXED), *ARMS)
        }
        for task in dict.fromkeys(task for task, _ in cells)
    }


_STATUS = {"holds": HOLDS, "in part": IN_PART, "fails": FAILS}


def better_memory(agent: str, results: HiddenResults) -> Verdict:
    """The claim "memory" of an agent."""
    judged = results.verdicts["claims"].get(agent)
    if results.too_small or judged is None:
        return results.too_small or Verdict(NOT_RUN, f"{agent} was not run with both memories")
    reach = (f"{task}: {r['kept']} and {r['state']}" for task, r in judged["reach"].items())
    return Verdict(_STATUS[judged["memory"]], "greatest N, kept percepts and recurrent state: " + "; ".join(reach))


def with_memory(agent: str, memory: str, claim: str, results: HiddenResults) -> Verdict:
    """The claim "score" or "reach" of an agent with a memory."""
    judged = results.verdicts["memories"].get(f"{agent}, {memory}")
    if results.too_small or judged is None:
        return results.too_small or Verdict(NOT_RUN, f"no runs of {agent} with the memory {memory!r}")
    if claim == "reach":
        reaches = (f"{task}: {r['recurrent']} against {r['best fixed']}" for task, r in judged["reach"].items())
        evidence = "greatest N against that of the best fixed λ: " + "; ".join(reaches)
        if not any(r["recurrent"] or r["best fixed"] for r in judged["reach"].values()):
            return Verdict(NOT_TESTABLE, f"{evidence}; no arm solves any length, so none can reach farther")
    else:
        means = judged["moonshot"]["means"]
        source, rival = best_arms(means)
        gates = [cell["gate"] for cell in judged["cells"].values()]
        evidence = (
            f"best form {source}, best fixed λ {rival}, 0.95 {means['0.95']['value']:.3f}; "
            f"the gate was passed on {gates.count('passed')} of {len(gates)} cells"
        )
    return Verdict(_STATUS[judged[f"{claim} claim"]], evidence)


_ARMS = (*map(str, FIXED), *ARMS)


def solved_table(cells: dict[str, Any]) -> str:
    """The share of judged seeds that solved the task, an arm per row."""
    rows = [(arm, *(f"{100 * cell['solved'][arm]:.0f} %" for cell in cells.values())) for arm in _ARMS]
    return markdown(("λ", *cells), rows)


def reach_table(judged: dict[str, Any]) -> str:
    """The greatest N that 90 % of the seeds solve, per agent, memory and task."""
    rows = []
    for key, memory in judged["memories"].items():
        for task, found in memory["reach"].items():
            by = "all" if len(found["by"]) == len(FIXED) else ", ".join(f"{float(x):g}" for x in found["by"])
            best, *sources = (str(found[name] or "none") for name in ("best fixed", *SOURCES))
            rows.append((*key.split(", "), task, best, by if found["best fixed"] else "", *sources))
    return markdown(("agent", "values read", "task", "best fixed λ", "by λ", *SOURCES), rows)


def gate_table(judged: dict[str, Any]) -> str:
    """Per cell the gate, and the learned sources against the best fixed λ and against 0.95."""
    rows, usual = [], str(USUAL)
    for key, memory in judged["memories"].items():
        for name, cell in memory["cells"].items():
            s = {arm: Estimate(**e) for arm, e in cell["scores"].items()}
            best = cell["best fixed"]
            first, *marks = (_marked(s[arm], s[best], s[usual]) for arm in (best, "true-expected", *SOURCES))
            rows.append((*key.split(", "), name, cell["gate"], f"{best}: {first}", f"{s[usual].value:.3f}", *marks))
    head = ("agent", "values read", "task", "gate", "best fixed λ", "0.95", "true model", "recurrent", "realised")
    return markdown(head, rows)


def _marked(ours: Estimate, best: Estimate, usual: Estimate) -> str:
    """A score; ▲ ▼: better or worse than λ = 0.95, ★ also better than the best fixed λ."""
    return f"{ours.value:.3f}{' ★' if ours.above(best) else SIGNS[compared(ours, usual)]}"


def draw_success(judged: dict[str, Any]) -> Any:
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
    memories = judged["memories"]
    figure, axes = grid(len(TASKS), len(memories), 3.0, 2.3, sharey=True)
    for ax, (key, task) in zip(axes, itertools.product(memories, TASKS), strict=True):
        found = memories[key]["cells"]
        cells = {int(c.split()[-1]): v for c, v in found.items() if c.rsplit(" ", 1)[0] == task}
        for arm, (colour, mark) in styles.items():
            ax.plot(list(cells), [v["solved"][arm] for v in cells.values()], mark, color=colour, ms=4, label=arm)
        ax.set_xscale("log")
        ax.set_xticks(list(cells), [str(n) for n in cells])
        ax.minorticks_off()
        ax.set_ylim(-0.03, 1.03)
        ax.set_title(f"{task}: {key}", fontsize=9)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[-len(TASKS) :]:
        ax.set_xlabel("N", fontsize=9)
    figure.supylabel("share of seeds that solved it", fontsize=9)
    legend_below(figure, 7)
    return figure
