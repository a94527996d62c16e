"""Dynamics interface, used by the simulation, the exact solver and the Gymnasium classes.

An environment's dynamics are one `NamedTuple`: its fields are numbers and small arrays, its static methods are kernels
that read them. A new environment is a class with these methods; it needs no registration and no base class.

Conventions:
  * A state is int64[c], one whole number per component; component i takes the values 0..nvec[i] − 1.
  * Its id is the mixed-radix number of the components, with the last one fastest (`np.ravel_multi_index`).
  * The legal actions of a state are 0..legal − 1. Action 0 is the paper's a₁.
  * An episode has at most `horizon` transitions. If time is part of the state, every episode terminates in time.
    Dynamics whose states can recur (`TransitionTable`) define `time_limit`, after which episodes are truncated.
  * Random numbers come from a `Stream`; each random choice takes one uniform number, `uniform(rng)`.

Optional members:
  * `prepare(env, rng)`, a kernel: sample the parameters that an environment seed determines. Called once.
  * `miss(env, first_action, state)`, a kernel: whether an episode with this first action and last state counts as a
    miss. Without it none does.
  * `time_limit(env)`, a kernel: transitions after which an episode is truncated. Values bootstrap there.
  * `masks`, bool[m, A]: sets of legal actions other than the first n. Rows 0..A must be the first 0..A actions. Then
    `legal` returns the index of a row, and the kernel `only_action(env, row)` its only legal action, or −1.
  * `transition_lists()`: the index of the first outcome of each pair s·A + a, the sorted ids of the next states, and
    their probabilities. The true model needs it if the state components are not independent.
  * `starts`: start states with their probabilities, if `reset` is random.
  * `is_fixed`: true if `prepare` changes nothing, so that runs may share the arrays.
  * `one_loop`: true if one compiled loop should handle any number of actions and every bootstrap. Otherwise a loop is
    compiled for each bootstrap and each small number of actions.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from chunked_td._link import Stream, slot
from chunked_td.seeding import Draws

env_prepare, env_reset = slot("dynamics", "prepare", None), slot("dynamics", "reset")
env_step, env_legal = slot("dynamics", "step"), slot("dynamics", "legal")
env_miss, time_limit = slot("dynamics", "miss", False), slot("dynamics", "time_limit", -1)
only_action = slot("dynamics", "only_action", lambda env, choices: 0 if choices == 1 else -1)

#: (probability, next state, reward vector, terminated)
Outcome = tuple[float, tuple[int, ...], tuple[float, ...], bool]


@runtime_checkable
class Dynamics(Protocol):
    """Dynamics of one environment: a NamedTuple of parameters with static kernels.

    Every kernel takes the NamedTuple itself as `env`. `outcomes` is plain Python, independent of the kernels: exact
    dynamic programming uses it, and tests compare the kernels with it.
    """

    @property
    def nvec(self) -> tuple[int, ...]:
        """Number of values of each state component."""
        ...

    @property
    def n_actions(self) -> int:
        """Largest number of actions in any state."""
        ...

    @property
    def n_rewards(self) -> int:
        """Length d of the reward vector; 1 for a scalar reward."""
        ...

    @property
    def draws(self) -> int:
        """Largest number of uniform numbers that one call of `prepare`, `reset` or `step` takes."""
        ...

    @property
    def horizon(self) -> int:
        """Largest number of transitions in an episode."""
        ...

    @staticmethod
    def reset(env: Any, rng: Stream, state: np.ndarray) -> None:
        """Write a start state into `state`, int64[c]."""
        ...

    @staticmethod
    def step(env: Any, rng: Stream, state: np.ndarray, action: int, reward: np.ndarray) -> bool:
        """Advance `state` in place, write `reward`, float64[d], and return whether the episode has ended."""
        ...

    @staticmethod
    def legal(env: Any, state: np.ndarray) -> int:
        """Return the number of legal actions of `state`, which are 0..legal − 1."""
        ...

    @staticmethod
    def probability(env: Any, state: np.ndarray, action: int, next_state: np.ndarray, out: np.ndarray) -> None:
        """Write P(x'ⁱ | x, a) for every component i into `out`, float64[c]; their product is P(x' | x, a)."""
        ...

    def outcomes(self, state: tuple[int, ...], action: int) -> list[Outcome]:
        """Every possible transition of (state, action); the empty list in a terminal state."""
        ...


def begin_at_zero(env: Any, rng: Stream, state: np.ndarray) -> None:
    """`reset` of dynamics whose start state has all components 0."""
    state[:] = 0


def not_first_action(env: Any, first_action: int, state: np.ndarray) -> bool:
    """`miss` of dynamics in which the best first action is a₁."""
    return first_action != 0


D = TypeVar("D")


def legal_masks(env: Any) -> np.ndarray:
    """Sets of legal actions, indexed by `legal`, bool[m, A]: the first 0..A actions, unless `env` has `masks`."""
    given = getattr(env, "masks", None)
    return np.tril(np.ones((env.n_actions + 1, env.n_actions), bool), -1) if given is None else given


def start_states(env: Any) -> dict[tuple[int, ...], float]:
    """Start states with probabilities: the `starts` of `env` if it has them, else the state that `reset` writes."""
    if hasattr(env, "starts"):
        return {state: chance for chance, state in env.starts}
    state = np.zeros(len(env.nvec), dtype=np.int64)
    env.reset(env, Draws.of(np.random.SeedSequence(0)).stream, state)
    return {tuple(state.tolist()): 1.0}


def independent_copy(env: D) -> D:
    """Copy dynamics and their arrays, so that two runs can `prepare` independently; fixed dynamics are shared."""
    if getattr(env, "is_fixed", False):
        return env
    fields = [field.copy() if isinstance(field, np.ndarray) else field for field in env]  # type: ignore[attr-defined]
    return type(env)(*fields)
