"""The study of the linear key-to-door: stored runs are what the code gives; scored seeds choose nothing."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from studies.linear_key_to_door import gradients, study
from studies.linear_key_to_door.study import ARMS, CHOOSING, CLAIMS, EPISODES, JUDGED, LENGTHS, STEP_SIZES, Treasures


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
        {"length": length, "sure": sure, "arm": arm, "episodes": EPISODES, "step_size": size, "seed": seed,
         "share": share(arm, length, size, seed), "last": 1.0}
        for length, sure in [*((length, False) for length in LENGTHS), (LENGTHS[0], True)]
        for arms in ARMS.values() for arm in arms for size in (0.5, 0.25) for seed in range(CHOOSING + JUDGED)
    ]  # fmt: skip
    return pl.DataFrame(rows)


def test_step_sizes_are_chosen_on_other_seeds_and_claims_follow_their_criteria():
    def share(arm, length, size, seed):
        if seed < CHOOSING:
            return size  # the larger step size is chosen, though it is worse afterwards
        base = {"rule": 0.85, "reward": 0.6}.get(arm, 0.3)
        return base + 0.01 * (seed % 3) + (0.1 if size < 0.5 else 0.0)

    frame = frame_of(share)
    found = Treasures(frame)
    assert found.shares(23, "rule").shape == (JUDGED,)
    assert found.shares(23, "rule").mean() == pytest.approx(0.86, abs=0.001)
    assert {claim(frame).status for claim in CLAIMS} == {"holds"}
    assert "| λ = 0 | ε falling, at best 0.89 | 0.31, 1.00 |" in study.tables(frame)["shares"]
    short = frame.filter(pl.col("length").is_in((LENGTHS[0], LENGTHS[-1])))
    assert [claim(short).status for claim in CLAIMS] == ["holds in part", "holds in part", "holds", "holds"]
    few = frame.filter(pl.col("seed") < 4)
    assert {claim(few).status for claim in CLAIMS} == {"not run"}


def test_every_arm_has_as_many_step_sizes():
    assert {len(sizes) for sizes in STEP_SIZES.values()} == {8}


@pytest.mark.parametrize(("arm", "way", "size"), [("rule", study.FALLING, 2.0**-5), ("reward", study.GRADIENT, 2.0)])
def test_stored_runs_are_what_the_code_gives(arm, way, size):
    stored = pl.read_parquet(study.HERE / "runs.parquet").filter(length=23, sure=False, arm=arm, step_size=size)
    for seed in (0, 7):
        found = study.run(size, seed, length=23, sure=False, episodes=EPISODES, **ARMS[way][arm])
        row = stored.row(by_predicate=pl.col("seed") == seed, named=True)
        assert (found["share"], found["last"]) == (row["share"], row["last"])


def test_it_runs_at_its_smallest_size(tmp_path):
    table = study.runs(tmp_path, quick=True, episodes=40, quiet=True)
    assert table.columns[:3] == ["arm", "step_size", "seed"]
    assert set(pl.read_parquet_schema(study.HERE / "runs.parquet")) == set(table.columns)
    assert {claim(table).status for claim in CLAIMS} == {"not run"}
