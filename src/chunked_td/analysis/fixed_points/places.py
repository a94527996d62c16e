"""Where an episode can be: states, with what λ remembers of the way to them, and every transition between them.

A place is a state together with a memory. A λ that depends on the transition alone needs none, and places are states.
A node is a place and the action taken there; nodes are numbered place·A + a.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from chunked_td.analysis.fixed_points.problem import Problem
from chunked_td.envs.dynamics import TransitionTable

_MOST_PLACES = 20_000

_MOST_NUMBERS = 150_000_000  # of a dense matrix

SURVIVING = 1e-12
"""Episodes that are cut less often than this are taken to end by themselves."""

START = -1
"""Stands for the state before the first one."""


class Places(NamedTuple):
    """Every place that an episode can be in. Outcomes of a node are numbered first[node] .. first[node + 1] − 1."""

    state: np.ndarray  # int64[P]
    previous: np.ndarray  # int64[P], x_{t−1}·A + a_{t−1}, a_{t−1} being 0 where it is not remembered; or START
    left: np.ndarray  # bool[P], whether the episode has left the state before
    first: np.ndarray  # int64[P·A + 1]
    outcome: np.ndarray  # int64[M], numbers of the table
    target: np.ndarray  # int64[M], the place that it leads to; −1 where the episode ends
    start: np.ndarray  # float64[P], the chance to begin there

    @classmethod
    def without_memory(cls, table: TransitionTable) -> Places:
        """Places are states."""
        states, start = np.arange(table.n_states), np.bincount(table.start, table.start_chance, table.n_states)
        nothing = np.full(states.size, START), np.zeros(states.size, bool)
        return cls(states, *nothing, table.first, np.arange(table.target.size), table.target, start)

    @classmethod
    def after_pairs(cls, problem: Problem, *, actions: bool) -> Places:
        """Remember the previous state, or (`actions`) the previous pair."""
        A = problem.table.n_actions
        return _find(problem, lambda memory, s, a, x: (s * A + a * actions, frozenset()))

    @classmethod
    def after_ways(cls, problem: Problem) -> Places:
        """Remember the previous state, and which of the states left before can be met again."""
        A, reach = problem.table.n_actions, _reachable(problem)
        return _find(problem, lambda memory, s, a, x: (s * A, (memory[1] | {s}) & reach[x]))


_Memory = tuple[int, frozenset[int]]


def _find(problem: Problem, remember: Callable[[_Memory, int, int, int], _Memory]) -> Places:
    """All places, breadth first. `remember(memory, x, a, x')` is the memory after a transition."""
    table, A = problem.table, problem.table.n_actions
    beginning: _Memory = (START, frozenset())
    place: dict[tuple[int, _Memory], int] = {
        (s, beginning): i for i, s in enumerate(dict.fromkeys(table.start.tolist()))
    }
    found, first, outcome, target = list(place), [0], [], []
    goes_to, ends, pairs = table.target.tolist(), table.ends.tolist(), table.first.tolist()
    for s, memory in found:  # grows as we go
        for a in range(A):
            for k in range(pairs[s * A + a], pairs[s * A + a + 1]) if problem.policy[s, a] > 0 else ():
                outcome.append(k)
                key = None if ends[k] else (goes_to[k], remember(memory, s, a, goes_to[k]))
                if key is not None and key not in place:
                    place[key] = len(found)
                    found.append(key)
                target.append(-1 if key is None else place[key])
            first.append(len(outcome))
        if len(found) > _MOST_PLACES:
            raise ValueError(
                f"problem must have at most {_MOST_PLACES:,} states and ways to them for a λ that depends on the way, "
                f"got more; problems in which no state returns have the fewest"
            )
    start = np.zeros(len(found))
    for s, chance in zip(table.start.tolist(), table.start_chance.tolist(), strict=True):
        start[place[s, beginning]] += chance
    return Places(
        np.array([s for s, _ in found], np.int64),
        np.array([memory[0] for _, memory in found], np.int64),
        np.array([s in memory[1] for s, memory in found]),
        np.array(first, np.int64),
        np.array(outcome, np.int64),
        np.array(target, np.int64),
        start,
    )


def _reachable(problem: Problem) -> list[frozenset[int]]:
    """The states that can come after each state, itself among them."""
    table, S = problem.table, problem.table.n_states
    pair = np.repeat(np.arange(table.first.size - 1), np.diff(table.first))
    used = (problem.policy.ravel() > 0)[pair] & ~table.ends
    reach = np.eye(S, dtype=bool)
    direct = np.zeros((S, S), bool)
    direct[pair[used] // table.n_actions, table.target[used]] = True
    while True:
        more = reach | (direct.astype(np.float32) @ reach.astype(np.float32) > 0)
        if (more == reach).all():
            return [frozenset(np.flatnonzero(row).tolist()) for row in reach]
        reach = more


class Moves(NamedTuple):
    """Everything that a step can do: one entry per node, outcome and next action."""

    node: np.ndarray
    later: np.ndarray  # the next node, −1 on the last transition
    state: np.ndarray
    action: np.ndarray
    next_state: np.ndarray
    next_action: np.ndarray  # −1 on the last transition
    ended: np.ndarray  # whether it terminated the episode
    reward: np.ndarray  # float64[n, d]
    chance: np.ndarray  # P(outcome|x, a) π(a'|x')

    @classmethod
    def make(cls, problem: Problem, places: Places, *, cut: bool = False) -> Moves:
        """All transitions; with `cut` those of the step at which an episode is cut, where no a' is drawn."""
        table, A = problem.table, problem.table.n_actions
        policy = problem.policy[places.state]
        node = np.repeat(np.arange(places.first.size - 1), np.diff(places.first))
        j = np.flatnonzero((policy.ravel() > 0)[node])
        last = table.ends[places.outcome[j]] | cut
        going = j[~last]
        row, action = np.nonzero(policy[places.target[going]] > 0)
        entry = np.concatenate([j[last], going[row]])
        following = np.concatenate([np.full(last.sum(), -1), action])
        outcome, ahead = places.outcome[entry], places.target[entry]
        chance, later = table.chance[outcome], following >= 0
        chance[later] *= policy[ahead[later], following[later]]
        return cls(
            node[entry], np.where(later, ahead * A + following, -1), places.state[node[entry] // A], node[entry] % A,
            table.target[outcome], following, table.ends[outcome], table.reward[outcome], chance,
        )  # fmt: skip


class Chain(NamedTuple):
    """The episodes of a problem as a Markov chain of nodes."""

    problem: Problem
    places: Places
    going: Moves
    cut: Moves
    row: np.ndarray  # int64[N], the row of each node
    visits: np.ndarray  # float64[N], expected visits per episode
    occupied: np.ndarray | None  # float64[T, N], P(node at t) where episodes may be cut; None if hardly any is

    @classmethod
    def make(cls, problem: Problem, places: Places) -> Chain:
        """Follow the policy through all places."""
        A, nodes = problem.table.n_actions, places.state.size * problem.table.n_actions
        if nodes * problem.n_rows > _MOST_NUMBERS:
            raise ValueError(
                f"problem must have at most {_MOST_NUMBERS:,} pairs of a row of values and a way to an action, "
                f"got {problem.n_rows:,} × {nodes:,}"
            )
        going, cut = Moves.make(problem, places), Moves.make(problem, places, cut=True)
        state = np.repeat(places.state, A)
        begin = (places.start[:, None] * problem.policy[places.state]).ravel()
        move = _moves(going, begin.size)
        occupied = _occupancy(begin, move, problem.table.horizon)
        visits = _total_visits(begin, move) if occupied is None else occupied.sum(axis=0)
        if occupied is not None and occupied[-1].sum() <= SURVIVING:
            occupied = None
        row = problem.rows(state, np.arange(nodes) % A)
        return cls(problem, places, going, cut, row, visits, occupied)

    @property
    def cut_visits(self) -> np.ndarray:
        """float64[N]: how likely the last transition of an episode is one that leaves a node and is cut."""
        return np.zeros(self.visits.size) if self.occupied is None else self.occupied[-1]


def _moves(going: Moves, nodes: int) -> Any:
    from scipy import sparse

    j = np.flatnonzero(going.later >= 0)
    return sparse.csr_array((going.chance[j], (going.node[j], going.later[j])), (nodes, nodes))


def _occupancy(begin: np.ndarray, move: Any, horizon: int, most: int = 20_000) -> np.ndarray | None:
    """P(node at t) for t = 0 .. T − 1, float64[T, N]; shorter if all episodes end before, None if it were too long."""
    now, found = begin, []
    for _ in range(horizon):
        if len(found) * now.size > 50_000_000 or len(found) > most:
            return None
        found.append(now)
        if now.sum() <= SURVIVING:
            break
        now = now @ move
    return np.array(found)


def _total_visits(begin: np.ndarray, move: Any) -> np.ndarray:
    """Expected visits of every node where episodes are not cut: d = d₀ + dP."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    return splu(sparse.csc_array(sparse.eye_array(begin.size) - move.T)).solve(begin)
