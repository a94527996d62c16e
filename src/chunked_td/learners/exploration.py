"""Exploration: policies on action values other than ε-greedy.

λ and the bootstrap of Expected-SARSA use the probabilities of the policy, so a learner estimates the values of the
policy that acts.

| class | policy |
|---|---|
| none | ε-greedy, with `epsilon` |
| `CountBonus` | ε-greedy on Q(a) + c/√n(s, a) |
| `GivenPolicy` | a table of probabilities; every method learns its values, from the same transitions |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np

from chunked_td._checks import check_numbers, check_positive
from chunked_td._link import is_kernel, kernel, tuple_class
from chunked_td._settings import KernelSettings
from chunked_td.bootstraps import Q_LEARNING, STATE
from chunked_td.learners.schedule import Schedule, check_schedule
from chunked_td.policies import optimistic_greedy, uniform_legal

EPSILON = 0.1
"""Default ε."""


@dataclass(frozen=True)
class Exploration(KernelSettings):
    """Base class of explorations: settings with kernels.

        probabilities(exploration, q, state, legal, rate, out)    writes π(·|state) to out, float64[A]
        count_action(exploration, state, action, n_actions)       optional: called after an action is chosen
        count_reward(exploration, reward, discount, first, last)  optional: called with each reward, float64[d], and
                                                                  whether the step is first or last in its episode

    `q` is float64[A, d], the values of the state's actions, one column per reward component; `legal` is bool[A]; `rate`
    is the value of a schedule in the current episode: ε, or the number that `rate_with` returns.

    Attributes:
      uses_epsilon: whether the learner's `epsilon` is part of the policy.
    """

    uses_epsilon: ClassVar[bool] = True

    def rate_with(self, epsilon: float | Schedule) -> float | Schedule:
        """Return the rate, a number or a schedule over episodes; by default ε."""
        return epsilon

    def unvisited(self, state: int, sizes: Mapping[str, int]) -> tuple[Any, int]:
        """Return the compiled form and the state id to use for a state without rows in the learner's tables."""
        return self.compiled(sizes), 0


@dataclass(frozen=True)
class CountBonus(Exploration):
    """ε-greedy on Q(s,a) + c/√n(s,a), where n(s,a) is the number of times the action was taken; untried actions first.

    The bonus changes the policy only: values contain no bonus. ε is the learner's `epsilon`. The form of the bonus is
    that of MBIE-EB (Strehl and Littman 2008).

    Args:
      scale: c, positive.
    """

    scale: float = 1.0

    arrays: ClassVar[Mapping[str, str]] = {"visits": "int64[rows] in [0, inf)"}

    checks: ClassVar = {"scale": check_positive}

    @kernel
    def probabilities(exploration, q, state, legal, rate, out):
        """π(·|state)."""
        A = legal.size
        visits = exploration.visits[state * A : (state + 1) * A]
        optimistic_greedy(q, visits, legal, exploration.scale, 0.0, rate, out)

    @kernel
    def count_action(exploration, state, action, n_actions):
        """n(state, action) += 1."""
        exploration.visits[state * n_actions + action] += 1


def _check_probabilities(name: str, value: Any) -> tuple[tuple[float, ...], ...]:
    """Check a table of probabilities, one row per state; a row may be all 0."""
    table = check_numbers(name, value, "probabilities, one row per state")
    if table.ndim != 2 or not table.size:
        raise ValueError(f"{name} must be float64[S, A], one row of probabilities per state, got shape {table.shape}")
    sums = table.sum(axis=1)
    wrong = ~(np.isclose(sums, 1.0, rtol=0.0, atol=1e-6) | (sums == 0.0)) | (table < 0).any(axis=1)
    if wrong.any():
        state = int(wrong.argmax())
        raise ValueError(
            f"{name} must have rows of probabilities that sum to 1, or of zeros, got {table[state].tolist()} for state "
            f"{state}"
        )
    return tuple(map(tuple, table.tolist()))


@dataclass(frozen=True, repr=False)
class GivenPolicy(Exploration):
    """Act by a table of probabilities, independent of the values; the learner estimates the values of that policy.

    Learners with the same seed then receive the same transitions. Illegal actions are excluded and the rest
    normalised. If no probability remains, and in states beyond the table, all legal actions are equally likely.

    Args:
      table: float64[S, A], π(a|s), with states numbered as by the learner's indexer; a row of zeros for a state in
        which no action is chosen.
    """

    table: Any

    uses_epsilon = False

    checks: ClassVar = {"table": _check_probabilities}

    def __repr__(self) -> str:
        """Return the size of the table and a digest of its numbers."""
        rows = self._rows
        return f"GivenPolicy(<{rows.shape[0]} × {rows.shape[1]}, {sha256(rows.tobytes()).hexdigest()[:16]}>)"

    @cached_property
    def _rows(self) -> np.ndarray:
        return np.array(self.table)

    def rate_with(self, epsilon: float | Schedule) -> float | Schedule:
        """Return 0: the policy has no rate."""
        return 0.0

    def compiled(self, sizes: Mapping[str, int]) -> Any:
        """The table."""
        if self._rows.shape[1] != sizes["A"]:
            raise ValueError(f"table must have a column for each of {sizes['A']} actions, got {self._rows.shape[1]}")
        return tuple_class("GivenPolicy", ("table",))(self._rows)

    def unvisited(self, state: int, sizes: Mapping[str, int]) -> tuple[Any, int]:
        """Return the table and the state itself: the table has rows for unvisited states."""
        return self.compiled(sizes), state

    @kernel
    def probabilities(exploration, q, state, legal, rate, out):
        """π(·|state)."""
        total = 0.0
        for a in range(legal.size):
            known = legal[a] and 0 <= state < exploration.table.shape[0]
            out[a] = exploration.table[state, a] if known else 0.0
            total += out[a]
        if total > 0.0:
            for a in range(legal.size):
                out[a] /= total
        else:
            uniform_legal(legal, out)


EXPLORATIONS: dict[str, type[Exploration]] = {cls.__name__: cls for cls in (CountBonus, GivenPolicy)}
"""Explorations by name, without ε-greedy."""


def check_exploration(
    value: Any, epsilon: Any, bootstrap: int, planner: Any = None
) -> tuple[Exploration | None, float | Schedule]:
    """Return the exploration (None is ε-greedy) and ε: 0.1 by default, 0 if the policy does not use it."""
    kernels = isinstance(value, Exploration) and is_kernel(getattr(type(value), "probabilities", None))
    if value is not None and not kernels:
        hint = f"; did you mean {value.__name__}(…)?" if isinstance(value, type) else ""
        raise ValueError(
            f"exploration must be None (ε-greedy), {', '.join(f'{name}(…)' for name in EXPLORATIONS)}, or an "
            f"Exploration of yours, got {value!r}{hint}"
        )
    if value is not None and bootstrap == STATE:
        raise ValueError(f"exploration requires action values, got {value!r}; for state-value learners pass policy=")
    if value is not None and getattr(planner, "greedy", False):
        raise ValueError(f"planner {planner!r} plans for the greedy policy: exploration must be None, got {value!r}")
    if value is not None and not value.uses_epsilon:
        if epsilon is not None:
            raise ValueError(f"epsilon is not used by {value!r}, got {epsilon!r}; leave it out")
        return value, 0.0
    checked = check_schedule("epsilon", EPSILON if epsilon is None else epsilon, positive=False)
    numbers = [number for _, number in checked.points] if isinstance(checked, Schedule) else [checked]
    if value is not None and bootstrap == Q_LEARNING and min(numbers) == 0.0:
        raise ValueError(f"epsilon must be above 0 for Q-learning with {value!r}, got {epsilon!r}")
    return value, checked
