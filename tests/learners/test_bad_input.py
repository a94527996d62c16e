"""Bad input: a clear error that names the argument, and a learner that is none the worse for it."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import pytest

import chunked_td as ctd
from chunked_td.learners.inputs import learner_by_name
from helpers.worlds import World

LAKE = gym.make("FrozenLake-v1")


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        *(({"step_size": x}, "step_size must be a positive finite number") for x in (0, -1, math.nan, math.inf, "a")),
        *(({"epsilon": x}, r"epsilon must be a number in \[0, 1\]") for x in (-0.1, 1.1, math.nan, "a", True)),
        *(({"discount": x}, r"discount must be a number in \[0, 1\]") for x in (-0.1, 1.1, math.nan)),
        *(({"lambda_source": x}, "lambda_source must be") for x in (-0.1, 1.1, math.nan, "forward")),
        ({"step_size": ctd.Schedule(((0, 0.1), (5, 0.0)))}, "step_size must be a positive finite number, got 0.0"),
        ({"epsilon": ctd.Schedule(((0, 0.1), (5, 1.5)))}, r"epsilon must be a number in \[0, 1\], got 1.5"),
        ({"cutoff": -1}, "cutoff must be a finite number from 0"),
        ({"prior": math.nan}, "prior must be a finite number from 0"),
        ({"seed": -1}, "seed must be a whole number from 0"),
        ({"seed": 1.5}, "seed must be a whole number from 0"),
        ({"view": "trace"}, "view must be one of .* did you mean 'traces'"),
        ({"percept": "rewards"}, "percept must be one of .* did you mean 'reward-state'"),
        ({"policy": "uniform"}, "policy requires a state-value learner"),
        ({"prior": 1.0, "percept": "reward-state"}, "prior requires a known number of outcomes"),
        (
            {"lambda_source": ctd.ExpectedLambda(), "percept": "reward-state"},
            "does not support ExpectedLambda for ChunkedSarsa",
        ),
        ({"lambda_source": ctd.BackwardLambda(), "percept": "reward-state"}, "which counts states"),
        ({"lambda_source": ctd.FactoredLambda()}, "got SARSA"),
        ({"model": object(), "percept": "reward-state"}, "settings of the count model"),
        ({"model": object(), "prior": 1.0}, "settings of the count model"),
        ({"model": object()}, r"model must have a method observe\(\)"),
        ({"model": object(), "lambda_source": ctd.BackwardLambda()}, "model must be None for BackwardLambda"),
    ],
)
def test_settings(settings, match):
    with pytest.raises(ValueError, match=match):
        ctd.ChunkedSarsa(LAKE, **settings)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan])
def test_lambda_of_a_fixed_lambda_learner(value):
    with pytest.raises(ValueError, match=r"lambda must be a number in \[0, 1\]"):
        ctd.SarsaLambda(LAKE, lambda_=value)


@pytest.mark.parametrize(
    ("policy", "match"),
    [
        ("unifrom", "policy must be one of 'uniform', got 'unifrom'; did you mean 'uniform'"),
        (np.ones((16, 4)), "rows of probabilities that sum to 1"),
        (np.full((16, 4), np.nan), "rows of probabilities that sum to 1"),
        (np.ones((3, 4)) / 4, r"shape \(states, actions\) = \(16, 4\), got \(3, 4\)"),
    ],
)
def test_policies(policy, match):
    with pytest.raises(ValueError, match=match):
        ctd.ChunkedTD(LAKE, policy=policy)


def test_sampled_chunks_are_for_values_and_sarsa():
    with pytest.raises(ValueError, match="view='sampled' requires state values or SARSA"):
        ctd.ChunkedExpectedSarsa(LAKE, view="sampled")


def test_unknown_learner_names_the_nearest():
    assert learner_by_name("ChunkedSarsa") is ctd.ChunkedSarsa
    with pytest.raises(ValueError, match=r"learner must be one of .*got 'ChunkedSarsaa'; did you mean 'ChunkedSarsa'"):
        learner_by_name("ChunkedSarsaa")
    with pytest.raises(ValueError, match="learner must be one of"):
        learner_by_name("")


@pytest.mark.parametrize("points", [(), ((5, 0.1), (5, 0.2)), ((5, 0.1), (0, 0.2))])
def test_schedules_rise(points):
    with pytest.raises(ValueError, match="points must be"):
        ctd.Schedule(points)


def test_schedule_values():
    ramp, held = ctd.linear(1.0, 0.0, 4), ctd.Schedule(((2, 1.0), (4, 3.0)), hold=True)
    assert [ramp(k) for k in range(6)] == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    assert [held(k) for k in range(6)] == [1.0, 1.0, 1.0, 1.0, 3.0, 3.0]
    with pytest.raises(ValueError, match="episodes must be a whole number, at least 1"):
        ctd.linear(1, 0, 0)


# ---- while learning


def everything(agent):
    """All that a learner has learned and will use, as bytes."""
    parts = [*agent.tables, *(agent.counts or ()), *(agent.trace or ()), *agent.memory]
    draws = str(agent.policy_draws.state()), str(agent.chunk_draws.state())
    return [part.tobytes() for part in parts if part is not None], draws, agent.state, agent.action, agent.episode


def mid_episode(rewards=1, cls=ctd.ChunkedExpectedSarsa, **settings):
    world = World(8, (6,), actions=3, rewards=rewards, masked=False)
    agent = cls(world, seed=1, **settings)
    paid = np.ones(rewards) if rewards > 1 else 1.0
    for _ in range(2):
        agent.start(0)
        agent.step(paid, 1, False)
        agent.step(paid, 2, False)
        agent.step(paid, 5, True)
    agent.start(0)
    agent.step(paid, 1, False)
    return agent, paid


def assert_unharmed(agent, paid, before, twin):
    assert everything(agent) == before
    assert agent.step(paid, 2, False) == twin.step(paid, 2, False)
    assert everything(agent) == everything(twin)


BAD_STEPS = [
    ({"reward": math.nan}, "reward must"),
    ({"reward": math.inf}, "reward must"),
    ({"reward": -math.inf}, "reward must"),
    ({"reward": None}, "reward must"),
    ({"reward": "much"}, "reward must"),
    ({"reward": [1.0, 2.0, 3.0, 4.0]}, "reward must"),
    ({"reward": []}, "reward must"),
    ({"observation": 6}, "observation: got 6"),
    ({"observation": -1}, "observation: got -1"),
    ({"observation": "left"}, "observation: got 'left'"),
    ({"info": {"action_mask": [0, 0, 0]}}, r"info\['action_mask'\] forbids every action"),
    ({"info": {"action_mask": [1, 0]}}, r"info\['action_mask'\] must have shape \(3,\)"),
]


@pytest.mark.parametrize("rewards", [1, 2])
@pytest.mark.parametrize("view", ["traces", "offline"])
@pytest.mark.parametrize(("change", "match"), BAD_STEPS)
def test_bad_steps_leave_the_learner_unharmed(change, match, view, rewards):
    agent, paid = mid_episode(rewards, view=view)
    twin, _ = mid_episode(rewards, view=view)
    call = {"reward": paid, "observation": 2, "terminated": False, "truncated": False, "info": None} | change
    before = everything(agent)
    with pytest.raises(ValueError, match=match):
        agent.step(**call)
    assert_unharmed(agent, paid, before, twin)


def test_vector_rewards_are_checked_component_by_component():
    agent, paid = mid_episode(2)
    twin, _ = mid_episode(2)
    before = everything(agent)
    for wrong in ([1.0, math.nan], [math.inf, 0.0], [1.0], 1.0, [[1.0, 2.0]]):
        with pytest.raises(ValueError, match="reward must"):
            agent.step(wrong, 2, False)
    assert_unharmed(agent, paid, before, twin)


@pytest.mark.parametrize(
    ("observation", "info"), [(9, None), (0, {"action_mask": [0, 0, 0]}), (0, {"action_mask": [1]})]
)
def test_bad_starts_leave_the_episode_under_way(observation, info):
    agent, paid = mid_episode()
    twin, _ = mid_episode()
    before = everything(agent)
    with pytest.raises(ValueError, match=r"observation: got 9|action_mask"):
        agent.start(observation, info)
    assert_unharmed(agent, paid, before, twin)


@pytest.mark.parametrize("cls", [ctd.ChunkedTD, ctd.CorrectedTD])
@pytest.mark.parametrize(
    "row", [[0.5, 0.5], [0.5, 0.5, 0.5], [np.nan, 0.5, 0.5], [-0.5, 0.5, 1.0], [0.0, 0.0, 1.0]], ids=str
)
def test_a_bad_policy_leaves_the_learner_unharmed(cls, row):
    good, rows = np.full(3, 1 / 3), {}

    def policy(observation):
        return rows.get(observation, good)

    agent, paid = mid_episode(cls=cls, policy=policy)
    twin, _ = mid_episode(cls=cls, policy=lambda observation: good)
    before, info = everything(agent), {"action_mask": [1, 1, 0]}
    rows[2] = rows[0] = np.array(row)
    with pytest.raises(ValueError, match="policy must"):
        agent.step(paid, 2, False, info=info)
    with pytest.raises(ValueError, match="policy must"):
        agent.start(0, info)
    rows.clear()
    assert_unharmed(agent, paid, before, twin)


def test_step_before_start():
    agent, _ = mid_episode()
    agent.step(1.0, 5, True)
    fresh = ctd.ChunkedSarsa(LAKE)
    for one in (agent, fresh):
        before = everything(one)
        with pytest.raises(RuntimeError, match=r"step\(\) before start\(\)"):
            one.step(1.0, 0, False)
        assert everything(one) == before
        one.start(0)


class Moody:
    """A model that misbehaves when told to."""

    chance: object = 0.5

    def observe(self, *_):
        if self.chance is None:
            raise ValueError("model: no idea")

    def probabilities(self, *_):
        return np.full(3, self.chance)


@pytest.mark.parametrize("cls", [ctd.ChunkedSarsa, ctd.ChunkedTD])
def test_an_error_in_a_model_leaves_the_learner_unharmed(cls):
    agent, paid = mid_episode(cls=cls, model=Moody())
    twin, _ = mid_episode(cls=cls, model=Moody())
    before = everything(agent)
    for wrong in (2.0, -1.0, math.nan, None):
        agent.model.chance = wrong
        with pytest.raises(ValueError, match="model"):
            agent.step(paid, 2, False)
    agent.model.chance = 0.5
    assert_unharmed(agent, paid, before, twin)


def test_asking_for_what_is_not_learned():
    with pytest.raises(TypeError, match=r"call values\(observation\)"):
        ctd.ChunkedTD(LAKE).q_values(0)


def test_asking_changes_nothing():
    agent, paid = mid_episode()
    twin, _ = mid_episode()
    before = everything(agent)
    agent.q_values(3), agent.values(3), agent.act(3), agent.policy_probabilities(3), repr(agent)
    assert_unharmed(agent, paid, before, twin)
    assert agent.act(0, explore=True) in range(3)
