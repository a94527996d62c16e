"""Table, claims and page of λ per token; their rule is in the package's docstring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.lab.comparison.ranking import chosen_sizes
from chunked_td.lab.report.page import write_parts
from chunked_td.lab.report.style import new_figure
from chunked_td.lab.results.tables import markdown
from chunked_td.lab.statistics import Estimate, mean_and_interval
from chunked_td.lab.store.tables import load_table
from chunked_td.lab.studies.tokens.protocol import AGES, FIXED, SOURCES, TASKS
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, NOT_SHOWN, Claim, Verdict

if TYPE_CHECKING:
    import polars as pl

    from chunked_td.lab.store.batch_store import Store


@dataclass(frozen=True)
class Gate:
    """Scores by task: {task: {arm: float64[seeds]}}, mean over ages; `permuted` the same with permuted λs."""

    scores: dict[str, dict[str, np.ndarray]]
    permuted: dict[str, dict[str, np.ndarray]]

    def best_fixed(self, task: str) -> np.ndarray:
        """Score of the best fixed λ, float64[seeds], chosen for each seed on the half that it is not in."""
        fixed = np.stack([self.scores[task][arm] for arm in FIXED])
        return fixed[chosen_sizes(fixed), np.arange(fixed.shape[1])]

    def gain(self, task: str, arm: str) -> Estimate:
        """An arm's score minus that of the best fixed λ."""
        return _mean(self.scores[task][arm] - self.best_fixed(task))

    def order(self, task: str, arm: str) -> Estimate:
        """An arm's score minus that of its own λs permuted."""
        return _mean(self.scores[task][arm] - self.permuted[task][arm])

    def judge(self, task: str, arm: str) -> str:
        """The verdict on an arm and task, by the rule that was written before the data."""
        above = (self.gain(task, arm).low > 0, self.order(task, arm).low > 0)
        if self.gain(task, arm).high < 0:
            return FAILS
        return HOLDS if all(above) else IN_PART if any(above) else NOT_SHOWN


def _mean(values: np.ndarray) -> Estimate:
    return Estimate(*map(float, mean_and_interval(values)))


def COLLECT(store: Store) -> pl.DataFrame:
    """One row per task, arm, seed and age of the critic."""
    import polars as pl

    there = {name.removeprefix("tokens-"): name for name in store.directory.protocol_ids}
    return pl.concat(
        [store.table(there[task]).select(pl.lit(task).alias("task"), pl.all()) for task in TASKS if task in there]
    )


def LOAD(folder: Path) -> Gate | Verdict:
    """The scores of a folder; a verdict where the runs are too small to judge."""
    import polars as pl

    table = load_table(folder / "runs.parquet")
    if set(table["episode"].unique().to_list()) != set(AGES):
        return Verdict(NOT_RUN, "runs are of a tiny size")
    found: list[dict] = []
    for column in ("score", "permuted"):
        means = table.group_by("task", "arm", "seed").agg(pl.col(column).mean()).sort("task", "arm", "seed")
        by_task: dict[str, dict[str, np.ndarray]] = {}
        for (task, arm), rows in means.group_by("task", "arm", maintain_order=True):
            by_task.setdefault(str(task), {})[str(arm)] = rows[column].to_numpy()
        found.append(by_task)
    return Gate(*found)


def _numbers(gate: Gate, arm: str) -> str:
    texts = []
    for task in gate.scores:
        gain, order = gate.gain(task, arm), gate.order(task, arm)
        rivals = {"minus the best fixed λ": gain, "minus its own λs permuted": order}
        parts = (f"{name} {e.value:+.3f} [{e.low:+.3f}, {e.high:+.3f}]" for name, e in rivals.items())
        texts.append(f"{task}: {gate.judge(task, arm)} ({', '.join(parts)})")
    return "; ".join(texts).replace("-0", "−0")


def _passed(gate: Gate, _: Mapping[str, Any]) -> Verdict:
    tasks = [task for task in gate.scores if gate.judge(task, "expected") == HOLDS]
    return Verdict(HOLDS if tasks else FAILS, _numbers(gate, "expected"))


def _everywhere(arm: str) -> Any:
    def judge(gate: Gate, _: Mapping[str, Any]) -> Verdict:
        found = [gate.judge(task, arm) for task in gate.scores]
        widest = max(gate.gain(task, arm).half_width for task in gate.scores)
        if all(status == HOLDS for status in found):
            return Verdict(HOLDS, _numbers(gate, arm))
        if HOLDS in found or FAILS in found:
            return Verdict(IN_PART if HOLDS in found else FAILS, _numbers(gate, arm))
        return Verdict(NOT_SHOWN, _numbers(gate, arm), f"a difference above {widest:.2f}")

    return judge


CLAIMS = (
    Claim(
        "tokens-gate",
        "ours, after §6",
        "The gate: on some task, advantages with λ = Σπ² agree better with the truth than with the best fixed λ.",
        "On one task its correlation with the true advantages lies above that of the best fixed λ (chosen on other "
        "seeds) and above that of its own λs permuted within the sequence: 95 % intervals of paired differences "
        "exclude 0.",
        (),
        _passed,
        "Σπ² passes the gate on some task",
        figure="figures/gate.svg",
    ),
    *(
        Claim(
            f"tokens-{arm}",
            "ours, after §6",
            f"{label} as λ per token gives better advantages than the best fixed λ.",
            "As for the gate, on every task. In part: on some.",
            (),
            _everywhere(arm),
            f"{label} beats the best fixed λ",
            figure="figures/gate.svg",
        )
        for arm, label in SOURCES.items()
    ),
)


def PAGE(folder: Path, gate: Gate) -> Path:
    """Write tables/gate.md and figures/gate.svg; returns the path of the first."""
    head = ("λ", *(TASKS[task] for task in gate.scores))
    best = (f"{gate.best_fixed(task).mean():.3f}" for task in gate.scores)
    rows = [("best fixed λ, chosen on other seeds", *best)]
    rows += [(f"λ = {arm}", *(_cell(gate, task, arm) for task in gate.scores)) for arm in FIXED]
    rows += [
        (label, *(f"{_cell(gate, task, arm)}, {gate.judge(task, arm)}" for task in gate.scores))
        for arm, label in SOURCES.items()
    ]
    write_parts(folder, {"gate": markdown(head, rows)}, {"gate": _draw(gate)})
    return folder / "tables" / "gate.md"


def _cell(gate: Gate, task: str, arm: str) -> str:
    return _mean(gate.scores[task][arm]).text(".3f")


def _draw(gate: Gate) -> Any:
    figure, axes = new_figure(3.2 * len(gate.scores) + 2.4, 4.2, len(gate.scores), sharey=True)
    labels = [*(f"λ = {arm}" for arm in FIXED), *SOURCES.values()]
    for axis, task in zip(axes, gate.scores, strict=True):
        for place, arm in enumerate((*FIXED, *SOURCES)):
            found, control = _mean(gate.scores[task][arm]), gate.permuted[task][arm].mean()
            colour = "0.55" if arm in FIXED else "#1b6ca8"
            axis.plot([found.low, found.high], [place, place], color=colour)
            axis.plot(found.value, place, "o", color=colour)
            if arm not in FIXED:
                axis.plot(control, place, "x", color="#b5442e")
        axis.axvline(gate.best_fixed(task).mean(), color="0.55", linestyle=":")
        axis.set_title(TASKS[task], fontsize=9)
        axis.set_xlabel("correlation with the truth")
        axis.locator_params(axis="x", nbins=4)
        axis.set_yticks(range(len(labels)), labels, fontsize=8)
    axes[0].invert_yaxis()
    return figure
