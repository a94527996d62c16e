"""Predictions of models that are Python objects, checked and stored for compiled code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._checks import check_numbers
from chunked_td._link import kernel, zeros


class Predictions(NamedTuple):
    """Predictions of a model object for one transition."""

    chances: Annotated[np.ndarray, "float64[A, k]"]  # P̂(x'^j|x,a) of the sampled percept; one column for the whole
    overlaps: Annotated[np.ndarray, "float64[A, A]"]  # Σ_{x'} P̂(x'|x,a) P̂(x'|x,b)
    targets: Annotated[np.ndarray, "int64[n]"]  # next states, action by action
    weights: Annotated[np.ndarray, "float64[n]"]  # P̂ of each
    start: Annotated[np.ndarray, "int64[m]"]  # outcomes of action a begin at start[a]; m = A + 1

    @classmethod
    def empty(cls, n_actions: int, columns: int = 1, outcomes: int = 0) -> Predictions:
        """Arrays of zeros, before the first prediction."""
        return zeros(cls, {"A": n_actions, "k": columns, "n": outcomes, "m": n_actions + 1})

    @kernel
    def chance(step, action, part):
        """Π_j P̂(x'^j|x, action) of the sampled next state, over all components or the components of reward `part`."""
        chances, product = step.model.chances[action], 1.0
        for j in range(chances.size):
            if part < 0 or step.tables.parts[part, j]:
                product *= chances[j]
        return product

    @kernel
    def overlap(step, a, b, part):
        """Σ_{x'} P̂(x'|x,a) P̂(x'|x,b)."""
        return step.model.overlaps[a, b]

    @kernel
    def following(step, action, outcome):
        """The outcome after `outcome`, the first after −1; −1 if there is none."""
        return listed_after(step.model.start, action, outcome)

    @kernel
    def target(step, action, outcome):
        """The next state of an outcome."""
        return step.model.targets[outcome]

    @kernel
    def weight(step, action, outcome):
        """P̂ of an outcome."""
        return step.model.weights[outcome]


def listed_after(start, k, outcome):
    """Index after `outcome` in start[k] .. start[k + 1] − 1; the first for −1; −1 after the last."""
    found = outcome + 1 if outcome >= 0 else start[k]
    return found if found < start[k + 1] else -1


def check_chances(name: str, given: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Check a model's probabilities: of this shape, clipped to [0, 1]; a ValueError for more than rounding errors."""
    values = check_numbers(f"model.{name}()", given, "probabilities in [0, 1]")
    if values.shape != shape:
        raise ValueError(f"model.{name}() must return an array of shape {shape}, got shape {values.shape}")
    if not (values >= -1e-6).all() or not (values <= 1.0 + 1e-6).all():
        raise ValueError(f"model.{name}() must return probabilities in [0, 1], got {given!r}")
    return np.clip(values, 0.0, 1.0)


def ask_chances(model: Any, state: int, next_state: int, reward: Any, n_actions: int, parts: int) -> np.ndarray:
    """float64[A, columns]: P̂ of the sampled percept (parts = 0), or of each of its `parts` components."""
    if parts:
        each = model.component_probabilities(state, next_state, reward)
        return check_chances("component_probabilities", each, (n_actions, parts))
    if not hasattr(model, "probabilities"):
        given = model.component_probabilities(state, next_state, reward)
        each = check_numbers("model.component_probabilities()", given, "probabilities in [0, 1]")
        return check_chances("component_probabilities", each, (n_actions, *each.shape[1:]))
    return check_chances("probabilities", model.probabilities(state, next_state, reward), (n_actions,))[:, None]


def ask_outcomes(model: Any, state: int, action: int) -> tuple[np.ndarray, np.ndarray]:
    """Next states of (state, action) and their probabilities."""
    listed = model.distribution(state, action)
    accepted = "a dict or pairs of next states (integers from 0) and their probabilities, which sum to at most 1"
    try:
        pairs = [(target, weight) for target, weight in (listed.items() if isinstance(listed, Mapping) else listed)]
        targets = np.array([target for target, _ in pairs] or np.zeros(0, np.int64))
    except (TypeError, ValueError):  # no pairs, or targets of different lengths
        raise ValueError(f"model.distribution() must return {accepted}, got {listed!r}") from None
    chances = check_chances("distribution", [p for _, p in pairs] or np.zeros(0), (len(pairs),))
    whole = targets.shape == chances.shape and targets.dtype.kind in "iu"
    if not whole or (targets < 0).any() or chances.sum() > 1.0 + 1e-6:
        raise ValueError(f"model.distribution() must return {accepted}, got {listed!r}")
    return targets.astype(np.int64), chances


def ask_overlaps(model: Any, state: int, n_actions: int) -> np.ndarray:
    """float64[A, A]: Σ_{x'} P̂(x'|x,a) P̂(x'|x,b), from the model's own `overlaps`, or from its `distribution`."""
    if hasattr(model, "overlaps"):
        return check_chances("overlaps", model.overlaps(state), (n_actions, n_actions))
    listed = [ask_outcomes(model, state, a) for a in range(n_actions)]
    each = [dict(zip(targets.tolist(), weights.tolist(), strict=True)) for targets, weights in listed]
    return overlaps_of(each)


def overlaps_of(each: list[dict[int, float]]) -> np.ndarray:
    """float64[A, A]: Σ_{x'} P̂(x'|x,a) P̂(x'|x,b), from the distribution of every action."""
    return np.array([[sum(p * b.get(target, 0.0) for target, p in a.items()) for b in each] for a in each])
