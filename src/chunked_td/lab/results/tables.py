"""Tables of the report: the paper's numbers beside ours, as data; rendered as HTML, Markdown and print elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from chunked_td.lab.results.runs import ArmResults, Results, RunArrays, exponent_by_error_of_mean, replay_selection
from chunked_td.lab.study import Published
from chunked_td.lab.wording import number_text, seeds_text, spread_text, step_size_text
from chunked_td.statistics import interquartile_mean, mean_and_interval, mean_sd

PAPER_SEEDS = 10
NOT_RUN = "not run"


@dataclass(frozen=True)
class Table:
    """A table: a caption, column heads and rows of text; the first cell of a row is its head."""

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        """The table as Markdown."""
        return markdown(self.columns, self.rows) + "\n"


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as Markdown, without a last newline."""
    lines = [columns, ("---",) * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def tables_of(study: Results) -> list[Table]:
    """The tables of one experiment."""
    found = [results_table(study)]
    if any(study.published(arm.id, "exponent") for arm in study.arms):
        found.append(step_size_table(study))
    if study.early:
        found.append(reduced_table(study))
    return found


def results_table(study: Results) -> Table:
    """Scores at the selected (or best) step sizes: the paper's, ours with its number of seeds, ours with all."""
    published = any(study.published(arm.id, "score") for arm in study.arms)
    many = study.seeds > PAPER_SEEDS
    few = min(PAPER_SEEDS, study.seeds)
    how = "selected α" if study.about.selection else "best α"
    columns = ["arm", *(["paper"] if published else []), f"ours, {seeds_text(few)}", how]
    columns += [f"ours, up to {study.seeds} seeds", how] if many else []
    columns += ["95 % interval", "interquartile mean"]
    columns += ["ten seeds would report"] if published else []
    small = study.with_seeds(PAPER_SEEDS)
    added = any(arm.in_paper for arm in study.arms)  # where every arm is ours, labels do not say so
    rows = []
    for arm in study.arms:
        number = study.published(arm.id, "score")
        row = [f"{arm.label} (ours)" if added and not arm.in_paper else arm.label]
        row += ["–" if number is None else spread_text(number.value, number.spread)] if published else []
        row += score_cells(small, arm.id)
        row += score_cells(study, arm.id) if many else []
        row += interval_cells(study, arm.id)
        row += [replay_cell(study, arm, number)] if published else []
        rows.append(tuple(row))
    label = study.about.score_label
    caption = f"{label[0].upper()}{label[1:]} after {study.length:,} episodes, mean ± standard deviation over seeds."
    note = (
        "The last column repeats the paper's procedure (draw ten of our seeds, select the step size, report the mean) "
        "2,000 times and gives the central 95 % of what it reports; ✓ and ✗ say whether the paper's number lies inside."
    )
    return Table(f"{study.id}-results", caption, tuple(columns), tuple(rows), note if published else "")


def replay_cell(study: Results, arm: ArmResults, number: Published | None) -> str:
    """Central 95 % of what ten seeds would report, and whether the paper's number lies inside."""
    if study.find(arm.id) is None:
        return "–"
    low, high = np.quantile(
        replay_selection(arm.require_runs(), study.about.selection, arm.id).reported, [0.025, 0.975]
    )
    mark = "" if number is None else " ✓" if low <= number.value <= high else " ✗"
    return f"{number_text(float(low))} to {number_text(float(high))}{mark}"


def score_cells(study: Results, arm_id: str) -> list[str]:
    """Mean ± sd and the step size it was reached with."""
    values = selected_scores(study, arm_id)
    if values is None:
        return [_why_not(study, arm_id), "–"]
    step_size = step_size_text(study.selected[arm_id], study.about.step_size_base)
    return [spread_text(*map(float, mean_sd(values))), step_size]


def interval_cells(study: Results, arm_id: str) -> list[str]:
    """95 % bootstrap interval of the mean, and the interquartile mean."""
    values = selected_scores(study, arm_id)
    if values is None:
        return ["–", "–"]
    _, low, high = map(float, mean_and_interval(values))
    ends = f"{number_text(low)} to {number_text(high)}"
    return [ends, number_text(float(interquartile_mean(values)))]


def selected_scores(study: Results, arm_id: str) -> np.ndarray | None:
    """Scores float64[S] of an arm's runs of full length at its selected (or best) step size."""
    runs = study.runs(arm_id)
    return None if runs is None else runs.of(study.selected[arm_id])[:, -1]


def _why_not(study: Results, arm_id: str) -> str:
    return "reduced size, see below" if any(arm.id == arm_id for arm in study.reduced) else NOT_RUN


def step_size_table(study: Results) -> Table:
    """Selected step sizes beside the paper's, and how often ten seeds would select the paper's."""
    few = min(PAPER_SEEDS, study.seeds)
    small = study.with_seeds(PAPER_SEEDS)
    many = study.seeds > PAPER_SEEDS
    columns = ["arm", "paper", f"ours, {seeds_text(few)}", *([f"ours, up to {study.seeds} seeds"] if many else [])]
    columns += ["ours, error of the mean"] if _squared(study) else []
    columns += ["same?", "ten seeds select the paper's", "ten seeds select most often"]
    rows = []
    for arm in study.arms:
        number = study.published(arm.id, "exponent")
        if number is not None:
            head = (arm.label, step_size_text(int(number.value), study.about.step_size_base))
            missing = (_why_not(study, arm.id), *["–"] * (len(columns) - 3))
            runs = study.runs(arm.id)
            rows.append((*head, *(missing if runs is None else _step_size_cells(study, small, arm.id, runs, number))))
    note = (
        "The last two columns repeat the paper's procedure with ten seeds drawn with replacement from ours, "
        "2,000 times: they say how much a choice from ten seeds can be relied on (too favourably where ours are few)."
    )
    if _squared(study):
        note += (
            " The squared error can be read in two ways: averaged over seeds (ours, and what every figure here "
            "uses), or that of the mean over seeds (the column beside it)."
        )
    return Table(f"{study.id}-step-sizes", "Selected step sizes beside the paper's.", tuple(columns), tuple(rows), note)


def _step_size_cells(study: Results, small: Results, arm_id: str, runs: RunArrays, number: Published) -> list[str]:
    """An arm's cells after its label and the paper's step size."""
    base, selection, theirs = study.about.step_size_base, study.about.selection, int(number.value)
    replay = replay_selection(runs, selection, arm_id)
    share = float(replay.shares[runs.exponents == theirs].sum())
    most = int(np.argmax(replay.shares))
    exponents = [small.selected[arm_id]]
    exponents += [study.selected[arm_id]] if study.seeds > PAPER_SEEDS else []
    if selection is not None and _squared(study):
        exponents.append(exponent_by_error_of_mean(runs, selection, arm_id))
    return [
        *(step_size_text(exponent, base) for exponent in exponents),
        "yes" if study.selected[arm_id] == theirs else "no",
        f"{share:.0%} of the time",
        f"{step_size_text(int(runs.exponents[most]), base)} ({replay.shares[most]:.0%})",
    ]


def _squared(study: Results) -> bool:
    selection = study.about.selection
    return selection is not None and selection.rule == "least squared error"


def reduced_table(study: Results) -> Table:
    """Arms that ran at a reduced size, beside all others at the last checkpoint that they share."""
    rows = []
    for episode in study.early:
        early = study.until(episode)
        for arm in early.present:
            values = selected_scores(early, arm.id)
            if values is not None:
                exponent = step_size_text(early.selected[arm.id], study.about.step_size_base)
                text = spread_text(*map(float, mean_sd(values)))
                rows.append((arm.label, f"{episode:,}", str(len(values)), text, exponent))
    caption = "Arms that ran at a reduced size, and all others after as many episodes."
    columns = ("arm", "episodes", "seeds", study.about.score_label, "best α there")
    return Table(f"{study.id}-reduced", caption, columns, tuple(rows))
