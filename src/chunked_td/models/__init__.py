"""Models: what predicts the next percept, and so where λ comes from.

Counts (`counts`) are built into the learners and compiled, and so is the true model in the simulation (`oracle`).
Anything else that follows `Model` plugs in as `model=`: an oracle read off `env.unwrapped.P`, a network (`neural`), a
physics engine. States come as ids; `agent.indexer.decode(id)` gives the observation back.
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
    """What a learner asks of a model object, once per transition: observe, then what its λ source needs.

    Only the questions that the λ source asks have to be there; a learner refuses a model without them.

    | the source asks | the model has |
    |---|---|
    | `chance`, `chances`, `mixture` | `probabilities`, or `component_probabilities` |
    | the same, with a λ per reward component | `component_probabilities` |
    | `overlap`, `mean_overlap`, `expected_mixture` | `overlaps`, or `distribution` |
    | `outcomes`, `expected_choice` | `distribution` |
    """

    def observe(self, state: int, action: int, reward: Any, next_state: int, terminated: bool) -> None:
        """Train on a transition (before its probability is asked for)."""
        ...


class OutcomeModel(Model, Protocol):
    """A model that tells the probability of what came."""

    def probabilities(self, state: int, next_state: int, reward: Any) -> np.ndarray:
        """float64[A]: P̂(x'|x,a) of the percept that came, for every action a."""
        ...


class ComponentModel(Model, Protocol):
    """A model that tells the probability of each state component that came."""

    def component_probabilities(self, state: int, next_state: int, reward: Any) -> np.ndarray:
        """float64[A, c]: P̂(x'^j|x,a) of each state component that came, for every action."""
        ...


class DistributionModel(Model, Protocol):
    """A model that can list what may come."""

    def distribution(self, state: int, action: int) -> Iterable[tuple[int, float]]:
        """Pairs (x', P̂(x'|x,a)) of next states, each once."""
        ...


class OverlapModel(Model, Protocol):
    """A model that can compare actions without listing what may come."""

    def overlaps(self, state: int) -> np.ndarray:
        """float64[A, A]: Σ_{x'} P̂(x'|x,a) P̂(x'|x,b) for all pairs of actions."""
        ...


@dataclass(frozen=True)
class KernelModel(KernelSettings):
    """Base of compiled models of yours: `model=Mine(…)` in a learner and in `simulate`. Settings with kernels.

        observe(model, step, counting)     train on the transition, before λ is asked for
        chance(step, action, part)         P̂(x'|x,a) of what came; the model's arrays are in `step.model`

    and others of the questions of `chunked_td.lambdas.step`, as far as λ sources ask them: `overlap`, `following`,
    `target`, `weight`, `came_from`, `visits`, `knows`. `arrays` are those that the model learns.
    """


class TableModel:
    """An oracle from a transition table in Gymnasium's toy-text form: `env.unwrapped.P`, or `ExactModel(dynamics).P`.

    Args:
      table: `table[state][action]` is a list of (probability, next state, reward, terminated). A state may offer fewer
        actions than others; one that offers none is terminal.
      n_actions: number of actions.
    """

    def __init__(self, table: Any, n_actions: int):
        self.table, self.n_actions = table, check_whole("n_actions", n_actions, 1)
        states = table if isinstance(table, Mapping) else range(len(table))
        numbers = {state: max(_actions(table[state]), default=-1) + 1 for state in states}
        widest = max(numbers, key=lambda state: numbers[state], default=None)
        if widest is None or numbers[widest] != self.n_actions:
            found = "no states" if widest is None else f"{numbers[widest]} actions in state {widest!r}"
            raise ValueError(f"n_actions: got {n_actions!r}, but the table has {found}")
        for state in states:
            for action in _actions(table[state]):
                _check_outcomes(table[state][action], state, action)

    def observe(self, state: int, action: int, reward: Any, next_state: int, terminated: bool) -> None:
        """Do nothing: an oracle does not learn."""

    def distribution(self, state: int, action: int) -> dict[int, float]:
        """The next states and their probabilities."""
        chances: dict[int, float] = {}
        try:
            offered = self.table[state]
        except LookupError:
            raise ValueError(f"table: it has no state {state!r}, which the environment has shown") from None
        for probability, target, *_ in offered[action] if action in _actions(offered) else ():
            chances[target] = chances.get(target, 0.0) + probability
        return chances

    def probabilities(self, state: int, next_state: int, reward: Any) -> np.ndarray:
        """P(x'|x,a) for every action."""
        return np.array([self.distribution(state, a).get(next_state, 0.0) for a in range(self.n_actions)])


def _actions(offered: Any) -> Any:
    """The actions that a state offers."""
    return offered if isinstance(offered, Mapping) else range(len(offered))


def _check_outcomes(outcomes: Any, state: Any, action: int) -> None:
    """Refuse an entry of a table that is not a list of outcomes."""
    try:
        for _, _, _, _ in outcomes:
            pass
    except (TypeError, ValueError):
        raise ValueError(
            f"table[{state!r}][{action}] must be a list of (probability, next state, reward, terminated), "
            f"got {outcomes!r}"
        ) from None
