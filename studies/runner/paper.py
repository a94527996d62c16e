"""Tables for several studies: the paper's numbers and ours."""

from __future__ import annotations

import numpy as np

from chunked_td.statistics import interquartile_mean, mean_and_interval, mean_sd
from studies.runner.arrays import Results, least, replay_selection
from studies.runner.text import markdown, number_text, seeds_text, spread_text, step_size_text

PAPER_SEEDS = 10
NOT_RUN = "not run"


def results_table(results: Results, *, selects: bool = True) -> str:
    """Scores at the selected step sizes: the paper's, ours with its number of seeds, ours with all.

    Args:
      selects: whether step sizes are selected by a rule, or by the least mean of what is shown.
    """
    published = any(number.mean is not None for number in results.paper.values())
    many, few = results.seeds > PAPER_SEEDS, min(PAPER_SEEDS, results.seeds)
    how = "selected α" if selects else "best α"
    columns = ["arm", *(["paper"] if published else []), f"ours, {seeds_text(few)}", how]
    columns += [f"ours, up to {results.seeds} seeds", how] if many else []
    columns += ["95 % interval", "interquartile mean"]
    columns += ["ten seeds would report"] if published else []
    small, added = results.with_seeds(PAPER_SEEDS), len(results.ours) < len(results.labels)
    rows = []
    for arm, label in results.labels.items():
        number = results.paper.get(arm)
        row = [f"{label} (ours)" if added and arm in results.ours else label]
        row += ["–" if number is None else spread_text(number.mean or np.nan, number.sd)] if published else []
        row += score_cells(small, arm)
        row += score_cells(results, arm) if many else []
        row += interval_cells(results, arm)
        row += [replay_cell(results, arm)] if published else []
        rows.append(row)
    return markdown(columns, rows)


def scores(results: Results, arm: str) -> np.ndarray | None:
    """Scores float64[S] of an arm's runs of full length at its selected step size."""
    if arm not in results.present:
        return None
    return results.arms[arm].of_size(results.selected[arm])[:, -1]


def score_cells(results: Results, arm: str) -> list[str]:
    """Mean ± sd and the step size used."""
    values = scores(results, arm)
    if values is None:
        return [why_not(results, arm), "–"]
    return [spread_text(*map(float, mean_sd(values))), step_size_text(results.selected[arm])]


def interval_cells(results: Results, arm: str) -> list[str]:
    """95 % bootstrap interval of the mean, and the interquartile mean."""
    values = scores(results, arm)
    if values is None:
        return ["–", "–"]
    _, low, high = map(float, mean_and_interval(values))
    return [f"{number_text(low)} to {number_text(high)}", number_text(float(interquartile_mean(values)))]


def replay_cell(results: Results, arm: str) -> str:
    """Central 95 % of the means of ten seeds, and whether the paper's number is inside."""
    if arm not in results.present:
        return "–"
    runs, number = results.arms[arm], results.paper.get(arm)
    low, high = np.quantile(replay_selection(results.loss(arm), runs.at()).reported, [0.025, 0.975])
    mark = "" if number is None or number.mean is None else " ✓" if low <= number.mean <= high else " ✗"
    return f"{number_text(float(low))} to {number_text(float(high))}{mark}"


def why_not(results: Results, arm: str) -> str:
    """Return the reason for a missing score."""
    return "reduced size, see below" if arm in results.reduced else NOT_RUN


def step_size_table(results: Results) -> str:
    """Table of our selected step sizes, the paper's, and the share of ten-seed selections that give the paper's.

    If selection is by squared error, its other reading (App. A.1), the error of the mean, has a column.
    """
    many, small = results.seeds > PAPER_SEEDS, results.with_seeds(PAPER_SEEDS)
    few = seeds_text(min(PAPER_SEEDS, results.seeds))
    columns = ["arm", "paper", f"ours, {few}", *([f"ours, up to {results.seeds} seeds"] if many else [])]
    columns += [] if results.truth is None else ["ours, error of the mean"]
    columns += ["same?", "ten seeds select the paper's", "ten seeds select most often"]
    rows = []
    for arm, number in results.paper.items():
        head = [results.labels[arm], step_size_text(number.step_size)]
        if arm in results.arms:
            rows.append([*head, *step_size_cells(results, small, arm)])
        else:
            rows.append([*head, NOT_RUN, *["–"] * (len(columns) - 3)])
    return markdown(columns, rows)


def step_size_cells(results: Results, small: Results, arm: str) -> list[str]:
    """An arm's cells after its label and the paper's step size."""
    runs, theirs = results.arms[arm], results.paper[arm].step_size
    loss = results.loss(arm)
    shares = replay_selection(loss, runs.at()).shares
    most = int(np.argmax(shares))
    sizes = [small.selected[arm], *([results.selected[arm]] if results.seeds > PAPER_SEEDS else [])]
    if results.truth is not None:
        sizes.append(least(runs, (mean_sd(results.read(arm))[0] - results.truth) ** 2))
    return [
        *map(step_size_text, sizes),
        "yes" if results.selected[arm] == theirs else "no",
        f"{float(shares[runs.step_sizes == theirs].sum()):.0%} of the time",
        f"{step_size_text(runs.step_sizes[most])} ({shares[most]:.0%})",
    ]


def reduced_table(results: Results) -> str:
    """Table of arms that ran at a reduced size, and all others at the last common checkpoint."""
    rows = []
    for episode in results.early:
        beginning = results.until(episode)
        for arm in beginning.present:
            values = scores(beginning, arm)
            if values is not None:
                text = spread_text(*map(float, mean_sd(values)))
                label = results.labels[arm]
                rows.append([label, f"{episode:,}", len(values), text, step_size_text(beginning.selected[arm])])
    return markdown(("arm", "episodes", "seeds", results.score, "best α there"), rows)
