"""Table and figure: bsuite's score of every arm in every experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chunked_td.lab.report.page import write_parts
from chunked_td.lab.results.tables import markdown
from chunked_td.lab.studies.bsuite.protocol import LABELS, SETTINGS
from chunked_td.lab.studies.bsuite.results import BsuiteResults

COLOURS = dict(zip(LABELS, ("0.8", "0.55", "0.3", "#D55E00", "#F0A070", "#0072B2", "#7A4FB5", "#E8D8A0"), strict=True))


def PAGE(folder: Path, results: BsuiteResults) -> Path:
    """Write tables/scores.md and figures/scores.svg; returns the path of the table."""
    rows, experiments = [], _experiments(results)
    for arm, label in LABELS.items():
        found = [results.scores(experiment, arm) for experiment in experiments]
        if any(scores.size for scores in found):
            rows.append((label, *(f"{scores.mean():.2f}" if scores.size else "" for scores in found)))
    write_parts(folder, {"scores": markdown(("", *experiments), rows)}, {"scores": _draw(results)})
    return folder / "tables" / "scores.md"


def _experiments(results: BsuiteResults) -> list[str]:
    """Those of which some arm was run whole."""
    return [name for name in SETTINGS if any(results.scores(name, arm).size for arm in LABELS)]


def _draw(results: BsuiteResults) -> Any:
    """A group of bars per experiment; a repeat is a dot."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 3.0), layout="constrained")
    axis = figure.subplots()
    shown, experiments = {}, _experiments(results)
    for x, experiment in enumerate(experiments):
        found = {arm: scores for arm in LABELS if (scores := results.scores(experiment, arm)).size}
        for k, (arm, scores) in enumerate(found.items()):
            place = x + 0.8 * ((k + 0.5) / len(found) - 0.5)
            shown[LABELS[arm]] = axis.bar(place, scores.mean(), 0.75 / len(found), color=COLOURS[arm])
            if scores.size > 1:
                axis.plot([place] * scores.size, scores, "k.", ms=2)
    axis.set_xticks(range(len(experiments)), experiments)
    axis.set_ylabel("bsuite's score")
    axis.set_ylim(0.0, 1.02)
    if shown:
        figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure
