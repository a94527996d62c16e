"""A transition for λ sources that are plain Python.

@dataclass(frozen=True)
class HalfForward(LambdaSource):
    needs = Needs.OUTCOME | Needs.POLICY

    def lambda_t(self, step):
        return 0.5 * step.mixture()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class PlainStep:
    """Transition t, from x_t by a_t to x_{t+1}, with what the source's `needs` ask for.

    Attributes:
      state, action, next_state: ids. next_action: None on the last transition.
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
    _chances: Callable[[], np.ndarray]
    _known: Callable[[], np.ndarray]
    _outcomes: Callable[[int], tuple[np.ndarray, np.ndarray]]
    _values: Callable[[int], np.ndarray]

    def chances(self) -> np.ndarray:
        """float64[A]: P̂(x'|x,a) of what came, for every action a. Needs.OUTCOME."""
        return self._chances()

    def chance(self) -> float:
        """P̂(x'|x,a) of what came, for the action taken. Needs.OUTCOME."""
        return float(self.chances()[self.action])

    def mixture(self) -> float:
        """P̂^π(x'|x) = Σ_a π(a|x) P̂(x'|x,a), over the actions that the model knows. Needs.OUTCOME and Needs.POLICY."""
        return min(float(self.policy @ self.chances()) / self.tried(), 1.0)

    def tried(self) -> float:
        """Σ_a π(a|x) over the actions that the model knows: 1 once all were tried. Needs.POLICY."""
        known = self._known()
        return 1.0 if known[self.policy > 0.0].all() else float(self.policy[known].sum())

    def choice(self) -> float:
        """π(a'|x'); 1 on the last transition, where there is no a'."""
        return 1.0 if self.next_action is None else float(self.next_policy[self.next_action])

    def outcomes(self, action: int) -> Iterator[tuple[int, float]]:
        """Next states of (x_t, action) and their probabilities. Needs.OUTCOMES."""
        targets, weights = self._outcomes(action)
        return zip(targets.tolist(), weights.tolist(), strict=True)

    def values(self, state: int) -> np.ndarray:
        """V(state), or Q(state, ·) of action-value learners, summed over reward components."""
        return self._values(state)


def checked_lambda(source: Any, value: Any, components: int) -> np.ndarray:
    """What a source gave, as float64[d]; an error if it is no number in [0, 1] or not one per component."""
    given = np.asarray(value)
    given = given.astype(np.float64) if given.dtype.kind in "fiu" else np.array(np.nan)
    if given.shape not in ((), (components,)) or not ((given >= 0.0) & (given <= 1.0)).all():
        raise ValueError(
            f"{type(source).__name__}.lambda_t must give a number in [0, 1], or {components} of them, got {value!r}"
        )
    return np.broadcast_to(given, (components,))
