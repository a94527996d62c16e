"""Stored runs of the study as one table, and what they come to, by `criteria`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.lab.statistics import reach
from chunked_td.lab.studies.deep.criteria import FIXED, moonshot
from chunked_td.lab.studies.deep.results import AgentResults, chosen_columns, judge_cell, stored_curves
from chunked_td.lab.studies.hidden import criteria as rule
from chunked_td.lab.studies.hidden.protocol import AGENTS, ARMS, TASKS, hidden_protocols

if TYPE_CHECKING:
    import polars as pl

    from chunked_td.lab.store.batch_store import Store

_CELL = ("agent", "memory", "task", "length")

Cells = dict[tuple[str, str], dict[tuple[str, int], dict[str, Any]]]
"""(agent, memory) → (task, N) → arm → judged runs: a dict of columns."""


def COLLECT(store: Store) -> pl.DataFrame:
    """One row per run."""
    import polars as pl

    frames = []
    for protocol, arm, runs, curve in stored_curves(store, hidden_protocols):
        task, length = (protocol.environment.arguments[name] for name in ("name", "length"))
        named = (protocol.arms[0].learner, protocol.batch_runner.memory, task)  # type: ignore[union-attr]
        score, last = curve["score"], curve["mean_lambda"]
        columns = {name: np.full(len(score), x) for name, x in zip(_CELL, named, strict=False)}
        columns |= {"length": np.full(len(score), length, np.int16), "arm": np.full(len(score), arm), **runs}
        columns |= {"score": np.nanmean(score, 1), "solved": rule.solved(score)}
        frames.append(pl.DataFrame({**columns, "mean_lambda": last.mean(1), "last_lambda": last[:, -1]}))
    return pl.concat(frames).sort(*_CELL, maintain_order=True)


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
