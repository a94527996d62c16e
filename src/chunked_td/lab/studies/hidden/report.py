"""Tables, verdicts and the figure of the study with hidden state."""

from __future__ import annotations

from pathlib import Path

from chunked_td.lab.studies.deep.criteria import FIXED
from chunked_td.lab.studies.deep.report import write_verdicts
from chunked_td.lab.studies.deep.tables import edge_table, score_table
from chunked_td.lab.studies.hidden import tables
from chunked_td.lab.studies.hidden.protocol import ARMS
from chunked_td.lab.studies.hidden.results import HiddenResults


def PAGE(folder: Path, results: HiddenResults) -> Path:
    """Write verdicts.json, tables/ and figures/; returns the table of the reaches."""
    judged = results.verdicts
    tried = results.frame.group_by("agent", "memory").agg("step_size")
    grids = {f"{agent}, {memory}": tuple(sorted(set(sizes))) for agent, memory, sizes in tried.rows()}
    chosen = {f"{agent}, {memory}": cells for (agent, memory), cells in results.cells.items()}
    texts = {"gate": tables.gate_table(judged), "reach": tables.reach_table(judged)}
    texts["step-sizes"] = edge_table(chosen, grids)
    for (agent, memory), scores in results.scores.items():
        texts[f"solved-{agent}-{memory}"] = tables.solved_table(judged["memories"][f"{agent}, {memory}"]["cells"])
        texts[f"scores-{agent}-{memory}"] = score_table(scores, (*map(str, FIXED), *ARMS))
    write_verdicts(folder, judged, texts, {"deep-hidden": tables.draw_success(judged)} if judged["memories"] else {})
    return folder / "tables" / "reach.md"
