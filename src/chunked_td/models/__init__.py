"""Models: predictions of the next percept, from which λ is computed.

Counts (`counts`) and, in the simulation, the true model (`oracle`) are compiled. Any other object with the methods of
`Model` is passed as `model=`: an oracle from `env.unwrapped.P`, a network (`neural`), a physics engine. States are ids;
`agent.indexer.decode(id)` returns the observation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from chunked_td._checks import check_whole
from chunked_td._loading import lazy_names
from chunked_td._settings import KernelSettings

__all__ = ["ComponentModel", "DistributionModel", "KernelModel", "Model", "OutcomeModel", "OverlapModel", "TableModel"]
__getattr__, __dir__ = lazy_names(__name__)


@runtime_checkable
class Model(Protocol):
    """Model interface: per transition a learner calls `observe`, then the methods that its λ source requires.

    A model needs only the methods that the λ source requires; a learner raises an error if one is missing.

    | the source asks | the model has |
    |---|---|
    | `chance`, `chances`, `mixture` | `probabilities`, or `component_probabilities` |
    | the same, with a λ per reward component | `component_probabilities` |
    | `overlap`, `mean_overlap`, `expected_mixture` | `overlaps`, or `distribution` |
    | `outcomes`, `expected_choice` | `distribution` |
    """

    def observe(self, state: int, action: int, reward: Any, next_state: int, terminated: bool) -> None:
        """Train on a transition; called before its probability is read."""
        ...


class OutcomeModel(Model, Protocol):
    """A model that returns the probability of the sampled percept."""

    def probabilities(self, state: int, next_state: int, reward: Any) -> np.ndarray:
        """float64[A]: P̂(x'|x,a) of the sampled percept, for every action a."""
        ...


class ComponentModel(Model, Protocol):
    """A model that returns the probability of each component of the sampled next state."""

    def component_probabilities(self, state: int, next_state: int, reward: Any) -> np.ndarray:
        """float64[A, c]: P̂(x'^j|x,a) of each component of the sampled next state, for every action."""
        ...


class DistributionModel(Model, Protocol):
    """A model that can list the possible next states."""

    def distribution(self, state: int, action: int) -> Iterable[tuple[int, float]]:
        """Pairs (x', P̂(x'|x,a)) of next states, each once."""
        ...


class OverlapModel(Model, Protocol):
    """A model that can compare actions without a list of next states."""

    def overlaps(self, state: int) -> np.ndarray:
        """float64[A, A]: Σ_{x'} P̂(x'|x,a) P̂(x'|x,b) for all pairs of actions."""
        ...


@dataclass(frozen=True)
class KernelModel(KernelSettings):
    """Base class of user-defined compiled models, `model=Mine(…)` in a learner and in `simulate`: settings with kernels

        observe(model, step, counting)     train on the transition, before λ is computed
        chance(step, action, part)         P̂(x'|x,a) of the sampled percept; the model's arrays are in `step.model`

    and the further kernels of `chunked_td.lambdas.step` that the λ source requires: `overlap`, `following`, `target`,
    `weight`, `came_from`, `visits`, `knows`. `arrays` declares the arrays that the model learns.
    """


class TableModel:
    """An oracle from a transition table in Gymnasium's toy-text form: `env.unwrapped.P`, or `ExactModel(dynamics).P`.

    Args:
      table: `table[state][action]` is a list of (probability, next state, reward, terminated). States may have
        different numbers of actions; a state without actions is terminal.
      n_actions: number of actions.
    """

    def __init__(self, table: Any, n_actions: int):
        self.table, self.n_actions = table, check_whole("n_actions", n_actions, 1)
        states = table if isinstance(table, Mapping) else range(len(table))
        numbers = {state: max(_actions(table[state]), default=-1) + 1 for state in states}
        widest = max(numbers, key=lambda state: numbers[state], default=None)
        if widest is None or numbers[widest] != self.n_actions:
            found = "no states" if widest is None else f"{numbers[widest]} actions in state {widest!r}"
            raise ValueError(
                f"n_actions must be the largest number of actions in table, which has {found}, got {n_actions!r}"
            )
        for state in states:
            for action in _actions(table[state]):
                _check_outcomes(table[state][action], state, action)

    def observe(self, state: int, action: int, reward: Any, next_state: int, terminated: bool) -> None:
        """Do nothing, as an oracle does not learn."""

    def distribution(self, state: int, action: int) -> dict[int, float]:
        """{next state: probability}."""
        chances: dict[int, float] = {}
        try:
            offered = self.table[state]
        except LookupError:
            raise ValueError(
                f"table must have every state that the environment shows, got none for {state!r}"
            ) from None
        for probability, target, *_ in offered[action] if action in _actions(offered) else ():
            chances[target] = chances.get(target, 0.0) + probability
        return chances

    def probabilities(self, state: int, next_state: int, reward: Any) -> np.ndarray:
        """P(x'|x,a) for every action."""
        return np.array([self.distribution(state, a).get(next_state, 0.0) for a in range(self.n_actions)])


def _actions(offered: Any) -> Any:
    """Actions of a state."""
    return offered if isinstance(offered, Mapping) else range(len(offered))


def _check_outcomes(outcomes: Any, state: Any, action: int) -> None:
    """Raise ValueError if an entry of a table is not a list of outcomes."""
    try:
        for _, _, _, _ in outcomes:
            pass
    except (TypeError, ValueError):
        raise ValueError(
            f"table[{state!r}][{action}] must be a list of (probability, next state, reward, terminated), "
            f"got {outcomes!r}"
        ) from None
