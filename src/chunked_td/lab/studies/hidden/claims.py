"""Table, claims and page of the study with hidden state, judged by `criteria`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td.lab.report.style import legend_below, new_figure
from chunked_td.lab.results.runs import RunArrays, collector
from chunked_td.lab.results.tables import markdown
from chunked_td.lab.studies.deep.criteria import FIXED, USUAL, compared, moonshot
from chunked_td.lab.studies.deep.results import AgentResults, best_arms, chosen_columns, judge_cell, runs_and_curves
from chunked_td.lab.studies.deep.tables import SIGNS, edge_table, score_table, write_verdicts
from chunked_td.lab.studies.hidden import criteria as rule
from chunked_td.lab.studies.hidden.protocol import AGENTS, ARMS, MEMORIES, TASKS, hidden_protocols
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, NOT_TESTABLE, Claim, Protocol, Verdict
from chunked_td.statistics import Estimate, reach

_CELL = ("agent", "memory", "task", "length")

Cells = dict[tuple[str, str], dict[tuple[str, int], dict[str, Any]]]
"""(agent, memory) → (task, N) → arm → judged runs: a dict of columns."""


def _rows(protocol: Protocol, arm: str, found: RunArrays) -> Any:
    """One row per run."""
    import polars as pl

    runs, curve = runs_and_curves(found)
    task, length = (protocol.environment.arguments[name] for name in ("name", "length"))
    named = (protocol.arms[0].learner, protocol.batch_runner.memory, task)  # type: ignore[union-attr]
    score, last = curve["score"], curve["mean_lambda"]
    columns = {name: np.full(len(score), x) for name, x in zip(_CELL, named, strict=False)}
    columns |= {"length": np.full(len(score), length, np.int16), "arm": np.full(len(score), arm), **runs}
    columns |= {"score": np.nanmean(score, 1), "solved": rule.solved(score)}
    return pl.DataFrame({**columns, "mean_lambda": last.mean(1), "last_lambda": last[:, -1]})


COLLECT = collector(hidden_protocols, _rows, *_CELL)


class HiddenResults(AgentResults):
    """Results of the study with hidden state."""

    @cached_property
    def cells(self) -> Cells:
        """The judged runs of every arm at the step size that its tuning seeds chose, where no arm is missing."""
        found: Cells = {}
        names = ("score", "solved", "last_lambda", "step_size")
        for (agent, memory, task, length), cell in self.frame.group_by(*_CELL, maintain_order=True):
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
                    **judge_cell(runs, ARMS, rule.GATE),
                    "solved": {arm: float(columns["solved"].mean()) for arm, columns in arms.items()},
                    "last λ": {arm: float(arms[arm]["last_lambda"].mean()) for arm in ARMS},
                }
            found = moonshot(scores, rule.SOURCES)
            result["memories"][f"{agent}, {memory}"] = {
                "cells": each,
                "moonshot": found,
                "reach": rule.describe(reached),
                "score claim": found["verdict"],
                "reach claim": rule.reach_claim(reached),
            }
        for agent in dict.fromkeys(agent for agent, _ in reaches):
            if (agent, "kept") in reaches and (agent, "state") in reaches:
                result["claims"][agent] = rule.memory_claim(reaches[agent, "kept"], reaches[agent, "state"])
        return result


def _reaches_of(cells: dict[tuple[str, int], dict[str, Any]]) -> rule.Reaches:
    """task → arm → reach."""
    return {
        task: {
            arm: reach({n: arms[arm]["solved"].mean() for (t, n), arms in cells.items() if t == task}, rule.SHARE)
            for arm in (*map(str, FIXED), *ARMS)
        }
        for task in dict.fromkeys(task for task, _ in cells)
    }


LOAD = HiddenResults.load


_STATUS = {"holds": HOLDS, "in part": IN_PART, "fails": FAILS}


def better_memory(agent: str, results: HiddenResults, _: Mapping[str, Any]) -> Verdict:
    """The claim "memory" of an agent."""
    judged = results.verdicts["claims"].get(agent)
    if results.too_small or judged is None:
        return results.too_small or Verdict(NOT_RUN, f"{agent} was not run with both memories")
    reach = (f"{task}: {r['kept']} and {r['state']}" for task, r in judged["reach"].items())
    return Verdict(_STATUS[judged["memory"]], "greatest N, kept percepts and recurrent state: " + "; ".join(reach))


def with_memory(agent: str, memory: str, claim: str, results: HiddenResults, _: Mapping[str, Any]) -> Verdict:
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


def _memory(agent: str) -> Claim:
    return Claim(
        f"hidden-memory-{agent}",
        "ours, after §2.2",
        f"For {agent}, the last percepts that a model did not predict carry a signal farther than its recurrent state.",
        "The greatest corridor that 90 % of the seeds solve, at the best λ, is at least as long on every task and "
        "longer on one.",
        (),
        partial(better_memory, agent),
        f"{agent}: kept percepts are the better memory",
        figure="tables/reach.md",
    )


def _score_and_reach(agent: str, memory: str) -> tuple[Claim, Claim]:
    reads = "the last kept percepts" if memory == "kept" else "the recurrent state"
    score = Claim(
        f"hidden-score-{agent}-{memory}",
        "ours; §6 names it as the next step",
        f"With hidden state, λ = P(next percept | history, action) beats every fixed λ for {agent} with values on "
        f"{reads}.",
        "One form has a mean over tasks and lengths above that of every fixed λ, intervals disjoint, and is no "
        "worse than 5 % on any. First the gate: λ from the true model must help.",
        (),
        partial(with_memory, agent, memory, "score"),
        f"{agent}, {memory}: beats every fixed λ",
        figure=f"tables/scores-{agent}-{memory}.md",
    )
    reach = Claim(
        f"hidden-reach-{agent}-{memory}",
        "ours",
        f"That λ solves corridors as long as the best fixed λ of each task, for {agent} with values on {reads}.",
        "The greatest N that 90 % of the seeds solve is at least that of every fixed λ on every task, and no "
        "single fixed λ has that property. In part: some single fixed λ has it, too.",
        (),
        partial(with_memory, agent, memory, "reach"),
        f"{agent}, {memory}: reaches as far as fixed λ",
        figure="tables/reach.md",
    )
    return score, reach


CLAIMS = (
    *(_memory(agent) for agent in AGENTS),
    *(claim for cell in itertools.product(AGENTS, sorted(MEMORIES)) for claim in _score_and_reach(*cell)),
)


_ARMS = (*map(str, FIXED), *ARMS)


def PAGE(folder: Path, results: HiddenResults) -> Path:
    """Write verdicts.json, tables/ and figures/; returns the table of the reaches."""
    judged = results.verdicts
    tried = results.frame.group_by("agent", "memory").agg("step_size")
    grids = {f"{agent}, {memory}": tuple(sorted(set(sizes))) for agent, memory, sizes in tried.rows()}
    chosen = {f"{agent}, {memory}": cells for (agent, memory), cells in results.cells.items()}
    texts = {"gate": gate_table(judged), "reach": reach_table(judged)}
    texts["step-sizes"] = edge_table(chosen, grids)
    for (agent, memory), scores in results.scores.items():
        texts[f"solved-{agent}-{memory}"] = solved_table(judged["memories"][f"{agent}, {memory}"]["cells"])
        texts[f"scores-{agent}-{memory}"] = score_table(scores, _ARMS)
    write_verdicts(folder, judged, texts, {"deep-hidden": draw_success(judged)} if judged["memories"] else {})
    return folder / "tables" / "reach.md"


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
            best, *sources = (str(found[name] or "none") for name in ("best fixed", *rule.SOURCES))
            rows.append((*key.split(", "), task, best, by if found["best fixed"] else "", *sources))
    return markdown(("agent", "values read", "task", "best fixed λ", "by λ", *rule.SOURCES), rows)


def gate_table(judged: dict[str, Any]) -> str:
    """Per cell the gate, and the learned sources against the best fixed λ and against 0.95."""
    rows, usual = [], str(USUAL)
    for key, memory in judged["memories"].items():
        for name, cell in memory["cells"].items():
            s = {arm: Estimate(**e) for arm, e in cell["scores"].items()}
            best = cell["best fixed"]
            first, *marks = (_marked(s[arm], s[best], s[usual]) for arm in (best, "true-expected", *rule.SOURCES))
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
    figure, axes = new_figure(9.0, 2.3 * len(memories), len(TASKS), len(memories), sharey=True)
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
