"""The gate's table and figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chunked_td.lab.report.page import write_parts
from chunked_td.lab.results.tables import markdown
from chunked_td.lab.studies.tokens.protocol import FIXED, SOURCES, TASKS
from chunked_td.lab.studies.tokens.results import Gate, _mean
from chunked_td.lab.study import Verdict


def PAGE(folder: Path, gate: Gate | Verdict) -> Path:
    """Write tables/gate.md and figures/gate.svg; returns the path of the first."""
    if isinstance(gate, Verdict):
        text, figures = f"{gate.status}: {gate.evidence}", {}
    else:
        head = ("λ", *(TASKS[task] for task in gate.scores))
        best = (f"{gate.best_fixed(task).mean():.3f}" for task in gate.scores)
        rows = [("best fixed λ, chosen on other seeds", *best)]
        rows += [(f"λ = {arm}", *(_cell(gate, task, arm) for task in gate.scores)) for arm in FIXED]
        rows += [
            (label, *(f"{_cell(gate, task, arm)}, {gate.judge(task, arm)}" for task in gate.scores))
            for arm, label in SOURCES.items()
        ]
        text, figures = markdown(head, rows), {"gate": _draw(gate)}
    write_parts(folder, {"gate": text}, figures)
    return folder / "tables" / "gate.md"


def _cell(gate: Gate, task: str, arm: str) -> str:
    return _mean(gate.scores[task][arm]).text(".3f")


def _draw(gate: Gate) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.2 * len(gate.scores) + 2.4, 4.2), layout="constrained")
    axes = figure.subplots(1, len(gate.scores), sharey=True, squeeze=False)[0]
    labels = [*(f"λ = {arm}" for arm in FIXED), *SOURCES.values()]
    for axis, task in zip(axes, gate.scores, strict=True):
        for place, arm in enumerate((*FIXED, *SOURCES)):
            found, control = _mean(gate.scores[task][arm]), gate.permuted[task][arm].mean()
            colour = "0.55" if arm in FIXED else "#1b6ca8"
            axis.plot([found.low, found.high], [place, place], color=colour)
            axis.plot(found.value, place, "o", color=colour)
            if arm not in FIXED:
                axis.plot(control, place, "x", color="#b5442e")
        axis.axvline(gate.best_fixed(task).mean(), color="0.55", linestyle=":")
        axis.set_title(TASKS[task], fontsize=9)
        axis.set_xlabel("correlation with the truth")
        axis.locator_params(axis="x", nbins=4)
        axis.set_yticks(range(len(labels)), labels, fontsize=8)
    axes[0].invert_yaxis()
    return figure
