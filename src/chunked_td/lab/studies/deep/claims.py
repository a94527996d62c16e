"""Claims and page of the study of deep learners, judged by `criteria`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from chunked_td.lab.studies.deep import tables
from chunked_td.lab.studies.deep.protocol import GRIDS, OTHERS, TASKS
from chunked_td.lab.studies.deep.results import SETS, DeepResults, best_arms
from chunked_td.lab.study import FAILS, HOLDS, Claim, Verdict


def beats_fixed(agent: str, results: DeepResults, _: Mapping[str, Any]) -> Verdict:
    """Whether one source passes the moonshot of `criteria`."""
    if missing := results.missing(agent):
        return missing
    judged = results.verdicts[agent]
    source, rival = best_arms(judged["moonshot"]["means"])
    gates = [task["gate"] for task in judged["tasks"].values()]
    evidence = f"best source {source}, best fixed λ {rival}"
    once = judged["sets"].get("without the twin")
    if once is not None and once["moonshot over"] != list(judged["tasks"]):
        source, rival = best_arms(once["moonshot"]["means"])
        evidence += f" (with CartPole once instead of twice: {source} and {rival}, {once['moonshot']['verdict']})"
    status = HOLDS if judged["moonshot"]["verdict"] == "holds" else FAILS
    return Verdict(status, f"{evidence}; the gate was passed on {gates.count('passed')} of {len(gates)} tasks")


CLAIMS = tuple(
    Claim(
        f"deep-{agent}",
        "ours; §6 names it as the next step",
        f"A λ per step beats every fixed λ for {agent}, over {len(TASKS) + len(OTHERS)} tasks.",
        "One source has a mean over tasks above that of every fixed λ, intervals disjoint, and is no worse than "
        "5 % on any task. First the gate: λ from the true model must help.",
        (),
        partial(beats_fixed, agent),
        f"beats every fixed λ for {agent}",
        figure="tables/moonshot.md",
    )
    for agent in GRIDS
)


def PAGE(folder: Path, results: DeepResults) -> Path:
    """Write verdicts.json, tables/ and figures/; returns the table of the moonshot."""
    judged = results.verdicts
    texts = {f"gate-{name}": tables.gate_table(judged, members) for name, members in SETS.items()}
    for agent, tasks in results.scores.items():
        texts |= {f"{agent}-{name}": text for name, text in tables.score_tables(tasks).items()}
    texts |= tables.summary_tables(results.frame, results.chosen, results.scores, judged)
    texts |= tables.cost_tables(folder / "costs.json")
    tables.write_verdicts(
        folder, judged, texts, {f"deep-{agent}": tables.draw_scores(judged, agent) for agent in judged}
    )
    return folder / "tables" / "moonshot.md"
