"""Table, claims and page of the study of backward models; their rule is in the package's docstring."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from chunked_td.lab.results.runs import collector
from chunked_td.lab.studies.deep.criteria import FIXED
from chunked_td.lab.studies.deep.results import agent_rows
from chunked_td.lab.studies.deep.tables import COLOURS, write_scores
from chunked_td.lab.studies.fan_in.protocol import AGENTS, BACKWARD, FORWARD, TASKS, fan_in_protocols
from chunked_td.lab.studies.luck.claims import PairedResults, together
from chunked_td.lab.study import Claim
from chunked_td.lambdas.backward import BackwardLambda


class FanInResults(PairedResults):
    """Results of the study of backward models: the backward network beside each form of the forward one."""

    needed = frozenset({*map(str, FIXED), BACKWARD, *FORWARD})
    tasks = TASKS
    beside = tuple((rival, BACKWARD, rival) for rival in FORWARD)


COLLECT, LOAD = collector(fan_in_protocols, agent_rows), FanInResults.load


CLAIMS = tuple(
    Claim(
        f"backward-{agent}",
        "ours",
        f"Where many ways meet, {agent} learns faster with λ from a backward network than from a forward one.",
        "Its mean over tasks lies above that of the forward network, intervals disjoint, and it is worse on none, for "
        "both forms of the forward network. In part: for one, or better on a task.",
        (),
        partial(together, agent, FORWARD),
        f"{agent}: a backward network beats a forward one at fan-in",
        figure=f"figures/fan-in-{agent}.svg",
    )
    for agent in AGENTS
)


def PAGE(folder: Path, results: FanInResults) -> Path:
    """Write verdicts.json, tables/ and figures/; returns a table of scores."""
    colours = {**COLOURS, BACKWARD: BackwardLambda.color}
    write_scores(folder, results, "fan-in", (*map(str, FIXED), *FORWARD, BACKWARD), colours, {})
    return folder / "tables" / f"{next(iter(results.scores), 'none')}.md"
