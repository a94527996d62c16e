"""Tables, verdicts and the figure of the study with hidden state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chunked_td.lab.results.tables import markdown
from chunked_td.lab.statistics import Estimate
from chunked_td.lab.studies.deep.criteria import FIXED, USUAL, compared
from chunked_td.lab.studies.deep.report import write_verdicts
from chunked_td.lab.studies.deep.tables import SIGNS, edge_table, score_table
from chunked_td.lab.studies.hidden import criteria as rule
from chunked_td.lab.studies.hidden.protocol import ARMS, TASKS
from chunked_td.lab.studies.hidden.results import HiddenResults

_ARMS = (*map(str, FIXED), *ARMS)


def PAGE(folder: Path, results: HiddenResults) -> Path:
    """Write verdicts.json, tables/ and figures/; returns the table of the reaches."""
    judged = results.verdicts
    tried = results.frame.group_by("agent", "memory").agg("step_size")
    grids = {f"{agent}, {memory}": tuple(sorted(set(sizes))) for agent, memory, sizes in tried.rows()}
    chosen = {f"{agent}, {memory}": cells for (agent, memory), cells in results.cells.items()}
    texts = {"gate": gate_table(judged), "reach": reach_table(judged)}
    texts["step-sizes"] = edge_table(chosen, grids)
    for (agent, memory), scores in results.scores.items():
        texts[f"solved-{agent}-{memory}"] = solved_table(judged["memories"][f"{agent}, {memory}"]["cells"])
        texts[f"scores-{agent}-{memory}"] = score_table(scores, _ARMS)
    write_verdicts(folder, judged, texts, {"deep-hidden": draw_success(judged)} if judged["memories"] else {})
    return folder / "tables" / "reach.md"


def solved_table(cells: dict[str, Any]) -> str:
    """The share of judged seeds that solved the task, an arm per row."""
    rows = [(arm, *(f"{100 * cell['solved'][arm]:.0f} %" for cell in cells.values())) for arm in _ARMS]
    return markdown(("λ", *cells), rows)


def reach_table(judged: dict[str, Any]) -> str:
    """The greatest N that 90 % of the seeds solve, per agent, memory and task."""
    rows = []
    for key, memory in judged["memories"].items():
        for task, found in memory["reach"].items():
            by = "all" if len(found["by"]) == len(FIXED) else ", ".join(f"{float(x):g}" for x in found["by"])
            best, *sources = (str(found[name] or "none") for name in ("best fixed", *rule.SOURCES))
            rows.append((*key.split(", "), task, best, by if found["best fixed"] else "", *sources))
    return markdown(("agent", "values read", "task", "best fixed λ", "by λ", *rule.SOURCES), rows)


def gate_table(judged: dict[str, Any]) -> str:
    """Per cell the gate, and the learned sources against the best fixed λ and against 0.95."""
    rows, usual = [], str(USUAL)
    for key, memory in judged["memories"].items():
        for name, cell in memory["cells"].items():
            s = {arm: Estimate(**e) for arm, e in cell["scores"].items()}
            best = cell["best fixed"]
            first, *marks = (_marked(s[arm], s[best], s[usual]) for arm in (best, "true-expected", *rule.SOURCES))
            rows.append((*key.split(", "), name, cell["gate"], f"{best}: {first}", f"{s[usual].value:.3f}", *marks))
    head = ("agent", "values read", "task", "gate", "best fixed λ", "0.95", "true model", "recurrent", "realised")
    return markdown(head, rows)


def _marked(ours: Estimate, best: Estimate, usual: Estimate) -> str:
    """A score; ▲ ▼: better or worse than λ = 0.95, ★ also better than the best fixed λ."""
    return f"{ours.value:.3f}{' ★' if ours.above(best) else SIGNS[compared(ours, usual)]}"


def draw_success(judged: dict[str, Any]) -> Any:
    """A row per agent and memory, a column per task: share of seeds that solved it against N."""
    from matplotlib.figure import Figure

    styles = {
        "0.0": ("0.75", "o-"),
        "0.8": ("0.55", "o-"),
        "0.95": ("0.35", "o-"),
        "1.0": ("0.1", "o-"),
        "recurrent": ("#0072B2", "s-"),
        "recurrent-realised": ("#D55E00", "^-"),
        "true-expected": ("#CC79A7", "d--"),
    }
    memories = judged["memories"]
    figure = Figure(figsize=(9.0, 2.3 * len(memories)), layout="constrained")
    axes = figure.subplots(len(memories), len(TASKS), squeeze=False, sharey=True)
    for row, (key, memory) in zip(axes, memories.items(), strict=True):
        for ax, task in zip(row, TASKS, strict=True):
            cells = {int(c.split()[-1]): v for c, v in memory["cells"].items() if c.rsplit(" ", 1)[0] == task}
            for arm, (colour, mark) in styles.items():
                ax.plot(list(cells), [v["solved"][arm] for v in cells.values()], mark, color=colour, ms=4, label=arm)
            ax.set_xscale("log")
            ax.set_xticks(list(cells), [str(n) for n in cells])
            ax.minorticks_off()
            ax.set_ylim(-0.03, 1.03)
            ax.set_title(f"{task}: {key}", fontsize=9)
            ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[-1]:
        ax.set_xlabel("N", fontsize=9)
    figure.supylabel("share of seeds that solved it", fontsize=9)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=7, frameon=False, fontsize=8)
    return figure
