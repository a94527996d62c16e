"""Tables, verdicts and figures of the study of deep learners."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chunked_td.lab.report.page import write_parts
from chunked_td.lab.studies.deep import tables
from chunked_td.lab.studies.deep.results import SETS, DeepResults


def PAGE(folder: Path, results: DeepResults) -> Path:
    """Write verdicts.json, tables/ and figures/; returns the table of the moonshot."""
    judged = results.verdicts
    texts = {f"gate-{name}": tables.gate_table(judged, members) for name, members in SETS.items()}
    for agent, tasks in results.scores.items():
        texts |= {f"{agent}-{name}": text for name, text in tables.score_tables(tasks).items()}
    texts |= tables.summary_tables(results.frame, results.chosen, results.scores, judged)
    texts |= cost_tables(folder / "costs.json")
    write_verdicts(folder, judged, texts, {f"deep-{agent}": tables.draw_scores(judged, agent) for agent in judged})
    return folder / "tables" / "moonshot.md"


def cost_tables(path: Path) -> dict[str, str]:
    """The tables of measured costs; none where the file is missing or damaged, which is said."""
    try:
        measured = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        found = {"costs": tables.cost_table(measured["costs"])} if "costs" in measured else {}
        if "cpu" in measured:
            found["costs-cpu"] = tables.repeated_cost_table(measured["cpu"]["repeats"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        print(f"damaged: {path}: {type(error).__name__}: {error}; left out", file=sys.stderr)
        return {}
    return found


def write_scores(
    folder: Path, results: Any, name: str, arms: tuple[str, ...], colours: Mapping[str, str], texts: Mapping[str, str]
) -> None:
    """Verdicts, `texts`, and a table of scores and a figure per agent, for studies of pairs of arms."""
    scores = {agent: tables.score_table(tasks, arms) for agent, tasks in results.scores.items()}
    figures = {f"{name}-{agent}": tables.draw_scores(results.verdicts, agent, colours) for agent in results.verdicts}
    write_verdicts(folder, results.verdicts, {**texts, **scores, **cost_tables(folder / "costs.json")}, figures)


def write_verdicts(folder: Path, judged: object, texts: Mapping[str, str], figures: Mapping[str, Any]) -> None:
    """Write verdicts.json, tables/*.md and figures/*.svg."""
    (folder / "verdicts.json").write_text(json.dumps(judged, indent=1) + "\n", encoding="utf-8")
    write_parts(folder, texts, figures)
