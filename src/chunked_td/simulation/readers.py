"""From what networks answered about a step to a model that λ sources can ask.

| reader | the networks answered (`chunked_td.lambdas.on_device`) | serves |
|---|---|---|
| `NumberReader` | the one number that the source needs, or one per part | sources of ours that ask one question |
| `ChanceReader` | "chances": P̂ᵢ(x'ⁱ|x,a) of what came | every source that needs outcome or parts |
| `OutcomeReader` | "outcomes": P̂ᵢ(v|x,a) of all that could have come | every source that needs all outcomes |
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._link import kernel, slot
from chunked_td.models.oracle import Oracle
from chunked_td.models.predictions import Predictions

NEGLIGIBLE = 1e-4
"""Values of a component whose probabilities add up to less than this are left out of the list of outcomes."""

answers_at = slot("reader", "answers_at")


def _number(step, part):
    return step.model.numbers[part if part >= 0 else step.model.whole]


class GivenNumbers(NamedTuple):
    """Numbers that were computed elsewhere: the one question that the source asks has one answer, or one per part."""

    numbers: Annotated[np.ndarray, "float32[m]"]
    whole: int

    mixture = expected_mixture = kernel(_number)

    @kernel
    def chance(step, action, part):
        """P̂(x'|x,a) of what came, for the action taken."""
        return _number(step, part)

    @kernel
    def overlap(step, a, b, part):
        """Σ_{x'} P̂(x'|x,a)², for the action taken."""
        return _number(step, -1)

    @kernel
    def expected_choice(step):
        """Σ_{x'} P̂(x'|x,a)², where the next states offer no choice."""
        return _number(step, -1)


class NumberReader(NamedTuple):
    """For sources that need one number per step, or one per part."""

    width: int = 1

    @kernel
    def answers_at(reader, numbers, column, state):
        """The model of one step."""
        return GivenNumbers(numbers, column)


class ChanceReader(NamedTuple):
    """For sources that ask about the outcome in any way."""

    width: int
    answers: Predictions

    @classmethod
    def make(cls, components: int, n_actions: int) -> ChanceReader:
        """For so many state components and actions."""
        return cls(components * n_actions, Predictions.empty(n_actions, components))

    @kernel
    def answers_at(reader, numbers, column, state):
        """The model of one step."""
        chances = reader.answers.chances
        for a in range(chances.shape[0]):
            for j in range(chances.shape[1]):
                chances[a, j] = numbers[a * chances.shape[1] + j]
        return reader.answers


class NetworkOutcomes(NamedTuple):
    """All outcomes that a network gives a probability; components are independent, as in `Oracle`."""

    marginals: Annotated[np.ndarray, "float64[A, m]"]
    start: Annotated[np.ndarray, "int64[k]"]
    imagined: Annotated[np.ndarray, "int64[c]"]

    overlap, following = staticmethod(Oracle.overlap), staticmethod(Oracle.following)
    target, weight = staticmethod(Oracle.target), staticmethod(Oracle.weight)


class OutcomeReader(NamedTuple):
    """For sources that need all outcomes."""

    width: int
    outcomes: NetworkOutcomes
    rows: Annotated[np.ndarray, "int64[r]"]  # the action that each row of the answers is about; −1: the one taken
    count: Annotated[np.ndarray, "int64[k]"]  # outcomes of each component's head  # pyright: ignore
    low: Annotated[np.ndarray, "int64[k]"]  # the least of them
    relative: Annotated[np.ndarray, "bool[k]"]  # whether they are changes of the component

    @classmethod
    def make(cls, config: Any, only_taken: bool) -> OutcomeReader:
        """For a `NetworkConfig`."""
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
        """The model of one step: what the heads say of changes and categories, as values of the components."""
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
        if reader.rows[0] < 0:  # one row, about the action taken: whichever is asked for
            for a in range(1, reader.outcomes.marginals.shape[0]):
                for v in range(reader.outcomes.marginals.shape[1]):
                    reader.outcomes.marginals[a, v] = reader.outcomes.marginals[0, v]
        return reader.outcomes
