"""Scores against the step size (Figures 5, 7 and 8), and one dot per run, because means of two clusters mislead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from chunked_td.lab.report.choice import Drawing
from chunked_td.lab.report.style import GREY, PAGE, new_figure, powers_of_ten, styles, thousands
from chunked_td.lab.results.runs import Results
from chunked_td.lab.statistics import mean_and_interval, mean_sd
from chunked_td.lab.wording import step_size_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def sweep_drawings(study: Results, control: Results | None) -> list[Drawing]:
    """Sweeps and seeds of an experiment, its control beside it."""
    pair = [study] if control is None else [study, control]
    found = _sweep_drawings(pair)
    found.append(Drawing(f"{study.id}-seeds", study.id, _seeds_caption(study), seed_dots(pair)))
    for episode in study.early:
        found += _early_drawings(pair, episode)
    return found


def _sweep_drawings(pair: Sequence[Results]) -> list[Drawing]:
    study = pair[0]
    paper_ids = {arm.id for arm in study.arms if arm.in_paper}
    paper = [part.with_arms(arm for arm in part.arms if arm.id in paper_ids) for part in pair]
    label = study.about.score_label
    best = study.best
    floor = "" if best is None else f" Dashed: {study.about.best_label}, {best:,g}."
    beside = f" Right: {pair[1].about.title}." if len(pair) > 1 else ""
    plain = f"{label.capitalize()} against the step size, mean over {study.seeds} seeds.{floor}{beside}"
    shaded = plain.replace(" seeds.", " seeds, shading: 95 % bootstrap intervals.")
    found = []
    if any(part.present for part in paper):
        found.append(Drawing(f"{study.id}-sweep", study.id, plain, sweep(paper, pair, intervals=False)))
        found.append(Drawing(f"{study.id}-sweep-intervals", study.id, shaded, sweep(paper, pair, intervals=True)))
    chosen = best_fixed_and_models(pair)
    ours = [part.with_arms(arm for arm in part.arms if arm.id in chosen) for part in pair]
    if any(not arm.in_paper for arm in study.present):
        caption = f"The arms with a model, beside the best fixed λ. {shaded}"
        found.append(Drawing(f"{study.id}-sweep-models", study.id, caption, sweep(ours, pair, intervals=True)))
    return found


def best_fixed_and_models(studies: Sequence[Results]) -> set[str]:
    """Ids of the arms with a model, and of the fixed λ that is best (at its best step size) in any of the studies."""
    chosen = set()
    for study in studies:
        chosen |= {arm.id for arm in study.arms if arm.fixed_lambda is None}
        fixed = [(arm.id, arm.runs) for arm in study.present if arm.fixed_lambda is not None and arm.runs is not None]
        if fixed:
            chosen.add(min(fixed, key=lambda pair: float(np.nanmin(mean_sd(pair[1].at())[0])))[0])
    return chosen


def _early_drawings(pair: Sequence[Results], episode: int) -> list[Drawing]:
    early = [part.until(episode) for part in pair]
    caption = (
        f"{pair[0].about.score_label.capitalize()} after the first {episode:,} episodes, where the arms that "
        "ran at a reduced size can be compared with the others; shading: 95 % bootstrap intervals."
    )
    figure = sweep(early, pair, intervals=True, best=False)
    return [Drawing(f"{pair[0].id}-sweep-first-{episode}", pair[0].id, caption, figure)]


def sweep(studies: Sequence[Results], style_from: Sequence[Results], *, intervals: bool, best: bool = True) -> Figure:
    """Mean score against the step size, a panel per study, one line per arm."""
    width = PAGE if len(studies) > 1 else 0.75 * PAGE
    figure, panels = new_figure(width, 2.7, len(studies), sharey=True)
    seen: dict[str, tuple] = {}
    for axes, study, origin in zip(panels, studies, style_from, strict=True):
        seen |= _draw_sweep(axes, study, origin, intervals)
        floor = study.best
        if best and floor is not None:
            axes.axhline(floor, color=GREY, dashes=(4, 2), linewidth=0.9)
            text = f"best possible {floor:,g}"
            axes.annotate(text, (0.985, floor), (0, -2), xycoords=("axes fraction", "data"),
                          textcoords="offset points", ha="right", va="top", color=GREY)  # fmt: skip
        axes.set_title(study.about.title if len(studies) > 1 else "")
        axes.set_xlabel("step size α")
    panels[0].set_ylabel(studies[0].about.score_label)
    thousands(panels[0].yaxis)
    bottom = panels[0].get_ylim()[0]
    panels[0].set_ylim(bottom=min(0.0, bottom) if bottom < 1_500 else bottom)
    handles = [handle for _, handle in seen.values()]
    figure.legend(handles, [text for text, _ in seen.values()], loc="outside right center", handlelength=2.6)
    return figure


def _draw_sweep(axes: Axes, study: Results, style_from: Results, intervals: bool) -> dict[str, tuple]:
    looks = styles(style_from.arms)
    handles = {}
    for arm in study.present:
        runs, look = arm.require_runs(), looks[arm.id]
        mean, interval = mean_and_interval(runs.at().T)
        if intervals:
            alpha = 0.07 if look.width < 1.5 else 0.2
            axes.fill_between(runs.step_sizes, interval.low, interval.high, color=look.color, alpha=alpha, linewidth=0)
        (line,) = axes.plot(
            runs.step_sizes,
            mean,
            color=look.color,
            linestyle=look.linestyle,
            marker=look.marker,
            linewidth=look.width,
            zorder=2 + look.width,
        )
        handles[arm.id] = (arm.label, line)
    axes.set_xscale("log")
    powers_of_ten(axes.xaxis)
    return handles


def _seeds_caption(study: Results) -> str:
    how = "selected" if study.about.selection else "best"
    return (
        f"{study.about.score_label.capitalize()}, one dot per seed, at the {how} step size of each arm; bars "
        "are means. Where dots form two clouds, a mean over ten seeds says little."
    )


def seed_dots(studies: Sequence[Results]) -> Figure:
    """One dot per seed and arm at the selected (or best) step size; a panel per study, arms as rows."""
    rows = max(len(study.present) for study in studies)
    figure, panels = new_figure(PAGE, 0.55 + 0.21 * rows, len(studies), sharey=True, sharex=True)
    names = [arm for arm in studies[0].present]
    for axes, study in zip(panels, studies, strict=True):
        looks = styles(study.arms)
        for row, name in enumerate(names):
            runs = study.runs(name.id)
            if runs is None:
                continue
            exponent = study.selected[name.id]
            values = runs.at()[list(runs.exponents).index(exponent)]
            look = looks[name.id]
            axes.scatter(values, row + spread(values), s=7, color=look.color, alpha=0.65, linewidths=0)
            axes.plot([np.nanmean(values)] * 2, [row - 0.36, row + 0.36], color=look.color, linewidth=1.8)
            text = step_size_text(exponent, study.about.step_size_base)
            axes.annotate(text, (1.0, row), (3, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
                          va="center", color=GREY)  # fmt: skip
        floor = study.best
        if floor is not None:
            axes.axvline(floor, color=GREY, dashes=(4, 2), linewidth=0.9)
        axes.set_title(study.about.title if len(studies) > 1 else "")
        axes.set_xlabel(study.about.score_label)
        thousands(axes.xaxis)
        axes.locator_params(axis="x", nbins=5)
        axes.grid(axis="y", visible=False)
    panels[0].set_xlim(left=0)
    panels[0].set_yticks(range(len(names)), [arm.label for arm in names])
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    return figure


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
