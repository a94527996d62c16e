"""Tables, verdicts and figures of the study of maturity and luck."""

from __future__ import annotations

from pathlib import Path

from chunked_td.lab.results.tables import markdown
from chunked_td.lab.studies.deep.criteria import FIXED
from chunked_td.lab.studies.deep.report import write_scores
from chunked_td.lab.studies.luck.protocol import ADDED, PLAIN
from chunked_td.lab.studies.luck.results import LuckResults

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
