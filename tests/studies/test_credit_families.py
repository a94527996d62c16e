"""The held-out problems are sound: proper tables, all of which can be reached, that end, and in which acting pays."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from chunked_td.analysis.exact import ExactModel
from chunked_td.envs.table import TransitionTable
from studies.credit.families import DESIGN, Family, middles
from studies.credit.families.corridors import corridor
from studies.credit.families.held_out import FAMILIES

PROBLEMS = [pytest.param(family, k, id=f"{family.id}-{family.settings[k]}") for family in FAMILIES for k in range(3)]


@functools.cache
def problem(family_id: str, k: int) -> TransitionTable:
    """The problem of a family at the k-th setting."""
    family = next(family for family in FAMILIES if family.id == family_id)
    return family.problem(family.settings[k])


class Dense:
    """A table as arrays: `P` float64[S, A, S] of steps that go on, `R` float64[S, A] the mean reward."""

    def __init__(self, table: TransitionTable) -> None:
        S, A = table.n_states, table.n_actions
        self.legal = table.legal_actions
        self.begin = np.zeros(S)
        self.begin[table.start] = table.start_chance
        pairs = np.repeat(np.arange(S * A), np.diff(table.first))
        self.sums = np.bincount(pairs, table.chance, S * A).reshape(S, A)
        self.R = np.bincount(pairs, table.chance * table.reward[:, 0], S * A).reshape(S, A)
        self.P = np.zeros((S * A, S))
        on = ~table.ends
        np.add.at(self.P, (pairs[on], table.target[on]), table.chance[on])
        self.P = self.P.reshape(S, A, S)
        self.ends_in = np.zeros(S, bool)
        self.ends_in[table.target[table.ends]] = True
        self.uniform = self.legal / np.maximum(self.legal.sum(axis=1, keepdims=True), 1)

    def steps(self, policy: np.ndarray) -> np.ndarray:
        """float64[S, S]: one step that goes on."""
        return np.einsum("sa,sat->st", policy, self.P)

    def value(self, policy: np.ndarray, discount: float) -> np.ndarray:
        """float64[S] of a policy."""
        return np.linalg.solve(np.eye(len(policy)) - discount * self.steps(policy), (policy * self.R).sum(axis=1))

    def best(self, discount: float) -> np.ndarray:
        """The best policy, by policy iteration from one that always ends."""
        policy, S = self.uniform, len(self.uniform)
        for _ in range(200):
            Q = self.R + discount * self.P @ self.value(policy, discount)
            Q[~self.legal] = -np.inf
            kept = np.take_along_axis(Q, policy.argmax(axis=1)[:, None], 1)[:, 0]
            choice = np.where(kept >= Q.max(axis=1) - 1e-10, policy.argmax(axis=1), Q.argmax(axis=1))
            better = np.eye(Q.shape[1])[choice] * self.legal.any(axis=1)[:, None]
            if np.array_equal(better, policy):
                return policy
            policy = better
        raise AssertionError(f"no best policy found for {S} states")

    def length(self, policy: np.ndarray, limit: int | None = None) -> float:
        """Mean transitions of an episode, at most `limit` each."""
        on = self.steps(policy)
        acts = self.legal.any(axis=1).astype(float)
        if limit is None:
            return float(self.begin @ np.linalg.solve(np.eye(len(on)) - on, acts))
        there, total = self.begin, 0.0
        for _ in range(limit):
            total += float(there @ acts)
            there = there @ on
        return total

    def reached(self) -> np.ndarray:
        """bool[S]: states that some episode gets to, or ends in."""
        seen = self.begin > 0
        while True:
            ahead = seen | (self.P[seen].sum(axis=(0, 1)) > 0)
            if np.array_equal(ahead, seen):
                return seen | self.ends_in
            seen = ahead


def measures(family: Family, k: int) -> dict[str, float]:
    """What dynamic programming says of one problem."""
    table = problem(family.id, k)
    dense = Dense(table)
    best = dense.best(family.discount)
    mixed = (1 - family.epsilon) * best + family.epsilon * dense.uniform
    return {
        "states": table.n_states,
        "best": float(dense.begin @ dense.value(best, family.discount)),
        "best ε": float(dense.begin @ dense.value(mixed, family.discount)),
        "random": float(dense.begin @ dense.value(dense.uniform, family.discount)),
        "random length": dense.length(dense.uniform),
        "cut length": dense.length(dense.uniform, table.limit),
        "best ε length": dense.length(mixed, table.limit),
    }


def test_ids_and_dials() -> None:
    """Names are unique, also beside the others, and every family is what the study asks for."""
    ids = [family.id for family in FAMILIES]
    assert len(set(ids)) == len(ids) >= 9
    assert not set(ids) & set(DESIGN)
    for family in FAMILIES:
        assert family.held_out
        assert family.epsilon == 0.1
        assert len(set(family.settings)) == 3
        assert 0.9 <= family.discount <= 1.0
        assert family.episodes <= 2_000


@pytest.mark.parametrize(("family", "k"), PROBLEMS)
def test_proper_tables(family: Family, k: int) -> None:
    """Small, proper probabilities, rewards of order one, no state that cannot be reached, the same every time."""
    table, again = problem(family.id, k), family.problem(family.settings[k])
    assert all(np.array_equal(x, y) for x, y in zip(table, again, strict=True))
    dense = Dense(table)
    assert table.n_states <= 600
    assert table.n_actions <= 8
    assert np.allclose(dense.sums[dense.legal], 1.0)
    assert (table.chance > 0).all()
    assert np.isclose(dense.begin.sum(), 1.0)
    assert dense.reached().all()
    assert 0.3 <= np.abs(table.reward).max() <= 10.0


@pytest.mark.parametrize(("family", "k"), PROBLEMS)
def test_acting_pays_and_episodes_end(family: Family, k: int) -> None:
    """The best policy, also with exploration, is clearly better than chance; episodes of both are not too long."""
    found = measures(family, k)
    print(family.id, family.settings[k], {name: round(x, 3) for name, x in found.items()})
    assert found["best"] > found["random"] + 0.1
    assert found["best ε"] > found["random"] + 0.05
    assert 0 < found["random length"] < 20_000
    assert found["cut length"] <= 400
    assert family.episodes * found["best ε length"] <= 100_000
    assert family.episodes * found["cut length"] <= 120_000


def test_dynamic_programming_by_hand() -> None:
    """The measures themselves, on a walk of two states: go on or wait, 1 at the end."""
    rows = {0: {0: [(1.0, 1, 0.0, False)], 1: [(1.0, 0, 0.0, False)]}, 1: {0: [(1.0, 2, 1.0, True)]}, 2: {}}
    dense = Dense(TransitionTable.from_outcomes(rows, starts=0, horizon=50, n_actions=2))
    assert np.isclose(dense.begin @ dense.value(dense.best(0.9), 0.9), 0.9)
    assert np.isclose(dense.begin @ dense.value(dense.uniform, 0.9), 0.45 * 1.0 / (1 - 0.45))
    assert np.isclose(dense.length(dense.uniform), 3.0)
    assert np.isclose(dense.length(dense.uniform, 1), 1.0)


@pytest.mark.parametrize("family", DESIGN.values(), ids=lambda family: family.id)
def test_problems_can_be_solved(family: Family) -> None:
    """Three settings each; the uniform policy has finite values."""
    assert len(family.settings) == 3
    for setting in family.settings:
        assert np.isfinite(ExactModel(family.problem(setting)).evaluate("uniform", family.discount).v).all()
    assert middles(family.id) == [(family.id, family.settings[1])]


def test_the_noise_of_a_corridor_has_the_size_that_was_asked_for() -> None:
    """Mean 0 and variance 4 at the only noisy step."""
    table = corridor(delay=3, noise="reward", noisy_steps=1, size=2.0, skew=0.1)
    noisy = table.reward[:, 0] != 0
    rewards, chances = table.reward[noisy, 0][:2], table.chance[noisy][:2]
    assert np.isclose(rewards @ chances, 0.0)
    assert np.isclose((rewards**2) @ chances, 4.0)
