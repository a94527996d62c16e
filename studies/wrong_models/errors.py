"""The three wrong models: the next states that a count model is shown instead of the sampled ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from chunked_td import kernel
from chunked_td._checks import check_probability, check_seed, check_whole
from chunked_td.models.errors import ModelError


def wrong_states(states: int, seed: int, among: tuple[int, ...] | None) -> np.ndarray:
    """int64[S]: for every state another one that stands for it, one to one: a random cycle through `among`, or all."""
    chosen = np.arange(states) if among is None else np.array(among, np.int64)
    if chosen.size and not (chosen.min() >= 0 and chosen.max() < states):
        raise ValueError(f"states must be ids in 0..{states - 1}, got {among!r}")
    order = np.random.default_rng(seed).permutation(chosen)
    wrong = np.arange(states)
    wrong[order] = np.roll(order, 1)
    return wrong


def _check_seed(_: str, seed: Any) -> int:
    return check_seed(seed)


def _check_states(_: str, among: Any) -> tuple[int, ...] | None:
    if among is None:
        return None
    given = tuple(check_whole("states", s, 0) for s in among)
    if len(set(given)) < max(len(given), 2):
        raise ValueError(f"states must be two or more different state ids, got {among!r}")
    return given


@dataclass(frozen=True)
class CorruptedModel(ModelError):
    """Counts in which a fraction of the probability of every (s, a) lies on wrong states.

        P̃(s'|s,a) = (1 − f) P̂(s'|s,a) + f P̂(w⁻¹(s')|s,a)

    w takes every state to a wrong one, one to one. Which visits of (s, a) are misread is fixed by the seed: of n visits
    it is f·n, up to one.

    Args:
      fraction: f.
      seed: of w and of the visits.
      states: ids of the states that are mistaken for each other; all by default.
    """

    fraction: float
    seed: int = 0
    states: tuple[int, ...] | None = None

    arrays: ClassVar[Mapping[str, str]] = {"visits": "int64[S, A] in [0, inf)"}
    checks: ClassVar = {"fraction": check_probability, "seed": _check_seed, "states": _check_states}

    def make_arrays(self, states: int, n_actions: int) -> Mapping[str, np.ndarray]:
        """w, and where the count of misread visits of each (s, a) begins."""
        rows = states * n_actions
        offset = np.random.default_rng([self.seed, 1]).random(rows)
        wrong = wrong_states(states, self.seed, self.states)
        return {"wrong": wrong, "offset": offset}

    @kernel
    def misread(error, step):
        """The wrong state at every 1/f-th visit."""
        row = step.state * step.n_actions + step.action
        n = error.visits[step.state, step.action]
        error.visits[step.state, step.action] = n + 1
        before, after = n * error.fraction + error.offset[row], (n + 1) * error.fraction + error.offset[row]
        error.seen[0] = error.wrong[step.next_state] if int(after) > int(before) else step.next_state
        return error.seen[0]


@dataclass(frozen=True)
class PermutedModel(ModelError):
    """Counts in which the next states of a share of all (s, a) are permuted: w(s') is seen whenever s' comes.

    Args:
      share: of (s, a) whose next states are permuted, drawn once.
      seed: of the permutation and of the (s, a).
      states: ids of the states that are permuted; all by default.
    """

    share: float
    seed: int = 0
    states: tuple[int, ...] | None = None

    checks: ClassVar = {"share": check_probability, "seed": _check_seed, "states": _check_states}

    def make_arrays(self, states: int, n_actions: int) -> Mapping[str, np.ndarray]:
        """The permutation, and which (s, a) it holds for."""
        permuted = np.random.default_rng([self.seed, 1]).random(states * n_actions) < self.share
        return {"wrong": wrong_states(states, self.seed, self.states), "permuted": permuted}

    @kernel
    def misread(error, step):
        """The permuted state, from a permuted (s, a)."""
        row = step.state * step.n_actions + step.action
        error.seen[0] = error.wrong[step.next_state] if error.permuted[row] else step.next_state
        return error.seen[0]


@dataclass(frozen=True)
class StaleModel(ModelError):
    """Counts that are frozen after some episodes: correct for the environment and the transitions up to then.

    Args:
      until: how many episodes are counted.
    """

    needs_states = False

    until: int

    arrays: ClassVar[Mapping[str, str]] = {"episodes": "int64[1] in [0, inf)"}
    checks: ClassVar = {"until": partial(check_whole, least=0)}

    @kernel
    def misread(error, step):
        """The true state, or −1 once enough was seen."""
        if step.previous < 0:
            error.episodes[0] += 1
        error.seen[0] = step.next_state if error.episodes[0] <= error.until else -1
        return error.seen[0]
