"""Gymnasium environments as compiled dynamics: the same game in distribution, and by exact values."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import chunked_td as ctd
from chunked_td.analysis.exact import ExactModel
from chunked_td.envs.dynamics import AccumulatedCharge, Blackjack, TransitionTable
from chunked_td.seeding import Draws
from chunked_td.simulation import simulate

RULES = {"sab": (True, False), "natural": (False, True), "plain": (False, False)}


def exact_value(table, policy):
    model = ExactModel(table)
    values = model.evaluate(lambda state: policy(table.names[state[0]]))
    return sum(p * values.value(state) for p, state in table.starts)


@pytest.mark.parametrize("rules", RULES)
def test_blackjack_is_gymnasiums(rules):
    """Mean return, length and last sums of random play: within 4.5 standard errors of Gymnasium's, and of the truth."""
    sab, natural = RULES[rules]
    env = gym.make("Blackjack-v1", sab=sab, natural=natural)
    env.action_space.seed(1)
    theirs = []
    for episode in range(3000):
        observation, _ = env.reset(seed=1 if episode == 0 else None)
        first, done, t = observation, False, 0
        while not done:
            observation, reward, done, _, _ = env.step(env.action_space.sample())
            t += 1
        theirs.append((reward, t, first[0], first[1], first[2], observation[0], observation[2]))
    ours, dynamics = [], Blackjack.make(sab, natural)
    draws, state, reward = Draws(np.random.default_rng(2)), np.zeros(3, np.int64), np.zeros(1)
    rng = np.random.default_rng(3)
    for _ in range(3000):
        dynamics.reset(dynamics, draws.reserve(dynamics.draws), state)
        first, done, t = state.copy(), False, 0
        while not done:
            done = dynamics.step(dynamics, draws.reserve(dynamics.draws), state, int(rng.integers(2)), reward)
            t += 1
        ours.append((reward[0], t, *first, state[0], state[2]))
    ours, theirs = np.array(ours, float), np.array(theirs, float)
    error = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / 3000)
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 4.5 * error).all()
    runs = simulate(dynamics, learner="td", lambda_source=0.0, step_sizes=0.01, seeds=0, episodes=100_000, threads=1)
    truth = exact_value(dynamics.table(), lambda name: (0.5, 0.5))
    assert abs(runs.returns_at[0, 0] / 1e5 - truth) < 4.5 * ours[:, 0].std() / np.sqrt(1e5)


def test_blackjack_best_play():
    """The book's rules: the best policy that sees naturals loses about 0.045 per game at an infinite deck."""
    table = Blackjack.make(sab=True).table()
    best = ExactModel(table).optimal()
    worth = sum(p * best.value(state) for p, state in table.starts)
    stick_on_20 = exact_value(table, lambda name: (1.0, 0.0) if name[0] >= 20 else (0.0, 1.0))
    assert -0.06 < worth < -0.03
    assert stick_on_20 < worth
    assert sum(p for p, _ in Blackjack.make().starts) == pytest.approx(1.0)


def test_blackjack_outcomes_and_probabilities_agree():
    env, out = Blackjack.make(sab=False), np.zeros(3)
    for state in [(4, 3, 0), (12, 1, 1), (20, 10, 1), (21, 5, 0), (11, 9, 0), (16, 2, 1)]:
        for action in (0, 1):
            outcomes, total = env.outcomes(state, action), {}
            assert sum(o[0] for o in outcomes) == pytest.approx(1.0)
            for p, x, _, _ in outcomes:
                total[x] = total.get(x, 0.0) + p
            for x, p in total.items():
                env.probability(env, np.array(state), action, np.array(x), out)
                assert out.prod() == pytest.approx(p)
    with pytest.raises(ValueError, match=r"state must tell whether 21 is a natural"):
        Blackjack.make(sab=True).outcomes((21, 5, 1), 0)


def test_blackjack_true_model():
    """The expected λ with the true model runs, and its lists are the outcomes."""
    env = Blackjack.make()
    first, target, chance = env.transition_lists()
    pair = int(np.ravel_multi_index((16, 2, 1), env.nvec)) * 2 + 1
    listed = {tuple(np.unravel_index(target[k], env.nvec)): chance[k] for k in range(first[pair], first[pair + 1])}
    assert listed == pytest.approx({x: p for p, x, _, _ in env.outcomes((16, 2, 1), 1)})
    assert ((target >= 0) & (target < np.prod(env.nvec))).all()


def test_dynamics_of_environments():
    assert isinstance(ctd.dynamics_of("FrozenLake-v1"), TransitionTable)
    assert isinstance(ctd.dynamics_of("Blackjack-v1"), Blackjack)
    assert ctd.dynamics_of("Blackjack-v1").sab is True  # type: ignore[attr-defined]
    assert ctd.dynamics_of("CliffWalking-v1", horizon=500).horizon == 500
    charge = gym.make("ChunkedTD/AccumulatedCharge-v0", horizon=6, points=2)
    assert isinstance(ctd.dynamics_of(charge), AccumulatedCharge)
    table = TransitionTable.from_outcomes([[[(1.0, 0, 1.0, True)]]], starts=0)
    assert ctd.dynamics_of(table.env()) is table


def test_what_has_no_compiled_dynamics():
    with pytest.raises(ValueError, match=r"CartPoleEnv does not publish its transitions"):
        ctd.dynamics_of("CartPole-v1")
    with pytest.raises(ValueError, match=r"horizon must be given"):
        ctd.dynamics_of("CliffWalking-v1")
    short = gym.make("ChunkedTD/AccumulatedCharge-v0", max_episode_steps=10)
    with pytest.raises(ValueError, match=r"its TimeLimit is 10"):
        ctd.dynamics_of(short)
