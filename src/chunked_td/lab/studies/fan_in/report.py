"""Tables, verdicts and figures of the study of backward models."""

from __future__ import annotations

from pathlib import Path

from chunked_td.lab.studies.deep.criteria import FIXED
from chunked_td.lab.studies.deep.report import write_scores
from chunked_td.lab.studies.deep.tables import COLOURS
from chunked_td.lab.studies.fan_in.protocol import BACKWARD, FORWARD
from chunked_td.lab.studies.fan_in.results import FanInResults
from chunked_td.lambdas.backward import BackwardLambda


def PAGE(folder: Path, results: FanInResults) -> Path:
    """Write verdicts.json, tables/ and figures/; returns a table of scores."""
    colours = {**COLOURS, BACKWARD: BackwardLambda.color}
    write_scores(folder, results, "fan-in", (*map(str, FIXED), *FORWARD, BACKWARD), colours, {})
    return folder / "tables" / f"{next(iter(results.scores), 'none')}.md"
