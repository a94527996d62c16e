"""The study of bsuite's experiments: seeds play settings, scores are judged by the rule, mistakes are counted right."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from chunked_td.envs import KeptPercepts
from chunked_td.lab.studies.bsuite.claims import CLAIMS, LOAD, PAGE, BsuiteResults
from chunked_td.lab.studies.bsuite.problems import MemoryChain, UmbrellaChain, discounting_chain, numbers_by_time
from chunked_td.lab.studies.bsuite.protocol import EPISODES, SETTINGS, arms_of
from chunked_td.lab.studies.bsuite.runs import Experiment


def frame_of(mistakes) -> pl.DataFrame:
    """Full runs in which an arm has mistakes(experiment, arm, setting)."""
    rows = [
        {"experiment": name, "arm": arm.id, "episodes": EPISODES.get(name, 10_000), "setting": setting, "seed": seed,
         "mistakes": mistakes(name, arm.id, setting)}
        for name, settings in SETTINGS.items() for arm in arms_of(name) for seed, setting in enumerate(settings)
    ]  # fmt: skip
    return pl.DataFrame(rows)


def verdicts(frame) -> dict[str, str]:
    return {claim.id: claim.judge(BsuiteResults(frame), {}).status for claim in CLAIMS}


def test_claims_are_judged_by_the_rule(tmp_path):
    def good(name, arm, setting):
        if name == "memory_size":
            return 0.5 if arm == "no-memory" or setting > 10 else 0.3
        return 0.2 if name == "umbrella_length" or arm != "fixed-0" else 0.9

    assert set(verdicts(frame_of(good)).values()) == {"holds"}
    (tmp_path / "t").mkdir()
    frame_of(good).write_parquet(tmp_path / "t" / "runs.parquet")
    text = PAGE(tmp_path / "t", LOAD(tmp_path / "t")).read_text(encoding="utf-8")
    assert "| λ = 0.9, no memory |  | 0.00 |" in text
    assert "0.59" in text  # 10 of 17
    bad = verdicts(frame_of(lambda name, arm, setting: 0.1 if arm.startswith(("fixed", "no")) else 0.6))
    assert bad["bsuite-discounting"] == bad["bsuite-umbrella"] == bad["bsuite-memory-needed"] == "does not hold"
    assert bad["bsuite-memory-len"] == "holds in part"
    short = frame_of(good).with_columns(pl.lit(20).alias("episodes"))
    assert set(verdicts(short).values()) == {"not run"}
    part = frame_of(good).filter(~((pl.col("experiment") == "umbrella_length") & (pl.col("seed") == 3)))
    assert verdicts(part)["bsuite-umbrella"] == "not run"
    lost = BsuiteResults(frame_of(lambda *_: float("nan")))  # runs that diverged solve nothing
    assert lost.scores("umbrella_length", arms_of("umbrella_length")[0].id).tolist() == [0.0]


def test_a_seed_plays_a_setting():
    experiment = Experiment.make("memory_size", SETTINGS["memory_size"], 10)
    for seed, bits in ((0, 1), (16, 40), (17, 1)):
        env, _ = experiment.environment(seed, memory=True)
        assert isinstance(env, KeptPercepts)
        assert env.unwrapped.bits.size == bits
    env, features = Experiment.make("umbrella_length", SETTINGS["umbrella_length"], 10).environment(22, memory=True)
    assert (env.length, env.coins, features.count) == (100, 20, 2300)


@pytest.mark.parametrize(("length", "bits"), [(1, 1), (4, 1), (2, 3)])
def test_bits_are_shown_at_the_start_alone_and_asked_for_at_the_end(length, bits):
    env = MemoryChain(length, bits)
    for seed in range(8):
        shown = [env.reset(seed=seed)[0]]
        answer, wrong, ended = int(env.bits[env.query]), env.mistakes, False
        while not ended:
            shown.append((step := env.step(answer if seed % 2 else 1 - answer))[0])
            ended = step[2]
        assert len(shown) == length + 2
        assert step[1] == (1.0 if seed % 2 else -1.0)
        assert env.mistakes - wrong == 1 - seed % 2
        assert all(np.array_equal(shown[k][2:], 2 * env.bits - 1) for k in (0, 1))
        assert not np.any(np.array(shown)[2:, 2:])
        assert shown[length][1] == env.query
        assert not np.any(np.delete(np.array(shown)[:, 1], [length, *([0] if length == 1 else [])]))


def test_the_memory_still_has_the_bits_when_they_are_asked_for():
    """Once percepts have been counted, the two kept are what is asked for and the bits, whatever was done."""
    env, rng = KeptPercepts(MemoryChain(2, 4), 2, clock=1, percepts=100), np.random.default_rng(0)
    answers: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for seed in range(400):
        env.reset(seed=seed)
        for _ in range(2):
            state = env.step(int(rng.integers(2)))[0]
        answers.setdefault(tuple(state[:3].tolist()), set()).add((*env.unwrapped.bits, env.unwrapped.query))
        assert env.step(0)[2]
    assert 40 < len(answers) <= 64  # 16 contexts, 4 questions
    assert all(len(found) == 1 for found in answers.values())


def test_features_are_the_numbers_in_the_places_of_their_time():
    env = UmbrellaChain(5, 3)
    features = numbers_by_time(5, 6)
    shown, ended, time = env.reset(seed=1)[0], False, 0
    while not ended:
        expected = np.zeros((5, 6))
        expected[time] = [2 * shown[0] - 1, 2 * shown[1] - 1, 1, *(2 * shown[3:] - 1)]
        np.testing.assert_array_equal(features(shown), expected.ravel())
        shown, _, ended, _, _ = env.step(1)
        time += 1
    assert not features(shown).any()


def test_the_best_chain_is_worth_more():
    table = discounting_chain(8)
    total = {}
    for chain in range(5):
        state, paid = (-1, 0), 0.0
        number = {name: k for k, name in enumerate(table.names)}
        for _ in range(100):
            ((_, arrived, (reward,), ended),) = table.outcomes(table.components(number[state]), chain)
            state, paid = table.names[arrived[0]], paid + reward
        assert ended
        total[chain] = paid
    assert total == {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.1, 4: 1.0}
