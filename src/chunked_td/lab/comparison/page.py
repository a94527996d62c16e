"""The comparison as a web page: one HTML file that works without a network; and its numbers as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chunked_td.lab.comparison.answer import best_of, caveats, headline, named, points, recommended, verdict
from chunked_td.lab.comparison.arms import BOOTSTRAPS, RETURNS, VALUES, ComparisonSettings, color_of, source_label
from chunked_td.lab.comparison.ranking import LEAST
from chunked_td.lab.comparison.recipe import command, script
from chunked_td.lab.comparison.sweep import ArmOutcome, Comparison, Standing
from chunked_td.lab.report.choice import Plot
from chunked_td.lab.report.page import render
from chunked_td.lab.report.plots import axis, layout, line_with_band, numbers
from chunked_td.lab.report.style import GREY, MARKERS, Style
from chunked_td.lab.results.tables import Table
from chunked_td.lab.study import Arm
from chunked_td.lab.wording import rounded_text
from chunked_td.learners.exploration import EPSILON, CountBonus, Softmax
from chunked_td.statistics import mean_and_interval

TOP = 10
"""Rows of the table before the rest is folded away."""
_NOTE = (
    "“Behind”: by how much a learner is behind the first, with a 95 % interval that holds for all pairs at once. “As "
    "good”: shown to differ by 5 % of the range of the learners' means at most; “unclear”: neither that nor worse is "
    "shown. Two step sizes: each half of the seeds is scored at the one that is best on the other half."
)
_BANDS = "“intervals” off and on again shows those of all arms."


def render_page(found: Comparison) -> str:
    """The page as text."""
    best = None if found.settings.question == VALUES else recommended(found) or best_of(found, plans=True)
    plain = plain_rows(found)
    return render(
        "compare.html",
        title=f"{found.settings.env}: which λ?",
        headline=headline(found),
        meanings=meanings(found),
        points=points(found),
        caveats=caveats(found),
        label="" if best is None else named(best.arm),
        command=None if best is None else command(best.outcome, found.settings),
        code=None if best is None else script(best.outcome, found.settings),
        picture=ranking_plot(found) if found.rows else None,
        table_=ranking_table(found, plain[:TOP], "ranking"),
        rest=ranking_table(found, plain[TOP:], "rest") if len(plain) > TOP or found.diverged else None,
        apart=ranking_table(found, apart_rows(found), "apart") if apart_rows(found) else None,
        plots=[curves_plot(found), lambda_plot(found), step_size_plot(found)] if found.rows else [],
        method=method(found),
    )


def meanings(found: Comparison) -> Table:
    """What the names of λ sources mean, in words and as formulas."""
    sources = [row.arm.source() for row in found.rows if row.arm.group != "fixed" and not row.plans]
    rows = tuple(dict.fromkeys((source.label, source.means, source.formula) for source in sources))
    return Table("meanings", "", ("λ source", "what it is", "formula"), rows)


def plain_rows(found: Comparison) -> list[Standing]:
    """The arms that do not plan: the recommended one, then the others, best first."""
    used = recommended(found)
    return sorted((row for row in found.rows if not row.plans), key=lambda row: row != used)


def label_of(found: Comparison, arm: Arm) -> str:
    """What tables and pictures call an arm: its bootstrap is named where there are several."""
    return arm.label if len(_bootstraps(found)) > 1 or not source_label(arm) else source_label(arm)


def _bootstraps(found: Comparison) -> set[str]:
    return {BOOTSTRAPS[one.arm.learner] for one in found.outcomes}


def apart_rows(found: Comparison) -> list[Standing]:
    """What is not part of the question which λ: planning, and acting at random."""
    reference = found.reference
    return [row for row in found.rows if row.plans] + ([] if reference is None else [reference])


def ranking_table(found: Comparison, rows: Sequence[Standing], name: str) -> Table:
    """Some rows of the ranking, with the distance of each to the recommended one."""
    alike = f" All with {min(_bootstraps(found))}." if len(_bootstraps(found)) == 1 else ""
    captions = {
        "ranking": f"Ranking by the {found.settings.score}, {found.seeds} seeds.{alike}",
        "rest": "The other arms.",
        "apart": "For reference: planning makes more updates a step than the others; the random policy learns nothing.",
    }
    cells = [_cells(found, row) for row in rows]
    if name == "rest":
        cells += [(label_of(found, one.arm), "diverged", "–", "–", one.step_size_text) for one in found.diverged]
    columns = ("learner", "verdict", found.settings.score_axis, "behind", "step size α")
    note = _NOTE if name == "ranking" and found.seeds >= LEAST else ""
    return Table(name, captions[name], columns, tuple(cells), note)


def _cells(found: Comparison, row: Standing) -> tuple[str, ...]:
    used = recommended(found)
    size = "–" if row is found.reference or row.outcome is found.random else row.outcome.step_size_text
    behind = "" if used is None or row.place == used.place else found.family.gap(row.place, used.place).span()
    return label_of(found, row.arm), verdict(found, row), rounded_text(row.score.value, 4), behind, size


def shown_rows(found: Comparison) -> list[Standing]:
    """What pictures show at first: the best λ source, the best fixed λ and the best that plans; best first."""
    wanted: dict[str, Standing] = {}
    for row in found.rows:
        kind = "plans" if row.plans else "fixed" if row.arm.group == "fixed" else "source"
        wanted.setdefault(kind, row)
    return [row for row in found.rows if row in wanted.values()]


def ranked_rows(found: Comparison) -> list[Standing]:
    """Rows of the picture: the recommended one, the first ten and the best of each kind, then those that plan."""
    used, shown = recommended(found), shown_rows(found)
    rows = [row for place, row in enumerate(found.rows) if place < TOP or row in shown]
    return sorted(rows, key=lambda row: (row != used, row.plans))


def _look(row: Standing, place: int) -> Style:
    fixed = row.arm.group == "fixed"
    return Style(color_of(row.arm), "dash" if fixed else "solid", MARKERS[place % len(MARKERS)], 1.0 if fixed else 1.3)


def ranking_plot(found: Comparison) -> Plot:
    """Each learner minus the recommended one, with the interval that verdicts are made by; a dot is a seed."""
    rows = ranked_rows(found)[::-1]
    names, scores, first = [label_of(found, row.arm) for row in rows], found.family.scores, rows[-1].place
    traces: list[dict[str, Any]] = []
    for place, row in enumerate(rows):
        gap, color = -found.family.gap(row.place, first), color_of(row.arm)
        dots, own = numbers(scores[row.place] - scores[first]), {"type": "scatter", "showlegend": False}
        ends = [] if row.place == first else numbers([gap.low, gap.high])
        traces += [
            {**own, "mode": "markers", "x": dots, "y": [place - 0.25] * len(dots), "hoverinfo": "skip",
             "marker": {"size": 4, "color": "rgba(0,0,0,0.22)"}},
            {**own, "mode": "lines", "x": ends, "y": [place] * len(ends), "hoverinfo": "skip",
             "line": {"color": color, "width": 2}},
            {**own, "mode": "markers", "x": numbers([gap.value]), "y": [place], "marker": {"size": 9, "color": color},
             "hovertemplate": f"{row.text}<extra>{names[place]}</extra>"},
        ]  # fmt: skip
    every = [x for trace in traces for x in trace["x"] if x is not None]
    low, high, random, shapes = min(every), max(every), "", [_upright(0.0, "solid")]
    if found.reference is not None:
        x = found.reference.score.value - float(scores[first].mean())
        if low - (high - low) <= x <= high + (high - low):  # farther off it would squeeze all others
            low, high, random = min(low, x), max(high, x), " The dotted line is acting at random."
            shapes.append(_upright(x, "dot"))
        else:
            random = f" Acting at random lies outside, at {rounded_text(x, 3)}."
    if verdict(found, rows[-1]):
        names[-1] = f"<b>{names[-1]}</b>"
    margin = 0.03 * (high - low) or 1.0
    made = layout(
        axis(
            f"{found.settings.score_axis} minus that of {label_of(found, rows[-1].arm)}",
            range=[low - margin, high + margin],
        ),
        axis("", tickvals=list(range(len(rows))), ticktext=names, zeroline=False),
        shapes=shapes,
    )
    caption = (
        f"How much more each learner has than the first: {found.settings.score}, mean over {found.seeds} seeds (small "
        "dots). A line that does not touch 0 is a difference that is shown; the lines are 95 % intervals that hold for "
        f"all pairs at once.{random} {len(rows)} of {len(found.rows)} learners."
    )
    return Plot("ranking", "Ranking", caption, traces, made, height=130 + 26 * len(rows))


def _upright(x: float, dash: str) -> dict[str, Any]:
    line = {"color": GREY, "width": 1.5, "dash": dash}
    return {"type": "line", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1, "line": line}


def _lines(
    found: Comparison, points: Callable[[ArmOutcome], tuple[Any, np.ndarray]], markers: bool = False
) -> list[dict[str, Any]]:
    """One line per arm with its band; the best of each kind are visible at first, the others in the legend only.

    Args:
      points: x, float64[K], and values, float64[seeds, K], of an arm.
    """
    traces = []
    for place, row in enumerate(found.rows):
        x, values = points(row.outcome)
        shown, mean, look = row in shown_rows(found), mean_and_interval(values), _look(row, place)
        band, line = line_with_band(row.arm.label, x, mean, look, seeds=found.seeds, markers=markers)
        traces += [band | {"visible": shown}, line | {"visible": True if shown else "legendonly"}]
    return traces


def _over_training(found: Comparison, name: str) -> list[dict[str, Any]]:
    def points(one: ArmOutcome) -> tuple[Any, np.ndarray]:
        values = one.at_chosen(name)
        there = np.isfinite(values).any(axis=0)
        return found.settings.marks[there], values[:, there]

    return _lines(found, points)


def curves_plot(found: Comparison) -> Plot:
    """Learning curves, every seed at its chosen step size."""
    made = layout(axis("episode"), axis(f"{found.settings.score_axis} since the last point"))
    caption = f"The best of each kind, mean over {found.seeds} seeds with 95 % intervals; others: click in the legend."
    lines = _over_training(found, "mean_return")
    return Plot("curves", "Learning curves", f"{caption} {_BANDS}", lines, made, ("bands", "logx"))


def lambda_plot(found: Comparison) -> Plot:
    """Mean λ over training."""
    made = layout(axis("episode"), axis("mean λ since the last point", range=[-0.03, 1.03]))
    caption = (
        f"Mean λ of the steps, over {found.seeds} seeds with 95 % intervals. Near 1, returns are passed back whole; "
        f"near 0, every step bootstraps. {_BANDS}"
    )
    lines = _over_training(found, "mean_lambda")
    return Plot("lambda", "λ over training", caption, lines, made, ("bands", "logx"))


def step_size_plot(found: Comparison) -> Plot:
    """Mean return against the step size; step sizes at which a run diverged are left out."""

    def points(one: ArmOutcome) -> tuple[Any, np.ndarray]:
        there = np.isfinite(one.all_scores).all(axis=1)
        return np.array(one.step_sizes)[there], one.all_scores[there].T

    made = layout(axis("step size α", log=True), axis(found.settings.score_axis))
    caption = f"The {found.settings.score}, for every step size tried without diverging, {found.seeds} seeds. {_BANDS}"
    return Plot("sizes", "Step sizes", caption, _lines(found, points, markers=True), made, ("bands",))


def method(found: Comparison) -> list[str]:
    """How the numbers were made."""
    settings, how = found.settings, found.how
    seeds = f"{found.seeds} seeds each"
    if found.looks > 1:
        seeds += f" (added until the answer was clear or the time used; judged {found.looks} times at most)"
    return [
        f"{len(found.outcomes)} arms, {seeds}, {settings.episodes:,} episodes per run, γ = {settings.discount:g}, "
        f"{exploration_text(settings)}, values begin at {settings.initial_value:g}.",
        f"{how[0].upper()}{how[1:]}.",
        "Every λ source runs with every bootstrap, so that neither is taken for the other. Every arm sees the same "
        "seeds; arms are compared seed by seed.",
        "The step size of every seed is the one that is best on the other half of the seeds, so that choosing flatters "
        "no arm. Where the best one lies at the edge of the grid, the grid grows by one factor, at most "
        f"{settings.extend} times.",
        "“Worse” means: the difference exceeds what a wild bootstrap over seeds (studentised, signs of the paired "
        "differences drawn at random) gives to the greatest of all pairs of equal arms, with an error of 5 % for all "
        "pairs and looks together. No interval is wider than the distance between the lowest and the highest score of "
        "any run. Arms that diverged at their chosen step size are not ranked.",
    ]


def exploration_text(settings: ComparisonSettings) -> str:
    """How the learners explore, in words."""
    if settings.question == VALUES:
        return "all actions drawn at random: every arm learns from the same transitions of a seed"
    exploration = settings.exploration
    epsilon = f"ε = {_number(EPSILON if settings.epsilon is None else settings.epsilon)}"
    if exploration is None:
        return f"exploration: ε-greedy, {epsilon}"
    if isinstance(exploration, Softmax):
        return f"exploration: softmax, temperature {_number(exploration.temperature)}"
    if isinstance(exploration, CountBonus):
        return f"exploration: count bonus {exploration.scale:g}/√n, {epsilon}"
    return f"exploration: {exploration!r}, {epsilon}"


def _number(value: Any) -> str:
    points = getattr(value, "points", None)
    return f"{value:g}" if points is None else ", ".join(f"{number:g} at episode {at:,}" for at, number in points)


def frame_of(found: Comparison) -> Any:
    """The curves of all runs as a Polars table: one row per arm, step size, seed and checkpoint."""
    import polars as pl

    frames, score = [], "mean_return" if found.settings.question == RETURNS else "minus_error"
    for one in found.outcomes:
        runs, (sizes, seeds, points) = one.runs, one.runs.columns["score"].shape
        rows, chosen = sizes * seeds * points, one.chosen == np.arange(sizes)[:, None]
        columns = {
            "arm": [one.arm.label] * rows,
            "bootstrap": [BOOTSTRAPS[one.arm.learner]] * rows,
            "lambda_source": [source_label(one.arm)] * rows,
            "step_size": np.repeat(runs.step_sizes, seeds * points),
            "seed": np.tile(np.repeat(runs.seeds, points), sizes),
            "episode": np.tile(runs.episodes, sizes * seeds),
            score: one.column("mean_return").ravel(),
            "mean_lambda": one.column("mean_lambda").ravel(),
            "diverged": np.repeat(one.lost.ravel(), points),
            "chosen": np.repeat(chosen.ravel(), points),
        }
        frames.append(pl.DataFrame(columns))
    return pl.concat(frames)
