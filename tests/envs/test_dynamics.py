"""The kernels against the plain definitions, the paper's details, and the distributions.

Statistical tests: each rejects a correct implementation with probability 1e-6 (over seeds); the seeds are fixed.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from chunked_td.envs.dynamics import (
    AccumulatedCharge,
    ChainAndSplit,
    Dynamics,
    KeyToDoor,
    SkewedSplit,
    independent_copy,
)
from chunked_td.seeding import Draws
from helpers.small_envs import SMALL, all_pairs, array, component_probability, env_miss, prepare, prepared, start
from helpers.streams import Given

ERROR_RATE = 1e-6
each_small = pytest.mark.parametrize("env", SMALL.values(), ids=SMALL.keys())


def sample(env, state, action, count, seed):
    """`count` transitions from (state, action) by the kernel: (next state, reward, ended) each."""
    draws, reward = Draws.of(np.random.SeedSequence(seed)), np.zeros(env.n_rewards)
    for _ in range(count):
        at = array(state)
        reward[:] = np.nan  # every entry has to be written
        ended = env.step(env, draws.stream, at, action, reward)
        yield tuple(at.tolist()), tuple(reward.tolist()), ended


def chi_square(observed, expected):
    """Upper tail probability of Pearson's statistic."""
    observed, expected = np.asarray(observed, float), np.asarray(expected, float)
    return stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1)


@each_small
def test_offers_what_the_protocol_asks(env):
    assert isinstance(env, Dynamics)
    assert all(0 <= part < n for part, n in zip(start(env), env.nvec, strict=True))


@each_small
def test_step_makes_the_transitions_of_the_definition_as_often_as_it_says(env):
    statistic, freedom, count = 0.0, 0, 400
    for i, (state, action) in enumerate(all_pairs(env)):
        outcomes = {s: (p, r, end) for p, s, r, end in env.outcomes(state, action)}
        assert sum(p for p, _, _ in outcomes.values()) == pytest.approx(1, abs=1e-12)
        seen = dict.fromkeys(outcomes, 0)
        for s, r, end in sample(env, state, action, count, seed=i):
            _, reward, ended = outcomes[s]
            assert r == pytest.approx(reward, abs=1e-12)
            assert end == ended
            seen[s] += 1
        statistic += sum((seen[s] - count * p) ** 2 / (count * p) for s, (p, _, _) in outcomes.items())
        freedom += len(outcomes) - 1
    assert freedom == 0 or stats.chi2.sf(statistic, freedom) > ERROR_RATE


@each_small
def test_probability_is_that_of_the_definition_for_every_next_state(env):
    everywhere = list(itertools.product(*(range(n) for n in env.nvec)))
    for state, action in all_pairs(env):
        chances = {s: p for p, s, _, _ in env.outcomes(state, action)}
        for next_state in everywhere:
            components = component_probability(env, state, action, next_state)
            assert components.prod() == pytest.approx(chances.get(next_state, 0.0), abs=1e-12)


@each_small
def test_component_probabilities_are_the_marginals(env):
    for state, action in all_pairs(env):
        outcomes = env.outcomes(state, action)
        for i, n in enumerate(env.nvec):
            marginal = np.zeros(n)
            for p, s, _, _ in outcomes:
                marginal[s[i]] += p
            some = list(outcomes[0][1])
            for value in range(n):
                some[i] = value
                assert component_probability(env, state, action, some)[i] == pytest.approx(marginal[value], abs=1e-12)


@each_small
def test_episodes_keep_the_promised_bounds(env):
    state, reward = array(start(env)), np.zeros(env.n_rewards)
    rng = np.random.default_rng(5)
    draws, longest = Draws.of(np.random.SeedSequence(6)), 0
    for _ in range(50):
        env.reset(env, draws.stream, state)
        length, ended = 0, False
        while not ended:
            before = draws.stream.words[4].copy()
            ended = env.step(env, draws.stream, state, int(rng.integers(env.legal(env, state))), reward)
            assert draws.stream.words[4] - before <= env.draws
            assert (state < env.nvec).all()
            length += 1
        longest = max(longest, length)
        assert env.outcomes(tuple(state.tolist()), 0) == []
    assert longest == env.horizon


# The paper's sizes ----------------------------------------------------------------------------------------------------


def test_chain_and_split_has_the_papers_sizes():
    env = ChainAndSplit.make()
    assert (env.horizon, env.n_actions, env.width, env.nvec) == (20, 10, 101, (123,))
    split = [r for _, _, (r,), _ in env.outcomes((21,), 0)]
    assert split == pytest.approx(np.arange(-50, 51) / 50)
    assert math.fsum(env.leaf_rewards) == 0
    assert [env.legal(env, array([s])) for s in range(22)] == [10] + [1] * 21


def test_accumulated_charge_has_the_papers_sizes():
    env = prepared(AccumulatedCharge.make())
    assert (env.horizon, env.points, env.trials, env.nvec) == (200, 10, 20, (2, 201, 201))
    assert env.charging.sum() == 10
    assert env.charging[0] == 0
    assert [env.legal(env, array([0, 0, t])) for t in range(200)] == [2] + [1] * 199
    (_, _, (after_a1,), _), (_, _, (after_a2,), _) = (
        max(env.outcomes((first, 110, 199), 0), key=lambda o: -o[1][1]) for first in (1, 0)
    )
    assert after_a1 == pytest.approx(0.1 + 0.5 * 110 - 0.5 * 100)
    assert after_a2 == pytest.approx(-0.5 * 110 + 0.5 * 100)


@pytest.mark.parametrize(("trials", "success"), [(20, 0.5), (7, 0.3), (3000, 0.01), (5, 0.0), (5, 1.0)])
def test_charge_table_is_the_binomial_distribution(trials, success):
    env = AccumulatedCharge.make(2 * trials, 2, success)
    assert env.pmf == pytest.approx(stats.binom.pmf(np.arange(trials + 1), trials, success), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(("horizon", "points", "success"), [(200, 10, 0.5), (12, 3, 0.3), (400, 1, 0.9)])
def test_charge_inverts_the_distribution_function(horizon, points, success):
    env = prepared(AccumulatedCharge.make(horizon, points, success))
    numbers = np.concatenate([np.arange(2_000) / 2_000, env.cdf[:-1], np.nextafter(env.cdf, 0), [0.0]])
    numbers = numbers[(numbers >= 0) & (numbers < 1)]
    reward, step = np.zeros(1), Given(*numbers).in_python(type(env).step)
    t = int(np.flatnonzero(env.charging)[0])
    for u in numbers:
        state = array([1, 0, t])
        step(env, None, state, 0, reward)
        assert state[1] == np.searchsorted(env.cdf, u, side="right")


def test_key_to_door_has_the_papers_sizes_and_rewards():
    env = KeyToDoor.make()
    assert (env.horizon, env.distractors, env.n_rewards, env.n_actions) == (100, 4, 8, 2)
    assert int(np.prod(env.nvec)) == 12_928
    assert env.weights.tolist() == [0, 0, 0.0025, 0.0025, 0.0025, 0.0025, 0.01, 0]


@pytest.mark.parametrize("unlock_first", [False, True])
def test_key_to_door_distractors_are_off_at_start_door_and_end(unlock_first):
    env = KeyToDoor.make(horizon=10, distractors=4)
    draws, state, reward = Draws.of(np.random.SeedSequence(0)), array([7] * 8), np.zeros(8)
    on = np.zeros((11, 4))
    for _ in range(100):
        env.reset(env, draws.stream, state)
        on[0] += state[2:6]
        for t in range(10):
            assert state[1] == (t == 9)  # the door
            assert state[6] == 0
            env.step(env, draws.stream, state, int(unlock_first) if t == 0 else 1, reward)
            on[t + 1] += state[2:6]
        assert (state[0], state[1], state[6], state[7]) == (not unlock_first, 0, not unlock_first, 10)
        assert reward.tolist() == [0] * 6 + [0.0 if unlock_first else 0.01, 0]
        assert env.miss(env, 0, state) == unlock_first
    assert (on[[0, 9, 10]] == 0).all()
    assert (on[1:9] > 0).all()


def test_key_to_door_needs_the_key_at_the_start_and_unlock_at_the_door():
    env = KeyToDoor.make(horizon=4, distractors=0)
    draws, reward = Draws.of(np.random.SeedSequence(0)), np.zeros(4)
    for actions in itertools.product((0, 1), repeat=4):
        state = array(start(env))
        ends = [env.step(env, draws.stream, state, action, reward) for action in actions]
        assert ends == [False, False, False, True]
        assert state[2] == (actions[0] == 0 and actions[3] == 1)


@pytest.mark.parametrize("env", [SMALL["chain"], SMALL["charge"]])
def test_a_first_action_other_than_a1_is_a_miss(env):
    end = array(start(env))
    assert [env.miss(env, a, end) for a in range(env.n_actions)] == [a != 0 for a in range(env.n_actions)]


def test_skewed_split_never_misses():
    env = SkewedSplit.make()
    assert (env.nvec, env.horizon, env.n_actions) == ((4,), 2, 1)
    assert not env_miss(env, 0, array([2]))


# Distributions --------------------------------------------------------------------------------------------------------


def test_charge_is_binomial():
    env, count = prepared(AccumulatedCharge.make(), seed=7), 20_000
    t = int(np.flatnonzero(env.charging)[0])
    gains = [s[1] for s, _, _ in sample(env, (1, 0, t), 0, count, seed=1)]
    observed = np.bincount(gains, minlength=21)
    expected = count * stats.binom.pmf(np.arange(21), 20, 0.5)
    pooled = [slice(0, 5), *(slice(j, j + 1) for j in range(5, 16)), slice(16, 21)]
    assert chi_square([observed[j].sum() for j in pooled], [expected[j].sum() for j in pooled]) > ERROR_RATE


def test_distractors_are_independent_fair_coins():
    count = 20_000
    patterns = [s[2:6] for s, _, _ in sample(KeyToDoor.make(), (1, 0, 0, 1, 1, 0, 0, 50), 0, count, seed=2)]
    observed = np.bincount(np.array(patterns) @ (8, 4, 2, 1), minlength=16)
    assert chi_square(observed, np.full(16, count / 16)) > ERROR_RATE


def test_all_leaves_are_equally_likely():
    count = 40_000
    leaves = [s[0] - 22 for s, _, _ in sample(ChainAndSplit.make(), (21,), 0, count, seed=3)]
    assert chi_square(np.bincount(leaves, minlength=101), np.full(101, count / 101)) > ERROR_RATE


def test_branch_has_the_probability_given():
    count = 20_000
    likely = sum(s == (2,) for s, _, _ in sample(SkewedSplit.make(0.9), (1,), 0, count, seed=4))
    assert chi_square([likely, count - likely], [0.9 * count, 0.1 * count]) > ERROR_RATE


def test_all_sets_of_charging_steps_are_equally_likely():
    env, count = AccumulatedCharge.make(horizon=9, points=3), 20_000
    draws = Draws.of(np.random.SeedSequence(5))
    seen = {steps: 0 for steps in itertools.combinations(range(1, 9), 3)}
    for _ in range(count):
        prepare(env, draws.stream)
        seen[tuple(np.flatnonzero(env.charging).tolist())] += 1
    assert chi_square(list(seen.values()), np.full(len(seen), count / len(seen))) > ERROR_RATE


# Errors and edges -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "arguments", "kind", "words"),
    [
        (AccumulatedCharge.make, {"points": 200}, ValueError, ["points", "less than horizon = 200", "got 200"]),
        (AccumulatedCharge.make, {"points": 7}, ValueError, ["points", "divide horizon = 200", "got 7"]),
        (AccumulatedCharge.make, {"points": 0}, ValueError, ["points", ">= 1", "got 0"]),
        (AccumulatedCharge.make, {"horizon": 20.0}, TypeError, ["horizon", "integer", "20.0 (float)"]),
        (AccumulatedCharge.make, {"success": 1.5}, ValueError, ["success", "[0, 1]", "1.5"]),
        (AccumulatedCharge.make, {"success": math.nan}, ValueError, ["success", "[0, 1]", "nan"]),
        (AccumulatedCharge.make, {"bonus": math.inf}, ValueError, ["bonus", "finite", "inf"]),
        (AccumulatedCharge.make, {"mirrored": "no"}, TypeError, ["mirrored", "True or False", "'no'"]),
        (ChainAndSplit.make, {"width": 1}, ValueError, ["width", ">= 2", "got 1"]),
        (ChainAndSplit.make, {"horizon": 1}, ValueError, ["horizon", ">= 2", "got 1"]),
        (ChainAndSplit.make, {"actions": True}, TypeError, ["actions", "integer", "True (bool)"]),
        (ChainAndSplit.make, {"chain_reward": "1"}, TypeError, ["chain_reward", "finite number", "'1'"]),
        (KeyToDoor.make, {"horizon": 1}, ValueError, ["horizon", ">= 2", "got 1"]),
        (KeyToDoor.make, {"distractors": 33}, ValueError, ["distractors", "[0, 32]", "got 33"]),
        (KeyToDoor.make, {"treasure_reward": math.nan}, ValueError, ["treasure_reward", "finite", "nan"]),
        (SkewedSplit.make, {"probability": -0.1}, ValueError, ["probability", "[0, 1]", "-0.1"]),
        (SkewedSplit.make, {"probability": None}, TypeError, ["probability", "[0, 1]", "None"]),
        (SkewedSplit.make, {"length": -1}, ValueError, ["length", ">= 0", "-1"]),
    ],
)
def test_wrong_sizes_say_which_and_what_is_accepted(make, arguments, kind, words):
    with pytest.raises(kind) as caught:
        make(**arguments)
    for word in words:
        assert word in str(caught.value)


def test_numpy_numbers_are_taken_as_sizes():
    env = AccumulatedCharge.make(np.int64(6), np.int32(3), np.float32(0.5))
    assert type(env.horizon) is int
    assert type(env.success) is float


def test_accumulated_charge_asks_to_be_prepared():
    with pytest.raises(ValueError, match="not sampled"):
        AccumulatedCharge.make().outcomes((0, 0, 0), 0)


def test_copies_share_no_array():
    env = prepared(AccumulatedCharge.make())
    copy = independent_copy(env)
    before = env.charging.copy()
    prepared(copy, seed=99)
    assert (env.charging == before).all()
    assert (copy.charging != before).any()
