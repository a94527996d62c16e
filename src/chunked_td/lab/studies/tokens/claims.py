"""Tables, claims and page of λ per token; their rules are in the package's docstring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.lab.comparison.ranking import chosen_sizes
from chunked_td.lab.report.page import write_parts
from chunked_td.lab.report.style import legend_below, new_figure
from chunked_td.lab.results.tables import markdown
from chunked_td.lab.store.tables import load_table
from chunked_td.lab.studies.tokens.protocol import (
    AGES,
    CONFIRMED,
    CRITICS,
    EXPLORED,
    FIXED,
    SINGLE,
    SOURCES,
    TASKS,
    TRAINED,
)
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, NOT_SHOWN, Claim, Verdict, status_of
from chunked_td.statistics import Estimate, mean_and_interval

if TYPE_CHECKING:
    import polars as pl

    from chunked_td.lab.store.batch_store import Store

AT_MOST = 0.02
"""How far below the best fixed λ a λ for all critics may lie."""
ByTask = dict[str, dict[str, np.ndarray]]
"""Scores, {task: {arm: float64[step sizes, seeds]}}."""


@dataclass(frozen=True)
class Judged:
    """What is judged by one rule: the gate, or training beside one critic.

    Args:
      scores: of all arms. permuted: of those that have a control, with their λs permuted.
    """

    scores: ByTask
    permuted: ByTask

    def best_fixed(self, task: str) -> np.ndarray:
        """Score of the best fixed λ, float64[seeds], chosen with its step size on the half that a seed is not in."""
        return _chosen(self.fixed(task))

    def fixed(self, task: str) -> np.ndarray:
        """Scores of all fixed λ with all their step sizes, float64[candidates, seeds]."""
        return np.concatenate([self.scores[task][arm] for arm in FIXED])

    def mean(self, task: str, arm: str) -> Estimate:
        """An arm's score."""
        return _mean(_chosen(self.scores[task][arm]))

    def gain(self, task: str, arm: str) -> Estimate:
        """An arm's score minus that of the best fixed λ."""
        return _mean(_chosen(self.scores[task][arm]) - self.best_fixed(task))

    def order(self, task: str, arm: str) -> Estimate | None:
        """An arm's score minus that of its own λs permuted; None without such a control."""
        control = self.permuted.get(task, {}).get(arm)
        return None if control is None else _mean(_chosen(self.scores[task][arm]) - _chosen(control))

    def judge(self, task: str, arm: str) -> str:
        """The verdict on an arm and task, by the rule that was written before the data."""
        gain, order = self.gain(task, arm), self.order(task, arm)
        above = (gain.low > 0, order is not None and order.low > 0)
        if gain.high < 0:
            return FAILS
        return HOLDS if all(above) else IN_PART if any(above) else NOT_SHOWN


def _chosen(candidates: np.ndarray) -> np.ndarray:
    return candidates[chosen_sizes(candidates), np.arange(candidates.shape[1])]


def _mean(values: np.ndarray) -> Estimate:
    return Estimate(*map(float, mean_and_interval(values)))


def COLLECT(store: Store) -> pl.DataFrame:
    """One row per task (of training: critic and task), arm, seed, step size, and age of the critic or block."""
    import polars as pl

    there = {name.removeprefix("tokens-"): name for name in store.directory.protocol_ids}
    tasks = (*TASKS, *(f"{critic}-{task}" for critic in CRITICS for task in TRAINED))
    tasks += tuple(f"confirm-{name}" for name in CONFIRMED)
    tables = [store.table(there[task]).select(pl.lit(task).alias("task"), pl.all()) for task in tasks if task in there]
    return pl.concat(tables, how="diagonal")


def LOAD(folder: Path) -> dict[str, Judged] | Verdict:
    """The scores of a folder, "gate" and by critic; a verdict where the runs are too small to judge."""
    import polars as pl

    table = load_table(folder / "runs.parquet")
    of_gate = pl.col("task").is_in(list(TASKS))
    if set(table.filter(of_gate)["episode"].unique().to_list()) != set(AGES):
        return Verdict(NOT_RUN, "runs are of a tiny size")
    gate = table.filter(of_gate)
    found = {"gate": Judged(_by_task(gate, "score"), _by_task(gate, "permuted"))}
    trained = table.filter(~of_gate)
    for critic in CRITICS:
        prefix, scores, permuted = f"{critic}-", {}, {}
        for task, arms in _by_task(trained.filter(pl.col("task").str.starts_with(prefix)), "score").items():
            task = task.removeprefix(prefix)
            permuted[task] = {arm.removesuffix("-permuted"): x for arm, x in arms.items() if arm.endswith("-permuted")}
            scores[task] = {arm: x for arm, x in arms.items() if not arm.endswith("-permuted")}
        found[critic] = Judged({task: scores[task] for task in TRAINED if task in scores}, permuted)
    again = _by_task(trained.filter(pl.col("task").str.starts_with("confirm-")), "score")
    found["confirmed"] = Judged({task.removeprefix("confirm-"): arms for task, arms in again.items()}, {})
    return found


def _by_task(table: pl.DataFrame, column: str) -> ByTask:
    """Means over checkpoints."""
    import polars as pl

    keys, found = ("task", "arm", "exponent", "seed"), {}
    means = table.group_by(keys).agg(pl.col(column).mean()).sort(keys)
    for (task, arm), rows in means.group_by("task", "arm", maintain_order=True):
        sizes = rows["exponent"].n_unique()
        found.setdefault(str(task), {})[str(arm)] = rows[column].to_numpy().reshape(sizes, -1)
    return found


def _numbers(judged: Judged, arm: str) -> str:
    texts = []
    for task in judged.scores:
        rivals = {"the best fixed λ": judged.gain(task, arm), "its own λs permuted": judged.order(task, arm)}
        parts = (f"minus {name} {_signed(estimate)}" for name, estimate in rivals.items() if estimate)
        texts.append(f"{task}: {judged.judge(task, arm)} ({', '.join(parts)})")
    return "; ".join(texts)


def _passed(found: Mapping[str, Judged], _: Mapping[str, Any]) -> Verdict:
    gate = found["gate"]
    tasks = [task for task in gate.scores if gate.judge(task, "expected") == HOLDS]
    return Verdict(HOLDS if tasks else FAILS, _numbers(gate, "expected"))


def _everywhere(arm: str, part: str = "gate") -> Callable[[Mapping[str, Judged], Mapping[str, Any]], Verdict]:
    def judge(found: Mapping[str, Judged], _: Mapping[str, Any]) -> Verdict:
        judged = found[part]
        if not judged.scores:
            return Verdict(NOT_RUN, "no runs")
        statuses = [judged.judge(task, arm) for task in judged.scores]
        widest = max(judged.gain(task, arm).half_width for task in judged.scores)
        if all(status == HOLDS for status in statuses):
            return Verdict(HOLDS, _numbers(judged, arm))
        if HOLDS in statuses or FAILS in statuses:
            return Verdict(IN_PART if HOLDS in statuses else FAILS, _numbers(judged, arm))
        if IN_PART in statuses:
            return Verdict(IN_PART, _numbers(judged, arm))
        return Verdict(NOT_SHOWN, _numbers(judged, arm), f"a difference above {widest:.2f}")

    return judge


def _confirmed(found: Mapping[str, Judged], _: Mapping[str, Any]) -> Verdict:
    scores = {name: {arm: x[0] for arm, x in arms.items()} for name, arms in found["confirmed"].scores.items()}
    if set(scores) != set(CONFIRMED):
        return Verdict(NOT_RUN, "no runs, or not of all tasks")
    gains = {name: _mean(scores[name]["explained"] - scores[name][CONFIRMED[name].best[0]]) for name in CONFIRMED}
    ahead = _mean(np.mean([arms["explained"] - arms[SINGLE] for arms in scores.values()], axis=0))
    texts = [f"{name} minus λ = {CONFIRMED[name].best[0]} {_signed(gain)}" for name, gain in gains.items()]
    least = min(gain.low for gain in gains.values())
    mean = f"mean over tasks and critics minus λ = {SINGLE} {_signed(ahead)}"
    return Verdict(status_of((least > -AT_MOST, ahead.low > 0)), "; ".join((mean, *texts)))


def _signed(estimate: Estimate) -> str:
    return f"{estimate.value:+.3f} [{estimate.low:+.3f}, {estimate.high:+.3f}]".replace("-", "−")


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
    *(
        Claim(
            f"tokens-{critic}-training",
            "ours, after §6",
            f"With a critic {how}, a policy trained with λ = Σπ² collects more reward than with the best fixed λ.",
            "On every task: its mean reward lies above that of the best fixed λ and above that of its own λs permuted; "
            "step sizes (and the fixed λ) chosen on other seeds, 95 % intervals of paired differences. In part: on "
            "some.",
            (),
            _everywhere("expected", critic),
            f"Σπ² trains better than the best fixed λ, {CRITICS[critic]}",
            figure="figures/training.svg",
        )
        for critic, how in {"learned": "that is learned beside it", "informed": "that knows the task"}.items()
    ),
    Claim(
        "tokens-unexplained",
        "ours, after §6",
        "One λ for good and bad critics: the share of the variance of rewards that the critic leaves unexplained.",
        "On fresh seeds, with everything chosen before: (a) below the best fixed λ of no task and critic by more than "
        f"{AT_MOST}; (b) its mean over tasks and critics above that of the best single fixed λ. 95 % intervals.",
        (),
        _confirmed,
        "λ = 1 − what the critic explains is good with both critics",
        figure="figures/training.svg",
    ),
)


def PAGE(folder: Path, found: Mapping[str, Judged]) -> Path:
    """Write tables and figures of the gate and of training; returns the path of the first."""
    trained = {critic: found[critic] for critic in CRITICS if found[critic].scores}
    tables = {"gate": _table(found["gate"], TASKS)} | {
        name: _table(judged, TRAINED) for name, judged in trained.items()
    }
    if found["confirmed"].scores:
        tables["confirmed"] = _confirmed_table(found["confirmed"].scores)
    figures = {"gate": _draw({"": found["gate"]}, TASKS, "correlation with the truth")}
    figures |= {"training": _draw(trained, TRAINED, "mean reward")} if trained else {}
    write_parts(folder, tables, figures)
    return folder / "tables" / "gate.md"


def _table(judged: Judged, titles: Mapping[str, str]) -> str:
    tasks = list(judged.scores)
    best = {
        "best fixed λ, chosen on other seeds": (judged.best_fixed(task).mean() for task in tasks),
        "best fixed λ in hindsight": (judged.fixed(task).mean(axis=1).max() for task in tasks),
    }
    rows = [(label, *(f"{value:.3f}" for value in values)) for label, values in best.items()]
    rows += [(f"λ = {arm}", *(judged.mean(task, arm).text(".3f") for task in tasks)) for arm in FIXED]
    rows += [
        (label, *(judged.mean(task, arm).text(".3f") + _verdict(judged, task, arm) for task in tasks))
        for arm, label in _sources(judged).items()
    ]
    return markdown(("λ", *(titles[task] for task in tasks)), rows)


def _confirmed_table(scores: ByTask) -> str:
    rows = []
    for name, tuned in CONFIRMED.items():
        critic, _, task = name.partition("-")
        arms = {arm: x[0] for arm, x in scores[name].items()}
        (best, _), new = tuned.best, arms["explained"]
        means = (f"{arms[best].mean():.3f} (λ = {best})", f"{arms[SINGLE].mean():.3f}", f"{new.mean():.3f}")
        rows.append((TRAINED[task], CRITICS[critic], *means, _signed(_mean(new - arms[best]))))
    head = (
        "task",
        "critic",
        "best fixed λ",
        f"λ = {SINGLE}",
        "λ = unexplained share",
        "difference to the best fixed λ",
    )
    return markdown(head, rows)


def _verdict(judged: Judged, task: str, arm: str) -> str:
    return "" if arm in EXPLORED else f", {judged.judge(task, arm)}"


def _sources(judged: Judged) -> dict[str, str]:
    (arms, *_) = judged.scores.values()
    return {arm: label for arm, label in (SOURCES | EXPLORED).items() if arm in arms}


def _draw(parts: Mapping[str, Judged], titles: Mapping[str, str], what: str) -> Any:
    """A panel per task, a line per λ; parts side by side in their colours."""
    (first, *_) = parts.values()
    arms = {**{arm: f"λ = {arm}" for arm in FIXED}, **_sources(first)}
    figure, axes = new_figure(3.2 * len(first.scores) + 2.4, 4.2, len(first.scores), sharey=True)
    for axis, task in zip(axes, first.scores, strict=True):
        for (name, judged), colour in zip(parts.items(), ("#1b6ca8", "#c98a1b"), strict=False):
            for place, arm in enumerate(arms):
                if arm not in judged.scores[task]:
                    continue
                found, shade = judged.mean(task, arm), "0.55" if arm in FIXED and not name else colour
                axis.plot([found.low, found.high], [place, place], color=shade)
                axis.plot(found.value, place, "o", color=shade, label=CRITICS.get(name))
                if arm in judged.permuted.get(task, {}) and arm not in FIXED:
                    axis.plot(
                        _chosen(judged.permuted[task][arm]).mean(), place, "x", color="#b5442e", label="λs permuted"
                    )
            axis.axvline(judged.best_fixed(task).mean(), color=colour if name else "0.55", linestyle=":")
        axis.set_title(titles[task], fontsize=9)
        axis.set_xlabel(what)
        axis.locator_params(axis="x", nbins=4)
        axis.set_yticks(range(len(arms)), arms.values(), fontsize=8)
    axes[0].invert_yaxis()
    legend_below(figure, len(parts) + 1)
    return figure
