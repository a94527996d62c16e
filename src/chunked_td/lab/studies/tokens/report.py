"""The gate's table and figure."""

from __future__ import annotations

from pathlib import Path

from chunked_td._files import write_atomically
from chunked_td.lab.studies.tokens.protocol import FIXED, SOURCES, TASKS
from chunked_td.lab.studies.tokens.results import Gate, _mean
from chunked_td.lab.study import Verdict


def PAGE(folder: Path, gate: Gate | Verdict) -> Path:
    """Write tables/gate.md and figures/gate.svg; returns the path of the first."""
    path = folder / "tables" / "gate.md"
    for name in ("tables", "figures"):
        (folder / name).mkdir(exist_ok=True)
    if isinstance(gate, Verdict):
        text = f"{gate.status}: {gate.evidence}"
    else:
        head = ("λ", *(TASKS[task] for task in gate.scores))
        best = (f"{gate.best_fixed(task).mean():.3f}" for task in gate.scores)
        rows = [("best fixed λ, chosen on other seeds", *best)]
        rows += [(f"λ = {arm}", *(_cell(gate, task, arm) for task in gate.scores)) for arm in FIXED]
        rows += [
            (label, *(f"{_cell(gate, task, arm)}, {gate.judge(task, arm)}" for task in gate.scores))
            for arm, label in SOURCES.items()
        ]
        lines = [head, ("---",) * len(head), *rows]
        text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        _draw(gate, folder / "figures" / "gate.svg")
    write_atomically(path, f"{text}\n".encode())
    return path


def _cell(gate: Gate, task: str, arm: str) -> str:
    found = _mean(gate.scores[task][arm])
    return f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]".replace("-", "−")


def _draw(gate: Gate, path: Path) -> None:
    from matplotlib.figure import Figure

    from chunked_td.lab.report.style import render

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
    write_atomically(path, render(figure, "svg"))
