"""Tables and figures of the study of deep learners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chunked_td.lab.results.tables import markdown
from chunked_td.lab.statistics import Estimate, interquartile_estimate
from chunked_td.lab.studies.deep.criteria import FIXED, GATE, USUAL, best_fixed, compared
from chunked_td.lab.studies.deep.results import LEARNED, SETS, TRUE
from chunked_td.lab.studies.deep.summaries import estimates_of, mean_over_tasks, shown

COLOURS = {"value-kernel": "#0072B2", "expected": "#009E73", "realised": "#D55E00", "true-kernel": "#CC79A7"}
"""Arms beside the line of fixed λ."""
SIGNS = {"better": " ▲", "worse": " ▼", "no difference": ""}
"""How tables show a verdict against λ = 0.95."""
_FIXED = tuple(str(x) for x in FIXED)


def score_tables(found: dict[str, dict[str, np.ndarray]]) -> dict[str, str]:
    """`score_table` of one agent for every set of tasks."""
    parts = {name: {task: found[task] for task in members if task in found} for name, members in SETS.items()}
    return {name: score_table(part) for name, part in parts.items() if part}


def score_table(found: dict[str, dict[str, np.ndarray]], arms: tuple[str, ...] = (*_FIXED, *LEARNED, *TRUE)) -> str:
    """An arm per row, a task per column, and the mean over tasks but `TWIN`.

    Bold is the best fixed λ; ▲ and ▼ are better and worse than λ = 0.95.
    """
    estimates = {task: {arm: interquartile_estimate(v) for arm, v in runs.items()} for task, runs in found.items()}
    rows = [
        (arm, *(_cell(arm, estimates[task]) for task in found), shown(mean_over_tasks(arm, estimates)))
        for arm in arms
        if any(arm in runs for runs in found.values())
    ]
    return markdown(("λ", *found, "mean"), rows)


def _cell(arm: str, estimates: dict[str, Estimate]) -> str:
    if arm not in estimates:
        return "not run"
    text = f"{estimates[arm].value:.3f}"
    bold = f"**{text}**" if arm == best_fixed(estimates) else text
    return bold + SIGNS[compared(estimates[arm], estimates[str(USUAL)])]


def gate_table(judged: dict[str, Any], members: tuple[str, ...]) -> str:
    """The gate per agent and task of `members`, with the numbers behind it."""
    rows = []
    for agent, found in judged.items():
        for task, s in estimates_of(found).items():
            if task in members:
                best, stood = (found["tasks"][task][name] for name in ("best fixed", "gate"))
                first, *cells = (_interval(s[arm], s[str(USUAL)]) for arm in (best, str(USUAL), *GATE))
                rows.append((agent, task, stood, f"{best}: {first}", *cells))
    return markdown(("agent", "task", "gate", "best fixed λ", "λ = 0.95", "true kernel", "true expected"), rows)


def _interval(e: Estimate, usual: Estimate) -> str:
    return f"{e.text('.3f')}{SIGNS[compared(e, usual)]}"


def cost_table(costs: list[dict[str, Any]]) -> str:
    """Time of training with a source, divided by that with a fixed λ."""
    rows = [
        (row["agent"], row["source"], f"{row['steps_per_second'] / 1e6:.2f} million", f"{row['ratio']:.2f}")
        for row in costs
    ]
    return markdown(("agent", "source", "steps per second", "time / fixed λ"), rows)


def repeated_cost_table(repeats: list[list[dict[str, Any]]]) -> str:
    """The same from several measurements, the middle one and the range. Args: repeats: rows of each."""
    rows = []
    for measured in zip(*repeats, strict=True):
        ratios = sorted(row["ratio"] for row in measured)
        speed = max(row["steps_per_second"] for row in measured)
        span = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        rows.append((measured[0]["agent"], measured[0]["source"], f"{speed:,.0f}", f"{np.median(ratios):.2f}", span))
    return markdown(("agent", "source", "steps per second, at best", "time / fixed λ", "range"), rows)


def draw_scores(judged: dict[str, Any], agent: str, colours: Mapping[str, str] = COLOURS) -> Any:
    """A panel per task: score of every fixed λ as a line with its interval, sources as levels."""
    from matplotlib.figure import Figure

    tasks = estimates_of(judged[agent])
    columns = min(4, len(tasks))
    rows = -(-len(tasks) // columns)
    figure = Figure(figsize=(3.0 * columns, 2.4 * rows), layout="constrained")
    axes = np.ravel(figure.subplots(rows, columns, squeeze=False))
    for ax, (task, s) in zip(axes, tasks.items(), strict=False):
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
    return figure
