"""The linear key-to-door of the COCOA paper: exact values by hand, and the two faces."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from chunked_td.analysis.exact import ExactModel
from chunked_td.envs.dynamics import linear_key_to_door
from chunked_td.envs.linear_key_to_door.dynamics import LEFT, OPEN, PICK_KEY, RIGHT, apples_of
from chunked_td.simulation import simulate


@pytest.mark.parametrize("length", [4, 23, 60])
def test_values_are_those_computed_by_hand(length):
    """An apple is worth 1/2, the treasure 0.2, all times 23/L; at random one action of four is right each time."""
    table, scale = linear_key_to_door(length, seed=3), 23 / length
    apples = np.count_nonzero(apples_of(length, 0.8, 3))
    exact = ExactModel(table)
    assert exact.optimal().value((0,)) == pytest.approx(scale * (apples / 2 + 0.2))
    assert exact.evaluate("uniform").value((0,)) == pytest.approx(scale * (apples / 8 + 0.2 / 16))


def test_apples_are_where_the_seed_says_and_nowhere_else():
    many = np.array([apples_of(103, 0.8, seed) for seed in range(50)])
    assert not many[:, [0, -2, -1]].any()
    share = (many[:, 1:-2] > 0).mean()
    assert abs(share - 0.8) < 4 * (0.16 / (50 * 100)) ** 0.5
    assert set(np.unique(many)) == {0, LEFT, RIGHT}
    np.testing.assert_array_equal(apples_of(23, 0.8, 1), apples_of(23, 0.8, 1))


def play(actions, **settings):
    env = gym.make("ChunkedTD/LinearKeyToDoor-v0", **settings)
    env.reset(seed=0)
    rewards, terminated = [], False
    for action in actions:
        assert not terminated
        _, reward, terminated, truncated, _ = env.step(action)
        rewards.append(reward)
    assert terminated
    assert not truncated
    return np.array(rewards)


def test_an_episode_step_by_step():
    grid = apples_of(10, 0.8, 5)
    best = [PICK_KEY, *(int(side) or OPEN for side in grid[1:8]), OPEN, LEFT]
    paid = play(best, length=10, seed=5)
    np.testing.assert_allclose(paid[-1], 0.2 * 2.3)
    assert set(np.round(paid[1:8] / 2.3, 12)) <= {0.0, 0.1, 0.9}
    np.testing.assert_array_equal(paid[1:8] > 0, grid[1:8] > 0)
    wrong = [PICK_KEY, *(RIGHT if side == LEFT else LEFT for side in grid[1:8]), OPEN, LEFT]
    np.testing.assert_allclose(play(wrong, length=10, seed=5), [*[0.0] * 9, 0.2 * 2.3])
    assert play([OPEN, *best[1:]], length=10, seed=5)[-1] == play([*best[:-2], LEFT, OPEN], length=10, seed=5)[-1] == 0


def test_a_miss_is_an_episode_without_treasure():
    """At random 1/16 of episodes find the treasure; 4 standard errors."""
    common = {"lambda_source": 0.9, "step_sizes": 0.1, "seeds": range(4), "epsilon": 1.0, "episodes": 1000}
    runs = simulate(linear_key_to_door(8), learner="sarsa", **common)
    assert abs(1 - np.mean(runs.misses) / 1000 - 1 / 16) < 4 * (15 / 256 / 4000) ** 0.5
