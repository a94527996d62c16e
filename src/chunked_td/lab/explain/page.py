"""One episode as an interactive page: one HTML file that works without a network.

The page holds λ, TD errors and updates as numbers; which step holds how much when an error arrives is computed from
them in the browser, by the recursion of `Credit.traces`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chunked_td.analysis.causes import BREAK, CERTAIN
from chunked_td.analysis.credit import Credit, Explanation, LambdaHistory
from chunked_td.lab.report.page import render

_STATES = 40  # states shown over training: the most visited ones
_CHIPS = 6  # rewards to choose from at a click


def render_page(explanation: Explanation) -> str:
    """The page as text."""
    chips = []
    for t, i in explanation.arrivals[:_CHIPS]:
        reward, which = explanation.rewards[t, i], f", component {i}" if explanation.rewards.shape[1] > 1 else ""
        text = f"reward {reward:+.3g} at step {t}{which}" if reward else f"largest TD error, at step {t}{which}"
        chips.append({"t": t, "i": i, "text": text})
    return render(
        "explain.html",
        with_plotly=False,
        title=f"{explanation.env}: where the credit of one episode goes",
        explanation=explanation,
        sentences=explanation.sentences(),
        chips=chips,
        more=len(explanation.arrivals) - _CHIPS,
        data=page_data(explanation),
        watched=[one for one in explanation.learners if one.watched is not None],
        certain=CERTAIN,
        component=explanation.arrivals[0][1],
    )


def page_data(explanation: Explanation) -> dict[str, Any]:
    """Everything that the script draws, as JSON values."""
    t, i = explanation.arrivals[0]
    return {
        "places": list(explanation.places),
        "actions": explanation.actions.tolist(),
        "rewards": _short(explanation.rewards),
        "arrival": t,
        "component": i,
        "broken": BREAK,
        "learners": [_learner(one) for one in explanation.learners],
        "training": [_training(one.label, one.watched) for one in explanation.learners if one.watched is not None],
    }


def _learner(one: Credit) -> dict[str, Any]:
    return {
        "label": one.label,
        "rows": one.rows.tolist(),
        "lambdas": _short(one.lambdas),
        "factors": _short(one.factors),
        "errors": _short(one.td_errors),
        "updates": _short(one.credits),
        "causes": [[one.cause(t, i) for i in range(one.factors.shape[1])] for t in range(len(one.factors))],
        "alpha": one.step_size,
        "gamma": one.discount,
        "replacing": one.replacing,
    }


def _training(label: str, kept: LambdaHistory) -> dict[str, Any]:
    states = kept.most_visited(_STATES)
    means = [kept.mean(state).mean(axis=1) for state in states]
    return {
        "label": label,
        "episodes": kept.episodes.tolist(),
        "places": [kept.places[state] for state in states],
        "others": len(kept.steps) - len(states),
        "means": [[None if np.isnan(x) else round(float(x), 3) for x in row] for row in means],
        "certain": np.round(kept.certain, 4).tolist(),
        "breaks": np.round(kept.breaks, 4).tolist(),
    }


def _short(values: np.ndarray) -> list[list[float]]:
    """Numbers with nine digits: enough to draw, and half the size."""
    return [[float(f"{x:.9g}") for x in row] for row in values]
