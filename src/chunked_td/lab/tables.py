"""Tables of the report: the paper's numbers beside ours, as data; rendered as HTML, Markdown and print elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from chunked_td.lab.statistics import interquartile_mean, mean_sd, select_step_size
from chunked_td.lab.studies import Arm, Study, mean_and_interval, replay_selection, step_size_text

PAPER_SEEDS = 10
NOT_RUN = "not run at this profile"


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
        lines = [self.columns, tuple("---" for _ in self.columns), *self.rows]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def tables_of(study: Study) -> list[Table]:
    """The tables of one experiment."""
    found = [results_table(study)]
    if any(study.published(arm.id, "exponent") for arm in study.arms):
        found.append(step_size_table(study))
    if study.early:
        found.append(reduced_table(study))
    return found


def results_table(study: Study) -> Table:
    """Scores at the selected (or best) step sizes: the paper's, ours with its number of seeds, ours with all."""
    published = any(study.published(arm.id, "score") for arm in study.arms)
    many = study.seeds > PAPER_SEEDS
    few = min(PAPER_SEEDS, study.seeds)
    how = "selected α" if study.description["selection"] else "best α"
    columns = ["arm", *(["paper"] if published else []), f"ours, {seeds_text(few)}", how]
    columns += [f"ours, up to {study.seeds} seeds", how] if many else []
    columns += ["95 % interval", "interquartile mean"]
    columns += ["ten seeds would report"] if published else []
    small = study.with_seeds(PAPER_SEEDS)
    added = any(arm.in_paper for arm in study.arms)  # in an experiment of ours every arm is ours: no need to say so
    rows = []
    for arm in study.arms:
        number = study.published(arm.id, "score")
        row = [f"{arm.label} (ours)" if added and not arm.in_paper else arm.label]
        row += [paper_text(number)] if published else []
        row += score_cells(small, arm.id)
        row += score_cells(study, arm.id) if many else []
        row += interval_cells(study, arm.id)
        row += [replay_cell(study, arm, number)] if published else []
        rows.append(tuple(row))
    label = study.description["score_label"]
    caption = f"{label[0].upper()}{label[1:]} after {study.length:,} episodes, mean ± standard deviation over seeds."
    note = (
        "The last column repeats the paper's procedure (draw ten of our seeds, select the step size, report the mean) "
        "2,000 times and gives the central 95 % of what it reports; ✓ and ✗ say whether the paper's number lies inside."
    )
    return Table(f"{study.id}-results", caption, tuple(columns), tuple(rows), note if published else "")


def replay_cell(study: Study, arm: Arm, number: Any) -> str:
    """Central 95 % of what ten seeds would report, and whether the paper's number lies inside."""
    if study.find(arm.id) is None:
        return "–"
    low, high = np.quantile(replay_selection(study, arm).reported, [0.025, 0.975])
    mark = "" if number is None else " ✓" if low <= number["value"] <= high else " ✗"
    return f"{number_text(float(low))} to {number_text(float(high))}{mark}"


def seeds_text(count: int) -> str:
    """How many seeds, in words."""
    return "1 seed" if count == 1 else f"{count} seeds"


def number_text(value: float, scale: float | None = None) -> str:
    """A score as text: whole numbers where `scale` (by default the value) is large, four decimals where small."""
    if np.isnan(value):
        return "–"
    large = abs(value if scale is None else scale) >= 20
    return (f"{value:,.0f}" if large else f"{value:.4f}").replace("-", "−")


def paper_text(number: Any) -> str:
    """A published number: "669 ± 17"."""
    if number is None:
        return "–"
    spread = "" if number["spread"] is None else f" ± {number_text(number['spread'], number['value'])}"
    return number_text(number["value"]) + spread


def score_cells(study: Study, arm_id: str) -> list[str]:
    """Mean ± sd and the step size it was reached with."""
    values = selected_scores(study, arm_id)
    if values is None:
        return [_why_not(study, arm_id), "–"]
    mean, sd = mean_sd(values)
    spread = "" if np.isnan(sd) else f" ± {number_text(float(sd), float(mean))}"
    exponent = study.selected[arm_id]
    return [number_text(float(mean)) + spread, step_size_text(exponent, study.description["step_size_base"])]


def interval_cells(study: Study, arm_id: str) -> list[str]:
    """95 % bootstrap interval of the mean, and the interquartile mean."""
    values = selected_scores(study, arm_id)
    if values is None:
        return ["–", "–"]
    _, interval = mean_and_interval(values)
    ends = f"{number_text(float(interval.low))} to {number_text(float(interval.high))}"
    return [ends, number_text(float(interquartile_mean(values)))]


def selected_scores(study: Study, arm_id: str) -> np.ndarray | None:
    """Scores float64[S] of an arm's runs of full length at its selected (or best) step size."""
    runs = study.runs(arm_id)
    if runs is None:
        return None
    return runs.at()[list(runs.exponents).index(study.selected[arm_id])]


def _why_not(study: Study, arm_id: str) -> str:
    return "reduced size, see below" if any(arm.id == arm_id for arm in study.reduced) else NOT_RUN


def step_size_table(study: Study) -> Table:
    """Selected step sizes beside the paper's, and how often ten seeds would select the paper's."""
    few = min(PAPER_SEEDS, study.seeds)
    small = study.with_seeds(PAPER_SEEDS)
    many = study.seeds > PAPER_SEEDS
    columns = ["arm", "paper", f"ours, {seeds_text(few)}", *([f"ours, up to {study.seeds} seeds"] if many else [])]
    columns += ["ours, error of the mean"] if _squared(study) else []
    columns += ["same?", "ten seeds select the paper's", "ten seeds select most often"]
    rows = [
        _step_size_row(study, small, arm, many) for arm in study.arms if study.published(arm.id, "exponent") is not None
    ]
    note = (
        "The last two columns repeat the paper's procedure with ten seeds drawn with replacement from ours, "
        "2,000 times: they say how much a choice from ten seeds can be relied on (too favourably where ours are few)."
    )
    if _squared(study):
        note += (
            " The squared error can be read in two ways: averaged over seeds (ours, and what every figure here "
            "uses), or "
            "that of the mean over seeds (the column beside it)."
        )
    caption = "Selected step sizes beside the paper's."
    return Table(f"{study.id}-step-sizes", caption, tuple(columns), tuple(rows), note)


def _step_size_row(study: Study, small: Study, arm: Arm, many: bool) -> tuple[str, ...]:
    base = study.description["step_size_base"]
    number = study.published(arm.id, "exponent")
    assert number is not None
    theirs = int(number["value"])
    row = [arm.label, step_size_text(theirs, base)]
    if study.runs(arm.id) is None:
        return (*row, _why_not(study, arm.id), *["–"] * (many + _squared(study) + 3))
    runs = study.runs(arm.id)
    assert runs is not None
    replay = replay_selection(study, arm)
    share = float(replay.shares[runs.exponents == theirs].sum())
    most = int(np.argmax(replay.shares))
    row.append(step_size_text(small.selected[arm.id], base))
    row += [step_size_text(study.selected[arm.id], base)] if many else []
    row += [step_size_text(_by_error_of_mean(study, arm), base)] if _squared(study) else []
    row.append("yes" if study.selected[arm.id] == theirs else "no")
    row.append(f"{share:.0%} of the time")
    row.append(f"{step_size_text(int(runs.exponents[most]), base)} ({replay.shares[most]:.0%})")
    return tuple(row)


def _squared(study: Study) -> bool:
    selection = study.description["selection"]
    return selection is not None and selection["rule"] == "least squared error"


def _by_error_of_mean(study: Study, arm: Arm) -> int:
    """The exponent under the other reading of "least squared error": that of the mean over seeds."""
    assert arm.runs is not None
    selection = study.description["selection"]
    at = selection["exceptions"].get(arm.id, selection["at"])
    scores = arm.runs.at(at if at is not None and arm.runs.has(at) else None)
    index = select_step_size(scores, rule="least error of mean", truth=selection["truth"])
    return int(arm.runs.exponents[int(index)])


def reduced_table(study: Study) -> Table:
    """Arms that ran at a reduced size, beside all others at the last checkpoint that they share."""
    rows = []
    for episode in study.early:
        early = study.until(episode)
        for arm in early.present:
            values = selected_scores(early, arm.id)
            if values is not None:
                exponent = step_size_text(early.selected[arm.id], study.description["step_size_base"])
                mean, sd = (float(number) for number in mean_sd(values))
                text = number_text(mean) if np.isnan(sd) else f"{number_text(mean)} ± {number_text(sd, mean)}"
                rows.append((arm.label, f"{episode:,}", str(len(values)), text, exponent))
    caption = "Arms that ran at a reduced size, and all others after as many episodes."
    columns = ("arm", "episodes", "seeds", study.description["score_label"], "best α there")
    return Table(f"{study.id}-reduced", caption, columns, tuple(rows))
