"""One episode as a static picture: for every learner λ and chunks, what each step holds when a reward arrives, updates.

The steps run from left to right and are the same for all learners. The λ strip is dark where credit passes and light
where it does not; a chunk breaks at an orange line. The first step has no λ, because nothing comes before it. A bar
below a step is the trace that the step holds when the chosen reward arrives; the last row has the update that the step
receives from everything that happened after it.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.analysis.credit import Credit, Explanation
from chunked_td.lab.report.style import BLUE, GREY, PAGE, VERMILION, house_style, render

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHADES = "Blues"


def as_png(figure: Figure) -> bytes:
    """A figure as PNG."""
    with house_style():
        return render(figure, "png")


def draw(explanation: Explanation) -> Figure:
    """The picture: three rows per learner, and one more per learner whose training was watched."""
    from matplotlib.figure import Figure

    t, i = explanation.arrivals[0]
    watched = [one for one in explanation.learners if one.watched is not None]
    with house_style():
        rows = [0.5, 0.8, 0.8] * len(explanation.learners)
        tall = 0.7 + 2.35 * len(explanation.learners)
        figure = Figure(figsize=(PAGE + 1.0, tall + (2.4 if watched else 0.0)), layout="constrained")
        parts: Any = figure.subfigures(2, 1, height_ratios=[tall, 2.4]) if watched else [figure]
        above: Any = np.ravel(parts)[0]
        axes = above.subplots(len(rows), 1, sharex=True, height_ratios=rows, squeeze=False)[:, 0]
        largest = max(float(np.abs(one.credits.sum(axis=1)).max()) for one in explanation.learners) or 1.0
        for place, one in enumerate(explanation.learners):
            _draw_learner(axes[3 * place : 3 * place + 3], explanation, one, t, i, largest)
        ends = {"terminated": "ends", "truncated": "is cut by the environment"}.get(explanation.ended, "was cut off")
        axes[-1].set_xlabel(f"step (the episode {ends} after step {len(explanation.actions) - 1})")
        axes[0].set_xlim(-0.7, len(explanation.actions) - 0.3)
        above.suptitle(f"{explanation.env}: where the credit of one episode goes", fontsize=9)
        if watched:
            _draw_training(np.ravel(parts)[1], watched)
    return figure


def _draw_learner(axes: Any, explanation: Explanation, one: Credit, t: int, i: int, largest: float) -> None:
    strip, held, updates = axes
    T = len(one.lambdas)
    steps = np.arange(T)
    shades = one.lambdas.T if (one.lambdas != one.lambdas[:, :1]).any() else one.lambdas.T[:1]
    extent = (-0.5, T - 0.5, -0.5, len(shades) - 0.5)
    shades = shades.copy()
    shades[:, 0] = np.nan  # nothing comes before the first step: its λ is not used
    strip.set_facecolor("#e3e3e3")
    strip.imshow(shades, cmap=_SHADES, vmin=0, vmax=1, aspect="auto", origin="lower", extent=extent)
    strip.set_yticks([])
    strip.set_ylabel("λ", rotation=0, labelpad=9, va="center")
    row = 0 if len(shades) == 1 else i
    strip.grid(False)
    which = "" if len(shades) == 1 else f" (one row per reward component; outlined: {i})"
    strip.set_title(f"{one.label}{which}: {one.summary(i)}", loc="left", pad=3, wrap=True)
    breaks = np.flatnonzero(one.breaks[:, i])
    strip.vlines(breaks - 0.5, row - 0.5, row + 0.5, color=VERMILION, lw=1.4, zorder=3)
    if len(shades) > 1:
        strip.hlines([row - 0.5, row + 0.5], -0.5, T - 0.5, color="black", lw=0.7, zorder=4)
    for k in breaks:
        held.axvline(k - 0.5, color=VERMILION, lw=0.8, alpha=0.35, zorder=1)
    e = one.trace_at(t)[:, i]
    held.bar(steps[: t + 1], e, width=0.85, color=BLUE, zorder=2)
    held.set_ylim(0, 1.08 * max(1.0, float(e.max())))
    what = f"reward {explanation.rewards[t, i]:+.3g}" if explanation.rewards[t, i] else "TD error"
    held.annotate(
        f"{what} arrives", (t, 1.0), (-4 if t > T / 2 else 4, 0), textcoords="offset points", va="top",
        ha="right" if t > T / 2 else "left", fontsize=6.5, color="black",
        bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.85}, zorder=4,
    )  # fmt: skip
    held.plot([t], [0.0], "^", color="black", ms=4.5, clip_on=False, zorder=5)
    held.set_ylabel("trace")
    credits = one.credits.sum(axis=1)
    updates.bar(steps, credits, width=0.85, color=np.where(credits < 0, VERMILION, GREY), zorder=2)
    updates.axhline(0.0, color="black", lw=0.5)
    updates.set_ylim(min(0.0, *(1.1 * c.credits.sum(axis=1).min() for c in explanation.learners)), 1.1 * largest)
    updates.set_ylabel("update")
    for axis in (held, updates):
        axis.locator_params(axis="y", nbins=3)
    updates.locator_params(axis="x", integer=True)


def _draw_training(part: Any, watched: list[Credit]) -> None:
    """λ by state over training, one panel per learner."""
    panels = part.subplots(1, len(watched), squeeze=False)[0]
    picture = None
    for panel, one in zip(panels, watched, strict=True):
        kept = one.watched
        assert kept is not None
        states = kept.most_visited(24)
        shades = np.array([kept.mean(state).mean(axis=1) for state in states])
        panel.set_facecolor("#f1f1f1")
        extent = (kept.episodes[0], kept.episodes[-1], len(states) - 0.5, -0.5)
        picture = panel.imshow(shades, cmap=_SHADES, vmin=0, vmax=1, aspect="auto", extent=extent)
        panel.grid(False)
        panel.set_yticks(range(len(states)), [kept.places[state] for state in states], fontsize=4.5)
        panel.set_title(textwrap.fill(one.label, 36), loc="left", fontsize=7)
        panel.set_xlabel(f"episode of training\n({100 * kept.certain[-1]:.0f} % of steps certain in the end)")
    panels[0].set_ylabel("state")
    part.colorbar(picture, ax=list(panels), label="mean λ", fraction=0.05, pad=0.02)
