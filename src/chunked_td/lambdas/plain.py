"""Transition for λ sources in plain Python.

@dataclass(frozen=True)
class HalfForward(LambdaSource):
    def asks(self, bootstrap):
        return ("mixture",)

    def lambda_t(self, step):
        return 0.5 * step.mixture()
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunked_td._link import link
from chunked_td.bootstraps import STATE
from chunked_td.lambdas import step as questions
from chunked_td.lambdas.step import WHOLE, Step

TERMINATED = 1
"""`Step.ended` on termination."""


@functools.cache
def _answer(question: str, model: Any) -> Any:
    """Return a query of `chunked_td.lambdas.step` to a model of this class as a Python function."""
    return link(getattr(questions, question), {"model": model}, compiled=False)


@dataclass(frozen=True)
class PlainStep:
    """Transition t, from x_t by a_t to x_{t+1}, with the queries that the source's `asks` lists.

    Attributes:
      state, action, next_state: ids. next_action: id, or None on the last transition.
      reward: float64[d]. td_error: float64[d], δ_t; a λ_t that depends on either is biased, see `Step`.
      terminated: whether the transition ended the episode in a terminal state.
      policy: float64[A], π(·|x_t) as it was when a_t was drawn. next_policy: float64[A], π(·|x_{t+1}).
      bootstrap: of the learner, see `chunked_td.bootstraps`.
    """

    state: int
    action: int
    next_state: int
    next_action: int | None
    reward: np.ndarray
    td_error: np.ndarray
    terminated: bool
    policy: np.ndarray
    next_policy: np.ndarray
    bootstrap: int
    _step: Step

    @classmethod
    def of(cls, step: Step) -> PlainStep:
        """Convert the step of a kernel; arrays that the learner keeps writing to are copied."""
        return cls(
            state=step.state,
            action=step.action,
            next_state=step.next_state,
            next_action=step.next_action if step.next_action >= 0 else None,
            reward=step.reward.copy(),
            td_error=step.td_error.copy(),
            terminated=step.ended == TERMINATED,
            policy=step.policy.copy(),
            next_policy=step.next_policy.copy(),
            bootstrap=step.bootstrap,
            _step=step,
        )

    def _ask(self, question: str, *arguments: int) -> Any:
        return _answer(question, type(self._step.model))(self._step, *arguments)

    def chances(self) -> np.ndarray:
        """float64[A]: P̂(x'|x,a) of the sampled next state, for every action a."""
        return np.array([self._ask("chance", a, WHOLE) for a in range(self.policy.size)])

    def chance(self) -> float:
        """P̂(x'|x,a) of the sampled next state, for the action taken."""
        return float(self._ask("chance", self.action, WHOLE))

    def mixture(self) -> float:
        """P̂^π(x'|x) = Σ_a π(a|x) P̂(x'|x,a), over the actions that the model knows."""
        return float(self._ask("mixture", WHOLE))

    def tried(self) -> float:
        """Σ_a π(a|x) over the actions that the model knows: 1 if all were tried."""
        return float(self._ask("tried"))

    def choice(self) -> float:
        """π(a'|x'); 1 on the last transition, which has no a'."""
        return float(questions.choice(self._step))

    def outcomes(self, action: int) -> Iterator[tuple[int, float]]:
        """Yield the next states of (x_t, action) and their probabilities."""
        k = self._ask("following", action, -1)
        while k >= 0:
            yield int(self._ask("target", action, k)), float(self._ask("weight", action, k))
            k = self._ask("following", action, k)

    def values(self, state: int) -> np.ndarray:
        """V(state), or Q(state, ·) of action-value learners, summed over reward components."""
        width = 1 if self.bootstrap == STATE else self.policy.size
        return self._step.tables.values[state * width : (state + 1) * width].sum(axis=1)


def checked_lambda(source: Any, value: Any, components: int) -> np.ndarray:
    """Return the λ of a source as float64[d]; raise ValueError if it is not one or d numbers in [0, 1]."""
    given = np.asarray(value)
    given = given.astype(np.float64) if given.dtype.kind in "fiu" else np.array(np.nan)
    if given.shape not in ((), (components,)) or not ((given >= 0.0) & (given <= 1.0)).all():
        raise ValueError(
            f"{type(source).__name__}.lambda_t must return a number in [0, 1], or {components} of them, got {value!r}"
        )
    return np.broadcast_to(given, (components,))
