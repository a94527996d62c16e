"""Models: what predicts the next percept, and so where λ comes from.

Counts are built into the learners and compiled. Anything else that follows `Model` plugs in as `model=`: an oracle
read off `env.unwrapped.P`, a network, a physics engine. States come as ids; `agent.indexer.decode(id)` gives the
observation back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Model(Protocol):
    """What a learner asks of a model, once per transition, in this order: observe, then one of the questions."""

    def observe(self, state: int, action: int, reward: Any, next_state: int, terminated: bool) -> None:
        """Train on a transition (before its probability is asked for)."""
        ...

    def probabilities(self, state: int, next_state: int, reward: Any) -> np.ndarray:
        """float64[A]: P̂(x'|x,a) of the percept that came, for every action a. Asked by ForwardLambda."""
        ...


class FactoredModel(Model, Protocol):
    """A model that can also answer FactoredLambda (Alg. 4)."""

    def component_probabilities(self, state: int, next_state: int, reward: Any) -> np.ndarray:
        """float64[A, c]: P̂(x'^j|x,a) of each state component that came, for every action."""
        ...


class ExpectedModel(Model, Protocol):
    """A model that can also answer ExpectedLambda."""

    def expected_probabilities(self, state: int, policy: np.ndarray) -> np.ndarray:
        """float64[A + 1]: Σ_{x'} P̂(x'|x,a)² for every action a, and Σ_{x'} (Σ_a π(a) P̂(x'|x,a))² last."""
        ...


class DistributionModel(Model, Protocol):
    """A model that can list what may come: ExpectedLambda asks SARSA's models, whose λ holds the policy there."""

    def distribution(self, state: int, action: int) -> Iterable[tuple[int, float]]:
        """Pairs (x', P̂(x'|x,a)) of next states, each once."""
        ...


class TableModel:
    """An oracle from a transition table in Gymnasium's toy-text form, `env.unwrapped.P`.

    Args:
      table: `table[state][action]` is a list of (probability, next state, reward, terminated).
      actions: number of actions.
    """

    def __init__(self, table: Any, actions: int):
        self.table, self.actions = table, int(actions)

    def observe(self, state: int, action: int, reward: Any, next_state: int, terminated: bool) -> None:
        """An oracle does not learn."""

    def distribution(self, state: int, action: int) -> Iterable[tuple[int, float]]:
        """The next states and their probabilities."""
        return self._distribution(state, action).items()

    def _distribution(self, state: int, action: int) -> dict[int, float]:
        chances: dict[int, float] = {}
        for probability, target, *_ in self.table[state][action]:
            chances[target] = chances.get(target, 0.0) + probability
        return chances

    def probabilities(self, state: int, next_state: int, reward: Any) -> np.ndarray:
        """P(x'|x,a) for every action."""
        return np.array([self._distribution(state, a).get(next_state, 0.0) for a in range(self.actions)])

    def expected_probabilities(self, state: int, policy: np.ndarray) -> np.ndarray:
        """Σ_{x'} P(x'|x,a)² for every action, and that of the mixture under the policy."""
        each = [self._distribution(state, a) for a in range(self.actions)]
        mixture: dict[int, float] = {}
        for weight, chances in zip(policy, each, strict=True):
            for target, probability in chances.items():
                mixture[target] = mixture.get(target, 0.0) + weight * probability
        return np.array([sum(p * p for p in chances.values()) for chances in (*each, mixture)])
