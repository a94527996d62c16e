"""Exact values by dynamic programming, the reference for estimates.

`ExactModel` lists every state that can be reached and every transition between them, straight from the plain-Python
`outcomes` of an environment. If no state returns within an episode, one backward pass over the transitions gives
exact values; otherwise they solve a linear system (`evaluate`), or are found by value iteration first (`optimal`):

    Q(s, a) = Σ_s' P(s' | s, a) [r + γ V(s')],      V(s) = Σ_a π(a | s) Q(s, a),

with π given (`evaluate`), greedy (`optimal`) or the best that still explores (`epsilon_optimal`). With a reward vector
every component has its own Q, and policies are greedy in their sum. Truncation does not end an episode: values are
of episodes that continue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from chunked_td._checks import check_unit
from chunked_td._loading import require
from chunked_td.envs.dynamics import Dynamics, start_states
from chunked_td.envs.table_building import longest_paths, reachable_states

State = tuple[int, ...]

#: "uniform", float64[N, A] over the rows of a model, or a function from a state to one probability per action
Policy = str | np.ndarray | Callable[[State], Sequence[float]]

_TIE = 1e-12  # sums of the same numbers in another order may differ by less than this


@dataclass(frozen=True, eq=False)
class Values:
    """Action values of every reachable state under one policy.

    Attributes:
      model: the model that the rows belong to.
      policy: float64[N, A], the policy evaluated; zero for actions that are not legal.
      q: float64[N, A, d], zero for actions that are not legal and in terminal states.
      v: float64[N, d].
    """

    model: ExactModel
    policy: np.ndarray
    q: np.ndarray
    v: np.ndarray

    def value(self, state: State) -> float:
        """V(state), summed over reward components."""
        return float(self.v[self.model.row(state)].sum())

    def action_values(self, state: State) -> np.ndarray:
        """Q(state, a) for the legal actions a, summed over reward components."""
        row = self.model.row(state)
        return self.q[row, self.model.mask[row]].sum(axis=-1)

    def table(self) -> np.ndarray:
        """Q over all state ids, float64[S, A, d]; zero for states that cannot be reached."""
        table = np.zeros((int(np.prod(self.model.env.nvec)), *self.q.shape[1:]))
        table[self.model.ids] = self.q
        return table


class ExactModel:
    """Every reachable state and transition of an environment.

    Args:
      env: prepared dynamics.
      starts: the first states of episodes, with equal probability; by default the environment's.

    Attributes:
      states: int64[N, c], each after every state that leads to it, unless states return; terminal ones included.
      ids: int64[N], their state ids.
      mask: bool[N, A], the legal actions of each; none in terminal states. legal: int64[N], their number.
      acyclic: whether no state can return within an episode.
      source, action, target: int64[M], one entry per transition, sorted by source row and action. Source and target
        are rows of `states`.
      chance: float64[M], P(target | source, action).
      reward: float64[M, d].
      ended: bool[M], whether the transition terminates the episode.
    """

    def __init__(self, env: Dynamics, starts: Sequence[State] | None = None):
        self.env = env
        begin = start_states(env) if starts is None else {tuple(int(x) for x in s): 1 / len(starts) for s in starts}
        self.starts, self.start_chance = list(begin), list(begin.values())
        found = reachable_states(env, begin)
        transitions = [
            (i, a, j, chance, reward, ended)
            for i, actions in found.outcomes.items()
            for a, outcomes in actions.items()
            for chance, j, reward, ended in outcomes
        ]
        source, action, target, ended = (np.array([t[i] for t in transitions], dtype=np.int64) for i in (0, 1, 2, 5))
        waves = longest_paths(len(found.states), source, target)
        self.acyclic = waves is not None
        waves = np.zeros(len(found.states), np.int64) if waves is None else waves
        order = np.argsort(waves, kind="stable")  # row -> found
        row = np.empty_like(order)
        row[order] = np.arange(len(order))
        by_row = np.lexsort((action, row[source]))
        self.states = np.array(found.states, dtype=np.int64)[order]
        self.ids = np.asarray(np.ravel_multi_index(tuple(self.states.T), env.nvec))
        self.mask = np.zeros((len(order), env.n_actions), bool)
        self.mask[row[source], action] = True
        self.legal = self.mask.sum(axis=1)
        self.source, self.action, self.target = row[source][by_row], action[by_row], row[target][by_row]
        self.chance = np.array([t[3] for t in transitions])[by_row]
        self.reward = np.array([t[4] for t in transitions]).reshape(-1, env.n_rewards)[by_row]
        self.ended = ended[by_row].astype(bool)
        self._wave_rows = np.searchsorted(waves[order], np.arange(waves.max() + 2))

    def row(self, state: State) -> int:
        """Row of `state` in the tables of this model."""
        key = tuple(int(x) for x in np.atleast_1d(np.asarray(state)))
        try:
            return self._rows[key]
        except KeyError:
            raise KeyError(f"state must be one that an episode can reach, got {key}") from None

    @cached_property
    def _rows(self) -> dict[State, int]:
        return {tuple(state): row for row, state in enumerate(self.states.tolist())}

    @cached_property
    def P(self) -> dict[int, dict[int, list[tuple[float, int, Any, bool]]]]:
        """The model as Gymnasium's toy-text environments give it: `P[id][action] = [(probability, id, reward, end)]`.

        The reward is a float, or an array if the environment pays a vector. Terminal states have no actions.
        """
        p: dict[int, dict[int, list[tuple[float, int, Any, bool]]]] = {s: {} for s in self.ids.tolist()}
        rewards = self.reward[:, 0].tolist() if self.env.n_rewards == 1 else list(self.reward.copy())
        columns = (self.ids[self.source], self.action, self.chance, self.ids[self.target], self.ended)
        rows = zip(*(column.tolist() for column in columns), rewards, strict=True)
        for s, a, chance, s_next, end, r in rows:
            p[s].setdefault(a, []).append((chance, s_next, r, end))
        return p

    def uniform(self) -> np.ndarray:
        """The policy that chooses every legal action with equal probability: float64[N, A]."""
        return self.mask / np.maximum(self.legal, 1)[:, None]

    def epsilon_greedy(self, table: np.ndarray, epsilon: float) -> np.ndarray:
        """ε-greedy policy of a Q-table over state ids, ties split evenly: float64[N, A].

        Args:
          table: S·A numbers, or S·A·d with reward components, state id first, in any shape of that order.
          epsilon: probability of a uniform choice.
        """
        pairs = int(np.prod(self.env.nvec)) * self.env.n_actions
        table = np.asarray(table, dtype=np.float64)
        if table.size not in (pairs, pairs * self.env.n_rewards):
            raise ValueError(f"table must hold {pairs} values per reward component, got shape {table.shape}")
        q = table.reshape(-1, self.env.n_actions, table.size // pairs)[self.ids].sum(axis=-1)
        return epsilon_greedy(q, self.mask, epsilon, tie=0.0)

    def evaluate(self, policy: Policy = "uniform", discount: float = 1.0) -> Values:
        """Q^π and V^π of a given policy.

        Args:
          policy: "uniform", float64[N, A] over the rows of this model, or a function from a state tuple to the
            probabilities of its legal actions.
          discount: γ.
        """
        pi = self._probabilities(policy)
        return self._backward(lambda rows, q: pi[rows], discount) if self.acyclic else self._solve(pi, discount)

    def optimal(self, discount: float = 1.0) -> Values:
        """Q* and V*, with the greedy policy that splits ties evenly."""
        return self.epsilon_optimal(0.0, discount)

    def epsilon_optimal(self, epsilon: float, discount: float = 1.0) -> Values:
        """The best values of any ε-greedy policy: it explores in every state, and its values include that."""
        if not 0 <= epsilon <= 1:
            raise ValueError(f"epsilon must be in [0, 1], got {epsilon!r}")
        if not self.acyclic:
            return self._iterate(epsilon, discount)
        return self._backward(lambda rows, q: epsilon_greedy(q.sum(axis=-1), self.mask[rows], epsilon, _TIE), discount)

    def visits(self, policy: Policy = "uniform") -> np.ndarray:
        """The probability that an episode under `policy` visits each state: float64[N]. No state may return."""
        if not self.acyclic:
            raise ValueError("visits requires dynamics in which no state returns within an episode")
        pi = self._probabilities(policy)
        likely = np.zeros(len(self.ids))
        for state, chance in zip(self.starts, self.start_chance, strict=True):
            likely[self.row(state)] += chance
        for first, last in zip(self._wave_rows[:-1], self._wave_rows[1:], strict=True):
            m = slice(*np.searchsorted(self.source, (first, last)))
            flow = likely[self.source[m]] * pi[self.source[m], self.action[m]] * self.chance[m]
            np.add.at(likely, self.target[m], flow)
        return likely

    def _probabilities(self, policy: Policy) -> np.ndarray:
        shape = (len(self.ids), self.env.n_actions)
        if isinstance(policy, str):
            if policy != "uniform":
                raise ValueError(f'policy must be "uniform", an array of shape {shape} or a function, got {policy!r}')
            return self.uniform()
        if not callable(policy):
            return check_policy(policy, self.mask, self.states)
        pi = np.zeros(shape)
        for row in np.flatnonzero(self.legal):
            given = np.asarray(policy(tuple(self.states[row].tolist())), dtype=np.float64)
            offered = np.flatnonzero(self.mask[row]) if given.size == self.legal[row] else np.arange(given.size)
            pi[row, offered] = given
        return check_policy(pi, self.mask, self.states)

    def _backward(self, choose: Callable[[slice, np.ndarray], np.ndarray], discount: float) -> Values:
        discount, n, d = check_unit("discount", discount), len(self.ids), self.env.n_rewards
        pi, q, v = np.zeros((n, self.env.n_actions)), np.zeros((n, self.env.n_actions, d)), np.zeros((n, d))
        for first, last in zip(self._wave_rows[-2::-1], self._wave_rows[:0:-1], strict=True):
            rows = slice(first, last)
            m = slice(*np.searchsorted(self.source, (first, last)))
            later = np.where(self.ended[m, None], 0.0, v[self.target[m]])
            np.add.at(q, (self.source[m], self.action[m]), self.chance[m, None] * (self.reward[m] + discount * later))
            pi[rows] = choose(rows, q[rows])
            v[rows] = (pi[rows, :, None] * q[rows]).sum(axis=1)
        return Values(self, pi, q, v)

    def _solve(self, pi: np.ndarray, discount: float) -> Values:
        """Values of a policy if states return: V = r_π + γ P_π V."""
        require("ExactModel", "scipy")
        from scipy import sparse
        from scipy.sparse.linalg import splu

        discount, n = check_unit("discount", discount), len(self.ids)
        weight = pi[self.source, self.action] * self.chance
        going = ~self.ended
        if discount == 1.0:
            _check_ends(n, self.source, self.target, weight * going, np.bincount(self.source, weight * self.ended, n))
        move = sparse.csc_array((weight * going, (self.source, self.target)), (n, n))
        paid = np.zeros((n, self.env.n_rewards))
        np.add.at(paid, self.source, weight[:, None] * self.reward)
        v = splu(sparse.eye_array(n, format="csc") - discount * move).solve(paid)
        q = np.zeros((*self.mask.shape, v.shape[1]))
        later = np.where(self.ended[:, None], 0.0, v[self.target])
        np.add.at(q, (self.source, self.action), self.chance[:, None] * (self.reward + discount * later))
        return Values(self, pi, q, v)

    def _iterate(self, epsilon: float, discount: float, most: int = 1_000_000) -> Values:
        """The best ε-greedy policy if states return: value iteration, then one linear system."""
        require("ExactModel", "scipy")
        from scipy import sparse

        discount = check_unit("discount", discount)
        pair = self.source * self.mask.shape[1] + self.action
        shape = (self.mask.size, len(self.ids))
        ahead = sparse.csr_array((discount * self.chance * ~self.ended, (pair, self.target)), shape)
        paid = np.bincount(pair, self.chance * self.reward.sum(axis=1), self.mask.size)
        v = np.zeros(len(self.ids))
        for _ in range(most):
            q = (paid + ahead @ v).reshape(self.mask.shape)
            new = (epsilon_greedy(q, self.mask, epsilon, 0.0) * q).sum(axis=1)
            if np.abs(new - v).max() <= 1e-13 * max(1.0, np.abs(new).max()):
                return self._solve(epsilon_greedy(q, self.mask, epsilon, 1e-10 * max(1.0, np.abs(new).max())), discount)
            v = new
        raise ValueError(f"discount must be small enough for values to settle in {most:,} sweeps, got {discount!r}")


def _check_ends(n: int, source: np.ndarray, target: np.ndarray, going: np.ndarray, ending: np.ndarray) -> None:
    """Raise ValueError if an episode may never end; `ending` is each state's probability to end it."""
    from scipy import sparse

    used = going > 0
    back = sparse.csr_array((np.ones(used.sum()), (source[used], target[used])), (n, n))
    ends = ending > 0
    while True:
        more = ends | (back @ ends > 0)
        if (more == ends).all():
            break
        ends = more
    acts = np.zeros(n, bool)
    acts[source] = True
    if (acts & ~ends).any():
        raise ValueError("discount must be below 1 if an episode may never end, got 1.0")


def check_policy(policy: Any, legal: np.ndarray, states: np.ndarray | None = None) -> np.ndarray:
    """float64[n, A]: given probabilities, which must sum to 1 over the `legal` actions; zero for others."""
    pi = np.asarray(policy, dtype=np.float64)
    if pi.shape != legal.shape:
        raise ValueError(f"policy must have shape {legal.shape}, got {pi.shape}")
    total = np.where(legal, pi, 0.0).sum(axis=1)
    wrong = np.flatnonzero(legal.any(axis=1) & ~(np.isclose(total, 1) & (pi >= 0).all(axis=1)))
    if wrong.size:
        state = wrong[0] if states is None else tuple(states[wrong[0]].tolist())
        raise ValueError(f"policy must sum to 1 over the legal actions, got {pi[wrong[0]]} in state {state}")
    return np.where(legal, pi, 0.0)


def epsilon_greedy(q: np.ndarray, legal: np.ndarray, epsilon: float, tie: float) -> np.ndarray:
    """ε-greedy probabilities, float64[n, A], of summed values q, float64[n, A]."""
    masked = np.where(legal, q, -np.inf)
    greedy = legal & (masked >= masked.max(axis=1, keepdims=True) - tie)
    count, ties = np.maximum(legal.sum(axis=1), 1), np.maximum(greedy.sum(axis=1), 1)
    return legal * (epsilon / count)[:, None] + greedy * ((1 - epsilon) / ties)[:, None]
