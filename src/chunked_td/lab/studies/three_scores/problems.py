"""Problems with what is exactly known of them: optimal values, a behaviour policy, its values and its visits."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td.envs.table import TransitionTable

CHECKPOINTS = 9


class SolvedProblem(NamedTuple):
    """A transition table and its exact numbers; a row is s·A + a."""

    first: Annotated[np.ndarray, "int64[rows + 1]"]
    target: Annotated[np.ndarray, "int64[n]"]
    chance: Annotated[np.ndarray, "float64[n]"]
    ends: Annotated[np.ndarray, "bool[n]"]
    legal: Annotated[np.ndarray, "bool[S, A]"]
    start: Annotated[np.ndarray, "int64[b]"]
    start_chance: Annotated[np.ndarray, "float64[b]"]
    limit: int
    discount: float
    mean_reward: Annotated[np.ndarray, "float64[rows]"]
    policy: Annotated[np.ndarray, "float64[S, A]"]  # the behaviour policy: half uniform, half optimal
    exact: Annotated[np.ndarray, "float64[S, A]"]  # its Q
    weight: Annotated[np.ndarray, "float64[S, A]"]  # how often it visits a pair; sums to 1
    best: Annotated[np.ndarray, "float64[S]"]  # V*


def prepare(table: TransitionTable, discount: float) -> SolvedProblem:
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
