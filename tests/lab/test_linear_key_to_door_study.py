"""The study of the linear key-to-door: its policy gradients are the library's; scored seeds have chosen nothing."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import polars as pl
import pytest

import chunked_td as ctd
from chunked_td.envs.dynamics import linear_key_to_door
from chunked_td.lab.studies.linear_key_to_door import gradients
from chunked_td.lab.studies.linear_key_to_door.claims import CLAIMS, LOAD, PAGE, Treasures
from chunked_td.lab.studies.linear_key_to_door.protocol import ARMS, CHOOSING, EPISODES, JUDGED, LENGTHS, STUDY
from chunked_td.learners.hindsight import FORMS


@pytest.mark.uncompiled
@pytest.mark.parametrize("form", FORMS)
def test_episodes_are_learned_from_as_the_library_does(form):
    table = linear_key_to_door(5, seed=3)
    env = gym.make("ChunkedTD/LinearKeyToDoor-v0", length=5, seed=3)
    agent = ctd.HindsightPolicyGradient(env, form=form, step_size=0.3, least_weight=gradients.LEAST_WEIGHT)
    number, problem = FORMS.index(form), gradients.problem_of(table)
    state = gradients.new_state(table, number, 3)
    np.random.seed(0)
    for _ in range(30):
        missed = gradients.play(problem, state, number)
        assert missed == (state.rewards[-1] == 0.0)
        gradients.learn(state, number, 0.3, 1.0, gradients.LEAST_WEIGHT, 0.0)
        agent.learn_episode(*(array.copy() for array in (state.states, state.actions, state.rewards, state.policies)))
    np.testing.assert_allclose(state.logits, agent.logits, rtol=1e-12)


@pytest.mark.uncompiled
def test_entropy_rises_along_its_gradient():
    policy = np.array([[0.7, 0.2, 0.1]])
    change = np.zeros((1, 3))
    gradients.add_entropy(change, np.zeros(1, np.int64), policy, 1.0)
    entropies = []
    for shift in (-1e-6, 1e-6):
        for a in range(3):
            weights = policy[0] * np.exp(shift * np.eye(3)[a])
            entropies.append(-(p := weights / weights.sum()) @ np.log(p))
    numeric = (np.array(entropies[3:]) - entropies[:3]) / 2e-6
    np.testing.assert_allclose(change[0], numeric, atol=1e-8)


def frame_of(share) -> pl.DataFrame:
    """Runs in which an arm has share(arm, length, step size, seed)."""
    rows = [
        {"length": length, "sure": sure, "arm": arm.id, "episodes": EPISODES, "step_size": size, "seed": seed,
         "share": share(arm.id, length, size, seed), "last": 1.0}
        for length, sure in [*((length, False) for length in LENGTHS), (LENGTHS[0], True)]
        for arm in ARMS for size in (0.5, 0.25) for seed in range(CHOOSING + JUDGED)
    ]  # fmt: skip
    return pl.DataFrame(rows)


def test_step_sizes_are_chosen_on_other_seeds_and_claims_follow_their_criteria(tmp_path):
    def share(arm, length, size, seed):
        if seed < CHOOSING:
            return size  # the larger step size is chosen, though it is worse afterwards
        base = {"rule": 0.85, "reward": 0.6}.get(arm, 0.3)
        return base + 0.01 * (seed % 3) + (0.1 if size < 0.5 else 0.0)

    frame = frame_of(share)
    found = Treasures(frame)
    assert found.shares(23, "rule").shape == (JUDGED,)
    assert found.shares(23, "rule").mean() == pytest.approx(0.86, abs=0.001)
    assert {claim.judge(found, {}).status for claim in CLAIMS} == {"holds"}
    frame.write_parquet(tmp_path / "runs.parquet")
    assert "| λ = 0 | ε falling, at best 0.89 | 0.31, 1.00 |" in PAGE(tmp_path, LOAD(tmp_path)).read_text(
        encoding="utf-8"
    )
    short = Treasures(frame.filter(pl.col("length").is_in((LENGTHS[0], LENGTHS[-1]))))
    assert [claim.judge(short, {}).status for claim in CLAIMS] == ["holds in part", "holds in part", "holds", "holds"]
    few = Treasures(frame.filter(pl.col("seed") < 4))
    assert {claim.judge(few, {}).status for claim in CLAIMS} == {"not run"}


def test_every_arm_has_as_many_step_sizes():
    for protocol in STUDY.protocols("paper"):
        assert {len(protocol.exponents_of(arm)) for arm in protocol.arms} == {8}
