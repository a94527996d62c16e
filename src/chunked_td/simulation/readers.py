"""Readers: models for λ sources from the outputs of networks for a step.

| reader | output (`chunked_td.lambdas.on_device`) | λ sources |
|---|---|---|
| `NumberReader` | one number per step, or one per part | sources of this package that ask one question |
| `ChanceReader` | "chances": P̂ᵢ(x'ⁱ|x,a) of the sampled next state | every source that needs outcome or parts |
| `OutcomeReader` | "outcomes": P̂ᵢ(v|x,a) of all possible values | every source that needs all outcomes |
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._link import kernel, slot
from chunked_td.models.oracle import Oracle
from chunked_td.models.predictions import Predictions

NEGLIGIBLE = 1e-4
"""Bound on the total probability of the values of a component that are left out of the list of outcomes."""

answers_at = slot("reader", "answers_at")


def _number(step, part):
    return step.model.numbers[part if part >= 0 else step.model.whole]


class GivenNumbers(NamedTuple):
    """Model with numbers computed on the device: one per step, or one per part."""

    numbers: Annotated[np.ndarray, "float32[m]"]
    whole: int

    mixture = expected_mixture = kernel(_number)

    @kernel
    def chance(step, action, part):
        """P̂(x'|x,a) of the sampled next state, for the action taken."""
        return _number(step, part)

    @kernel
    def overlap(step, a, b, part):
        """Σ_{x'} P̂(x'|x,a)², for the action taken."""
        return _number(step, -1)

    @kernel
    def expected_choice(step):
        """Σ_{x'} P̂(x'|x,a)², for next states with one action."""
        return _number(step, -1)


class NumberReader(NamedTuple):
    """Reader for sources that need one number per step, or one per part."""

    width: int = 1

    @kernel
    def answers_at(reader, numbers, column, state):
        """Model of one step."""
        return GivenNumbers(numbers, column)


class ChanceReader(NamedTuple):
    """Reader for sources that need the probability of the sampled next state, or of its parts."""

    width: int
    answers: Predictions

    @classmethod
    def make(cls, components: int, n_actions: int) -> ChanceReader:
        """Reader for these numbers of state components and actions."""
        return cls(components * n_actions, Predictions.empty(n_actions, components))

    @kernel
    def answers_at(reader, numbers, column, state):
        """Model of one step."""
        chances = reader.answers.chances
        for a in range(chances.shape[0]):
            for j in range(chances.shape[1]):
                chances[a, j] = numbers[a * chances.shape[1] + j]
        return reader.answers


class NetworkOutcomes(NamedTuple):
    """Model with the outcomes of a network; components are independent, as in `Oracle`."""

    marginals: Annotated[np.ndarray, "float64[A, m]"]
    start: Annotated[np.ndarray, "int64[k]"]
    imagined: Annotated[np.ndarray, "int64[c]"]

    overlap, following = staticmethod(Oracle.overlap), staticmethod(Oracle.following)
    target, weight = staticmethod(Oracle.target), staticmethod(Oracle.weight)


class OutcomeReader(NamedTuple):
    """Reader for sources that need all outcomes."""

    width: int
    outcomes: NetworkOutcomes
    rows: Annotated[np.ndarray, "int64[r]"]  # action of each row of the outputs; −1: the action taken
    count: Annotated[np.ndarray, "int64[k]"]  # outcomes of each component's head  # pyright: ignore
    low: Annotated[np.ndarray, "int64[k]"]  # the smallest of them
    relative: Annotated[np.ndarray, "bool[k]"]  # whether they are changes of the component

    @classmethod
    def make(cls, config: Any, only_taken: bool) -> OutcomeReader:
        """Reader for a `NetworkConfig`."""
        heads, A = config.heads, config.actions
        count = np.array([head.outcomes for head in heads], np.int64)
        empty = Oracle.empty(np.array(config.nvec, np.int64), A, all_actions=True, all_outcomes=True)
        rows = np.full(1, -1, np.int64) if only_taken else np.arange(A)
        low = np.array([head.low for head in heads], np.int64)
        relative = np.array([head.kind == "difference" for head in heads])
        return cls(
            int(rows.size * count.sum()),
            NetworkOutcomes(empty.marginals, empty.start, empty.imagined),
            rows,
            count,
            low,
            relative,
        )

    @kernel
    def answers_at(reader, numbers, column, state):
        """Model of one step: the heads' probabilities of changes and categories, as values of the components."""
        k = 0
        for row in range(reader.rows.size):
            for j in range(state.size):
                marginals = reader.outcomes.marginals[max(reader.rows[row], 0)]
                first, end = reader.outcomes.start[j], reader.outcomes.start[j + 1]
                for v in range(first, end):
                    marginals[v] = 0.0
                base = first + reader.low[j] + (int(state[j]) if reader.relative[j] else 0)
                for v in range(reader.count[j]):
                    if first <= base + v < end and numbers[k] * reader.count[j] >= NEGLIGIBLE:
                        marginals[base + v] = numbers[k]
                    k += 1
        if reader.rows[0] < 0:  # one row, for the action taken; copy it to every action
            for a in range(1, reader.outcomes.marginals.shape[0]):
                for v in range(reader.outcomes.marginals.shape[1]):
                    reader.outcomes.marginals[a, v] = reader.outcomes.marginals[0, v]
        return reader.outcomes
