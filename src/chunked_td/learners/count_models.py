"""Count models for λ sources: selection by the inputs of the source, and their arrays."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from chunked_td.bootstraps import SARSA, STATE
from chunked_td.lambdas.base import MODEL, LambdaSource
from chunked_td.models.counts import BackwardCounts, Counts, ForwardCounts, PartCounts


def kind_of_counts(source: LambdaSource, bootstrap: int) -> Any:
    """Return the count model that a source requires: a class of `chunked_td.models.counts`, or None for no model."""
    inputs = source.inputs(bootstrap) & MODEL
    if not inputs:
        return None
    kinds = {PartCounts: {"parts"}, BackwardCounts: {"predecessors"}}
    kinds[ForwardCounts] = {"outcome", "overlaps", "outcomes", "visits"}
    for kind, met in kinds.items():
        if inputs <= met:
            return kind
    asked = ", ".join(source.asks(bootstrap))
    raise ValueError(f"lambda_source {source!r} requires {asked}, which no single count model provides; pass a model=")


def count_origins(kind: Any, bootstrap: int, states: int, n_actions: int, rewards: int) -> int:
    """Return the number of origins of a count model of this kind."""
    if kind is BackwardCounts:
        return states * n_actions if bootstrap == SARSA else states
    return states * n_actions * (rewards if kind is PartCounts else 1)


def make_counts(
    kind: Any, bootstrap: int, states: int, n_actions: int, parts: np.ndarray, nvec: np.ndarray, *, prior: float = 0.0,
    known_states: int = 1, capacity: int = 256,
) -> Any:  # fmt: skip
    """Return an empty count model of this kind (None for None).

    Args:
      states: initial number of rows. known_states: number of states, over which a prior is spread.
      parts: bool[d, c], which state components decide reward i. nvec: sizes of the state components.
    """
    if kind is None:
        return None
    d = parts.shape[0]
    outcomes: Any = known_states
    if kind is PartCounts:
        outcomes = [int(np.prod(nvec[part])) for part in parts]
    elif kind is BackwardCounts and bootstrap == SARSA:
        outcomes = known_states * n_actions
    counts = Counts.empty(count_origins(kind, bootstrap, states, n_actions, d), prior, outcomes, capacity)
    if kind is BackwardCounts:
        return BackwardCounts(counts)
    if kind is PartCounts:
        return PartCounts(counts, np.full(d, -1, np.int64), np.zeros(d, np.int64))
    return ForwardCounts(counts, np.full(1, -1, np.int64))


def pairs_per_step(model: Any) -> int:
    """Return the largest number of distinct pairs that one transition adds to a model."""
    if model is None or not hasattr(model, "counts"):
        return 0
    return model.latest.size if isinstance(model, PartCounts) else 1


def component_parts(source: LambdaSource, rewards: int, components: int, *, rest: bool = False) -> np.ndarray:
    """bool[d, c]: the state components that decide reward i (Alg. 4). All false if the source has one λ for all.

    Args:
      rewards: d. components: c.
      rest: whether the last reward is the remainder of the others; by default all state components decide it.
    """
    parts = np.zeros((rewards, components), bool)
    if "parts" not in source.inputs(STATE):
        return parts
    chosen, name = getattr(source, "components", None), type(source).__name__
    if chosen is None:
        if rewards != components + rest:
            raise ValueError(
                f"lambda_source {name}() requires one reward per state component, got {rewards} rewards and "
                f"{components} state components; pass components=…, the state components that decide each reward"
            )
        chosen = (*range(components), *((tuple(range(components)),) if rest else ()))
    if len(chosen) != rewards:
        raise ValueError(f"{name} components must have one entry per reward ({rewards}), got {chosen!r}")
    for i, members in enumerate(chosen):
        listed: Any = (members,) if isinstance(members, Integral) else members
        for j in listed:
            if not 0 <= j < components:
                raise ValueError(f"{name} components must lie in 0..{components - 1}, got {j!r} for reward {i}")
            parts[i, j] = True
    return parts
