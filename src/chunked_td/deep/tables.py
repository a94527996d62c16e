"""What the study found, from its stored runs: scores, verdicts, tables and figures. Needs Polars and matplotlib.

python -m chunked_td.deep.tables --import STUDY.npz … --out results/deep    # arrays of `study` to Parquet
python -m chunked_td.deep.tables --out results/deep                          # tables/, verdicts.json, figures
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td._files import write_table
from chunked_td.deep.criteria import (
    FIXED,
    GATE,
    TWIN,
    USUAL,
    Estimate,
    best_fixed,
    compared,
    estimate,
    gate,
    interquartile,
    moonshot,
)
from chunked_td.deep.summaries import LEARNED, TRUE, Chosen, Scores, mean_over_tasks, shown, summary_tables
from chunked_td.envs.tasks import OTHERS, TASKS

SETS = {"ours": tuple(TASKS), "others": OTHERS}
"""Tasks, by who wrote them."""
SIGNS = {"better": " ▲", "worse": " ▼", "no difference": ""}
"""How tables show a verdict against λ = 0.95."""
_FIXED = tuple(str(x) for x in FIXED)


def import_runs(paths: list[Path], out: Path) -> None:
    """Write runs.parquet, one row per run, and curves.parquet, one row per arm at its chosen step size.

    Where two files hold the same agent, task and arm, the later one counts. What is stored already and not in the files
    is kept.
    """
    import polars as pl

    cell = ("agent", "task", "arm")
    tables: dict[tuple[str, ...], dict[str, np.ndarray]] = {}
    for path in paths:
        with np.load(path) as stored:
            table = {name: stored[name] for name in stored.files}
        for key in dict.fromkeys(zip(*(table[name].tolist() for name in cell), strict=True)):
            rows = np.all([table[name] == value for name, value in zip(cell, key, strict=True)], 0)
            tables[key] = {name: column[rows] for name, column in table.items()}
    runs, curves = [], []
    for key, t in tables.items():
        score, final = np.nanmean(t["curve"], 1), np.nanmean(t["curve"][:, -5:], 1)
        frame = {name: t[name] for name in (*cell, "step_size", "seed", "judged")}
        frame |= {"score": score, "final": final, "return": np.nanmean(t["returns"][:, -5:], 1)}
        runs.append(pl.DataFrame({**frame, "mean_lambda": t["mean_lambda"].mean(1)}))
        rows = chosen_rows(np.ones(len(score), bool), t["step_size"], t["judged"], score)
        histogram = t["histogram"][rows].sum(0)
        curves.append(
            {
                **dict(zip(cell, key, strict=True)),
                "step_size": float(t["step_size"][rows][0]),
                "curve": interquartile(t["curve"][rows].T).tolist(),
                "lambda_curve": t["mean_lambda"][rows].mean(0).tolist(),
                "histogram": (histogram / histogram.sum()).tolist(),
            }
        )
    out.mkdir(parents=True, exist_ok=True)
    # Runs come last: a cell counts as done where its runs are stored.
    for name, frame in (("curves", pl.DataFrame(curves)), ("runs", pl.concat(runs))):
        path = out / f"{name}.parquet"
        write_table(path, stored_with(path, frame, cell), compression="zstd")


def stored_with(path: Path, frame: Any, cell: tuple[str, ...]) -> Any:
    """The rows stored at `path` and then those of `frame`, which replace the stored ones of the same cells."""
    import polars as pl

    if not path.exists():
        return frame
    stored = pl.read_parquet(path)
    return pl.concat([stored.join(frame, on=cell, how="anti", maintain_order="left"), frame.select(stored.columns)])


def chosen_rows(arm: np.ndarray, step_size: np.ndarray, judged: np.ndarray, score: np.ndarray) -> np.ndarray:
    """The judged runs of an arm at the step size that its tuning seeds choose: bool[rows]."""
    best = max(np.unique(step_size[arm]), key=lambda s: interquartile(score[arm & ~judged & (step_size == s)]))
    return arm & judged & (step_size == best)


def chosen_runs(frame: Any) -> Chosen:
    """The judged runs of every arm at its chosen step size, from runs.parquet; tasks of ours first."""
    found: Chosen = {}
    for (agent, task, arm), rows in frame.group_by("agent", "task", "arm", maintain_order=True):
        tuned = [rows[name].to_numpy() for name in ("step_size", "judged", "score")]
        some = chosen_rows(np.ones(len(rows), bool), *tuned)
        columns = {name: rows[name].to_numpy()[some] for name in ("score", "final", "step_size")}
        found.setdefault(agent, {}).setdefault(task, {})[arm] = columns
    order = [task for tasks in SETS.values() for task in tasks]
    return {agent: {task: found[agent][task] for task in order if task in found[agent]} for agent in found}


def scores(chosen: Chosen) -> Scores:
    """The scores among those runs."""
    return {a: {t: {arm: r["score"] for arm, r in arms.items()} for t, arms in ts.items()} for a, ts in chosen.items()}


def verdicts(found: Scores) -> dict[str, Any]:
    """Gate, comparisons and moonshot of every agent, by `criteria`."""
    result: dict[str, Any] = {}
    for agent, tasks in found.items():
        sources = tuple(s for s in LEARNED if any(s in runs for runs in tasks.values()))
        whole = {task: runs for task, runs in tasks.items() if all(s in runs for s in sources)}
        each = {}
        for task, runs in tasks.items():
            est = {arm: estimate(values) for arm, values in runs.items()}
            best = best_fixed(est)
            each[task] = {
                "gate": gate(est),
                "best fixed": best,
                "against 0.95": {s: compared(est[s], est[str(USUAL)]) for s in (*sources, *TRUE) if s in est},
                "against best fixed": {s: compared(est[s], est[best]) for s in (*sources, *TRUE) if s in est},
                "scores": {arm: est[arm]._asdict() for arm in est},
            }
        result[agent] = {"tasks": each, "moonshot": moonshot(whole, sources), "moonshot over": list(whole), "sets": {}}
        parts = {**SETS, "without the twin": tuple(task for task in tasks if task != TWIN)}
        for name, members in parts.items():
            part = {task: runs for task, runs in whole.items() if task in members}
            if part:
                result[agent]["sets"][name] = {"moonshot": moonshot(part, sources), "moonshot over": list(part)}
    return result


def score_tables(found: dict[str, dict[str, np.ndarray]]) -> dict[str, str]:
    """`score_table` of one agent for every set of tasks."""
    parts = {name: {task: found[task] for task in members if task in found} for name, members in SETS.items()}
    return {name: score_table(part) for name, part in parts.items() if part}


def score_table(found: dict[str, dict[str, np.ndarray]], arms: tuple[str, ...] = (*_FIXED, *LEARNED, *TRUE)) -> str:
    """Markdown: an arm per row, a task per column, and the mean over tasks but `TWIN`.

    Bold is the best fixed λ; ▲ and ▼ are better and worse than λ = 0.95.
    """
    tasks = list(found)
    lines = ["| λ | " + " | ".join(tasks) + " | mean |", "|---|" + "---|" * (len(tasks) + 1)]
    estimates = {task: {arm: estimate(v) for arm, v in runs.items()} for task, runs in found.items()}
    for arm in arms:
        if any(arm in runs for runs in found.values()):
            cells = [_cell(arm, estimates[task]) for task in tasks]
            lines.append(f"| {arm} | {' | '.join(cells)} | {shown(mean_over_tasks(arm, estimates))} |")
    return "\n".join(lines)


def _cell(arm: str, estimates: dict[str, Estimate]) -> str:
    if arm not in estimates:
        return "not run"
    text = f"{estimates[arm].value:.3f}"
    bold = f"**{text}**" if arm == best_fixed(estimates) else text
    return bold + SIGNS[compared(estimates[arm], estimates[str(USUAL)])]


def gate_table(judged: dict[str, Any], members: tuple[str, ...]) -> str:
    """Markdown: the gate per agent and task of `members`, with the numbers behind it."""
    lines = [
        "| agent | task | gate | best fixed λ | λ = 0.95 | true kernel | true expected |",
        "|---|---|---|---|---|---|---|",
    ]
    for agent, found in judged.items():
        for task, v in found["tasks"].items():
            if task not in members:
                continue
            s = {arm: Estimate(**e) for arm, e in v["scores"].items()}
            best = v["best fixed"]
            cells = [_interval(s[arm], s[str(USUAL)]) for arm in (best, str(USUAL), *GATE)]
            lines.append(f"| {agent} | {task} | {v['gate']} | {best}: {' | '.join(cells)} |")
    return "\n".join(lines)


def _interval(e: Estimate, usual: Estimate) -> str:
    return f"{e.value:.3f} [{e.low:.3f}, {e.high:.3f}]{SIGNS[compared(e, usual)]}"


def cost_table(rows: list[dict[str, Any]]) -> str:
    """Markdown: time of training with a source, divided by that with a fixed λ."""
    lines = ["| agent | source | steps per second | time / fixed λ |", "|---|---|---|---|"]
    for row in rows:
        speed = f"{row['steps_per_second'] / 1e6:.2f} million"
        lines.append(f"| {row['agent']} | {row['source']} | {speed} | {row['ratio']:.2f} |")
    return "\n".join(lines)


def repeated_cost_table(repeats: list[list[dict[str, Any]]]) -> str:
    """Markdown: the same from several measurements, the middle one and the range. Args: repeats: rows of each."""
    lines = ["| agent | source | steps per second, at best | time / fixed λ | range |", "|---|---|---|---|---|"]
    for rows in zip(*repeats, strict=True):
        ratios = sorted(row["ratio"] for row in rows)
        shown = f"{np.median(ratios):.2f} | {ratios[0]:.2f} to {ratios[-1]:.2f}"
        speed = max(row["steps_per_second"] for row in rows)
        lines.append(f"| {rows[0]['agent']} | {rows[0]['source']} | {speed:,.0f} | {shown} |")
    return "\n".join(lines)


def draw_scores(judged: dict[str, Any], agent: str, path: Path) -> None:
    """A panel per task: score of every fixed λ as a line with its interval, sources as levels."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib.figure import Figure

    tasks = judged[agent]["tasks"]
    columns = min(4, len(tasks))
    rows = -(-len(tasks) // columns)
    figure = Figure(figsize=(3.0 * columns, 2.4 * rows), layout="constrained")
    axes = np.ravel(figure.subplots(rows, columns, squeeze=False))
    colours = {"value-kernel": "#0072B2", "expected": "#009E73", "realised": "#D55E00", "true-kernel": "#CC79A7"}
    for ax, (task, v) in zip(axes, tasks.items(), strict=False):
        s = {arm: Estimate(**e) for arm, e in v["scores"].items()}
        places = np.arange(len(_FIXED))
        ax.fill_between(places, [s[a].low for a in _FIXED], [s[a].high for a in _FIXED], color="0.85", lw=0)
        ax.plot(places, [s[a].value for a in _FIXED], "o-", color="0.3", ms=3, label="fixed λ")
        for k, (arm, colour) in enumerate(colours.items()):
            if arm in s:
                x = len(_FIXED) + 0.7 * k
                ax.errorbar(
                    x, s[arm].value, [[s[arm].value - s[arm].low], [s[arm].high - s[arm].value]], fmt="s", ms=4,
                    color=colour, label=arm,
                )  # fmt: skip
        ax.set_xticks(places, [f"{float(a):g}" for a in _FIXED], fontsize=7)
        ax.set_title(task, fontsize=9)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[len(tasks) :]:
        ax.set_visible(False)
    figure.supylabel("score", fontsize=9)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Date": None})


def main(arguments: list[str] | None = None) -> None:
    """Import runs, or write tables, verdicts and figures from the stored ones."""
    parser = argparse.ArgumentParser(prog="python -m chunked_td.deep.tables", description=main.__doc__)
    parser.add_argument(
        "--import", nargs="+", type=Path, dest="npz", help="files of chunked_td.deep.study, oldest first"
    )
    parser.add_argument("--figures", type=Path, default=None, help="folder for figures")
    parser.add_argument("--out", type=Path, required=True, help="folder with runs.parquet")
    chosen = parser.parse_args(arguments)
    if chosen.npz:
        import_runs(chosen.npz, chosen.out)
    import polars as pl

    frame = pl.read_parquet(chosen.out / "runs.parquet")
    runs = chosen_runs(frame)
    found = scores(runs)
    judged = verdicts(found)
    (chosen.out / "verdicts.json").write_text(json.dumps(judged, indent=1) + "\n", encoding="utf-8")
    target = chosen.out / "tables"
    target.mkdir(exist_ok=True)
    texts = {f"gate-{name}": gate_table(judged, members) for name, members in SETS.items()}
    for agent, tasks in found.items():
        texts |= {f"{agent}-{name}": text for name, text in score_tables(tasks).items()}
    texts |= summary_tables(frame, runs, found, judged)
    costs = chosen.out / "costs.json"
    if costs.exists():
        measured = json.loads(costs.read_text(encoding="utf-8"))
        texts["costs"] = cost_table(measured["costs"])
        if "cpu" in measured:
            texts["costs-cpu"] = repeated_cost_table(measured["cpu"]["repeats"])
    for name, text in texts.items():
        (target / f"{name}.md").write_text(text + "\n", encoding="utf-8")
    if chosen.figures:
        for agent in judged:
            draw_scores(judged, agent, chosen.figures / f"deep-{agent}.svg")


if __name__ == "__main__":
    main()
