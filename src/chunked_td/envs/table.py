"""Transition tables: any finite problem as arrays, in one compiled class.

A table lists the outcomes of every state and action: probability, next state, reward, and termination. Sizes are not
part of the compiled type. So one loop per learner, λ source, model and view serves every table with the same number of
state components and rewards.

    table = TransitionTable.from_env("FrozenLake-v1")
    table = TransitionTable.from_outcomes(P, starts=0, horizon=100)
    table = TransitionTable.from_arrays(P, R, terminal=[15], starts=0, horizon=100)
    table = TransitionTable.from_dynamics(dynamics)

All numbers are checked when a table is made (`table_building`), so compiled code never reads outside an array. Outcomes
are sampled by Walker's alias method: one uniform number and two reads for any number of outcomes. A single outcome
takes no random number.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from chunked_td._checks import check_whole
from chunked_td._link import kernel
from chunked_td.envs import table_building as building
from chunked_td.envs.protocol import Dynamics, Outcome
from chunked_td.seeding import Stream, uniform

if TYPE_CHECKING:
    from chunked_td.envs.face import DynamicsEnv


class _Arrays(NamedTuple):
    """Arrays of a table for compiled code. The outcomes of (s, a) are first[s·A + a] .. first[s·A + a + 1] − 1."""

    sizes: Annotated[np.ndarray, "int64[c]"]  # nvec
    first: Annotated[np.ndarray, "int64[pairs]"]
    chance: Annotated[np.ndarray, "float64[n]"]
    target: Annotated[np.ndarray, "int64[n]"]
    reward: Annotated[np.ndarray, "float64[n, d]"]
    ends: Annotated[np.ndarray, "bool[n]"]
    accept: Annotated[np.ndarray, "float64[n]"]  # alias method: keep outcome k with this probability,
    alias: Annotated[np.ndarray, "int64[n]"]  # else take this one
    choices: Annotated[np.ndarray, "int64[S]"]  # row of `masks` of a state
    masks: Annotated[np.ndarray, "bool[m, A]"]  # sets of legal actions; rows 0..A are the first 0..A actions
    only: Annotated[np.ndarray, "int64[m]"]  # the one legal action of a row of `masks`, or −1
    start: Annotated[np.ndarray, "int64[b]"]
    start_chance: Annotated[np.ndarray, "float64[b]"]
    start_accept: Annotated[np.ndarray, "float64[b]"]
    start_alias: Annotated[np.ndarray, "int64[b]"]
    bad_first: Annotated[np.ndarray, "bool[A]"]  # first actions that make an episode a miss
    bad_end: Annotated[np.ndarray, "bool[S]"]  # last states that make an episode a miss
    limit: int  # transitions after which an episode is truncated


class TransitionTable(_Arrays):
    """Dynamics of any finite problem. Build with `from_env`, `from_outcomes`, `from_arrays` or `from_dynamics`.

    A table is accepted as dynamics: `simulate(table, …)`, `ExactModel(table)`. `table.env()` is for Gymnasium.

    Shared arguments of the constructors:
      starts: start states: a state, several equally likely states, a probability per state (float64[S]), or a dict
        from state to probability.
      horizon: transitions after which an episode is truncated; values bootstrap there, since a truncated episode has
        not terminated. Default: the longest possible episode; required if states can recur.
      nvec: sizes of the state components, with product S: the components of state s are `np.unravel_index(s, nvec)`.
        Factored λ sources need it. Default: one component.
      legal: legal actions: the number n of the first ones, int64[S], or a mask, bool[S, A]. Default: the actions that
        have outcomes.
      names: names of the states; any objects, one per state.
      bad_first: first actions, and bad_end: last states, that make an episode a miss. `simulate` counts misses.
    """

    names: Sequence[Hashable] | None = None

    # ---- making tables

    @classmethod
    def from_outcomes(
        cls,
        outcomes: Mapping[int, Any] | Sequence[Any] | Callable[[Any, int], Iterable[Sequence[Any]]],
        *,
        starts: Any,
        horizon: int | None = None,
        n_actions: int | None = None,
        nvec: Sequence[int] | None = None,
        legal: Any = None,
        names: Sequence[Hashable] | None = None,
        bad_first: Iterable[int] = (),
        bad_end: Iterable[Any] = (),
    ) -> TransitionTable:
        """Make a table from lists of outcomes, in the form of `env.unwrapped.P` in Gymnasium's toy-text environments.

        Args:
          outcomes: `P[s][a] = [(probability, next state, reward, terminated), …]`, dicts or lists, states and actions
            numbered from 0. Or a function from (state, action) to such a list, for states that are any hashable
            objects. Breadth-first search finds the reachable states, which become `names`; an empty list means that
            the action is illegal. A function requires `n_actions`.
        """
        if callable(outcomes):
            if n_actions is None:
                raise ValueError("n_actions must be given with a function `outcomes`, got None")
            found = building.enumerate_states(outcomes, starts, check_whole("n_actions", n_actions, 1))
            outcomes, starts, names = found.outcomes, found.starts, found.states
            bad_end = [found.number[state] for state in bad_end if state in found.number]
        lists = building.Lists.from_nested(outcomes, n_actions)
        return cls._from_lists(lists, starts, horizon, nvec, legal, names, bad_first, bad_end)

    @classmethod
    def from_arrays(
        cls,
        P: Any,
        R: Any,
        *,
        starts: Any,
        terminal: Any = (),
        horizon: int | None = None,
        nvec: Sequence[int] | None = None,
        legal: Any = None,
        names: Sequence[Hashable] | None = None,
        bad_first: Iterable[int] = (),
        bad_end: Iterable[int] = (),
    ) -> TransitionTable:
        """Make a table from dense arrays.

        Args:
          P: float64[S, A, S'], P(s' | s, a); a row of zeros is an illegal action.
          R: float64[S, A, S'], float64[S, A] or float64[S']: the reward; float64[S, A, S', d] for a reward vector.
          terminal: terminal states (numbers, or bool[S]); entering one terminates the episode.
        """
        lists = building.Lists.from_dense(P, R, terminal)
        return cls._from_lists(lists, starts, horizon, nvec, legal, names, bad_first, bad_end)

    @classmethod
    def from_dynamics(cls, dynamics: Dynamics, *, starts: Any = None, horizon: int | None = None) -> TransitionTable:
        """Make a table from the `outcomes` of other, prepared dynamics. States keep their ids and components.

        The definition of a miss is not copied: `misses` are 0.
        """
        lists, found = building.from_dynamics(dynamics, starts)
        return cls._from_lists(lists, found, dynamics.horizon if horizon is None else horizon, dynamics.nvec)

    @classmethod
    def from_env(cls, env: Any, *, horizon: int | None = None, starts: Any = None, **keywords: Any) -> TransitionTable:
        """Make a table from a Gymnasium environment that publishes its transitions, such as FrozenLake or Taxi.

        Args:
          env: an environment or its id. It must have `env.unwrapped.P` and, unless `starts` is given,
            `env.unwrapped.initial_state_distrib`.
          horizon: Default: the limit that `gymnasium.make` sets, if it sets one.
          keywords: `nvec`, `legal`, `names`, `bad_first`, `bad_end`.
        """
        from chunked_td.envs.compiled import published

        return cls.from_outcomes(**published(env, starts, horizon), **keywords)

    @classmethod
    def _from_lists(
        cls, lists: building.Lists, starts: Any, horizon: Any, nvec: Any = None, legal: Any = None, names: Any = None,
        bad_first: Any = (), bad_end: Any = (),
    ) -> TransitionTable:  # fmt: skip
        """Check everything and assemble the arrays."""
        S, A = lists.states, lists.actions
        masks, choices, only = building.legal_sets(lists, legal)
        start, start_chance = building.check_starts(starts, S)
        made = cls(
            building.check_nvec(nvec, S),
            *lists[2:],
            *building.alias_tables(lists.first, lists.chance),
            *(choices, masks, only),
            *(start, start_chance),
            *building.alias_tables(np.array([0, start.size]), start_chance),
            building.flags("bad_first", bad_first, A, "action"),
            building.flags("bad_end", bad_end, S, "state"),
            limit=building.check_horizon(lists, masks[choices], start, horizon),
        )
        if names is not None:
            made.names = list(names)
            if len(made.names) != S:
                raise ValueError(f"names must have one entry per state, {S}, got {len(made.names)}")
        return made

    # ---- the dynamics interface

    is_fixed = True  # there is nothing to `prepare`, so runs may share the arrays
    one_loop = True  # one compiled loop serves tables with any number of actions, and every bootstrap

    @property
    def nvec(self) -> tuple[int, ...]:
        """Number of values of each state component."""
        return tuple(self.sizes.tolist())

    @property
    def n_states(self) -> int:
        """S."""
        return self.choices.size

    @property
    def n_actions(self) -> int:
        """A, the largest number of actions in any state."""
        return self.bad_first.size

    @property
    def n_rewards(self) -> int:
        """Length of the reward vector."""
        return self.reward.shape[1]

    draws = 1  # a start state or an outcome takes one number

    @property
    def horizon(self) -> int:
        """Transitions after which an episode is truncated."""
        return self.limit

    @property
    def starts(self) -> list[tuple[float, tuple[int, ...]]]:
        """Start states with their probabilities."""
        return [(p, self.components(s)) for p, s in zip(self.start_chance.tolist(), self.start.tolist(), strict=True)]

    @property
    def legal_actions(self) -> np.ndarray:
        """Legal actions of every state, bool[S, A]."""
        return self.masks[self.choices]

    def components(self, state: int) -> tuple[int, ...]:
        """Components of the state with this id."""
        return tuple(int(x) for x in np.unravel_index(state, self.nvec))

    def outcomes(self, state: tuple[int, ...], action: int) -> list[Outcome]:
        """List the possible outcomes of `action` in `state`."""
        pair = int(np.ravel_multi_index(tuple(state), self.nvec)) * self.n_actions + action
        return [
            (float(self.chance[k]), self.components(self.target[k]), tuple(self.reward[k].tolist()), bool(self.ends[k]))
            for k in range(self.first[pair], self.first[pair + 1])
        ]

    def transition_lists(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Index of the first outcome of each pair, next states, and their probabilities."""
        return self.first, self.target, self.chance

    def env(self, *, render_mode: str | None = None) -> DynamicsEnv:
        """Gymnasium environment with this table's dynamics; one seed gives the same episodes as in the simulation."""
        from chunked_td.envs.face import DynamicsEnv

        return DynamicsEnv(self, render_mode=render_mode)

    def __repr__(self) -> str:
        return (
            f"TransitionTable(states={self.n_states}, actions={self.n_actions}, outcomes={self.chance.size}, "
            f"horizon={self.limit})"
        )

    # ---- kernels

    @kernel
    def reset(env: Any, rng: Stream, state: np.ndarray) -> None:
        """Draw a start state."""
        write_components(env, env.start[draw_outcome(rng, env.start_accept, env.start_alias, 0, env.start.size)], state)

    @kernel
    def step(env: Any, rng: Stream, state: np.ndarray, action: int, reward: np.ndarray) -> bool:
        """Draw an outcome of (state, action). An illegal action ends the episode in the same state."""
        pair = read_components(env, state) * env.masks.shape[1] + action
        first, end = env.first[pair], env.first[pair + 1]
        if first == end:
            for i in range(reward.size):
                reward[i] = 0.0
            return True
        k = draw_outcome(rng, env.accept, env.alias, first, end)
        for i in range(reward.size):
            reward[i] = env.reward[k, i]
        write_components(env, env.target[k], state)
        return env.ends[k]

    @kernel
    def legal(env: Any, state: np.ndarray) -> int:
        """Row of `masks` of `state`; up to A it is the number of legal actions."""
        return env.choices[read_components(env, state)]

    @kernel
    def only_action(env: Any, choices: int) -> int:
        """The only legal action, or −1."""
        return env.only[choices]

    @kernel
    def time_limit(env: Any) -> int:
        """Transitions after which an episode is truncated."""
        return env.limit

    @kernel
    def miss(env: Any, first_action: int, state: np.ndarray) -> bool:
        """Whether the first action or the last state makes the episode a miss."""
        return env.bad_first[first_action] or env.bad_end[read_components(env, state)]

    @kernel
    def probability(env: Any, state: np.ndarray, action: int, next_state: np.ndarray, out: np.ndarray) -> None:
        """Write P(x'^i | x, a) for every component i; components need not be independent (see `TableOracle`)."""
        pair = read_components(env, state) * env.masks.shape[1] + action
        for j in range(out.size):
            out[j] = 0.0
        for k in range(env.first[pair], env.first[pair + 1]):
            left = env.target[k]
            for j in range(out.size - 1, -1, -1):
                if left % env.sizes[j] == next_state[j]:
                    out[j] += env.chance[k]
                left //= env.sizes[j]


def draw_outcome(rng, accept, alias, first, end):
    """Sample one of first..end−1 by the alias method; a single outcome takes no random number."""
    if end - first == 1:
        return first
    place = uniform(rng) * (end - first)
    k = min(int(place), end - first - 1)
    return first + k if place - k < accept[first + k] else alias[first + k]


def read_components(env, state):
    """Id of the state with these components."""
    number = state[0]
    for j in range(1, state.size):
        number = number * env.sizes[j] + state[j]
    return number


def write_components(env, number, state):
    """Write the components of the state with this id into `state`."""
    left = number
    for j in range(state.size - 1, 0, -1):
        state[j] = left % env.sizes[j]
        left //= env.sizes[j]
    state[0] = left
