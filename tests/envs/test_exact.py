"""Exact values against enumeration of every trajectory and every policy, and against closed forms."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest

from chunked_td.analysis.exact import ExactModel
from chunked_td.envs.dynamics import AccumulatedCharge, ChainAndSplit, KeyToDoor, SkewedSplit, TransitionTable
from helpers.random_tables import random_table
from helpers.small_envs import SMALL, all_pairs, legal, prepared, start

each_small = pytest.mark.parametrize("env", SMALL.values(), ids=SMALL.keys())


def trajectories(env, state, action, policy, discount):
    """Every way to the end after (state, action): (probability, discounted return vector)."""
    for p, successor, reward, ended in env.outcomes(state, action):
        if ended:
            yield p, np.array(reward)
            continue
        for next_action, chance in enumerate(policy(successor)):
            for q, later in trajectories(env, successor, next_action, policy, discount):
                yield p * chance * q, np.array(reward) + discount * later


def expected_return(env, state, action, policy, discount):
    return sum(p * g for p, g in trajectories(env, state, action, policy, discount))


def some_policy(env):
    """A policy without any symmetry."""

    def policy(state):
        weights = 1 + np.arange(legal(env, state)) + (sum(state) % 3) * np.arange(legal(env, state))[::-1]
        return weights / weights.sum()

    return policy


@each_small
@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_policy_values_equal_the_enumeration_of_trajectories(env, discount):
    policy = some_policy(env)
    values = ExactModel(env).evaluate(policy, discount)
    for state, action in all_pairs(env):
        truth = expected_return(env, state, action, policy, discount)
        assert values.q[values.model.row(state), action] == pytest.approx(truth, abs=1e-12)
    for state in {s for s, _ in all_pairs(env)}:
        assert values.value(state) == pytest.approx(policy(state) @ values.action_values(state), abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
@pytest.mark.parametrize("discount", [1.0, 0.8])
@pytest.mark.parametrize(
    "env", [KeyToDoor.make(3, 1), KeyToDoor.make(3, 1, 0.01, -0.5), SMALL["chain"], SMALL["charge"]]
)
def test_best_values_equal_the_best_of_all_policies(env, epsilon, discount):
    model = ExactModel(env)
    choices = [s for s in {s for s, _ in all_pairs(env)} if legal(env, s) > 1]
    best = -math.inf
    for chosen in itertools.product(*(range(legal(env, s)) for s in choices)):
        greedy = dict(zip(choices, chosen, strict=True))

        def policy(state, greedy=greedy):
            n = legal(env, state)
            return np.full(n, epsilon / n) + (1 - epsilon) * (np.arange(n) == greedy.get(state, 0))

        best = max(best, model.evaluate(policy, discount).value(start(env)))
    assert model.epsilon_optimal(epsilon, discount).value(start(env)) == pytest.approx(best, abs=1e-12)


def test_states_come_after_those_that_lead_to_them():
    for env in SMALL.values():
        model = ExactModel(env)
        assert (model.source < model.target).all()
        assert (np.diff(model.source * env.n_actions + model.action) >= 0).all()
        assert model.ids.tolist() == np.ravel_multi_index(tuple(model.states.T), env.nvec).tolist()
        assert len(set(model.ids.tolist())) == len(model.ids)


def test_chain_and_split_truth():
    values = ExactModel(ChainAndSplit.make()).evaluate("uniform")
    assert values.action_values((0,)) == pytest.approx([0.01] + [0.0] * 9, abs=1e-12)
    assert values.value((0,)) == pytest.approx(0.001)


@pytest.mark.parametrize("mirrored", [False, True])
def test_accumulated_charge_truth_at_the_papers_size(mirrored):
    env = prepared(AccumulatedCharge.make(mirrored=mirrored), seed=3)
    model = ExactModel(env)
    for values in (model.optimal(), model.evaluate("uniform")):
        assert values.action_values((0, 0, 0)) == pytest.approx([0.1, 0.0], abs=1e-9)
    t = int(np.flatnonzero(env.charging)[2])  # before the third charging step; charge 30 where 20 is expected
    assert model.optimal().value((1, 30, t)) == pytest.approx(0.1 + (-0.5 if mirrored else 0.5) * 10)


def test_mirrored_leaves_every_expected_return_from_the_start_unchanged():
    for seed in range(5):
        plain, mirrored = (
            ExactModel(prepared(AccumulatedCharge.make(12, 3, 0.3, 0.2, mirrored=m), seed)) for m in (False, True)
        )
        one, other = plain.evaluate("uniform"), mirrored.evaluate("uniform")
        assert one.action_values((0, 0, 0)) == pytest.approx(other.action_values((0, 0, 0)), abs=1e-12)
        assert one.action_values((0, 0, 0)) == pytest.approx([0.2, 0.0], abs=1e-12)
        assert np.abs(one.v - other.v).max() > 0.1  # it does change what the states on the way are worth


def test_key_to_door_truth_at_the_papers_size():
    model = ExactModel(KeyToDoor.make())
    distraction = 98 * 0.005
    assert model.optimal().action_values((0,) * 8) == pytest.approx([distraction + 0.01, distraction])
    soft = model.epsilon_optimal(0.1)
    assert soft.action_values((0,) * 8) == pytest.approx([distraction + 0.01 * 0.95, distraction])
    treasure = model.states[:, 6] == 1
    assert model.visits(soft.policy)[treasure].sum() == pytest.approx(0.95**2)
    assert soft.v[model.row((0,) * 8)] == pytest.approx([0, 0, *[98 * 0.00125] * 4, 0.01 * 0.95**2, 0])


def test_scalar_reward_is_worth_the_sum_of_the_vector():
    vector, scalar = (ExactModel(KeyToDoor.make(6, 3, scalar_reward=s)).optimal() for s in (False, True))
    assert vector.v.sum(axis=1) == pytest.approx(scalar.v[:, 0])


def test_skewed_split_truth():
    assert ExactModel(SkewedSplit.make(length=30)).optimal().value((0,)) == pytest.approx(1.0)


@each_small
def test_dictionary_holds_the_definition(env):
    model = ExactModel(env)
    pairs = all_pairs(env)
    assert sum(len(actions) for actions in model.P.values()) == len(pairs)

    def plain(reward):
        return tuple(np.atleast_1d(reward).tolist())

    for state, action in pairs:
        rows = model.P[int(np.ravel_multi_index(state, env.nvec))][action]
        listed = {(p, s, plain(r), end) for p, s, r, end in rows}
        truth = {(p, int(np.ravel_multi_index(s, env.nvec)), r, end) for p, s, r, end in env.outcomes(state, action)}
        assert listed == truth


@each_small
def test_visits_are_those_of_the_enumeration(env):
    model, policy = ExactModel(env), some_policy(env)
    visits = np.zeros(len(model.ids))

    def walk(state, chance):
        visits[model.row(state)] += chance
        for action, pick in enumerate(policy(state)):
            for p, successor, _, ended in env.outcomes(state, action):
                if ended:
                    visits[model.row(successor)] += chance * pick * p
                else:
                    walk(successor, chance * pick * p)

    walk(start(env), 1.0)
    assert model.visits(policy) == pytest.approx(visits, abs=1e-12)
    assert visits[model.legal == 0].sum() == pytest.approx(1)


def test_epsilon_greedy_of_a_table():
    model = ExactModel(SMALL["key"])
    table = np.zeros((int(np.prod(model.env.nvec)), 2, 6))
    first, second = model.row((0,) * 6), 1
    table[model.ids[first], 1, 2] = 1.0
    table[model.ids[first], 1, 5] = -0.5
    policy = model.epsilon_greedy(table, 0.2)
    assert policy[first] == pytest.approx([0.1, 0.9])
    assert policy[second] == pytest.approx([0.5, 0.5])  # a tie
    assert (policy[model.legal == 0] == 0).all()
    assert model.epsilon_greedy(table.sum(axis=-1), 0.2) == pytest.approx(policy)
    assert model.epsilon_greedy(table.reshape(-1, 6), 0.2) == pytest.approx(policy)
    optimal = model.optimal()
    again = model.evaluate(model.epsilon_greedy(optimal.table(), 0.0))
    assert again.value((0,) * 6) == pytest.approx(optimal.value((0,) * 6))


def test_errors_say_what_is_wrong():
    model = ExactModel(SMALL["chain"])
    with pytest.raises(KeyError, match=r"state must be one that an episode can reach, got \(99,\)"):
        model.row((99,))
    with pytest.raises(ValueError, match=r"policy must be .uniform.*got 'greedy'"):
        model.evaluate("greedy")
    with pytest.raises(ValueError, match=r"policy must have shape \(11, 3\), got \(2, 2\)"):
        model.evaluate(np.ones((2, 2)))
    with pytest.raises(ValueError, match="sum to 1 over the legal actions"):
        model.evaluate(np.ones((11, 3)))
    with pytest.raises(ValueError, match="sum to 1 over the legal actions"):
        model.evaluate(lambda state: [0.0, 1.0])
    with pytest.raises(ValueError, match=r"epsilon must be in \[0, 1\], got 2"):
        model.epsilon_optimal(2)
    with pytest.raises(ValueError, match=r"discount must be a number in \[0, 1\], got nan"):
        model.optimal(discount=math.nan)
    with pytest.raises(ValueError, match=r"table must hold 33 values per reward component, got shape \(4,\)"):
        model.epsilon_greedy(np.zeros(4), 0.1)


class Loop(NamedTuple):
    """Dynamics with a cycle: 0 → 1 → 0 or the end."""

    nvec: tuple[int, ...] = (3,)
    n_actions: int = 1
    n_rewards: int = 1
    draws: int = 1
    horizon: int = 10

    @staticmethod
    def reset(env: Any, rng: Any, state: Any) -> None:
        state[0] = 0

    @staticmethod
    def legal(env: Any, state: Any) -> int:
        return 1

    def outcomes(self, state, action):
        return (
            [(1.0, (1,), (0.0,), False)] if state == (0,) else [(0.5, (0,), (0.0,), False), (0.5, (2,), (1.0,), True)]
        )


def test_an_episode_without_end_is_refused():
    loop = ExactModel(Loop())  # type: ignore[arg-type]
    assert loop.evaluate().value((0,)) == pytest.approx(1.0)
    assert loop.evaluate(discount=0.5).value((1,)) == pytest.approx(0.5 / (1 - 0.125))
    model = ExactModel(TransitionTable.from_outcomes([[[(1.0, 0, 1.0, False)]]], starts=0, horizon=5))
    with pytest.raises(ValueError, match=r"discount must be below 1 if an episode may never end"):
        model.evaluate()
    with pytest.raises(ValueError, match=r"no state returns"):
        model.visits()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.0])
def test_values_where_states_return(seed, epsilon):
    """Against sweeps over the outcomes, written out: Q ← Σ P [r + γ max or mean], until nothing moves."""
    table = random_table(seed, states=7, actions=3)
    model, q = ExactModel(table), np.zeros((7, 3))
    legal = table.legal_actions
    for _ in range(3000):
        best = np.where(legal, q, -np.inf).max(axis=1)
        v = (1 - epsilon) * best + epsilon * np.where(legal, q, 0.0).sum(axis=1) / legal.sum(axis=1)
        for s, a in np.argwhere(legal).tolist():
            q[s, a] = sum(p * (r[0] + 0.9 * v[x[0]] * (not e)) for p, x, r, e in table.outcomes((s,), a))
    values = model.epsilon_optimal(epsilon, 0.9)
    reached = model.legal > 0
    np.testing.assert_allclose(values.q[reached, :, 0], q[model.ids[reached]], atol=1e-9)
    again = model.evaluate(values.policy, 0.9)
    np.testing.assert_allclose(again.q, values.q, atol=1e-9)


def test_frozen_lake_by_its_published_optimum():
    """0.74 of episodes reach the goal on the 4×4 lake with a limit of 100 steps; 14/17 without a limit."""
    best = ExactModel(TransitionTable.from_env("FrozenLake-v1")).optimal()
    assert best.value((0,)) == pytest.approx(14 / 17)


class Shortcut(NamedTuple):
    """0 → 2 directly or by way of 1, which is found later; 2 pays 1 and ends, 1 pays `toll` on the way."""

    toll: float
    nvec: tuple[int, ...] = (4,)
    n_actions: int = 2
    n_rewards: int = 1
    draws: int = 1
    horizon: int = 3

    @staticmethod
    def reset(env: Any, rng: Any, state: Any) -> None:
        state[0] = 0

    @staticmethod
    def legal(env: Any, state: Any) -> int:
        return 2 if state[0] == 0 else 1

    def outcomes(self, state, action):
        ways = {(0, 0): ((2,), 0.0), (0, 1): ((1,), 0.0), (1, 0): ((2,), self.toll), (2, 0): ((3,), 1.0)}
        successor, reward = ways[state[0], action]
        return [(1.0, successor, (reward,), successor == (3,))]


def test_paths_of_different_length_to_one_state():
    model = ExactModel(Shortcut(toll=0.5))  # type: ignore[arg-type]
    assert (model.source < model.target).all()
    assert (np.diff(model.source) >= 0).all()
    assert model.states[:, 0].tolist() == [0, 1, 2, 3]
    assert model.optimal().action_values((0,)).tolist() == [1.0, 1.5]
    assert model.visits().tolist() == [1.0, 0.5, 1.0, 1.0]
