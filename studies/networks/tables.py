"""Tables and figures of the first part: scores, λ by kind of task, how far verdicts can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from chunked_td.statistics import Estimate
from chunked_td.statistics import interquartile_estimate as estimate
from studies.networks.criteria import (
    ALL_OR_NOTHING,
    FIXED,
    GATE,
    SOLVED,
    TWIN,
    USUAL,
    best_fixed,
    compared,
    gate,
)
from studies.networks.results import LEARNED, TRUE, AgentResults
from studies.runner.plots import legend_below
from studies.runner.text import markdown

COLOURS = {"value-kernel": "#0072B2", "expected": "#009E73", "realised": "#D55E00", "true-kernel": "#CC79A7"}
"""Colours of arms other than fixed λ."""
KINDS = {
    "a choice, much later its verdict, noisy rewards": ("umbrella", "gymnax-umbrella"),
    "the same among many irrelevant random observations": ("umbrella-distractors", "gymnax-umbrella-distractors"),
    "reward at the end of a short episode, a grid": ("catch", "catch-wind", "gymnax-catch"),
    "a choice, then a long sum of noise": ("charge", "charge-mirrored"),
    "a cue in view": ("memory",),
    "nothing random, dense reward": ("cart-pole",),
    "nothing random, reward at a goal": ("xland-door-key",),
}
"""Tasks by kind, grouped after the data by their descriptions."""
SHUFFLES = 20
_FIXED, _USUAL = tuple(map(str, FIXED)), str(USUAL)
_ALL = (*_FIXED, *LEARNED, *TRUE)

Agents = Mapping[str, AgentResults]
Estimates = Mapping[str, Mapping[str, Estimate]]
"""Task → arm → estimate."""


def grid(columns: int, rows: int, width: float, height: float, **options: Any) -> tuple[Figure, list[Any]]:
    """A figure with panels in rows; its axes, row by row. Args: width, height: of a panel, in inches."""
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options).ravel().tolist()


def draw_scores(tasks: Estimates, colours: Mapping[str, str] = COLOURS) -> Figure:
    """A panel per task: score of every fixed λ as a line with its interval, sources as levels."""
    columns = min(4, len(tasks))
    rows = -(-len(tasks) // columns)
    figure, axes = grid(columns, rows, 3.0, 2.4)
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
    legend_below(figure, 5)
    return figure


def mean_over_tasks(arm: str, estimates: Estimates) -> float:
    """An arm's mean over tasks but `TWIN`; NaN if it was not run on one of them."""
    runs = [found for task, found in estimates.items() if task != TWIN]
    return float(np.mean([found[arm].value if arm in found else np.nan for found in runs])) if runs else np.nan


def shown(mean: float) -> str:
    """A mean in a table; nothing for NaN."""
    return "" if np.isnan(mean) else f"{mean:.3f}"


def kinds_table(agents: Agents) -> str:
    """λ by kind of task and agent.

    Per row: the best fixed λ of each task; the fixed λ that are worse than the best on none of them (intervals
    overlap); the fixed λ and the sources better than 0.95 on one of them at least, and the sources worse.
    """
    rows = []
    for kind, members in KINDS.items():
        for agent, results in agents.items():
            found = {task: e for task, e in results.estimates.items() if task in members}
            if not found:
                continue
            best = [float(best_fixed(e)) for e in found.values()]
            near = [x for x in _FIXED if not any(e[best_fixed(e)].above(e[x]) for e in found.values())]
            better, worse = (
                {arm: sum(arm in e and compared(e[arm], e[_USUAL]) == verdict for e in found.values()) for arm in arms}
                for verdict, arms in (("better", (*_FIXED, *LEARNED)), ("worse", LEARNED))
            )
            near_best = "all" if len(near) == len(_FIXED) else ", ".join(f"{float(x):g}" for x in near) or "none"
            counts = ({f"{float(x):g}": better[x] for x in _FIXED}, {arm: better[arm] for arm in LEARNED}, worse)
            listed = (_listed(each, len(found)) for each in counts)
            rows.append((kind, agent, ", ".join(f"{x:g}" for x in best), near_best, *listed))
    head = ("kind of task", "agent", "best fixed λ of each task", "fixed λ near the best on all", "fixed λ ▲")
    return markdown((*head, "sources ▲", "sources ▼"), rows)


def _listed(counts: dict[str, int], tasks: int) -> str:
    """Names with a count of at least one; with several tasks also the count."""
    return ", ".join(f"{name} ({n} of {tasks})" if tasks > 1 else name for name, n in counts.items() if n)


def counts_table(agents: Agents) -> str:
    """An arm per row, an agent per column: on how many tasks but `TWIN` it is better or worse than λ = 0.95 (▲ and ▼),
    and better than the best fixed λ (★).
    """
    rows = []
    for arm in _ALL:
        cells = []
        for results in agents.values():
            found = [e for task, e in results.estimates.items() if task != TWIN and arm in e]
            said = [compared(e[arm], e[_USUAL]) for e in found]
            above = sum(e[arm].above(e[best_fixed(e)]) for e in found)
            counts = {"▲": said.count("better"), "▼": said.count("worse"), "★": above}
            cells.append(" ".join(f"{n} {sign}" for sign, n in counts.items() if n) or ("none" if found else ""))
        if any(cells) and arm != _USUAL:
            rows.append((arm, *cells))
    return markdown(("λ", *agents), rows)


def means_table(agents: Agents) -> str:
    """An arm per row, an agent per column: means over tasks but `TWIN`; bold is the best fixed λ."""
    found = {agent: results.estimates for agent, results in agents.items()}
    means = {(a, arm): mean_over_tasks(arm, e) for a, e in found.items() for arm in _ALL}
    best = [(agent, max(_FIXED, key=lambda x: means[agent, x])) for agent in found]
    rows = []
    for arm in _ALL:
        cells = [f"**{shown(means[a, arm])}**" if (a, arm) in best else shown(means[a, arm]) for a in found]
        if any(cells):
            rows.append((arm, *cells))
    return markdown(("λ", *found), rows)


def moonshot_table(agents: Agents) -> str:
    """The moonshot of every agent, as it was written, without `TWIN`, and by who wrote the tasks."""
    rows = []
    for agent, results in agents.items():
        for name, part in results.moonshots.items():
            cells = []
            for arms in (_FIXED, tuple(arm for arm in part.means if arm not in _FIXED)):
                arm = max(arms, key=lambda a: part.means[a].value)
                cells.append(f"{arm}: {part.means[arm].text('.3f')}")
            rows.append((agent, name, str(part.tasks), *cells, "holds" if part.holds else "fails"))
    return markdown(("agent", "tasks", "number", "best fixed λ", "best source", "moonshot"), rows)


def edge_table(agents: Agents, frame: pl.DataFrame) -> str:
    """Number of arms that chose the largest and the smallest step size of their grid."""
    rows = []
    for agent, results in agents.items():
        grid = sorted(frame.filter(agent=agent)["step_size"].unique(), reverse=True)
        cells = [agent, ", ".join(f"{x:g}" for x in grid)]
        for is_fixed in (True, False):
            every = [each for arms in results.runs.values() for each in arms.items()]
            runs = [found for arm, found in every if (arm in _FIXED) == is_fixed]
            sizes = [float(found["step_size"][0]) for found in runs]
            cells += [f"{sum(np.isclose(s, edge) for s in sizes)} of {len(sizes)}" for edge in (grid[0], grid[-1])]
        rows.append(tuple(cells))
    head = ("agent", "grid", "fixed λ: largest", "fixed λ: smallest", "sources: largest", "sources: smallest")
    return markdown(head, rows)


def success_table(agents: Agents) -> str:
    """Share of judged runs that solved their task, per agent and task of `ALL_OR_NOTHING`, in per cent.

    Agents and tasks that no run of any arm solved are left out.
    """
    arms = (*_FIXED, *LEARNED)
    rows = []
    for agent, results in agents.items():
        for task in (task for task in ALL_OR_NOTHING if task in results.runs):
            shares = {arm: np.mean(runs["final"] >= SOLVED) for arm, runs in results.runs[task].items()}
            if any(shares.values()):
                rows.append((agent, task, *(f"{100 * shares[arm]:.0f}" if arm in shares else "" for arm in arms)))
    return markdown(("agent", "task", *(f"{float(x):g}" for x in _FIXED), *LEARNED), rows)


def twin_table(agents: Agents, frame: pl.DataFrame) -> str:
    """*cart-pole* and `TWIN`: the same task and the same seeds in two programs."""
    rows = []
    for agent, results in agents.items():
        found = results.estimates
        if not {"cart-pole", TWIN} <= set(found):
            continue
        ours, theirs = (frame.filter(agent=agent, task=task) for task in ("cart-pole", TWIN))
        both = ours.join(theirs, on=("arm", "step_size", "seed"))
        same = np.mean(both["score"].to_numpy() == both["score_right"].to_numpy())
        moved = {arm: abs(e.value - found[TWIN][arm].value) for arm, e in found["cart-pole"].items()}
        arm = max(moved, key=lambda name: moved[name])
        rows.append((agent, f"{same:.0%}", f"{moved[arm]:.3f}" + (f" ({arm})" if moved[arm] else "")))
    return markdown(("agent", "runs with the same score", "greatest difference of an arm's score"), rows)


def gate_luck_table(agents: Agents) -> str:
    """Status of the gate, share of its comparisons that passed, and that would pass if nothing differed.

    For the latter the runs of the true model's arm and of the best fixed λ are put together and dealt out again
    `SHUFFLES` times.
    """
    rng = np.random.default_rng(0)
    found_counts = {}
    for agent, results in agents.items():
        counts = np.zeros(5)
        for task, runs in results.scores.items():
            estimates = results.estimates[task]
            status = gate(estimates)
            rival = runs[best_fixed(estimates)]
            counts[:2] += (status == "passed", status == "half")
            for arm in GATE:
                pool = np.concatenate([runs[arm], rival])
                shuffled = [rng.permutation(pool) for _ in range(SHUFFLES)]
                passes = [estimate(x[: rival.size]).above(estimate(x[rival.size :])) for x in shuffled]
                counts[2:] += np.array([1, estimates[arm].above(estimates[best_fixed(estimates)]), np.mean(passes)])
        found_counts[f"{agent}, {len(results.runs)} tasks"] = counts
    found_counts["all"] = sum(found_counts.values(), np.zeros(5))
    rows = [(name, *(f"{n:.0f}" for n in counts[:-1]), f"{counts[-1]:.2f}") for name, counts in found_counts.items()]
    head = ("agent", "gate passed", "half", "comparisons with the best fixed λ", "passed")
    return markdown((*head, "would pass if nothing differed"), rows)
