"""What the study with hidden state found, from its stored runs: verdicts, tables, a figure. Needs Polars, matplotlib.

python -m chunked_td.deep.hidden_tables --import HIDDEN.npz … --out results/hidden   # arrays of `hidden_study`
python -m chunked_td.deep.hidden_tables --out results/hidden --figures docs/figures   # tables/, verdicts.json, figure
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td._files import write_table
from chunked_td.deep import hidden_criteria as rule
from chunked_td.deep.criteria import FIXED, USUAL, Estimate, best_fixed, compared, estimate, gate, moonshot
from chunked_td.deep.hidden_study import ARMS, TASK_NAMES
from chunked_td.deep.summaries import edge_table
from chunked_td.deep.tables import SIGNS, chosen_rows, score_table, stored_with
from chunked_td.deep.training import AGENTS

_FIXED = tuple(str(x) for x in FIXED)
_ARMS = (*_FIXED, *ARMS)
_CELL = ("agent", "memory", "task", "length")

Cells = dict[tuple[str, str], dict[tuple[str, int], dict[str, Any]]]
"""(agent, memory) → (task, N) → arm → judged runs: a dict of columns."""


def import_runs(paths: list[Path], out: Path) -> None:
    """Write runs.parquet, one row per run. Cells that are stored already and not in the files are kept."""
    import polars as pl

    frames = []
    for path in paths:
        with np.load(path) as t:
            score = np.nanmean(t["curve"], 1)
            columns = {name: t[name] for name in ("agent", "memory", "task")}
            columns |= {"length": t["length"].astype(np.int16)}
            columns |= {name: t[name] for name in ("arm", "step_size", "seed", "judged")}
            columns |= {"score": score.astype(np.float32), "solved": rule.solved(t["curve"])}
            columns |= {"mean_lambda": t["mean_lambda"].mean(1), "last_lambda": t["mean_lambda"][:, -1]}
            frames.append(pl.DataFrame(columns))
    out.mkdir(parents=True, exist_ok=True)
    path = out / "runs.parquet"
    runs = stored_with(path, pl.concat(frames), _CELL).sort(*_CELL, maintain_order=True)
    write_table(path, runs, compression="zstd")


def read_cells(frame: Any) -> Cells:
    """The judged runs of every arm at the step size that its tuning seeds chose."""
    found: Cells = {}
    for (agent, memory, task, length), cell in frame.group_by(*_CELL, maintain_order=True):
        arms = {}
        for (arm,), rows in cell.group_by("arm", maintain_order=True):
            tuned = [rows[name].to_numpy() for name in ("step_size", "judged", "score")]
            some = chosen_rows(np.ones(len(rows), bool), *tuned)
            arms[arm] = {name: rows[name].to_numpy()[some] for name in ("score", "solved", "last_lambda", "step_size")}
        found.setdefault((agent, memory), {})[task, int(length)] = arms
    order = {name: k for k, name in enumerate(TASK_NAMES)}
    return {
        key: dict(sorted(found[key].items(), key=lambda c: (order[c[0][0]], c[0][1])))
        for key in sorted(found, key=lambda k: (AGENTS.index(k[0]), k[1]))
    }


def reaches_of(cells: dict[tuple[str, int], dict[str, Any]]) -> rule.Reaches:
    """task → arm → reach."""
    tasks = list(dict.fromkeys(task for task, _ in cells))
    return {
        task: {
            arm: rule.reach({n: float(arms[arm]["solved"].mean()) for (t, n), arms in cells.items() if t == task})
            for arm in _ARMS
        }
        for task in tasks
    }


def verdicts(found: Cells) -> dict[str, Any]:
    """Gate and comparisons of every cell, and the claims, by `hidden_criteria`."""
    result: dict[str, Any] = {"memories": {}, "claims": {}}
    reaches = {key: reaches_of(cells) for key, cells in found.items()}
    for (agent, memory), cells in found.items():
        each = {}
        for (task, n), arms in cells.items():
            est = {arm: estimate(runs["score"]) for arm, runs in arms.items()}
            best = best_fixed(est)
            each[f"{task} {n}"] = {
                "gate": gate(est, rule.GATE),
                "best fixed": best,
                "against 0.95": {s: compared(est[s], est[str(USUAL)]) for s in ARMS},
                "against best fixed": {s: compared(est[s], est[best]) for s in ARMS},
                "scores": {arm: e._asdict() for arm, e in est.items()},
                "solved": {arm: float(runs["solved"].mean()) for arm, runs in arms.items()},
                "last λ": {arm: float(arms[arm]["last_lambda"].mean()) for arm in ARMS},
            }
        scores = {f"{t} {n}": {arm: runs["score"] for arm, runs in arms.items()} for (t, n), arms in cells.items()}
        moon = moonshot(scores, rule.SOURCES)
        reached = reaches[agent, memory]
        result["memories"][f"{agent}, {memory}"] = {
            "cells": each,
            "moonshot": moon,
            "reach": rule.describe(reached),
            "score claim": moon["verdict"],
            "reach claim": rule.reach_claim(reached),
        }
    for agent in dict.fromkeys(agent for agent, _ in found):
        if (agent, "kept") in reaches and (agent, "state") in reaches:
            pair = (reaches[agent, "kept"], reaches[agent, "state"])
            arms = (*_FIXED, *rule.SOURCES)
            result["claims"][agent] = {
                "memory": rule.memory_claim(*pair),
                "reach": {
                    task: {m: max(r[task][a] for a in arms) for m, r in zip(("kept", "state"), pair, strict=True)}
                    for task in pair[0]
                },
            }
    return result


def solved_table(cells: dict[str, Any]) -> str:
    """Markdown: the share of judged seeds that solved the task, an arm per row."""
    lines = ["| λ | " + " | ".join(cells) + " |", "|---|" + "---|" * len(cells)]
    for arm in _ARMS:
        shares = [f"{100 * cell['solved'][arm]:.0f} %" for cell in cells.values()]
        lines.append(f"| {arm} | {' | '.join(shares)} |")
    return "\n".join(lines)


def reach_table(judged: dict[str, Any]) -> str:
    """Markdown: the greatest N that 90 % of the seeds solve, per agent, memory and task."""
    head = ("agent", "values read", "task", "best fixed λ", "by λ", "recurrent", "recurrent-realised")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for key, memory in judged["memories"].items():
        agent, reads = key.split(", ")
        for task, found in memory["reach"].items():
            by = "all" if len(found["by"]) == len(FIXED) else ", ".join(f"{float(x):g}" for x in found["by"])
            cells = [_reached(found["best fixed"]), by if found["best fixed"] else ""]
            cells += [_reached(found[source]) for source in rule.SOURCES]
            lines.append(f"| {agent} | {reads} | {task} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _reached(n: int) -> str:
    return str(n) if n else "none"


def gate_table(judged: dict[str, Any]) -> str:
    """Markdown: per cell the gate, and the learned sources against the best fixed λ and against 0.95."""
    head = ("agent", "values read", "task", "gate", "best fixed λ", "0.95", "true model", "recurrent", "realised")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for key, memory in judged["memories"].items():
        agent, reads = key.split(", ")
        for name, cell in memory["cells"].items():
            s = {arm: Estimate(**e) for arm, e in cell["scores"].items()}
            best = cell["best fixed"]
            marks = [_marked(s[arm], s[best], s[str(USUAL)]) for arm in ("true-expected", *rule.SOURCES)]
            shown = f"{best}: {_marked(s[best], s[best], s[str(USUAL)])}"
            lines.append(
                f"| {agent} | {reads} | {name} | {cell['gate']} | {shown} | {s[str(USUAL)].value:.3f} | "
                + " | ".join(marks)
                + " |"
            )
    return "\n".join(lines)


def _marked(ours: Estimate, best: Estimate, usual: Estimate) -> str:
    """A score; ▲ ▼: better or worse than λ = 0.95, ★ also better than the best fixed λ."""
    return f"{ours.value:.3f}{' ★' if ours.above(best) else SIGNS[compared(ours, usual)]}"


def draw_success(judged: dict[str, Any], path: Path) -> None:
    """A row per agent and memory, a column per task: share of seeds that solved it against N."""
    import matplotlib as mpl

    mpl.use("agg")
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
    axes = figure.subplots(len(memories), len(TASK_NAMES), squeeze=False, sharey=True)
    for row, (key, memory) in zip(axes, memories.items(), strict=True):
        for ax, task in zip(row, TASK_NAMES, strict=True):
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
    figure.savefig(path, metadata={"Date": None})


def _grid(frame: Any, agent: str, memory: str) -> tuple[float, ...]:
    """The step sizes that were tried."""
    import polars as pl

    tried = frame.filter(pl.col("agent") == agent, pl.col("memory") == memory)["step_size"]
    return tuple(tried.unique().to_list())


def main(arguments: list[str] | None = None) -> None:
    """Import runs, or write tables, verdicts and the figure from the stored ones."""
    parser = argparse.ArgumentParser(prog="python -m chunked_td.deep.hidden_tables", description=main.__doc__)
    parser.add_argument("--import", nargs="+", type=Path, dest="npz", help="files of chunked_td.deep.hidden_study")
    parser.add_argument("--figures", type=Path, default=None, help="folder for the figure")
    parser.add_argument("--out", type=Path, required=True, help="folder with runs.parquet")
    chosen = parser.parse_args(arguments)
    if chosen.npz:
        import_runs(chosen.npz, chosen.out)
    import polars as pl

    frame = pl.read_parquet(chosen.out / "runs.parquet")
    found = read_cells(frame)
    judged = verdicts(found)
    (chosen.out / "verdicts.json").write_text(json.dumps(judged, indent=1) + "\n", encoding="utf-8")
    target = chosen.out / "tables"
    target.mkdir(exist_ok=True)
    texts = {"gate": gate_table(judged), "reach": reach_table(judged)}
    chosen_sizes = {f"{agent}, {memory}": cells for (agent, memory), cells in found.items()}
    texts["step-sizes"] = edge_table(chosen_sizes, {f"{a}, {m}": _grid(frame, a, m) for a, m in found})
    for (agent, memory), cells in found.items():
        entry = judged["memories"][f"{agent}, {memory}"]
        texts[f"solved-{agent}-{memory}"] = solved_table(entry["cells"])
        scores = {f"{t} {n}": {arm: runs["score"] for arm, runs in arms.items()} for (t, n), arms in cells.items()}
        texts[f"scores-{agent}-{memory}"] = score_table(scores, _ARMS)
    for name, text in texts.items():
        (target / f"{name}.md").write_text(text + "\n", encoding="utf-8")
    if chosen.figures:
        draw_success(judged, chosen.figures / "deep-hidden.svg")


if __name__ == "__main__":
    main()
