"""Sentences, tables and pictures of the three scores, for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from studies.credit.families import family_called
from studies.credit.methods import COMPARED, LABELS, RULE
from studies.credit.normalised import Scored
from studies.runner.plots import new_figure
from studies.runner.text import markdown, minus

QUESTIONS = {
    "values": "Values: whose Q is nearest to the truth, on the same transitions?",
    "decisions": "Decisions: whose greedy policy earns most, on the same transitions?",
    "control": "Control: who earns most, exploring with the registered bonus?",
    "control-greedy": "Control, ε-greedy without a bonus: who earns most?",
    "control-error-bonus": "Control with a bonus by the size of TD errors: who earns most?",
}
KINDS = {True: "held-out", False: "design"}
CAP = 1.5
"""Capped means count a family's score as no more than this."""
WINDOW = (-1.0, 2.5)
"""Limits of a picture; scores beyond them are drawn at its edge, with their number."""


def answer(name: str, found: Scored, held_out: bool) -> str:
    """The question, and the rule against the best single fixed λ in one sentence."""
    fixed = found.best_fixed(held_out)
    gap = found.difference(RULE, fixed, held_out)
    ours, theirs = found.by_family(RULE, held_out), found.by_family(fixed, held_out)
    ahead = sum(ours[family] > theirs[family] for family in ours)
    worst = min(ours, key=lambda family: ours[family])
    return minus(
        f"*{QUESTIONS[name]}* The rule has {found.mean(RULE, held_out):.2f}, the best single fixed λ "
        f"({LABELS[fixed]}) {found.mean(fixed, held_out):.2f}; the difference is {gap.text()}. The rule "
        f"is ahead on {ahead} of {len(ours)} {KINDS[held_out]} families; "
        f"its worst is {worst}, {ours[worst]:.2f}."
    )


def answers(results: Mapping[str, Scored], held_out: bool) -> str:
    """The answer of every score."""
    return "\n\n".join(answer(name, found, held_out) for name, found in results.items())


def score_tables(results: Mapping[str, Scored], held_out: bool) -> str:
    """A table for every score, and the problems that were left out."""
    tables = [_table(name, found, held_out) for name, found in results.items()]
    return "\n\n".join([*tables, _unclear(results, held_out)])


def _table(name: str, found: Scored, held_out: bool) -> str:
    fixed = found.best_fixed(held_out)
    run = found.methods(held_out)
    methods = sorted(run & {*COMPARED, fixed}, key=lambda method: -found.mean(method, held_out))
    count = len(found.by_family(fixed, held_out))
    head = (f"{name}, {count} {KINDS[held_out]} families", "mean", "median", f"mean, capped at {CAP}", "worst family",
            "less the best single fixed λ")  # fmt: skip
    rows = []
    for method in methods:
        each = found.by_family(method, held_out)
        scores, worst = np.array(list(each.values())), min(each, key=lambda family: each[family])
        gap = found.difference(method, fixed, held_out)
        last = "(it is this one)" if method == fixed else gap.text("+.2f")
        numbers = (f"{number:.2f}" for number in (scores.mean(), np.median(scores), np.minimum(scores, CAP).mean()))
        rows.append((LABELS[method], *numbers, f"{each[worst]:.2f} ({worst})", last))
    return minus(markdown(head, rows))


def _unclear(results: Mapping[str, Scored], held_out: bool) -> str:
    lines = []
    for score, found in results.items():
        names = [name for name in found.unclear if family_called(name.split()[0]).held_out == held_out]
        lines.append(f"- {score}: {', '.join(names) or 'none'}")
    return "Problems left out because the differences between fixed λs are inconclusive:\n\n" + "\n".join(lines)


def draw(name: str, found: Scored, held_out: bool) -> Figure:
    """The rule and the best single fixed λ, family by family, and their means."""
    fixed = found.best_fixed(held_out)
    sides = {RULE: "#1b6ca8", fixed: "#b5442e"}
    labels = {RULE: "the rule", fixed: f"best single fixed λ ({LABELS[fixed]})"}
    each = {method: found.by_family(method, held_out) for method in sides}
    order = sorted(each[RULE], key=lambda family: each[RULE][family])
    figure, axis = new_figure(height=0.26 * len(order) + 1.6)
    places = [*range(len(order)), len(order) + 0.3]
    shown = {}
    for method, colour in sides.items():
        scores = np.array([*(each[method][family] for family in order), found.mean(method, held_out)])
        marker, sizes = "o" if method == RULE else "D", [36] * len(order) + [90]
        shown[method] = draw_scores(axis, places, scores, color=colour, marker=marker, s=sizes, label=labels[method])
    axis.hlines(places, shown[RULE], shown[fixed], color="0.8", zorder=1)
    axis.axhline(len(order) - 0.35, color="0.85", linewidth=0.8)
    axis.set_yticks(places, [*(family_called(family).title for family in order), "mean"])
    for at in (0.0, 1.0):
        axis.axvline(at, color="0.6", linestyle=":", zorder=0)
    axis.set_xlim(WINDOW[0] - 0.25, WINDOW[1] + 0.25)
    axis.set_title(QUESTIONS[name], loc="left")
    axis.set_xlabel(
        "0: the worst fixed λ of a problem; 1: its best in hindsight\n"
        f"{len(order)} {KINDS[held_out]} families, {_seeds(found, held_out)} seeds; step sizes and λs chosen on other "
        "seeds",
    )
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    return figure


def _seeds(found: Scored, held_out: bool) -> str:
    """Number of seeds, or "30 to 50" if problems differ."""
    numbers = {each[RULE].size for cells in found.of(held_out).values() for each in cells}
    return f"{min(numbers)} to {max(numbers)}" if len(numbers) > 1 else f"{max(numbers)}"


def draw_scores(axis: Axes, places: Sequence[float], scores: np.ndarray, *, color: str, **look: Any) -> np.ndarray:
    """Scores as points, those beyond `WINDOW` at its edge with their number; returns what is shown."""
    shown = np.clip(scores, *WINDOW)
    axis.scatter(shown, places, color=color, zorder=2, **look)
    for place in np.flatnonzero(shown != scores).tolist():
        if not np.isnan(scores[place]):
            side = 6 if scores[place] > 0 else -6
            far = "−∞" if scores[place] == -np.inf else f"{scores[place]:.1f}"
            text, ha = far.replace("-", "−"), "left" if side > 0 else "right"
            axis.annotate(text, (shown[place], places[place]), (side, 0), textcoords="offset points", color=color,
                          fontsize=7, va="center", ha=ha)  # fmt: skip
    return shown
