"""Gymnasium environments as compiled dynamics."""

from __future__ import annotations

import gymnasium as gym
import pytest

import chunked_td as ctd
from chunked_td.envs.dynamics import AccumulatedCharge, TransitionTable


def test_dynamics_of_environments():
    assert isinstance(ctd.dynamics_of("FrozenLake-v1"), TransitionTable)
    assert ctd.dynamics_of("CliffWalking-v1", horizon=500).horizon == 500
    charge = gym.make("ChunkedTD/AccumulatedCharge-v0", horizon=6, points=2)
    assert isinstance(ctd.dynamics_of(charge), AccumulatedCharge)
    table = TransitionTable.from_outcomes([[[(1.0, 0, 1.0, True)]]], starts=0)
    assert ctd.dynamics_of(table.env()) is table


def test_what_has_no_compiled_dynamics():
    with pytest.raises(ValueError, match=r"must publish its transitions .* got CartPoleEnv"):
        ctd.dynamics_of("CartPole-v1")
    with pytest.raises(ValueError, match=r"horizon must be given"):
        ctd.dynamics_of("CliffWalking-v1")
    short = gym.make("ChunkedTD/AccumulatedCharge-v0", max_episode_steps=10)
    with pytest.raises(ValueError, match=r"TimeLimit of at least its own .* got 10"):
        ctd.dynamics_of(short)
