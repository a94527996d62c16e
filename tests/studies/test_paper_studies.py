"""The paper's studies: short runs are the stored ones bit for bit, and precision does not change what was found."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from chunked_td import sweep
from studies.accumulated_charge import signs
from studies.accumulated_charge import study as charge
from studies.chain_and_split import study as chain
from studies.key_to_door import scalar
from studies.key_to_door import study as door
from studies.runner import data
from studies.skewed_split import study as skewed
from studies.wrong_models import study as wrong


def same_rows(study, table: pl.DataFrame, **known: str) -> int:
    """The number of rows; each has the stored values. Args: known: key columns that the runs do not report."""
    table = table.with_columns(**{name: pl.lit(value) for name, value in known.items()})
    both = table.join(data.stored(study), on=list(study.KEY), suffix="_stored", how="left", maintain_order="left")
    for name in set(table.columns) - set(study.KEY):
        assert both[name].equals(both[f"{name}_stored"].alias(name), null_equal=True), name
    return both.height


def short(run, arms, step_sizes, seeds=2, **settings):
    return sweep(run, arms, step_sizes, range(seeds), jobs=1, quiet=True, **settings)


def shortened(arms, episodes):
    return {arm: settings | {"episodes": episodes} for arm, settings in arms.items()}


def test_step_sizes_arms_and_best_scores_are_the_papers():
    sizes = [chain.STEP_SIZES, charge.STEP_SIZES, door.SIZES, door.STEP_SIZES["c-factored"]]
    exponents = [tuple(np.round(np.log2(np.array(each) / 0.1)).astype(int).tolist()) for each in sizes]
    charges = (3, 2, 1, 0, -1, -2, -3, -4, -6, -8, -10, -12)
    assert exponents == [tuple(range(-2, -14, -1)), charges, tuple(range(2, -10, -1)), tuple(range(2, -4, -1))]
    assert [len(set(study.LABELS) - set(study.OURS)) for study in (chain, charge)] == [3, 13]
    assert len(set(door.LABELS) - set(door.ORACLE)) == 7
    assert chain.CHECKPOINTS[-1] == 1_000_000
    assert chain.EARLY in chain.CHECKPOINTS
    _, common = charge.settings(False, charge.EPISODES)
    assert np.sum(common["epsilon"] / 2) == pytest.approx(charge.BEST)
    epsilon = door.settings(door.EPISODES)["epsilon"]
    assert np.sum(1 - (1 - epsilon / 2) ** 2) == pytest.approx(door.BEST, abs=0.5)
    for study in (chain, door):
        assert all(study.results(data.stored(study)).arms[arm].of_size(number.step_size).size
                   for arm, number in study.PAPER.items())  # fmt: skip


def test_a_shorter_run_is_explored_as_the_beginning_of_a_longer_one():
    for settings in (door.settings, lambda episodes: charge.settings(False, episodes)[1]):
        short, long = settings(700), settings(2_000)
        np.testing.assert_array_equal(short["epsilon"], long["epsilon"][:700])
        assert set(short["record_at"]) <= set(long["record_at"])


def test_chain_and_split_replays_stored_rows():
    assert same_rows(chain, short(chain.run, shortened(chain.ARMS, 3_000), chain.STEP_SIZES[::4])) == 90


def test_skewed_split_replays_stored_rows():
    assert same_rows(skewed, short(skewed.run, shortened(skewed.ARMS, 1_500), skewed.STEP_SIZES)) == 108


@pytest.mark.parametrize("problem", charge.PROBLEMS)
def test_accumulated_charge_replays_stored_rows(problem):
    arms = {arm: charge.FIXED[arm] for arm in ("sarsa-0", "sarsa-0.9")} | charge.MODELS
    table = short(charge.run, shortened(arms, 1_500), charge.STEP_SIZES[::5], mirrored=problem == "mirrored")
    assert same_rows(charge, table, problem=problem) == 90


@pytest.mark.parametrize("problem", [signs.PLAIN, signs.MIRRORED])
def test_the_two_signs_replay_stored_rows(problem):
    arms = {arm: signs.ARMS[arm] for arm in ("tilted", "five", "tdc")}
    table = short(signs.run, arms, signs.STEP_SIZES[1:2], 1, mirrored=problem == signs.MIRRORED)
    assert same_rows(charge, table, problem=problem, precision="float64") == 60


def test_key_to_door_replays_stored_rows():
    arms = {arm: door.FIXED[arm] for arm in ("expected-sarsa-0.9", "expected-sarsa-1")} | door.ORACLE
    assert same_rows(door, short(door.run, shortened(arms, 700), door.SIZES[:5:2]), problem=door.PROBLEM) == 168


def test_key_to_door_from_the_scalar_reward_replays_stored_rows():
    table = short(scalar.run, shortened(scalar.ARMS, 700), scalar.STEP_SIZES)
    assert same_rows(door, table, problem=scalar.PROBLEM, precision="float64") == 182


@pytest.mark.parametrize(
    ("comparison", "arm", "family", "setting"),
    [("planning", "dyna-corrupted", "delay", 16), ("planning", "expected-stale", "noisy-states", 5),
     ("expected-errors", "guarded-permuted", "garnet", 3), ("expected-errors", "half-corrupted", "grid", 0.2)],
)  # fmt: skip
def test_wrong_models_replay_stored_rows(comparison, arm, family, setting):
    methods = wrong.METHODS if comparison == "planning" else wrong.EXPECTED_ERRORS
    arms = {arm: wrong.with_errors(methods)[arm]}
    table = short(wrong.run, arms, wrong.STEP_SIZES[:8:4], family=family, setting=setting)
    known = {"comparison": comparison, "family": family, "setting": str(setting)}
    assert same_rows(wrong, table.cast({"seed": pl.Int16}), **known) == 4


@pytest.mark.long
def test_networks_replay_the_scores_of_another_machine():
    """The first 500 episodes on a CPU have the scores of the stored runs; the loss differs by rounding."""
    table = short(charge.run_networks, {"chunked": charge.NETWORKS["chunked"] | {"episodes": 500}},
                  [0.0125], 2, mirrored=False, together=2)  # fmt: skip
    stored = data.stored(charge).filter(problem="original", precision="tf32", arm="chunked")
    both = table.join(stored, on=["step_size", "seed", "episode"], suffix="_stored")
    assert both.height == 2
    assert both["score"].equals(both["score_stored"].alias("score"))
    assert (both["loss"] - both["loss_stored"]).abs().max() < 1e-3


def in_both_precisions(study, arm: str, problem: str) -> pl.DataFrame:
    """Last scores of an arm, per run: `score` in TF32, `score_float32` in float32."""
    rows = data.stored(study).filter(pl.col("seed") < 10, problem=problem, arm=arm)
    last = [
        part.filter(pl.col("episode") == pl.col("episode").max())
        for part in (rows.filter(precision="tf32"), rows.filter(precision="float32"))
    ]
    assert last[0]["loss"].mean() != last[1]["loss"].mean()  # not the same runs
    return last[0].join(last[1], on=["seed", "step_size"], suffix="_float32")


@pytest.mark.parametrize(("arm", "runs", "same"), [("c-default", 120, 120), ("c-factored", 60, 59)])
def test_key_to_door_is_the_same_in_float32(arm, runs, same):
    both = in_both_precisions(door, arm, door.PROBLEM)
    assert both.height == runs
    assert (both["score"] == both["score_float32"]).sum() == same
    assert np.abs((both["score"] - both["score_float32"]).to_numpy()).max() <= 2


def test_accumulated_charge_is_the_same_in_float32_up_to_noise():
    both = in_both_precisions(charge, "chunked", "original")
    assert both.height == 120
    assert (both["score"] == both["score_float32"]).sum() == 57
    middle = both.filter(pl.col("step_size").is_between(0.1 * 2.0**-6, 0.1 * 2.0**-2))
    assert middle.height == 40
    assert middle["score"].equals(middle["score_float32"].alias("score"))
    change = pl.col("score") - pl.col("score_float32")
    by_size = both.group_by("step_size").agg(change.mean().alias("mean"), (change.std() / 10**0.5).alias("error"))
    assert (by_size["mean"].abs() <= 1.5 * by_size["error"]).all()


@pytest.mark.parametrize(("study", "problem"), [(charge, "original"), (door, door.PROBLEM)])
def test_runs_on_a_cpu_have_the_scores_of_the_gpu(study, problem):
    """Runs of network arms on a CPU repeat the beginnings of the stored GPU runs, score by score."""
    rows = data.stored(study).filter(problem=problem)
    keys = ["arm", "seed", "step_size", "episode"]
    both = rows.filter(precision="float32-cpu").join(rows.filter(precision="tf32"), on=keys, suffix="_gpu")
    assert both.height == rows.filter(precision="float32-cpu").height >= 3
    assert both["score"].equals(both["score_gpu"].alias("score"))
    difference = (both["loss"] - both["loss_gpu"]).to_numpy()
    assert np.abs(difference).max() < 1e-3
    assert difference.any()  # another machine, another rounding: not the same file
