"""A transition for λ sources that are plain Python.

@dataclass(frozen=True)
class HalfForward(LambdaSource):
    needs = Needs.OUTCOME | Needs.POLICY

    def lambda_t(self, step):
        return 0.5 * step.mixture()
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunked_td.bootstraps import STATE
from chunked_td.models.counts import FOLLOWING, TARGET, ForwardCounts, is_known, probability
from chunked_td.models.predictions import Predictions


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
    _percept: int
    _source: Any
    _model: Any  # ForwardCounts or Predictions, where the source needs one
    _table: np.ndarray  # float64[rows, d], of values

    def _counts(self) -> Any:
        """The counted pairs, and the row of (x, 0) among their origins."""
        if type(self._model) is not ForwardCounts:
            name = type(self._source).__name__
            raise ValueError(f"{name}.needs must have Needs.OUTCOME or Needs.OUTCOMES to ask for probabilities")
        return self._model.counts, self.state * self.policy.size

    def chances(self) -> np.ndarray:
        """float64[A]: P̂(x'|x,a) of what came, for every action a. Needs.OUTCOME."""
        if type(self._model) is Predictions:
            return self._model.chances.prod(axis=1)
        counts, row = self._counts()
        return np.array([probability(counts, row + a, self._percept) for a in range(self.policy.size)])

    def chance(self) -> float:
        """P̂(x'|x,a) of what came, for the action taken. Needs.OUTCOME."""
        return float(self.chances()[self.action])

    def mixture(self) -> float:
        """P̂^π(x'|x) = Σ_a π(a|x) P̂(x'|x,a), over the actions that the model knows. Needs.OUTCOME and Needs.POLICY."""
        return min(float(self.policy @ self.chances()) / self.tried(), 1.0)

    def tried(self) -> float:
        """Σ_a π(a|x) over the actions that the model knows: 1 once all were tried. Needs.POLICY."""
        if type(self._model) is Predictions:
            return 1.0
        counts, row = self._counts()
        known = np.array([is_known(counts, row + a) for a in range(self.policy.size)])
        return 1.0 if known[self.policy > 0.0].all() else float(self.policy[known].sum())

    def choice(self) -> float:
        """π(a'|x'); 1 on the last transition, where there is no a'."""
        return 1.0 if self.next_action is None else float(self.next_policy[self.next_action])

    def outcomes(self, action: int) -> Iterator[tuple[int, float]]:
        """Next states of (x_t, action) and their probabilities. Needs.OUTCOMES."""
        if type(self._model) is Predictions:
            part = slice(int(self._model.start[action]), int(self._model.start[action + 1]))
            return zip(self._model.targets[part].tolist(), self._model.weights[part].tolist(), strict=True)
        counts, row = self._counts()
        targets, pair = [], int(counts.head[row + action])
        while pair >= 0:
            targets.append(int(counts.pairs[pair, TARGET]))
            pair = int(counts.pairs[pair, FOLLOWING])
        return iter([(target, float(probability(counts, row + action, target))) for target in targets])

    def values(self, state: int) -> np.ndarray:
        """V(state), or Q(state, ·) of action-value learners, summed over reward components."""
        width = 1 if self.bootstrap == STATE else self.policy.size
        return self._table[state * width : (state + 1) * width].sum(axis=1)


def checked_lambda(source: Any, value: Any, components: int) -> np.ndarray:
    """What a source gave, as float64[d]; an error if it is no number in [0, 1] or not one per component."""
    given = np.asarray(value)
    given = given.astype(np.float64) if given.dtype.kind in "fiu" else np.array(np.nan)
    if given.shape not in ((), (components,)) or not ((given >= 0.0) & (given <= 1.0)).all():
        raise ValueError(
            f"{type(source).__name__}.lambda_t must give a number in [0, 1], or {components} of them, got {value!r}"
        )
    return np.broadcast_to(given, (components,))
