"""One episode as a picture, as a page and as text: each step's share of a reward, and the cuts of credit.

Steps run from left to right and are the same for all learners. A bar is a step's share of the reward, its trace. The
strip below is λ: dark if credit passes, light if not; orange lines mark the steps that cut credit. The first step has
no λ.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td import _pages
from chunked_td._figures import BLUE, PAGE, VERMILION, as_svg, house_style, new_figure
from chunked_td.analysis.causes import CERTAIN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from chunked_td.analysis.credit import Credit, Explanation

_SHADES = "Blues"
_NAMED = 40
"""Most steps for which the axis shows the observations."""
_STATES = 24
"""The most visited states, shown over training."""
_ROWS = 2_000
"""Rows of the folded table; explain.csv has them all."""
_BLOCKS = " ▁▂▃▄▅▆▇█"
_HOW = (
    "A bar is a step's trace when the marked reward arrives: its share of the TD error, the product of γλ over the "
    "steps in between. The strip is λ, dark near 1 and light near 0. Orange lines are steps that cut credit (λ < 0.5). "
    "The numbers are those of the learner's own updates."
)


def draw(explanation: Explanation) -> Figure:
    """The picture: bars and a strip of λ per learner."""
    t, i = explanation.arrivals[0]
    learners = explanation.learners
    with house_style():
        figure = new_figure(PAGE + 1.0, 0.9 + 1.55 * len(learners))
        rows = figure.subplots(
            2 * len(learners), 1, sharex=True, height_ratios=[1.0, 0.22] * len(learners), squeeze=False
        )
        for place, one in enumerate(learners):
            bars, strip = rows[2 * place, 0], rows[2 * place + 1, 0]
            _draw_bars(bars, explanation, one, t, i)
            _draw_strip(strip, one, i)
        named = len(explanation.places) <= _NAMED and max(map(len, explanation.places)) <= 4
        below = "state of each step, in order" if named else "step"
        rows[-1, 0].set(xlim=(-0.6, len(explanation.places) - 0.4), xlabel=below)
        if named:
            rows[-1, 0].set_xticks(range(len(explanation.places)), explanation.places)
    return figure


def _draw_bars(axes: Any, explanation: Explanation, one: Credit, t: int, i: int) -> None:
    e, far, reward = one.trace_at(t)[:, i], explanation.reach(one)[0], explanation.rewards[t, i]
    for k in np.flatnonzero(one.breaks[:, i]):
        axes.axvline(k - 0.5, color=VERMILION, lw=1.2, zorder=1)
    axes.bar(np.arange(t + 1), e, width=0.85, color=np.where(np.arange(t + 1) >= far, BLUE, "#9cc3dd"), zorder=2)
    axes.plot([t], [-0.06], "^", color="black", ms=4.5, clip_on=False, zorder=5)
    axes.set(ylim=(0, max(1.12, 1.1 * float(e.max()))), ylabel="share", yticks=[0, 0.5, 1])
    axes.set_title(textwrap.fill(f"{one.label}: {explanation.sentence(one)}", 112), loc="left", pad=4)
    what = f"reward {reward:+.3g}" if reward else "largest TD error"
    right = t < len(explanation.actions) * 0.6
    axes.annotate(what, (t, 1.04), (4 if right else -4, 0), textcoords="offset points", va="top",
                  ha="left" if right else "right", fontsize=7, zorder=4,
                  bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.8})  # fmt: skip


def _draw_strip(axes: Any, one: Credit, i: int) -> None:
    shades = one.lambdas[:, i : i + 1].T.copy()
    shades[:, 0] = np.nan  # its λ is not used
    axes.set_facecolor("#eeeeee")
    axes.imshow(shades, cmap=_SHADES, vmin=0, vmax=1, aspect="auto", extent=(-0.5, shades.size - 0.5, 0, 1))
    axes.vlines(np.flatnonzero(one.breaks[:, i]) - 0.5, 0, 1, color=VERMILION, lw=1.4)
    axes.set(yticks=[])
    axes.set_ylabel("λ", rotation=0, labelpad=8, va="center")
    axes.grid(False)


def draw_training(watched: list[Credit]) -> Figure:
    """λ by state over training, one panel per learner."""
    with house_style():
        figure = new_figure(PAGE + 1.0, 2.6)
        panels = figure.subplots(1, len(watched), squeeze=False)[0]
        picture: Any = None
        for panel, one in zip(panels, watched, strict=True):
            kept = one.watched
            assert kept is not None
            states = kept.most_visited(_STATES)
            shades = np.array([kept.mean(state).mean(axis=1) for state in states])
            extent = (kept.episodes[0], kept.episodes[-1], len(states) - 0.5, -0.5)
            panel.set_facecolor("#f1f1f1")
            picture = panel.imshow(shades, cmap=_SHADES, vmin=0, vmax=1, aspect="auto", extent=extent)
            panel.grid(False)
            panel.set_yticks(range(len(states)), [kept.places[state] for state in states], fontsize=5)
            panel.set_title(textwrap.fill(one.label, 44), loc="left")
            panel.set_xlabel(f"episode of training; {100 * kept.certain[-1]:.0f} % of steps certain at the end")
        panels[0].set_ylabel("state")
        figure.colorbar(picture, ax=list(panels), label="mean λ", fraction=0.05, pad=0.02)
    return figure


def text(explanation: Explanation) -> str:
    """The sentences, and the picture in characters: each step's share, and λ."""
    T = len(explanation.actions)
    t, i = explanation.arrivals[0]
    lines = [f"{explanation.env}: {T} steps, {explanation.ended}"]
    for one in explanation.learners:
        lines.append(f"{one.label}: {explanation.sentence(one)}")
        if T <= 72:
            e = np.append(one.trace_at(t)[:, i], np.zeros(T - t - 1))
            lines += [f"  share {_blocks(e)}", f"  λ     ·{_blocks(one.lambdas[1:, i])}"]
        lines.append(f"  {one.summary(i)}")
    return "\n".join(lines)


def _blocks(values: np.ndarray) -> str:
    return "".join(_BLOCKS[round(float(np.clip(value, 0.0, 1.0)) * 8)] for value in values)


def render(explanation: Explanation, picture: str) -> str:
    """The page: sentence, picture, and the rest folded. Args: picture: an SVG document."""
    i, first = explanation.arrivals[0][1], explanation.learners[0]
    sentences = " ".join(f"{one.label}: {explanation.sentence(one)}" for one in explanation.learners)
    title = f"{explanation.env}: where the credit of one episode goes"
    watched = [one for one in explanation.learners if one.watched is not None]
    training = ""
    if watched:
        note = (
            "Mean λ of the steps that left a state. A step counts as certain if its λ is at least "
            f"{100 * CERTAIN:.0f} % of what it would be in a deterministic environment, given the policy's exploration."
        )
        training = _pages.picture(as_svg(draw_training(watched)), "λ by state over training", note)
    return _pages.page(
        title,
        f"<h1>{_pages.escape(title)}</h1>",
        _pages.paragraph(explanation.sentence(first), "answer"),
        _pages.picture(picture, sentences, _HOW),
        _pages.folded(
            "Every step that cuts credit",
            _pages.listed([f"{one.label}: {one.summary(i)}" for one in explanation.learners]),
        ),
        _pages.folded("λ over training", training),
        _pages.folded("The numbers, step by step", _numbers(explanation)),
    )


def _numbers(explanation: Explanation) -> str:
    i = explanation.arrivals[0][1]
    columns = ["step", "state", "action", "reward"]
    for one in explanation.learners:
        columns += [f"λ: {one.label}", "why it cuts", "TD error", "update"]
    rows = [_row(explanation, t, i) for t in range(min(len(explanation.actions), _ROWS // len(explanation.learners)))]
    left = len(explanation.actions) - len(rows)
    more = _pages.paragraph(f"{left} more steps in explain.csv.", "note") if left else ""
    which = "Rewards, errors and updates are summed over reward components; λ is their mean."
    note = _pages.paragraph(which, "note") if explanation.rewards.shape[1] > 1 else ""
    return f"{_pages.table(columns, rows)}{more}{note}"


def _row(explanation: Explanation, t: int, i: int) -> list[str]:
    cells = [str(t), explanation.places[t], str(explanation.actions[t]), f"{explanation.rewards[t].sum():.4g}"]
    for one in explanation.learners:
        numbers = (f"{values[t].sum():.4g}" for values in (one.td_errors, one.credits))
        cells += [f"{one.lambdas[t].mean():.3f}", one.cause(t, i), *numbers]
    return cells
