"""The comparison as a web page: one HTML file that works without a network; and its numbers as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from chunked_td.lab.comparison.advice import SCORE, headline, reasons, recommended
from chunked_td.lab.comparison.arms import BOOTSTRAPS, ComparisonSettings
from chunked_td.lab.comparison.ranking import LEVEL
from chunked_td.lab.comparison.recipe import command, script
from chunked_td.lab.comparison.sweep import ArmOutcome, Comparison, Standings
from chunked_td.lab.report.choice import Plot
from chunked_td.lab.report.page import render
from chunked_td.lab.report.plots import axis, layout, line_with_band, numbers
from chunked_td.lab.report.style import BLUE, MARKERS, Style
from chunked_td.lab.results.tables import Table
from chunked_td.lab.statistics import mean_and_interval
from chunked_td.learners.exploration import EPSILON, CountBonus, Softmax

_SHOWN = 6  # curves that are visible at first
_BANDED = 2  # of these with their intervals
_BAND_NOTE = "The best two have their 95 % intervals; “intervals” off and on again shows all."


@dataclass(frozen=True)
class GroupSection:
    """What the page shows of one ranking."""

    title: str
    tables: list[Table]
    plots: list[Plot]


def render_page(found: Comparison) -> str:
    """The page as text."""
    chosen = recommended(found)
    one = None if chosen is None else chosen.outcome
    return render(
        "compare.html",
        packages=("chunked_td.lab.comparison",),
        title=f"{found.settings.env}: which λ?",
        headline=headline(found),
        advice=reasons(found),
        label="" if one is None else one.arm.label,
        command=None if one is None else command(one, found.settings),
        code=None if one is None else script(one, found.settings),
        sections=[_section(found, group, f"group-{k}") for k, group in enumerate(found.groups)],
        overall=ranking_table(found.overall, "overall"),
        several=len(found.groups) > 1,
        method=method(found),
    )


def _section(found: Comparison, group: Standings, key: str) -> GroupSection:
    plots = []
    if group.rows:
        plots = [ranking_plot(group, key), curves_plot(found, group, key), lambda_plot(found, group, key)]
        plots.append(step_size_plot(group, key))
    return GroupSection(group.title, [ranking_table(group, key)], plots)


def ranking_table(group: Standings, key: str) -> Table:
    """The ranking with the distance of each arm to the best."""
    rows = []
    for place, row in enumerate(group.rows, 1):
        gap = group.family.gap(row.place)
        behind = "" if place == 1 else gap.text
        verdict = "best" if place == 1 else "worse" if gap.shown else "≈ best"
        name = row.outcome.arm.label if key == "overall" else row.outcome.arm.source_label
        mean = f"{row.mean:.4g} ({row.low:.4g} to {row.high:.4g})"
        rows.append((name, verdict, mean, behind, row.outcome.step_size_text))
    for one in group.diverged:
        name = one.arm.label if key == "overall" else one.arm.source_label
        rows.append((name, "diverged", "–", "–", one.step_size_text))
    columns = (
        "learner" if key == "overall" else "λ source",
        "",
        "mean return (95 %)",
        "behind the best",
        "step size α",
    )
    caption = f"{group.title[0].upper()}{group.title[1:]}: ranking by the {SCORE}."
    note = (
        "≈ best: not told apart from the best. The intervals in “behind the best” hold together for all pairs of this "
        f"table with {LEVEL:.0%} confidence; those of the mean are each arm's own."
    )
    return Table(key, caption, columns, tuple(rows), note)


def _look(one: ArmOutcome, fixed: list[float], place: int) -> Style:
    if one.arm.source == "fixed":
        shade = 0.35 + 0.65 * (fixed.index(one.arm.value) + 1) / len(fixed)
        red, green, blue = (int(BLUE[i : i + 2], 16) for i in (1, 3, 5))
        mixed = (round(255 - (255 - channel) * shade) for channel in (red, green, blue))
        return Style("#" + "".join(f"{channel:02x}" for channel in mixed), "dash", MARKERS[place % len(MARKERS)], 1.0)
    return Style(one.arm.color, "solid", MARKERS[place % len(MARKERS)], 1.3)


def _looks(group: Standings) -> dict[str, Style]:
    fixed = sorted(row.outcome.arm.value for row in group.rows if row.outcome.arm.source == "fixed")
    return {row.outcome.arm.source_label: _look(row.outcome, fixed, place) for place, row in enumerate(group.rows)}


def ranking_plot(group: Standings, key: str) -> Plot:
    """Mean return with its interval, best on top."""
    rows, looks = group.rows[::-1], _looks(group)
    names = [row.outcome.arm.source_label for row in rows]
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "markers", "showlegend": False, "x": numbers([row.mean]), "y": [name],
            "marker": {"size": 9, "color": looks[name].color},
            "error_x": {"type": "data", "symmetric": False, "array": numbers([row.high - row.mean]),
                        "arrayminus": numbers([row.mean - row.low]), "color": looks[name].color},
            "hovertemplate": f"{row.mean:.5g} ({row.low:.5g} to {row.high:.5g})<extra>{name}</extra>",
        }
        for row, name in zip(rows, names, strict=True)
    ]  # fmt: skip
    scattered = {
        "type": "scatter", "mode": "markers", "showlegend": False, "hoverinfo": "skip",
        "x": [x for row in rows for x in numbers(row.outcome.scores)],
        "y": [name for row, name in zip(rows, names, strict=True) for _ in row.outcome.scores],
        "marker": {"size": 4, "color": "rgba(0,0,0,0.22)"},
    }  # fmt: skip
    form = layout(axis("mean return"), axis("", categoryorder="array", categoryarray=names))
    caption = f"The {SCORE}, with its 95 % bootstrap interval over seeds. Small dots: seeds."
    return Plot(f"{key}-ranking", "Ranking", caption, [scattered, *traces], form, height=120 + 26 * len(rows))


def at_first(traces: list[dict[str, Any]], *, shown: bool, banded: bool) -> list[dict[str, Any]]:
    """The traces of `line_with_band`, with what is visible at first: the line, the band, both or neither."""
    band, line = traces
    line["visible"] = True if shown else "legendonly"
    band["visible"] = shown and banded
    return [band, line]


def curves_plot(found: Comparison, group: Standings, key: str) -> Plot:
    """Learning curves, every seed at its chosen step size; the first ones of the ranking are visible at first."""
    looks, traces = _looks(group), []
    for place, row in enumerate(group.rows):
        name = row.outcome.arm.source_label
        mean, interval = mean_and_interval(row.outcome.means)
        some = line_with_band(name, found.settings.marks, mean, interval, looks[name], seeds=found.seeds, markers=False)
        traces += at_first(some, shown=place < _SHOWN, banded=place < _BANDED)
    form = layout(axis("episode"), axis("mean return since the last point"))
    caption = f"Mean over {found.seeds} seeds. {_BAND_NOTE} More arms: click in the legend."
    return Plot(f"{key}-curves", "Learning curves", caption, traces, form, ("bands", "logx"))


def lambda_plot(found: Comparison, group: Standings, key: str) -> Plot:
    """Mean λ over training. Fixed λs are straight lines, and hidden at first but for the best."""
    looks, traces, fixed_shown = _looks(group), [], False
    for place, row in enumerate(group.rows):
        arm, name = row.outcome.arm, row.outcome.arm.source_label
        there = np.isfinite(row.outcome.lambdas).all(axis=0)  # one-step episodes have no λ
        if not there.any():
            continue
        mean, interval = mean_and_interval(row.outcome.lambdas[:, there])
        marks = found.settings.marks[there]
        some = line_with_band(name, marks, mean, interval, looks[name], seeds=found.seeds, markers=False)
        hidden = arm.source == "dyna" or (fixed_shown if arm.source == "fixed" else place >= 2 * _SHOWN)
        fixed_shown = fixed_shown or arm.source == "fixed"
        traces += at_first(some, shown=not hidden, banded=place < _BANDED)
    form = layout(axis("episode"), axis("mean λ since the last point", range=[-0.03, 1.03]))
    caption = (
        "How far credit jumps: the mean λ of all steps but the first of each episode, over training. Near 1 "
        "returns are passed back whole, near 0 every step bootstraps. Of the fixed λs the "
        f"best is shown; the others: click in the legend. {_BAND_NOTE}"
    )
    return Plot(f"{key}-lambda", "λ over training", caption, traces, form, ("bands", "logx"))


def step_size_plot(group: Standings, key: str) -> Plot:
    """Mean return against the step size; step sizes at which a run diverged are left out."""
    looks, traces = _looks(group), []
    for place, row in enumerate(group.rows):
        name, scores = row.outcome.arm.source_label, row.outcome.all_scores
        there = np.isfinite(scores).all(axis=1)
        mean, interval = mean_and_interval(scores[there].T)
        sizes = np.array(row.outcome.step_sizes)[there]
        some = line_with_band(name, sizes, mean, interval, looks[name], seeds=scores.shape[1], markers=True)
        traces += at_first(some, shown=place < _SHOWN, banded=place < _BANDED)
    form = layout(axis("step size α", log=True), axis("mean return"))
    caption = f"The {SCORE}, for every step size that was tried without diverging. {_BAND_NOTE}"
    return Plot(f"{key}-sizes", "Step sizes", caption, traces, form, ("bands",))


def method(found: Comparison) -> list[str]:
    """How the numbers were made."""
    settings = found.settings
    how = found.how
    return [
        f"{len(found.outcomes)} arms, {found.seeds} seeds each, {settings.episodes:,} episodes per run, γ = "
        f"{settings.discount:g}, exploration: {exploration_text(settings)}, values begin at "
        f"{settings.initial_value:g}.",
        f"{how[0].upper()}{how[1:]}.",
        "Every λ source runs with every bootstrap, so that neither is taken for the other. Every arm sees the same "
        "seeds; arms are compared seed by seed.",
        "The step size of every seed is the one that is best on the other half of the seeds, so that choosing flatters "
        "no arm. Where the best one lies at the edge of the grid, the grid grows by one factor, at most "
        f"{settings.extend} times.",
        "“Worse” means: the difference exceeds what a wild bootstrap over seeds (studentised, signs of the paired "
        "differences drawn at random) gives to the greatest of all pairs of equal arms in 19 of 20 cases. Arms that "
        "diverged at their chosen step size are not ranked.",
    ]


def exploration_text(settings: ComparisonSettings) -> str:
    """How the learners explore, in words."""
    exploration = settings.exploration
    epsilon = f"ε = {_number(EPSILON if settings.epsilon is None else settings.epsilon)}"
    if exploration is None:
        return f"ε-greedy, {epsilon}"
    if isinstance(exploration, Softmax):
        return f"softmax, temperature {_number(exploration.temperature)}"
    if isinstance(exploration, CountBonus):
        return f"count bonus {exploration.scale:g}/√n, {epsilon}"
    return f"{exploration!r}, {epsilon}"


def _number(value: Any) -> str:
    points = getattr(value, "points", None)
    return f"{value:g}" if points is None else ", ".join(f"{number:g} at episode {at:,}" for at, number in points)


def frame_of(found: Comparison) -> Any:
    """The curves of all runs as a Polars table: one row per arm, step size, seed and checkpoint."""
    import polars as pl

    marks, frames = found.settings.marks, []
    for one in found.outcomes:
        for place, size in enumerate(one.step_sizes):
            runs = one.curves[size]
            seeds, points = runs.means.shape
            frames.append(
                pl.DataFrame(
                    {
                        "arm": [one.arm.label] * (seeds * points),
                        "bootstrap": [BOOTSTRAPS[one.arm.bootstrap]] * (seeds * points),
                        "lambda_source": [one.arm.source_label] * (seeds * points),
                        "step_size": np.full(seeds * points, size),
                        "seed": np.repeat(np.arange(seeds), points),
                        "episode": np.tile(marks, seeds),
                        "mean_return": runs.means.ravel(),
                        "mean_lambda": runs.lambdas.ravel(),
                        "diverged": np.repeat(runs.diverged, points),
                        "chosen": np.repeat(one.chosen == place, points),
                    }
                )
            )
    return pl.concat(frames)
