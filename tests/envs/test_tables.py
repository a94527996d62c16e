"""Transition tables: the same problem as where they came from, compiled; and what is refused."""

from __future__ import annotations

import pickle

import gymnasium as gym
import numpy as np
import pytest

import chunked_td as ctd
from chunked_td._link import static
from chunked_td._link.link import _PROGRAMS
from chunked_td.analysis.fixed_points.weights import Choices
from chunked_td.envs.dynamics import TransitionTable
from chunked_td.envs.table_building import alias_tables
from chunked_td.lambdas.step import Transition, make_step
from chunked_td.learners.state import Tables
from chunked_td.models.oracle import TableOracle
from chunked_td.seeding import Draws
from chunked_td.simulation import simulate
from helpers.compilation import COMPILED
from helpers.random_tables import random_table
from helpers.small_envs import SMALL, all_pairs, array

TWO = {0: {0: [(0.5, 1, 1.0, True), (0.5, 0, 0.0, False)], 1: [(1.0, 1, 0.0, True)]}, 1: {}}


@pytest.mark.parametrize("name", SMALL)
def test_other_dynamics_as_a_table(name):
    env = SMALL[name]
    table = TransitionTable.from_dynamics(env)
    for state, action in all_pairs(env):
        assert merged(table.outcomes(state, action)) == pytest.approx(merged(env.outcomes(state, action)))
    assert table.starts == [(1.0, tuple(start_of(env)))]
    assert table.nvec == env.nvec


def merged(outcomes):
    total = {}
    for p, *rest in outcomes:
        total[tuple(rest)] = total.get(tuple(rest), 0.0) + p
    return {rest: p for rest, p in total.items() if p > 0}


def start_of(env):
    state = array([0] * len(env.nvec))
    env.reset(env, Draws.of(np.random.SeedSequence(0)).stream, state)
    return state.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_outcomes_are_drawn_with_their_probabilities(seed):
    table = random_table(seed, branching=5)
    draws, reward = Draws.of(np.random.SeedSequence(seed)), np.zeros(1)
    n = 4000
    for s, a in np.argwhere(table.legal_actions).tolist():
        seen = {}
        for _ in range(n):
            state = array([s])
            ended = table.step(table, draws.stream, state, a, reward)
            key = (int(state[0]), float(reward[0]), bool(ended))
            seen[key] = seen.get(key, 0) + 1
        true = {(x[0], r[0], e): p for p, x, r, e in table.outcomes((s,), a)}
        assert set(seen) <= set(true)
        for key, p in true.items():  # 5.5 standard errors: fails by chance less than once in 10⁵ runs of this test
            assert abs(seen.get(key, 0) / n - p) <= 5.5 * np.sqrt(p * (1 - p) / n) + 1e-12


def test_starts_are_drawn_with_their_probabilities():
    table = TransitionTable.from_outcomes(TWO | {1: TWO[0]}, starts=[0.2, 0.8], horizon=3)
    draws, state = Draws.of(np.random.SeedSequence(0)), array([0])
    began = []
    for _ in range(4000):
        table.reset(table, draws.stream, state)
        began.append(int(state[0]))
    assert np.mean(began) == pytest.approx(0.8, abs=5 * np.sqrt(0.16 / 4000))


def test_alias_tables_hold_the_probabilities():
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 7, 50):
        chance = rng.dirichlet(np.full(n, 0.3))
        accept, alias = alias_tables(np.array([0, n]), chance)
        held = accept / n
        np.add.at(held, alias, (1 - accept) / n)
        np.testing.assert_allclose(held, chance, atol=1e-14)
        assert ((alias >= 0) & (alias < n)).all()


def test_equal_outcomes_are_merged_and_impossible_ones_dropped():
    P = {0: {0: [(0.3, 1, 1.0, True), (0.0, 0, 9.0, False), (0.2, 1, 1.0, True), (0.5, 1, 2.0, True)]}, 1: {}}
    table = TransitionTable.from_outcomes(P, starts=0)
    assert table.outcomes((0,), 0) == [(0.5, (1,), (1.0,), True), (0.5, (1,), (2.0,), True)]
    assert table.horizon == 1


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "FrozenLake8x8-v1", "Taxi-v4", "CliffWalkingSlippery-v1"])
def test_published_tables(env_id):
    horizon = 300 if "Cliff" in env_id else None
    env = gym.make(env_id)
    table = TransitionTable.from_env(env, horizon=horizon)
    inner = env.unwrapped
    assert table.horizon == (env.spec.max_episode_steps or horizon)
    assert (table.n_states, table.n_actions) == (env.observation_space.n, env.action_space.n)
    begin = np.zeros(table.n_states)
    begin[table.start] = table.start_chance
    np.testing.assert_allclose(begin, inner.initial_state_distrib)
    for s, actions in inner.P.items():
        for a, outcomes in actions.items():
            theirs = merged((p, (x,), (float(r),), bool(e)) for p, x, r, e in outcomes)
            assert merged(table.outcomes((s,), a)) == pytest.approx(theirs)


def test_as_many_returns_as_in_gymnasium():
    """Random play on slippery FrozenLake: means of return and length within 4.5 standard errors of each other."""
    env = gym.make("FrozenLake-v1")
    env.action_space.seed(0)
    returns, lengths = [], []
    for episode in range(1500):
        env.reset(seed=0 if episode == 0 else None)
        done, total, t = False, 0.0, 0
        while not done:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            done, total, t = terminated or truncated, total + reward, t + 1
        returns.append(total)
        lengths.append(t)
    n = 40_000
    table = TransitionTable.from_env("FrozenLake-v1")
    runs = simulate(table, learner="td", lambda_source=0.0, step_sizes=0.1, seeds=0, episodes=n, threads=1)
    for ours, theirs in ((runs.returns_at[0, 0] / n, returns), (runs.steps[0] / n, lengths)):
        error = np.std(theirs) * np.sqrt(1 / len(theirs) + 1 / n)
        assert abs(ours - np.mean(theirs)) < 4.5 * error


def test_truncation_bootstraps():
    """One state that never ends and always pays 1: cut every 5 steps, its value is still 1 / (1 − γ)."""
    table = TransitionTable.from_outcomes([[[(1.0, 0, 1.0, False)]]], starts=0, horizon=5)
    for view in ("traces", "offline"):
        runs = simulate(
            table, learner="td", lambda_source=0.8, step_sizes=0.1, seeds=0, episodes=2000, discount=0.9, view=view,
            keep_values=True, threads=1,
        )  # fmt: skip
        assert runs.values[0, 0, 0] == pytest.approx(10.0)
        assert runs.steps[0] == 10_000


def test_gymnasium_face_truncates_and_masks():
    env = TransitionTable.from_outcomes({0: {1: [(1.0, 0, 1.0, False)]}}, starts=0, horizon=2).env()
    observation, info = env.reset(seed=0)
    assert observation == 0
    assert info["action_mask"].tolist() == [0, 1]
    assert {int(env.action_space.sample()) for _ in range(20)} == {1}
    with pytest.raises(gym.error.InvalidAction, match=r"action must be an integer of \[1\] in state \[0\].*got 0"):
        env.step(0)
    assert env.step(1)[2:4] == (False, False)
    assert env.step(1)[2:4] == (False, True)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(1)


def test_misses():
    table = TransitionTable.from_outcomes(TWO, starts=0, horizon=3, bad_first=[1])
    runs = simulate(table, lambda_source=0.0, step_sizes=0.1, seeds=0, episodes=50, epsilon=0.0, threads=1)
    assert runs.misses[0] < 10
    always = TransitionTable.from_outcomes(TWO, starts=0, horizon=30, bad_end=[1])
    runs = simulate(always, lambda_source=0.0, step_sizes=0.1, seeds=0, episodes=50, epsilon=0.0, threads=1)
    assert runs.misses[0] == 50


def loops():
    """The loops that this process has compiled so far."""
    return {program.__name__ for program in _PROGRAMS.values() if program.__name__.startswith("play_")}


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_one_loop_for_all_tables():
    """Tables of other sizes and numbers of actions, and other bootstraps, are played by the loop that is there."""
    common = {"lambda_source": 0.5, "step_sizes": 0.1, "seeds": 0, "episodes": 3, "threads": 1, "view": "traces"}
    simulate(random_table(0), **common)
    compiled = loops()
    assert compiled
    simulate(random_table(1, states=9, actions=2, horizon=4, starts=5), **common)
    simulate(random_table(1, states=3, actions=1, masks=False), **common)
    simulate(random_table(0), learner="expected_sarsa", **common)
    simulate(random_table(0), learner="q_learning", **common)
    assert loops() == compiled


def test_dense_arrays():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(4), size=(4, 2))
    R = rng.normal(size=(4, 2, 4))
    table = TransitionTable.from_arrays(P, R, terminal=[3], starts=[0, 1], horizon=10)
    for s in range(3):
        for a in range(2):
            wanted = [(P[s, a, x], (x,), (R[s, a, x],), x == 3) for x in range(4)]
            assert table.outcomes((s,), a) == wanted
    assert table.outcomes((3,), 0) == []
    by_pair = TransitionTable.from_arrays(P, R[:, :, 0], terminal=[3], starts=0, horizon=10)
    assert {r for _, _, (r,), _ in by_pair.outcomes((1,), 1)} == {R[1, 1, 0]}
    on_entry = TransitionTable.from_arrays(P, R[0, 0], terminal=np.arange(4) == 3, starts=0, horizon=10)
    assert [r for _, _, (r,), _ in on_entry.outcomes((2,), 0)] == R[0, 0].tolist()
    vector = TransitionTable.from_arrays(P, rng.normal(size=(4, 2, 4, 3)), terminal=[3], starts=0, horizon=10)
    assert vector.n_rewards == 3


def test_function_of_hashable_states():
    def outcomes(state, action):
        if state == "shop" and action == 1:
            return []
        return (
            [(0.25, "home", 0.0, True), (0.75, ("road", action), 1.0, False)]
            if state == "shop"
            else [(1, "home", 2, 1)]
        )

    table = TransitionTable.from_outcomes(outcomes, starts="shop", n_actions=2, bad_end=["home"])
    assert table.names == ["shop", "home", ("road", 0)]
    assert table.horizon == 2
    assert table.legal_actions.tolist() == [[True, False], [False, False], [True, True]]
    assert table.bad_end.tolist() == [False, True, False]


def test_tables_are_saved_and_restored():
    table = TransitionTable.from_outcomes(TWO, starts=0, horizon=3, names=["a", "b"])
    again = pickle.loads(pickle.dumps(table))
    assert again.names == ["a", "b"]
    assert all(np.array_equal(x, y) for x, y in zip(table, again, strict=True))


def chances_by_hand(table, s, a):
    total = np.zeros(table.n_states)
    for p, x, _, _ in table.outcomes(table.components(s), a):
        total[np.ravel_multi_index(x, table.nvec)] += p
    return total


def asked(model, table, s, x, parts):
    """A step from s to x, as far as a true model reads it."""
    nvec = np.array(table.nvec)
    tables = Tables(np.zeros((1, 1)), np.zeros((0, table.n_actions), bool), nvec, parts)
    one = np.ones(table.n_actions)
    transition = Transition(s, 0, one, x, None, x, -1, -1, 0)
    rule = Choices(static(0), table.n_actions, 1.0, static(0))
    return make_step(transition, (one, one), one, one, 0.0, rule, tables, model, None)


def test_the_true_model_of_a_table():
    """Components that depend on each other, and rewards that differ for one next state."""
    table = random_table(3, states=12, actions=3, nvec=(2, 3, 2), branching=5)
    model = TableOracle.make(*table.transition_lists())
    parts = np.array([[True, False, True]])
    which = np.ravel_multi_index(np.unravel_index(np.arange(12), (2, 3, 2))[::2], (2, 2))
    for s, a in np.argwhere(table.legal_actions).tolist():
        by_hand = chances_by_hand(table, s, a)
        step = asked(model, table, s, 0, parts)
        listed, k = {}, model.following(step, a, -1)
        while k >= 0:
            listed[int(model.target(step, a, k))] = model.weight(step, a, k)
            k = model.following(step, a, k)
        assert listed == pytest.approx({x: p for x, p in enumerate(by_hand) if p > 0})
        for x in range(12):
            step = asked(model, table, s, x, parts)
            assert model.chance(step, a, -1) == pytest.approx(by_hand[x], abs=1e-15)
            assert model.chance(step, a, 0) == pytest.approx(by_hand[which == which[x]].sum(), abs=1e-15)
        for b in np.flatnonzero(table.legal_actions[s]).tolist():
            other = chances_by_hand(table, s, b)
            assert model.overlap(step, a, b, -1) == pytest.approx(by_hand @ other)
            grouped = [np.bincount(which, p, minlength=4) for p in (by_hand, other)]
            assert model.overlap(step, a, b, 0) == pytest.approx(grouped[0] @ grouped[1])


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        ([(0.4, 1, 1.0, True), (0.5, 0, 0.0, False)], r"must sum to 1.*got 0\.9 in state 0 for action 0"),
        ([(0.5, 1, 1.0, True), (0.5 + 1e-8, 0, 0.0, False)], r"must sum to 1.*in state 0 for action 0"),
        ([(0.0, 1, 1.0, True)], r"must sum to 1.*got 0\.0 in state 0 for action 0"),
        ([(1.5, 1, 1.0, True), (-0.5, 0, 0.0, False)], r"probability must be in \[0, 1\], got 1\.5 in state 0"),
        ([(float("nan"), 1, 1.0, True)], r"probability must be in \[0, 1\], got nan"),
        ([(1.0, 2, 1.0, True)], r"next state must be a whole number in 0\.\.1, got 2 in state 0 for action 0"),
        ([(1.0, -1, 1.0, True)], r"next state must be a whole number in 0\.\.1, got -1"),
        ([(1.0, 0.5, 1.0, True)], r"next state must be a whole number in 0\.\.1, got 0\.5"),
        ([(1.0, 1, float("nan"), True)], r"reward must be finite, got nan in state 0 for action 0"),
        ([(1.0, 1, float("inf"), True)], r"reward must be finite, got inf"),
        ([(0.5, 1, 1.0, True), (0.5, 0, [1.0, 2.0], False)], r"rewards must be numbers, or vectors of one length"),
        ([(1.0, 1, 1.0, "yes")], r"`terminated` must be True or False, got 'yes'"),
        ([(1.0, 1, 1.0)], r"outcomes\[0\]\[0\] must list \(probability, next state, reward, terminated\)"),
        ([(1.0, 1, 1.0, False)], r"state 1 is reachable and has no legal action"),
    ],
)
def test_bad_outcomes(outcomes, message):
    with pytest.raises(ValueError, match=message):
        TransitionTable.from_outcomes({0: {0: outcomes}, 1: {}}, starts=0, horizon=5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"starts": 2}, r"starts must be a state in 0\.\.1"),
        ({"starts": [0, 0]}, r"starts must be"),
        ({"starts": {0: 0.5}}, r"starts must have probabilities that sum to 1"),
        ({"starts": [0.5, 0.4]}, r"starts must have probabilities that sum to 1"),
        ({"starts": 1}, r"state 1 is reachable and has no legal action"),
        ({"horizon": None}, r"horizon must be given if states can recur"),
        ({"horizon": 0}, r"horizon must be an integer in \[1, 10000000\], got 0"),
        ({"nvec": (2, 2)}, r"nvec must have the product 2, the number of states, got \(2, 2\)"),
        ({"legal": [3, 0]}, r"legal must be numbers of actions in 0\.\.2"),
        ({"legal": [[1, 1], [1, 0]]}, r"legal must hold actions that have outcomes, got action 0 in state 1"),
        ({"legal": "all"}, r"legal must be int64\[2\] or bool\[2, 2\]"),
        ({"n_actions": 1}, r"n_actions must be at least 2"),
        ({"names": ["a"]}, r"names must have one entry per state, 2, got 1"),
        ({"bad_first": [2]}, r"bad_first must hold numbers of actions in 0\.\.1"),
        ({"bad_end": [0.5]}, r"bad_end must hold numbers of states in 0\.\.1"),
    ],
)  # fmt: skip
def test_bad_settings(change, message):
    with pytest.raises(ValueError, match=message):
        TransitionTable.from_outcomes(TWO, **({"starts": 0, "horizon": 5} | change))


@pytest.mark.parametrize(
    ("P", "R", "message"),
    [
        (np.ones((2, 3)), 0, r"P must have the shape \(S, A, S\), got \(2, 3\)"),
        (np.zeros((2, 1, 2)), np.zeros(2), r"P must hold at least one probability above zero"),
        (np.full((2, 1, 2), 0.5), np.zeros((2, 3)), r"R must have the shape"),
        (np.full((2, 1, 2), 0.4), np.zeros(2), r"must sum to 1.*got 0\.8 in state 0 for action 0"),
        (np.full((2, 1, 2), np.nan), np.zeros(2), r"probability must be in \[0, 1\], got .*nan"),
    ],
)
def test_bad_arrays(P, R, message):
    with pytest.raises(ValueError, match=message):
        TransitionTable.from_arrays(P, R, starts=0, horizon=5)


def test_environments_that_cannot_be_enumerated():
    with pytest.raises(
        ValueError, match=r"must publish its transitions .* got CartPoleEnv.*from_outcomes takes a function"
    ):
        TransitionTable.from_env("CartPole-v1")
    with pytest.raises(ValueError, match=r"from_dynamics\(env\.unwrapped\.dynamics\)"):
        TransitionTable.from_env("ChunkedTD/SkewedSplit-v0")
    with pytest.raises(ValueError, match=r"fickle_passenger=True"):
        TransitionTable.from_env(gym.make("Taxi-v4", fickle_passenger=True))
    with pytest.raises(ValueError, match=r"got TransformReward"):
        TransitionTable.from_env(gym.wrappers.TransformReward(gym.make("FrozenLake-v1"), lambda r: -r))
    with pytest.raises(ValueError, match=r"horizon must be given if states can recur"):
        TransitionTable.from_env("CliffWalking-v1")
    with pytest.raises(TypeError, match=r"env must be a Gymnasium environment or its id, got 3"):
        TransitionTable.from_env(3)


def test_a_function_without_end():
    from chunked_td.envs.table_building import enumerate_states

    with pytest.raises(ValueError, match=r"at most 100 states"):
        enumerate_states(lambda s, a: [(1.0, s + 1, 0.0, False)], 0, 1, most=100)


def test_learns_frozen_lake():
    """On the lake without ice the best way is found, by the simulation and on the Gymnasium face alike."""
    table = TransitionTable.from_env(gym.make("FrozenLake-v1", is_slippery=False))
    runs = simulate(
        table, learner="sarsa", lambda_source=0.9, step_sizes=0.2, seeds=1, episodes=300, epsilon=0.2, discount=0.95,
        view="traces", keep_values=True, threads=1,
    )  # fmt: skip
    env = table.env()
    agent = ctd.SarsaLambda(env, lambda_=0.9, step_size=0.2, discount=0.95, epsilon=0.2, seed=1)
    agent.learn(env, episodes=300, progress=False)
    assert agent.tables.values[:64].tobytes() == runs.values[0].tobytes()
    assert runs.values.any()
