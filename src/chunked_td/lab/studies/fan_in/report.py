"""Tables, verdicts and figures of the study of backward models."""

from __future__ import annotations

from pathlib import Path

from chunked_td.lab.studies.deep.criteria import FIXED
from chunked_td.lab.studies.deep.report import write_verdicts
from chunked_td.lab.studies.deep.tables import COLOURS, draw_scores, score_table
from chunked_td.lab.studies.fan_in.protocol import BACKWARD, FORWARD
from chunked_td.lab.studies.fan_in.results import FanInResults
from chunked_td.lambdas.backward import BackwardLambda


def PAGE(folder: Path, results: FanInResults) -> Path:
    """Write verdicts.json, tables/ and figures/; returns a table of scores."""
    arms = (*map(str, FIXED), *FORWARD, BACKWARD)
    texts = {agent: score_table(tasks, arms) for agent, tasks in results.scores.items()}
    colours = {**COLOURS, BACKWARD: BackwardLambda.color}
    figures = {f"fan-in-{agent}": draw_scores(results.verdicts, agent, colours) for agent in results.verdicts}
    write_verdicts(folder, results.verdicts, texts, figures)
    return folder / "tables" / f"{next(iter(results.scores), 'none')}.md"
