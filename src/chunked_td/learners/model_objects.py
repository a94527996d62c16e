"""Models that are Python objects: they predict before a step, and their predictions are stored in arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from chunked_td.lambdas.base import COUNTED, LambdaSource
from chunked_td.learners.core import TERMINATED
from chunked_td.models.predictions import ask_chances, ask_outcomes, ask_overlaps, overlaps_of


def check_model(model: Any, source: LambdaSource, bootstrap: int, n_actions: int) -> None:
    """Raise a ValueError for a model object without the methods that this λ source requires."""
    known = getattr(model, "n_actions", n_actions)
    if known != n_actions:
        raise ValueError(f"model: it has n_actions={known}, the environment has {n_actions} actions")
    inputs = source.inputs(bootstrap)
    if inputs & COUNTED:
        raise ValueError(f"model must be None for {source!r}, which is computed from counts, got {model!r}")
    asked: list[tuple[str, ...]] = [("observe",)]
    methods = {
        "outcome": ("probabilities", "component_probabilities"),
        "parts": ("component_probabilities",),
        "overlaps": ("overlaps", "distribution"),
        "outcomes": ("distribution",),
    }
    asked += [names for one, names in methods.items() if one in inputs]
    for names in asked:
        if not any(callable(getattr(model, name, None)) for name in names):
            raise ValueError(f"model must have a method {'() or '.join(names)}() for {source!r}, got {model!r}")


def ask_model(agent: Any, state: int, ended: int) -> None:
    """Train the model object on the transition, and store its predictions for the compiled formula."""
    model, answers, A = agent.model, agent._state.model, agent.n_actions
    reward = float(agent._reward[0]) if agent.n_paid == 1 else agent._reward.copy()
    model.observe(agent.state, agent.action, reward, state, ended == TERMINATED)
    inputs = agent.inputs
    if "outcome" in inputs or "parts" in inputs:
        parts = answers.chances.shape[1] if "parts" in inputs else 0
        chances = ask_chances(model, agent.state, state, reward, A, parts)
        if chances.shape != answers.chances.shape:
            answers = answers._replace(chances=np.zeros(chances.shape))
            agent._replace(model=answers)
        answers.chances[:] = chances
    if "outcomes" in inputs:
        _list_outcomes(agent, range(A) if "policy" in inputs else [agent.action])
    elif "overlaps" in inputs:
        answers.overlaps[:] = ask_overlaps(model, agent.state, A)


def _list_outcomes(agent: Any, actions: Any) -> None:
    """Store the outcomes of some actions; enlarge the arrays if they do not fit."""
    answers, empty = agent._state.model, (np.zeros(0, np.int64), np.zeros(0))
    each = [ask_outcomes(agent.model, agent.state, a) if a in actions else empty for a in range(agent.n_actions)]
    total = sum(targets.size for targets, _ in each)
    if total > answers.targets.size:
        answers = answers._replace(targets=np.zeros(2 * total, np.int64), weights=np.zeros(2 * total))
        agent._replace(model=answers)
    answers.start[1:] = np.cumsum([targets.size for targets, _ in each])
    answers.targets[:total] = np.concatenate([targets for targets, _ in each])
    answers.weights[:total] = np.concatenate([weights for _, weights in each])
    listed = [dict(zip(targets.tolist(), weights.tolist(), strict=True)) for targets, weights in each]
    answers.overlaps[:] = overlaps_of(listed)
