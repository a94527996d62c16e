"""Plots, as plain Plotly descriptions (dicts of data and layout); `figures` draws the same for print.

Every arm is a legend group: a line, and a band for its interval that goes with it. Hovering shows the mean, the
interval and the number of seeds. The page adds switches for bands and logarithmic axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from chunked_td.lab.report.choice import FigureChoice, Plot
from chunked_td.lab.report.style import GREY, Style, styles
from chunked_td.lab.results.runs import ArmResults, Results, evenly
from chunked_td.lab.wording import step_size_text
from chunked_td.statistics import Estimate, mean_and_interval, mean_sd

PlotlyTrace = dict[str, Any]
CONTROL_CAPTION = "The same arms on both problems. An unbiased learner has the same line twice."
GAP = 0.06
"""Between panels, as a share of the plot's width."""
CROWDED = 6
"""A sweep with more lines than this has two panels."""
SYMBOLS = {
    "o": "circle", "s": "square", "^": "triangle-up", "D": "diamond", "v": "triangle-down", "P": "cross", "X": "x",
    "<": "triangle-left", ">": "triangle-right", "p": "pentagon", "h": "hexagon", "d": "diamond-tall",
}  # fmt: skip


def sweep_plots(study: Results, original: Results | None) -> list[Plot]:
    """Score against the step size, runs seed by seed, early checkpoints; beside the original for a control."""
    found = [sweep_plot(study), seeds_plot(study)]
    found += [sweep_plot(study.until(episode), study, episode) for episode in study.early]
    return found if original is None else [*found, control_plot(original, study)]


DEFAULT = FigureChoice(sweep_plots)
"""For studies that choose no plots."""


def axis(title: str, *, log: bool = False, **more: Any) -> dict[str, Any]:
    """An axis with a title; margins grow to fit it."""
    look = {"gridcolor": "#e6e6e6", "zerolinecolor": "#999999", "linecolor": "#444444", "ticks": "outside"}
    kind = {"type": "log", "dtick": 1, "exponentformat": "power"} if log else {}
    return {"title": {"text": title, "standoff": 8}, "automargin": True, **look, **kind, **more}


def layout(x: dict[str, Any], y: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What all plots have in common."""
    return {
        "xaxis": x,
        "yaxis": y,
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#1a1a1a"},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "margin": {"l": 60, "r": 16, "t": 34, "b": 48},
        "hovermode": "closest",
        "hoverlabel": {"namelength": -1},
        "legend": {"groupclick": "togglegroup", "tracegroupgap": 0},
        **more,
    }


def numbers(values: Any) -> list[float | None]:
    """Floats for JSON, six digits; None for NaN and infinities."""
    return [float(f"{x:.6g}") if np.isfinite(x) else None for x in np.asarray(values, dtype=np.float64).ravel()]


def faint(color: str, alpha: float = 0.18) -> str:
    """A colour as rgba."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def line_with_band(
    name: str, x: Any, found: Estimate, look: Style, *, seeds: int, markers: bool, group: str | None = None
) -> list[PlotlyTrace]:
    """Traces of a mean and its interval; the band comes first, so that the line lies over it."""
    group = group or name
    there = ~np.isnan(found.value)
    x, mean, low, high = (np.asarray(part)[there] for part in (x, *found))
    band = {
        "type": "scatter", "x": numbers(np.concatenate([x, x[::-1]])), "y": numbers(np.concatenate([high, low[::-1]])),
        "fill": "toself", "fillcolor": faint(look.color), "line": {"width": 0}, "mode": "lines", "hoverinfo": "skip",
        "legendgroup": group, "showlegend": False, "meta": "band", "name": f"{name}, interval",
    }  # fmt: skip
    line = {
        "type": "scatter", "x": numbers(x), "y": numbers(mean), "name": name, "legendgroup": group,
        "mode": "lines+markers" if markers or len(x) == 1 else "lines",
        "line": {"color": look.color, "width": 1.6 * look.width, "dash": look.dash},
        "marker": {"symbol": SYMBOLS[look.marker], "size": 7},
        "customdata": [list(pair) for pair in zip(numbers(low), numbers(high), strict=True)],
        "hovertemplate": "%{x:,.6~g}: <b>%{y:,.5~g}</b><br>95 %: %{customdata[0]:,.5~g} to %{customdata[1]:,.5~g}"
        f"<br>{seeds} seeds<extra>{name}</extra>",
    }  # fmt: skip
    return [band, line]


def level(y: float, text: str, color: str = GREY, dash: str = "dash", panel: str = "") -> dict[str, Any]:
    """Additions to a layout: a horizontal line across the plot, or a panel of it, with a text at its right end."""
    across = {"xref": f"x{panel} domain", "yref": f"y{panel}"}
    shape = {"type": "line", **across, "x0": 0, "x1": 1, "y0": y, "y1": y,
             "line": {"color": color, "width": 1.5, "dash": dash}}  # fmt: skip
    note = {**across, "x": 1, "y": y, "text": text, "showarrow": False, "xanchor": "right", "yanchor": "bottom",
            "font": {"color": color, "size": 12}}  # fmt: skip
    return {"shapes": [shape], "annotations": [note]}


def arm_lines(
    arms: Sequence[ArmResults],
    looks: Mapping[str, Style],
    points: Callable[[ArmResults], tuple[Any, np.ndarray] | None],
    *,
    markers: bool,
    name: Callable[[ArmResults], str] = lambda arm: arm.label,
    shown: Callable[[Any], Any] = lambda value: value,
) -> list[PlotlyTrace]:
    """A line with a band per arm: the mean over runs and its interval.

    Args:
      points: from an arm to x, float64[K], and values, float64[runs, K]; None leaves the arm out.
      name: what the legend calls an arm. shown: from means and ends of intervals to what is drawn.
    """
    traces: list[PlotlyTrace] = []
    for arm in arms:
        found = points(arm)
        if found is not None:
            drawn = Estimate(*map(shown, mean_and_interval(found[1])))
            seeds = len(arm.require_runs().seeds)
            traces += line_with_band(name(arm), found[0], drawn, looks[arm.id], seeds=seeds, markers=markers)
    return traces


def curve_plot(
    study: Results,
    name: str,
    title: str,
    caption: str,
    lines: dict[str, Any],
    *,
    until: int | None = None,
    exponent: Callable[[ArmResults], int] | None = None,
    **y: Any,
) -> Plot:
    """The score of every arm over training.

    Args:
      name: of the plot, after the study's id. lines: what `level` gives.
      until: the last episode that is shown; by default the last of all.
      exponent: of the step size of an arm; by default the selected one. y: more about that axis.
    """
    chosen = exponent or (lambda arm: study.selected[arm.id])
    last = until or study.length

    def points(arm: ArmResults) -> tuple[Any, np.ndarray]:
        runs = arm.require_runs()
        inside = evenly(runs.episodes, last)
        return runs.episodes[inside], runs.of(chosen(arm))[:, inside]

    def label(arm: ArmResults) -> str:
        return f"{arm.label}, α = {step_size_text(chosen(arm), study.about.step_size_base)}"

    reaching = [arm for arm in study.arms if arm.runs is not None and arm.runs.length >= last]
    traces = arm_lines(reaching, styles(study.arms), points, markers=False, name=label)
    axes = axis("episodes", tickformat=",d", rangemode="tozero"), axis(study.about.score_label, **y)
    return Plot(f"{study.id}-{name}", title, caption, traces, layout(*axes, **lines), ("bands", "logx"))


def error_plot(study: Results, truth: float) -> Plot:
    """Root mean squared error of the score at the end of training against the step size."""

    def points(arm: ArmResults) -> tuple[Any, np.ndarray]:
        runs = arm.require_runs()
        return runs.step_sizes, (runs.at().T - truth) ** 2

    traces = arm_lines(study.present, styles(study.arms), points, markers=True, shown=np.sqrt)
    axes = axis("step size α", log=True), axis("root mean squared error", log=True)
    caption = f"Distance of the score from the truth, {truth:g}, after {study.length:,} episodes, for every step size."
    title = "Error against step size"
    return Plot(f"{study.id}-error", title, caption, traces, layout(*axes), ("bands", "logy"), ("logy",))


def in_panels(
    panels: Sequence[tuple[str, list[PlotlyTrace]]], x: dict[str, Any], y: dict[str, Any], best: float | None = None
) -> tuple[list[PlotlyTrace], dict[str, Any]]:
    """Data and layout of a plot with several panels on the same axes.

    Args:
      panels: (title, traces) of each. An arm that is in several has one entry in the legend.
      x, y: what the axes of all panels look like.
      best: height of a line across every panel, the best possible score.
    """
    data: list[PlotlyTrace] = []
    made = layout(x, y)
    shapes, notes, seen = [], [], set()
    width = (1 - GAP * (len(panels) - 1)) / len(panels)
    for number, (title, traces) in enumerate(panels, start=1):
        end = "" if number == 1 else str(number)
        left = (number - 1) * (width + GAP)
        made[f"xaxis{end}"] = {**x, "anchor": f"y{end}", "domain": [round(left, 4), round(left + width, 4)]}
        made[f"yaxis{end}"] = {**y, "anchor": f"x{end}"}
        if number > 1:
            made[f"xaxis{end}"]["matches"], made[f"yaxis{end}"]["matches"] = "x", "y"
        notes.append({"xref": f"x{end} domain", "yref": f"y{end} domain", "x": 0, "y": 1, "text": f"<b>{title}</b>",
                      "showarrow": False, "xanchor": "left", "yanchor": "bottom"})  # fmt: skip
        if best is not None:
            lines = level(best, f"best possible {best:,g}", panel=end)
            shapes, notes = shapes + lines["shapes"], notes + lines["annotations"]
        for trace in traces:
            shown = trace.get("showlegend", True) and trace["legendgroup"] not in seen
            seen |= {trace["legendgroup"]} if shown else set()
            data.append({**trace, "xaxis": f"x{end}", "yaxis": f"y{end}", "showlegend": shown})
    return data, {**made, "shapes": shapes, "annotations": notes}


def sweep_traces(study: Results, style_from: Results, arms: Sequence[ArmResults]) -> list[PlotlyTrace]:
    """Mean score against step size, a line with a band per arm."""

    def points(arm: ArmResults) -> tuple[Any, np.ndarray]:
        runs = arm.require_runs()
        return runs.step_sizes, runs.at().T

    traces = arm_lines(arms, styles(style_from.arms), points, markers=True)
    for arm, band in zip(arms, traces[::2], strict=True):
        if arm.fixed_lambda is not None:
            band["visible"] = False  # a dozen bands hide each other, so they start switched off
    return traces + published_points(study, arms, styles(style_from.arms))


def published_points(study: Results, arms: Sequence[ArmResults], looks: Mapping[str, Style]) -> list[PlotlyTrace]:
    """The paper's scores, each a cross at the step size that the paper selected, in its arm's colour."""
    traces: list[PlotlyTrace] = []
    for arm in arms:
        score, exponent = (study.published(arm.id, quantity) for quantity in ("score", "exponent"))
        runs = arm.require_runs()
        sizes = dict(zip(runs.exponents.tolist(), runs.step_sizes.tolist(), strict=True))
        if score is None or exponent is None or exponent.value not in sizes:
            continue
        name = f"published ({score.source})"
        traces.append({
            "type": "scatter", "mode": "markers", "name": name, "legendgroup": name, "showlegend": not traces,
            "x": [sizes[int(exponent.value)]], "y": [score.value],
            "marker": {"symbol": SYMBOLS["X"], "size": 11, "color": looks[arm.id].color},
            "hovertemplate": f"%{{x:,.6~g}}: <b>%{{y:,.5~g}}</b><extra>{arm.label}, {name}</extra>",
        })  # fmt: skip
    return traces


def sweep_axes(label: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Axes of a score against the step size."""
    return axis("step size α", log=True), axis(label, rangemode="tozero", tickformat=",d")


def best_fixed_and_models(studies: Sequence[Results]) -> set[str]:
    """Ids of the arms with a model, and of the fixed λ that is best (at its best step size) in any of the studies."""
    chosen = set()
    for study in studies:
        chosen |= {arm.id for arm in study.arms if arm.fixed_lambda is None}
        fixed = [(arm.id, arm.runs) for arm in study.present if arm.fixed_lambda is not None and arm.runs is not None]
        if fixed:
            chosen.add(min(fixed, key=lambda pair: float(np.nanmin(mean_sd(pair[1].at())[0])))[0])
    return chosen


def sweep_plot(study: Results, style_from: Results | None = None, episode: int | None = None) -> Plot:
    """Scores against the step size; `episode` says that this is an early checkpoint of longer runs."""
    label, best = study.about.score_label, None if episode else study.best
    x, y = sweep_axes(label)
    when = f"after the first {episode:,} episodes" if episode else f"after {study.length:,} episodes"
    crosses = " Crosses: the paper's means, at the step sizes that it selected." if study.about.published else ""
    caption = f"{label[0].upper()}{label[1:]} {when}, mean over seeds, against the step size.{crosses}"
    fixed = [arm for arm in study.present if arm.fixed_lambda is not None]
    ours = [arm for arm in study.present if arm.fixed_lambda is None]
    name = f"{study.id}-sweep" + (f"-first-{episode}" if episode else "")
    title = f"First {episode:,} episodes, with the arms at reduced size" if episode else "Every arm and step size"
    if len(study.present) <= CROWDED or not ours:
        traces = sweep_traces(study, style_from or study, study.present)
        lines = {} if best is None else level(best, f"best possible {best:,g}")
        return Plot(name, title, caption, traces, layout(x, y, **lines), ("bands", "logy"), height=480)
    chosen = best_fixed_and_models([study])
    groups = (
        ("fixed λ", fixed),
        ("λ from a model, and the best fixed λ", [a for a in study.present if a.id in chosen]),
    )
    panels = [(head, sweep_traces(study, style_from or study, arms)) for head, arms in groups]
    return Plot(name, title, caption, *in_panels(panels, x, y, best), ("bands", "logy"), height=480, panels=2)


def control_plot(original: Results, control: Results, name: str = "control", caption: str = CONTROL_CAPTION) -> Plot:
    """Arms with a model (and the best fixed λ) on the original and on the control, a panel each.

    Args:
      name: what the control is called in the title.
    """
    chosen_ids = best_fixed_and_models([original, control])
    panels = [
        (study.about.title, sweep_traces(study, study, [arm for arm in study.present if arm.id in chosen_ids]))
        for study in (original, control)
    ]
    data, made = in_panels(panels, *sweep_axes(original.about.score_label), original.best)
    title = f"Original and {name}"
    return Plot(f"{control.id}-control", title, caption, data, made, ("bands", "logy"), height=480, panels=2)


def mirror_plot(original: Results, control: Results) -> Plot:
    """The picture that opens the report: an original and its control on the same axes, and little else.

    Fixed λs are thin grey lines with one name. Of the arms with a model it shows the paper's and the one that knows the
    true model; all of them, if the paper's was not run.
    """
    both = {arm.id for arm in original.present} & {arm.id for arm in control.present}
    models = [arm for arm in original.present if arm.id in both and arm.fixed_lambda is None]
    if any(arm.in_paper for arm in models):
        models = [arm for arm in models if arm.in_paper or arm.kind == "oracle"]
    fixed = [arm for arm in original.present if arm.id in both and arm.fixed_lambda is not None]
    panels = []
    for study in (original, control):
        here = {arm.id: arm for arm in study.present}
        traces = [_thin(trace, len(fixed)) for trace in sweep_traces(study, study, [here[arm.id] for arm in fixed])]
        traces = [trace for trace in traces if trace.get("meta") != "band"]
        panels.append((study.about.title, traces + sweep_traces(study, study, [here[arm.id] for arm in models])))
    label = original.about.score_label
    caption = (
        f"{label[0].upper()}{label[1:]} after {original.length:,} episodes against the step size, mean over seeds, on "
        f"both problems; shading: 95 % bootstrap intervals. {CONTROL_CAPTION}"
    )
    title = f"{original.about.title} and its control"
    data, made = in_panels(panels, *sweep_axes(label), original.best)
    return Plot(f"{control.id}-mirror", title, caption, data, made, height=380, panels=2)


def _thin(trace: PlotlyTrace, count: int) -> PlotlyTrace:
    """A line of one of `count` fixed λs as a thin grey one; all of them have one entry in the legend."""
    line = {"color": "#9a9a9a", "width": 1}
    return {**trace, "line": line, "mode": "lines", "legendgroup": "fixed", "name": f"{count} fixed λ"}


def seeds_plot(study: Results) -> Plot:
    """One dot per seed at the selected (or best) step size, a row per arm."""
    looks = styles(study.arms)
    base = study.about.step_size_base
    traces: list[PlotlyTrace] = []
    for row, arm in enumerate(study.present):
        runs = arm.require_runs()
        exponent = study.selected[arm.id]
        values = runs.at()[list(runs.exponents).index(exponent)]
        color = looks[arm.id].color
        text = [f"seed {seed}, α = {step_size_text(exponent, base)}" for seed in runs.seeds]
        traces.append({
            "type": "scatter", "mode": "markers", "x": numbers(values), "y": numbers(row + spread(values)),
            "text": text,
            "marker": {"color": faint(color, 0.65), "size": 7}, "name": arm.label, "showlegend": False,
            "hovertemplate": "%{text}: <b>%{x:,}</b><extra>" + arm.label + "</extra>",
        })  # fmt: skip
        mean = float(np.nanmean(values))
        traces.append({
            "type": "scatter", "mode": "lines", "x": [mean, mean], "y": [row - 0.38, row + 0.38], "showlegend": False,
            "line": {"color": color, "width": 4}, "name": f"{arm.label}, mean",
            "hovertemplate": "mean <b>%{x:,.0f}</b><extra>" + arm.label + "</extra>",
        })  # fmt: skip
    best = study.best
    rows = {"tickvals": list(range(len(study.present))), "ticktext": [arm.label for arm in study.present]}
    floor = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": best, "x1": best,
             "line": {"color": GREY, "width": 1.5, "dash": "dash"}}  # fmt: skip
    made = layout(
        axis(study.about.score_label, rangemode="tozero", tickformat=",d"),
        axis("", range=[len(study.present) - 0.4, -0.6], zeroline=False, **rows),
        shapes=[floor] if best is not None else [],
    )
    how = "selected" if study.about.selection else "best"
    caption = (
        f"One dot per seed at the {how} step size of each arm; bars are means, the dashed line is the best possible."
    )
    return Plot(f"{study.id}-seeds", "Seed by seed", caption, traces, made, height=130 + 27 * len(study.present))


def spread(values: np.ndarray, height: float = 0.32) -> np.ndarray:
    """Offsets that keep dots of nearly equal value apart: each takes the next place above or below the last one."""
    order = np.argsort(values, kind="stable")
    reach = (np.nanmax(values) - np.nanmin(values)) / 40 or 1.0
    offsets = np.zeros(len(values))
    group = 0
    for place, index in enumerate(order):
        near = place > 0 and values[index] - values[order[place - 1]] < reach
        group = group + 1 if near else 0
        step = (group + 1) // 2 * (1 if group % 2 else -1)
        offsets[index] = step
    return height * offsets / max(4.0, float(np.max(np.abs(offsets))))
