"""Tables and figures of the study of deep learners: scores, λ by kind of task, how far verdicts can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
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
from studies.networks.results import LEARNED, SETS, TRUE, Chosen, Scores
from studies.runner.plots import legend_below
from studies.runner.text import markdown

COLOURS = {"value-kernel": "#0072B2", "expected": "#009E73", "realised": "#D55E00", "true-kernel": "#CC79A7"}
"""Arms beside the line of fixed λ."""
SIGNS = {"better": " ▲", "worse": " ▼", "no difference": ""}
"""How tables show a verdict against λ = 0.95."""
KINDS = {
    "a choice, much later its verdict, noisy rewards": ("umbrella", "gymnax-umbrella"),
    "the same among many irrelevant random observations": ("umbrella-distractors", "gymnax-umbrella-distractors"),
    "reward at the end of a short episode, a grid": ("catch", "catch-wind", "gymnax-catch"),
    "a choice, then a long sum of noise": ("charge", "charge-mirrored"),
    "a cue in view": ("memory",),
    "nothing random, dense reward": ("cart-pole",),
    "nothing random, reward at a goal": ("xland-door-key",),
}
"""Tasks by kind. Put together after the data, from what the tasks are."""
BOOTSTRAPS = 20
SHUFFLES = 20
_FIXED, _USUAL = tuple(map(str, FIXED)), str(USUAL)
_ALL = (*_FIXED, *LEARNED, *TRUE)


def score_tables(found: dict[str, dict[str, np.ndarray]]) -> dict[str, str]:
    """`score_table` of one agent for every set of tasks."""
    parts = {name: {task: found[task] for task in members if task in found} for name, members in SETS.items()}
    return {name: score_table(part) for name, part in parts.items() if part}


def score_table(found: dict[str, dict[str, np.ndarray]], arms: tuple[str, ...] = _ALL) -> str:
    """An arm per row, a task per column, and the mean over tasks but `TWIN`.

    Bold is the best fixed λ; ▲ and ▼ are better and worse than λ = 0.95.
    """
    estimates = {task: {arm: estimate(v) for arm, v in runs.items()} for task, runs in found.items()}
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
    return bold + SIGNS[compared(estimates[arm], estimates[_USUAL])]


def gate_table(judged: dict[str, Any], members: tuple[str, ...]) -> str:
    """The gate per agent and task of `members`, with the numbers behind it."""
    rows = []
    for agent, found in judged.items():
        for task, s in estimates_of(found).items():
            if task in members:
                best, stood = (found["tasks"][task][name] for name in ("best fixed", "gate"))
                each = [s[arm] for arm in (best, _USUAL, *GATE)]
                first, *cells = (f"{e.text('.3f')}{SIGNS[compared(e, s[_USUAL])]}" for e in each)
                rows.append((agent, task, stood, f"{best}: {first}", *cells))
    return markdown(("agent", "task", "gate", "best fixed λ", "λ = 0.95", "true kernel", "true expected"), rows)


def grid(columns: int, rows: int, width: float, height: float, **options: Any) -> tuple[Figure, list[Any]]:
    """A figure with panels in rows; its axes, row by row. Args: width, height: of a panel, in inches."""
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options).ravel().tolist()


def draw_scores(judged: dict[str, Any], agent: str, colours: Mapping[str, str] = COLOURS) -> Any:
    """A panel per task: score of every fixed λ as a line with its interval, sources as levels."""
    tasks = estimates_of(judged[agent])
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


def estimates_of(judged: dict[str, Any]) -> dict[str, dict[str, Estimate]]:
    """task → arm → estimate, from one agent's verdicts."""
    return {t: {arm: Estimate(**e) for arm, e in v["scores"].items()} for t, v in judged["tasks"].items()}


def mean_over_tasks(arm: str, estimates: dict[str, dict[str, Estimate]]) -> float:
    """An arm's mean over tasks but `TWIN`; NaN where it was not run on one of them. Args: estimates: per task."""
    runs = [found for task, found in estimates.items() if task != TWIN]
    return float(np.mean([found[arm].value if arm in found else np.nan for found in runs])) if runs else np.nan


def shown(mean: float) -> str:
    """A mean in a table; nothing for NaN."""
    return "" if np.isnan(mean) else f"{mean:.3f}"


def kinds_table(judged: dict[str, Any]) -> str:
    """λ by kind of task and agent.

    Per row: the best fixed λ of each task; the fixed λ that are worse than the best on none of them (intervals
    overlap); the fixed λ and the sources better than 0.95 on one of them at least, and the sources worse.
    """
    rows = []
    for kind, members in KINDS.items():
        for agent, verdicts in judged.items():
            found = {task: e for task, e in estimates_of(verdicts).items() if task in members}
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
    """Names that count at least once, with how often out of how many where there are several."""
    return ", ".join(f"{name} ({n} of {tasks})" if tasks > 1 else name for name, n in counts.items() if n)


def counts_table(judged: dict[str, Any]) -> str:
    """An arm per row, an agent per column: on how many tasks but `TWIN` it is better or worse than λ = 0.95 (▲ and ▼),
    and better than the best fixed λ (★).
    """
    rows = []
    for arm in _ALL:
        cells = []
        for verdicts in judged.values():
            found = [e for task, e in estimates_of(verdicts).items() if task != TWIN and arm in e]
            said = [compared(e[arm], e[_USUAL]) for e in found]
            above = sum(e[arm].above(e[best_fixed(e)]) for e in found)
            counts = {"▲": said.count("better"), "▼": said.count("worse"), "★": above}
            cells.append(" ".join(f"{n} {sign}" for sign, n in counts.items() if n) or ("none" if found else ""))
        if any(cells) and arm != _USUAL:
            rows.append((arm, *cells))
    return markdown(("λ", *judged), rows)


def means_table(judged: dict[str, Any]) -> str:
    """An arm per row, an agent per column: means over tasks but `TWIN`; bold is the best fixed λ."""
    found = {agent: estimates_of(verdicts) for agent, verdicts in judged.items()}
    means = {(a, arm): mean_over_tasks(arm, e) for a, e in found.items() for arm in _ALL}
    best = [(agent, max(_FIXED, key=lambda x: means[agent, x])) for agent in found]
    rows = []
    for arm in _ALL:
        cells = [f"**{shown(means[a, arm])}**" if (a, arm) in best else shown(means[a, arm]) for a in found]
        if any(cells):
            rows.append((arm, *cells))
    return markdown(("λ", *found), rows)


def moonshot_table(judged: dict[str, Any]) -> str:
    """The moonshot of every agent, as it was written, without `TWIN`, and by who wrote the tasks."""
    rows = []
    for agent, verdicts in judged.items():
        parts = {"all": verdicts, **{name: verdicts["sets"][name] for name in reversed(verdicts["sets"])}}
        for name, part in parts.items():
            means = {arm: Estimate(**e) for arm, e in part["moonshot"]["means"].items()}
            cells = []
            for arms in (_FIXED, tuple(arm for arm in means if arm not in _FIXED)):
                arm = max(arms, key=lambda a: means[a].value)
                cells.append(f"{arm}: {means[arm].text('.3f')}")
            rows.append((agent, name, str(len(part["moonshot over"])), *cells, part["moonshot"]["verdict"]))
    return markdown(("agent", "tasks", "number", "best fixed λ", "best source", "moonshot"), rows)


def edge_table(chosen: Mapping[str, Mapping[Any, Any]], grids: dict[str, tuple[float, ...]]) -> str:
    """How many arms chose the largest and the smallest step size of their grid.

    Args:
      chosen: agent → task → arm → columns with "step_size". grids: of each agent.
    """
    rows = []
    for agent, tasks in chosen.items():
        grid = sorted(grids[agent], reverse=True)
        cells = [agent, ", ".join(f"{x:g}" for x in grid)]
        for is_fixed in (True, False):
            runs = [found for arms in tasks.values() for arm, found in arms.items() if (arm in _FIXED) == is_fixed]
            sizes = [float(found["step_size"][0]) for found in runs]
            cells += [f"{sum(np.isclose(s, edge) for s in sizes)} of {len(sizes)}" for edge in (grid[0], grid[-1])]
        rows.append(tuple(cells))
    head = ("agent", "grid", "fixed λ: largest", "fixed λ: smallest", "sources: largest", "sources: smallest")
    return markdown(head, rows)


def success_table(chosen: Chosen) -> str:
    """Share of judged runs that solved their task, per agent and task of `ALL_OR_NOTHING`, in per cent.

    Agents and tasks that no run of any arm solved are left out.
    """
    arms = (*_FIXED, *LEARNED)
    rows = []
    for agent, tasks in chosen.items():
        for task in (task for task in ALL_OR_NOTHING if task in tasks):
            shares = {arm: np.mean(runs["final"] >= SOLVED) for arm, runs in tasks[task].items()}
            if any(shares.values()):
                rows.append((agent, task, *(f"{100 * shares[arm]:.0f}" if arm in shares else "" for arm in arms)))
    return markdown(("agent", "task", *(f"{float(x):g}" for x in _FIXED), *LEARNED), rows)


def twin_table(frame: Any, judged: dict[str, Any]) -> str:
    """*cart-pole* and `TWIN`: the same task and the same seeds in two programs. Args: frame: runs.parquet."""
    import polars as pl

    rows = []
    for agent, verdicts in judged.items():
        if not {"cart-pole", TWIN} <= set(verdicts["tasks"]):
            continue
        ours, theirs = (
            frame.filter((pl.col("agent") == agent) & (pl.col("task") == task)) for task in ("cart-pole", TWIN)
        )
        both = ours.join(theirs, on=("arm", "step_size", "seed"))
        same = np.mean(both["score"].to_numpy() == both["score_right"].to_numpy())
        found = estimates_of(verdicts)
        moved = {arm: abs(e.value - found[TWIN][arm].value) for arm, e in found["cart-pole"].items()}
        arm = max(moved, key=lambda name: moved[name])
        rows.append((agent, f"{same:.0%}", f"{moved[arm]:.3f}" + (f" ({arm})" if moved[arm] else "")))
    return markdown(("agent", "runs with the same score", "greatest difference of an arm's score"), rows)


def gate_luck_table(found: Scores) -> str:
    """How the gate stood, how often its comparisons passed, and how often they would if nothing differed.

    For the latter the runs of the true model's arm and of the best fixed λ are put together and dealt out again
    `SHUFFLES` times.
    """
    rng = np.random.default_rng(0)
    found_counts = {}
    for agent, tasks in found.items():
        counts = np.zeros(5)
        for runs in tasks.values():
            estimates = {arm: estimate(values) for arm, values in runs.items()}
            stood = gate(estimates)
            rival = runs[best_fixed(estimates)]
            counts[:2] += (stood == "passed", stood == "half")
            for arm in GATE:
                pool = np.concatenate([runs[arm], rival])
                shuffled = [rng.permutation(pool) for _ in range(SHUFFLES)]
                passes = [estimate(x[: rival.size]).above(estimate(x[rival.size :])) for x in shuffled]
                counts[2:] += np.array([1, estimates[arm].above(estimates[best_fixed(estimates)]), np.mean(passes)])
        found_counts[f"{agent}, {len(tasks)} tasks"] = counts
    found_counts["all"] = sum(found_counts.values(), np.zeros(5))
    rows = [(name, *(f"{n:.0f}" for n in counts[:-1]), f"{counts[-1]:.2f}") for name, counts in found_counts.items()]
    head = ("agent", "gate passed", "half", "comparisons with the best fixed λ", "passed")
    return markdown((*head, "would pass if nothing differed"), rows)


def draw_table(found: Scores) -> str:
    """Verdicts against λ = 0.95 that are not the same for all of `BOOTSTRAPS` seeds of the bootstrap."""
    rows = []
    for agent, tasks in found.items():
        counts, near = np.zeros(2, int), []
        for task, runs in tasks.items():
            usual = [estimate(runs[_USUAL], seed) for seed in range(BOOTSTRAPS)]
            for arm in (arm for arm in _ALL if arm in runs and arm != _USUAL):
                said = [compared(estimate(runs[arm], seed), usual[seed]) for seed in range(BOOTSTRAPS)]
                counts += (1, said[0] != "no difference")
                if len(set(said)) > 1:
                    agree = sum(verdict == said[0] for verdict in said)
                    near.append(f"{task}/{arm} ({said[0]}: {agree} of {BOOTSTRAPS})")
        rows.append((agent, str(counts[0]), str(counts[1]), str(len(near)), ", ".join(near)))
    head = ("agent", "verdicts", "better or worse", "depend on the draw", "which, and how often as shown")
    return markdown(head, rows)


def summary_tables(frame: Any, chosen: Chosen, found: Scores, judged: dict[str, Any]) -> dict[str, str]:
    """Every table of this file. Args: frame: runs.parquet. chosen, found, judged: what `tables` makes of it."""
    grids = {agent: tuple(rows["step_size"].unique().to_list()) for (agent,), rows in frame.group_by("agent")}
    return {
        "kinds": kinds_table(judged),
        "counts": counts_table(judged),
        "means": means_table(judged),
        "moonshot": moonshot_table(judged),
        "step-sizes": edge_table(chosen, grids),
        "success": success_table(chosen),
        "twin": twin_table(frame, judged),
        "gate-luck": gate_luck_table(found),
        "draws": draw_table(found),
    }
