"""Tables and pictures of λ per token."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from studies.runner.plots import legend_below, new_figure
from studies.runner.text import markdown
from studies.tokens.arms import CONFIRMED, CRITICS, EXPLORED, FIXED, SINGLE, SOURCES, TRAINED
from studies.tokens.judging import ByTask, Judged, chosen, mean_of, signed


def score_table(judged: Judged, titles: Mapping[str, str]) -> str:
    """Scores and verdicts of every λ on every task."""
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


def confirmed_table(scores: ByTask) -> str:
    """Results on the fresh seeds."""
    rows = []
    for name, tuned in CONFIRMED.items():
        critic, _, task = name.partition("-")
        arms = {arm: x[0] for arm, x in scores[name].items()}
        (best, _), new = tuned.best, arms["explained"]
        means = (f"{arms[best].mean():.3f} (λ = {best})", f"{arms[SINGLE].mean():.3f}", f"{new.mean():.3f}")
        rows.append((TRAINED[task], CRITICS[critic], *means, signed(mean_of(new - arms[best]))))
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


def draw(parts: Mapping[str, Judged], titles: Mapping[str, str], what: str) -> Figure:
    """A panel per task, a line per λ; parts side by side in their colours."""
    (first, *_) = parts.values()
    arms = {**{arm: f"λ = {arm}" for arm in FIXED}, **_sources(first)}
    figure, made = new_figure(len(first.scores), height=3.6, width=9.0, sharey=True)
    axes = np.atleast_1d(made)  # one task has one panel
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
                        chosen(judged.permuted[task][arm]).mean(), place, "x", color="#b5442e", label="λs permuted"
                    )
            axis.axvline(judged.best_fixed(task).mean(), color=colour if name else "0.55", linestyle=":")
        axis.set_title(titles[task])
        axis.set_xlabel(what)
        axis.locator_params(axis="x", nbins=4)
        axis.set_yticks(range(len(arms)), arms.values())
    axes[0].invert_yaxis()
    legend_below(figure, len(parts) + 1)
    return figure
