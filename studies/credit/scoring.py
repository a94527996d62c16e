"""Three scores of runs, and the exact values of a problem.

| behaviour | how runs act | score | decision |
|---|---|---|---|
| given | by the problem's policy, half uniform, half optimal: every arm sees the same transitions of a seed | values: minus the error of Q, weighted by visits, mean over checkpoints | decisions: exact return of the policy that is greedy in Q, mean over checkpoints |
| bonus | ε-greedy with `ReturnBonus`, which does not depend on TD errors | control: mean discounted return of all episodes | 0 |
| greedy | ε-greedy | the same | 0 |
"""  # noqa: E501

from __future__ import annotations

import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numba import njit

import chunked_td as ctd
from chunked_td.simulation import simulate
from chunked_td.simulation.simulate import check_threads
from studies.credit.exploration import ReturnBonus

CHECKPOINTS = 9


class SolvedProblem(NamedTuple):
    """A transition table and its exact numbers; a row is s·A + a."""

    first: np.ndarray  # int64[rows + 1]
    target: np.ndarray  # int64[n]
    chance: np.ndarray  # float64[n]
    ends: np.ndarray  # bool[n]
    legal: np.ndarray  # bool[S, A]
    start: np.ndarray  # int64[b]
    start_chance: np.ndarray  # float64[b]
    limit: int
    discount: float
    mean_reward: np.ndarray  # float64[rows]
    policy: np.ndarray  # float64[S, A]  # the behaviour policy: half uniform, half optimal
    exact: np.ndarray  # float64[S, A]  # its Q
    weight: np.ndarray  # float64[S, A]  # how often it visits a pair; sums to 1
    best: np.ndarray  # float64[S]  # V*


def prepare(table: ctd.TransitionTable, discount: float) -> SolvedProblem:
    """Solve a table. Undiscounted problems must end under the behaviour policy."""
    legal, A = np.ascontiguousarray(table.legal_actions), table.n_actions
    S, reward = legal.shape[0], np.asarray(table.reward).sum(1)
    pair = np.repeat(np.arange(S * A), np.diff(table.first))
    P = np.zeros((S * A, S))
    np.add.at(P, (pair, table.target), np.where(table.ends, 0.0, table.chance))
    mean = np.bincount(pair, table.chance * reward, S * A)
    best = optimal_values(P, mean, legal, discount, max(10 * table.limit, 2000))
    q = np.where(legal, (mean + discount * P @ best).reshape(S, A), -np.inf)
    greedy = legal & (q >= q.max(1, keepdims=True) - 1e-9)
    policy = 0.5 * _shares(legal) + 0.5 * _shares(greedy)
    onward = (policy[:, :, None] * P.reshape(S, A, S)).sum(1)
    values = np.linalg.solve(np.eye(S) * (1 + 1e-12) - discount * onward, (policy * mean.reshape(S, A)).sum(1))
    visits, now = np.zeros(S), np.bincount(table.start, table.start_chance, S)
    for _ in range(table.limit):
        visits, now = visits + now, now @ onward
    weight = visits[:, None] * policy
    return SolvedProblem(
        first=np.asarray(table.first),
        target=np.asarray(table.target),
        chance=np.asarray(table.chance),
        ends=np.asarray(table.ends),
        legal=legal,
        start=np.asarray(table.start),
        start_chance=np.asarray(table.start_chance),
        limit=int(table.limit),
        discount=float(discount),
        mean_reward=mean,
        policy=policy,
        exact=np.where(legal, (mean + discount * P @ values).reshape(S, A), 0.0),
        weight=weight / weight.sum(),
        best=best,
    )


def optimal_values(P: Any, mean: Any, legal: np.ndarray, discount: float, sweeps: int) -> np.ndarray:
    """V* by value iteration; states without actions have 0."""
    values = np.zeros(legal.shape[0])
    for _ in range(sweeps):
        q = np.where(legal, (mean + discount * P @ values).reshape(legal.shape), -np.inf)
        new = np.where(legal.any(1), q.max(1), 0.0)
        if np.abs(new - values).max() < 1e-10:
            break
        values = new
    return values


def _shares(chosen: np.ndarray) -> np.ndarray:
    return chosen / np.maximum(chosen.sum(1, keepdims=True), 1)


def checkpoints(episodes: int) -> np.ndarray:
    """Nine numbers of episodes, evenly spaced in their logarithm, from 1/50 of the run to its end."""
    points = np.geomspace(max(1.0, episodes / 50), episodes, CHECKPOINTS)
    return np.unique(np.round(points).astype(np.int64))


def scores(
    problem: ctd.TransitionTable, exact: SolvedProblem, behaviour: str, method: Mapping[str, Any], *,
    step_sizes: Any, seeds: Any, episodes: int, epsilon: float, threads: int | None = None,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Columns "score" and "decision", float64[R] each, of runs; −∞ where a run has diverged.

    Args:
      behaviour: see the module's text. method: settings of `simulate`. epsilon: exploration, where runs explore.
    """
    acting: dict[str, Any] = {"epsilon": epsilon}
    if behaviour == "given":
        acting = {"exploration": ctd.GivenPolicy(exact.policy), "probes": list(np.ndindex(exact.legal.shape))}
    elif behaviour == "bonus":
        acting["exploration"] = ReturnBonus()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ctd.DivergenceWarning)  # step sizes that are too large are part of the grid
        runs = simulate(
            problem, step_sizes=step_sizes, seeds=seeds, discount=exact.discount, episodes=episodes,
            record_at=checkpoints(episodes).tolist(), threads=threads, **acting, **method,
        )  # fmt: skip
    if behaviour == "given":
        score, decision = scores_of_values(exact, np.asarray(runs.probes_at), threads)
    else:
        score, decision = np.sum(runs.discounted_at, axis=1) / episodes, np.zeros(len(runs.steps))  # type: ignore[arg-type]
    return {name: np.where(np.isnan(each), -np.inf, each) for name, each in (("score", score), ("decision", decision))}


def scores_of_values(exact: SolvedProblem, q: np.ndarray, threads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Values and decisions of runs, float64[R] each, from Q at their checkpoints, float64[R, K, rows]."""
    errors = np.sqrt(((q - exact.exact.ravel()) ** 2) @ exact.weight.ravel())
    returns = np.zeros(q.shape[:2])

    def evaluate(run: int) -> None:
        room = ChainRoom.of(exact)
        for k in range(q.shape[1]):
            returns[run, k] = greedy_return(exact, q[run, k], room)

    with ThreadPoolExecutor(check_threads(threads)) as pool:
        list(pool.map(evaluate, range(len(q))))
    return -errors.mean(1), np.where(np.isnan(q).any(2), np.nan, returns).mean(1)


# ---- what a greedy policy earns


class ChainRoom(NamedTuple):
    """Scratch of `greedy_return`: the chain of a policy, by state, and values."""

    first: np.ndarray  # int64[S + 1]
    target: np.ndarray  # int64[n]
    weight: np.ndarray  # float64[n]
    greedy: np.ndarray  # float64[rows]
    returns: np.ndarray  # float64[3, S]

    @classmethod
    def of(cls, exact: SolvedProblem) -> ChainRoom:
        """Room for a problem."""
        (S, A), n = exact.legal.shape, exact.target.size
        return cls(np.zeros(S + 1, np.int64), np.zeros(n, np.int64), np.zeros(n), np.zeros(S * A), np.zeros((3, S)))


@njit(cache=True, nogil=True)
def write_greedy(problem, values, out):
    """The policy that is greedy in `values`, ties shared, by rows."""
    S, A = problem.legal.shape
    for x in range(S):
        best, ties = -np.inf, 0
        for a in range(A):
            q = values[x * A + a]
            if problem.legal[x, a] and q >= best:
                best, ties = q, 1 if q > best else ties + 1
        for a in range(A):
            out[x * A + a] = 1.0 / ties if problem.legal[x, a] and values[x * A + a] == best else 0.0


@njit(cache=True, nogil=True)
def greedy_return(problem, values, room):
    """Exact discounted return, over at most `limit` steps, of the policy that is greedy in `values`, float64[rows]."""
    S, A = problem.legal.shape
    write_greedy(problem, values, room.greedy)
    now, new, mean = room.returns[0], room.returns[1], room.returns[2]
    n = 0
    for x in range(S):  # the chain of that policy: weights and targets of state x are at first[x] .. first[x + 1] − 1
        now[x], mean[x], room.first[x] = 0.0, 0.0, n
        for row in range(x * A, (x + 1) * A):
            if room.greedy[row] > 0.0:
                mean[x] += room.greedy[row] * problem.mean_reward[row]
                for k in range(problem.first[row], problem.first[row + 1]):
                    if not problem.ends[k]:
                        room.weight[n] = room.greedy[row] * problem.discount * problem.chance[k]
                        room.target[n] = problem.target[k]
                        n += 1
    room.first[S] = n
    for _ in range(problem.limit):
        change = 0.0
        for x in range(S):
            value = mean[x]
            for k in range(room.first[x], room.first[x + 1]):
                value += room.weight[k] * now[room.target[k]]
            change = max(change, abs(value - now[x]))
            new[x] = value
        now, new = new, now
        if change < 1e-12:
            break
    total = 0.0
    for i in range(problem.start.size):
        total += problem.start_chance[i] * now[problem.start[i]]
    return total
