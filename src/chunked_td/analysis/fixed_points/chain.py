"""A finite problem under a fixed policy as a Markov chain: where an episode can be, and every transition from there.

A place is a state together with what λ remembers of the way to it. A λ that depends on the transition alone needs no
memory, and places are states. A node is a place and the action taken there; nodes are numbered place·A + a.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from chunked_td._checks import check_choice, check_numbers, check_unit
from chunked_td.analysis.exact import ExactModel, check_policy, epsilon_greedy
from chunked_td.bootstraps import BOOTSTRAPS, Q_LEARNING, STATE
from chunked_td.envs.dynamics import Dynamics, TransitionTable

LEARNERS = tuple(BOOTSTRAPS)
"""Learners by name, as in `simulate`."""

_MOST_PAIRS = 12_000  # dense matrices of this size fit into memory
_MOST_NUMBERS = 150_000_000  # of a dense matrix
_MOST_PLACES = 20_000
_TIE = 1e-10  # values of the best actions that differ by less are taken for equal
_SURVIVING = 1e-12  # episodes that are cut less often than this are taken to end by themselves
_START = -1  # stands for the state before the first one


class Problem(NamedTuple):
    """A table, the policy that acts in it, and how the learner bootstraps."""

    table: TransitionTable
    policy: np.ndarray  # float64[S, A]
    epsilon: float  # of the policy if it is ε-greedy, else NaN
    bootstrap: int
    discount: float

    @classmethod
    def make(cls, problem: Dynamics, learner: str, discount: Any, policy: Any, values: Any, epsilon: Any) -> Problem:
        """Check what was given; see `fixed_point`."""
        table = problem if isinstance(problem, TransitionTable) else TransitionTable.from_dynamics(problem)
        bootstrap = BOOTSTRAPS[check_choice("learner", learner, LEARNERS)]
        discount = check_unit("discount", discount)
        if table.n_states * table.n_actions > _MOST_PAIRS:
            raise ValueError(
                f"problem must have at most {_MOST_PAIRS:,} pairs of state and action, "
                f"got {table.n_states:,} × {table.n_actions}"
            )
        return cls(table, *_policy(table, policy, values, epsilon), bootstrap, discount)

    @property
    def n_rows(self) -> int:
        """Of the table of values."""
        return self.table.n_states if self.bootstrap == STATE else self.policy.size

    def rows(self, state: np.ndarray, action: np.ndarray) -> np.ndarray:
        """The rows of pairs."""
        return state if self.bootstrap == STATE else state * self.table.n_actions + action

    def true_values(self) -> np.ndarray:
        """V^π, Q^π or, for Q-learning, Q*: float64[rows, d]; zero in rows that cannot be reached."""
        model = ExactModel(self.table)
        if self.bootstrap == Q_LEARNING:
            exact = model.optimal(self.discount)
        else:
            exact = model.evaluate(self.policy[model.ids], self.discount)
        if self.bootstrap != STATE:
            return exact.table().reshape(-1, self.table.n_rewards)
        v = np.zeros((self.table.n_states, self.table.n_rewards))
        v[model.ids] = exact.v
        return v

    def ahead(self, values: np.ndarray) -> np.ndarray:
        """The policy in the bootstrap, float64[S, A]: that which acts, or the best action of Q-learning.

        Args:
          values: float64[rows, d]. The best action is the first that the policy may take.
        """
        if self.bootstrap != Q_LEARNING:
            return self.policy
        total = np.where(self.policy > 0, values.sum(axis=1).reshape(self.policy.shape), -np.inf)
        highest = total.max(axis=1, keepdims=True)
        slack = _TIE * max(1.0, np.abs(total[np.isfinite(total)]).max(initial=0.0))
        best = np.argmax(total >= highest - slack, axis=1)
        return np.eye(self.policy.shape[1])[best] * (self.policy > 0)


def _policy(table: TransitionTable, policy: Any, values: Any, epsilon: Any) -> tuple[np.ndarray, float]:
    """float64[S, A], and ε if it is ε-greedy, else NaN."""
    legal = table.legal_actions
    if (values is None) != (epsilon is None):
        raise ValueError("values and epsilon must be given together")
    if values is not None:
        epsilon = check_unit("epsilon", epsilon)
        q = check_numbers("values", values, "one per state and action")
        if q.shape != legal.shape:
            raise ValueError(f"values must have the shape {legal.shape}, got {q.shape}")
        if not np.isfinite(q[legal]).all():
            raise ValueError(f"values must be finite where an action is legal, got {q!r}")
        return epsilon_greedy(q, legal, epsilon, 0.0), epsilon
    if isinstance(policy, str):
        check_choice("policy", policy, ["uniform"])
        return legal / np.maximum(legal.sum(axis=1, keepdims=True), 1), 1.0
    return check_policy(policy, legal), np.nan


class Places(NamedTuple):
    """Every place that an episode can be in. Outcomes of a node are numbered first[node] .. first[node + 1] − 1."""

    state: np.ndarray  # int64[P]
    previous: np.ndarray  # int64[P], x_{t−1}·A + a_{t−1}, a_{t−1} being 0 if it is not remembered; or −1
    first: np.ndarray  # int64[P·A + 1]
    outcome: np.ndarray  # int64[M], numbers of the table
    target: np.ndarray  # int64[M], the place that it leads to; −1 where the episode ends
    start: np.ndarray  # float64[P], the chance to begin there

    @classmethod
    def without_memory(cls, table: TransitionTable) -> Places:
        """Places are states."""
        states, start = np.arange(table.n_states), np.bincount(table.start, table.start_chance, table.n_states)
        nothing = np.full(states.size, _START)
        return cls(states, nothing, table.first, np.arange(table.target.size), table.target, start)

    @classmethod
    def after_pairs(cls, problem: Problem, *, actions: bool) -> Places:
        """Remember the previous state, or (`actions`) the previous pair."""
        A = problem.table.n_actions
        return _find(problem, lambda s, a: s * A + a * actions)


def _find(problem: Problem, remember: Callable[[int, int], int]) -> Places:
    """All places, breadth first. `remember(x, a)` is what is remembered of a transition."""
    table, A = problem.table, problem.table.n_actions
    place = {(s, _START): i for i, s in enumerate(dict.fromkeys(table.start.tolist()))}
    found, first, outcome, target = list(place), [0], [], []
    goes_to, ends, pairs = table.target.tolist(), table.ends.tolist(), table.first.tolist()
    for s, _ in found:  # grows as we go
        for a in range(A):
            for k in range(pairs[s * A + a], pairs[s * A + a + 1]) if problem.policy[s, a] > 0 else ():
                outcome.append(k)
                key = None if ends[k] else (goes_to[k], remember(s, a))
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
        start[place[s, _START]] += chance
    return Places(
        np.array([s for s, _ in found], np.int64),
        np.array([previous for _, previous in found], np.int64),
        np.array(first, np.int64),
        np.array(outcome, np.int64),
        np.array(target, np.int64),
        start,
    )


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
        """All transitions; with `cut` only truncating ones, at which no a' is drawn."""
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

    def matrix(self, weight: np.ndarray, nodes: int) -> Any:
        """Sparse, nodes × nodes: the `weight` of every transition from one node to the next."""
        from scipy import sparse

        j = np.flatnonzero(self.later >= 0)
        return sparse.csr_array((weight[j], (self.node[j], self.later[j])), (nodes, nodes))


class Chain(NamedTuple):
    """The episodes of a problem as a Markov chain of nodes."""

    problem: Problem
    places: Places
    going: Moves
    cut: Moves
    row: np.ndarray  # int64[N], the row of each node
    visits: np.ndarray  # float64[N], expected visits per episode
    occupied: np.ndarray | None  # float64[T, N], P(node at t) if episodes may be truncated; None if almost none is

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
        begin = (places.start[:, None] * problem.policy[places.state]).ravel()
        occupied, visits = _visits(begin, going.matrix(going.chance, nodes), problem.table.horizon)
        row = problem.rows(np.repeat(places.state, A), np.arange(nodes) % A)
        return cls(problem, places, going, cut, row, visits, occupied)

    @property
    def to_rows(self) -> Any:
        """Sparse, rows × nodes: sums over the nodes of each row."""
        from scipy import sparse

        nodes = self.row.size
        return sparse.csr_array((np.ones(nodes), (self.row, np.arange(nodes))), (self.problem.n_rows, nodes))

    @property
    def cut_visits(self) -> np.ndarray:
        """float64[N]: how likely the last transition of an episode is one that leaves a node and is cut."""
        return np.zeros(self.visits.size) if self.occupied is None else self.occupied[-1]


def _visits(begin: np.ndarray, move: Any, horizon: int) -> tuple[np.ndarray | None, np.ndarray]:
    """P(node at t) for t < T, or None if almost no episode is truncated or T is too large; and expected visits."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    now, found = begin, []
    for _ in range(horizon):
        if len(found) * now.size > 50_000_000 or len(found) > 20_000:  # d = d₀ + dP, as if no episode were cut
            try:
                return None, splu(sparse.csc_array(sparse.eye_array(begin.size) - move.T)).solve(begin)
            except RuntimeError:  # exactly singular
                text = f"horizon must be at most {len(found):,} if an episode may never end, got {horizon:,}"
                raise ValueError(text) from None
        found.append(now)
        if now.sum() <= _SURVIVING:
            break
        now = now @ move
    occupied = np.array(found)
    return None if occupied[-1].sum() <= _SURVIVING else occupied, occupied.sum(axis=0)
