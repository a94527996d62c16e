"""Table, claims and page of bsuite's experiments; their scores are in the package's docstring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td.lab.report.page import write_parts
from chunked_td.lab.report.style import legend_below, new_figure
from chunked_td.lab.results.runs import RunArrays, RunTable, collector
from chunked_td.lab.results.tables import markdown
from chunked_td.lab.studies.bsuite.protocol import (
    BLIND,
    CHOSEN,
    EPISODES,
    FIXED,
    LABELS,
    RULE,
    SETTINGS,
    STUDY,
    VARIANCE,
)
from chunked_td.lab.study import NOT_RUN, Claim, Protocol, Verdict, status_of

MOST_MISTAKES = {"memory_len": 0.375, "memory_size": 0.375, "umbrella_length": 0.25}
"""A setting is solved if the share of mistaken episodes lies below this."""


def _rows(protocol: Protocol, arm: str, runs: RunArrays) -> Any:
    """One row per run: the share of its episodes that were mistaken."""
    import polars as pl

    about = protocol.environment.arguments
    settings = about["settings"]
    columns = {
        "experiment": [about["name"]] * len(runs.seeds),
        "arm": arm,
        "episodes": runs.length,
        "setting": [settings[seed % len(settings)] for seed in runs.seeds],
        "seed": runs.seeds,
        "mistakes": runs.columns["score"][0, :, -1] / runs.length,
    }
    return pl.DataFrame(columns)


COLLECT = collector(STUDY.protocols, _rows, "experiment", "arm", "seed")


class BsuiteResults(RunTable):
    """Results of the study."""

    def mistakes(self, experiment: str, arm: str) -> np.ndarray:
        """float64[repeats, settings], of repeats that are whole and at full length; 1 where a run diverged."""
        rows = self.frame.filter(experiment=experiment, arm=arm, episodes=EPISODES.get(experiment, 10_000)).sort("seed")
        n, found = len(SETTINGS[experiment]), rows["mistakes"].to_numpy()
        whole = len(found) // n if np.array_equal(rows["seed"], np.arange(len(found))) else 0
        return np.minimum(np.nan_to_num(found[: whole * n], nan=1.0), 1.0).reshape(whole, n)

    def scores(self, experiment: str, arm: str) -> np.ndarray:
        """bsuite's score of every repeat, float64[repeats]."""
        mistakes = self.mistakes(experiment, arm)
        if experiment in MOST_MISTAKES:
            return (mistakes < MOST_MISTAKES[experiment]).mean(axis=1)
        return np.clip(1.0 - mistakes.mean(axis=1), 0.0, 1.0)


LOAD = BsuiteResults.load


Judge = Callable[[BsuiteResults, Mapping[str, Any]], Verdict]


def _means(results: BsuiteResults, experiment: str, arms: Sequence[str]) -> dict[str, float]:
    """Mean scores of the arms that were run."""
    found = {arm: results.scores(experiment, arm) for arm in arms}
    return {arm: float(scores.mean()) for arm, scores in found.items() if scores.size}


def _text(found: Mapping[str, float]) -> str:
    return ", ".join(f"{arm} {score:.2f}" for arm, score in found.items())


def _between(experiment: str, arms: Sequence[str], least: float, most: float = 1.0) -> Judge:
    """Every arm's score lies between two numbers."""

    def judge(results: BsuiteResults, _: Mapping[str, Any]) -> Verdict:
        found = _means(results, experiment, arms)
        if not found:
            return Verdict(NOT_RUN, "no arm was run at full size")
        right = [least <= score <= most for score in found.values()]
        return Verdict(status_of(right), _text(found))

    return judge


def _as_good(experiment: str, ours: Sequence[str], margin: float) -> Judge:
    """Every arm of ours has a score of at least that of the best fixed λ, less a margin."""

    def judge(results: BsuiteResults, _: Mapping[str, Any]) -> Verdict:
        fixed, found = _means(results, experiment, FIXED), _means(results, experiment, ours)
        if len(fixed) < len(FIXED) or len(found) < len(ours):
            return Verdict(NOT_RUN, "not all arms were run at full size")
        right = [score >= max(fixed.values()) - margin for score in found.values()]
        return Verdict(status_of(right), _text(found | fixed))

    return judge


def _claim(name: str, text: str, criterion: str, judge: Judge, short: str, *controls: str) -> Claim:
    figure = "figures/scores.svg"
    return Claim(f"bsuite-{name}", "ours", text, criterion, (), judge, short, controls=controls, figure=figure)


CLAIMS = (
    _claim(
        "memory-len",
        "With a memory of unexpected percepts a table remembers over every length of memory_len.",
        "Every arm with the memory that was run scores 0.95 or more.",
        _between("memory_len", CHOSEN["memory_len"], 0.95),
        "bsuite's memory_len is solved",
        "bsuite-memory-needed",
    ),
    _claim(
        "memory-size",
        "With the same memory a table answers for up to 10 bits within 10,000 episodes.",
        "Every arm with the memory that was run scores 0.55 or more (10 of 17 settings are 0.59).",
        _between("memory_size", (*FIXED, "chunked", RULE), 0.55),
        "bsuite's memory_size is solved up to 10 bits",
        "bsuite-memory-needed",
    ),
    _claim(
        "memory-needed",
        "Without the memory memory_size is not solved.",
        "The arm without a memory scores 0.1 or less.",
        _between("memory_size", (BLIND,), 0.0, 0.1),
        "nothing is remembered without the memory",
    ),
    _claim(
        "discounting",
        "λ from a model and the rule do as well on discounting_chain as the best of three fixed λs.",
        "The scores of both lie at most 0.02 below that of the best fixed λ. In part: one of the two.",
        _as_good("discounting_chain", ("chunked", RULE), 0.02),
        "bsuite's discounting_chain: as good as the best λ",
    ),
    _claim(
        "umbrella",
        "λ from the variance of values does as well on umbrella_length as the best of three fixed λs.",
        "Its score lies at most 0.05 (one setting) below that of the best fixed λ.",
        _as_good("umbrella_length", (VARIANCE,), 0.05),
        "bsuite's umbrella_length: as good as the best λ",
    ),
)


COLOURS = dict(zip(LABELS, ("0.8", "0.55", "0.3", "#D55E00", "#F0A070", "#0072B2", "#7A4FB5", "#E8D8A0"), strict=True))


def PAGE(folder: Path, results: BsuiteResults) -> Path:
    """Write tables/scores.md and figures/scores.svg; returns the path of the table."""
    rows, experiments = [], _experiments(results)
    for arm, label in LABELS.items():
        found = [results.scores(experiment, arm) for experiment in experiments]
        if any(scores.size for scores in found):
            rows.append((label, *(f"{scores.mean():.2f}" if scores.size else "" for scores in found)))
    write_parts(folder, {"scores": markdown(("", *experiments), rows)}, {"scores": _draw(results)})
    return folder / "tables" / "scores.md"


def _experiments(results: BsuiteResults) -> list[str]:
    """Those of which some arm was run whole."""
    return [name for name in SETTINGS if any(results.scores(name, arm).size for arm in LABELS)]


def _draw(results: BsuiteResults) -> Any:
    """A group of bars per experiment; a repeat is a dot."""
    figure, (axis,) = new_figure(8.0, 3.0)
    experiments = _experiments(results)
    for x, experiment in enumerate(experiments):
        found = {arm: scores for arm in LABELS if (scores := results.scores(experiment, arm)).size}
        for k, (arm, scores) in enumerate(found.items()):
            place = x + 0.13 * (k + 0.5 - len(found) / 2)
            axis.bar(place, scores.mean(), 0.12, color=COLOURS[arm], label=LABELS[arm])
            if scores.size > 1:
                axis.plot([place] * scores.size, scores, "k.", ms=2)
    axis.set_xticks(range(len(experiments)), experiments)
    axis.set_ylabel("bsuite's score")
    axis.set_ylim(0.0, 1.02)
    legend_below(figure, 3)
    return figure
