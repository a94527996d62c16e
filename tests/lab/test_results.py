"""The committed results: whole, and the same decisions in float32 on a CPU as in TF32 on a GPU."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from chunked_td.lab.results.runs import load_results
from chunked_td.lab.store.batch_store import Store
from chunked_td.lab.store.settings import digest_columns
from chunked_td.lab.studies.charge_signs import claims
from chunked_td.statistics import mean_and_interval

RESULTS = Path(__file__).parents[2] / "results"


def test_every_stored_batch_is_whole():
    store = Store.read(RESULTS / "paper")
    assert not store.damaged
    assert store.table("key-to-door").filter(pl.col("arm") == "expected-sarsa-1")["seed"].n_unique() == 100


def test_the_timed_runs_gave_the_stored_columns_bit_for_bit():
    for stem, digest in json.loads((RESULTS / "gpu/digests.json").read_text()).items():
        (path,) = (RESULTS / "paper/batches").rglob(f"{stem}.parquet")
        table = pl.read_parquet(path).drop("arm")
        assert digest_columns({name: table[name].to_numpy() for name in table.columns}) == digest


def in_both_precisions(experiment: str, arm: str) -> pl.DataFrame:
    """Last scores of an arm, per run: `score` in TF32, `score_float32` in float32."""
    tables = [Store.read(RESULTS / folder).table(experiment) for folder in ("paper", "float32/gpu")]
    last = [
        t.filter((pl.col("arm") == arm) & (pl.col("seed") < 10) & (pl.col("episode") == pl.col("episode").max()))
        for t in tables
    ]
    assert (last[0]["loss"].mean() or 0) != (last[1]["loss"].mean() or 0)  # not the same runs
    return last[0].join(last[1], on=["seed", "exponent"], suffix="_float32")


@pytest.mark.parametrize(("arm", "runs", "same"), [("c-default", 120, 120), ("c-factored", 60, 59)])
def test_key_to_door_is_the_same_in_float32(arm, runs, same):
    both = in_both_precisions("key-to-door", arm)
    assert both.height == runs
    assert (both["score"] == both["score_float32"]).sum() == same
    assert (both["score"] - both["score_float32"]).abs().max() <= 2


def test_accumulated_charge_is_the_same_in_float32_up_to_noise():
    both = in_both_precisions("accumulated-charge", "chunked")
    assert both.height == 120
    assert (both["score"] == both["score_float32"]).sum() == 57
    assert (
        both.filter(pl.col("exponent").is_between(-6, -2))
        .select((pl.col("score") == pl.col("score_float32")).all())
        .item()
    )
    change = pl.col("score") - pl.col("score_float32")
    by_step_size = both.group_by("exponent").agg(change.mean().alias("mean"), (change.std() / 10**0.5).alias("error"))
    assert (by_step_size["mean"].abs() <= 1.5 * by_step_size["error"]).all()


@pytest.mark.parametrize("path", sorted((RESULTS / "float32/cpu").rglob("*.parquet")), ids=lambda path: path.stem)
def test_precision_does_not_change_the_scores(path):
    """Quick-profile runs of network arms on a CPU repeat the beginnings of the stored GPU runs, score by score."""
    experiment, arm = path.parent.name, path.stem.partition("-seeds")[0]
    keys = ["seed", "exponent", "episode"]
    here = pl.read_parquet(path)
    there = Store.read(RESULTS / "paper").table(experiment).filter(pl.col("arm") == arm)
    both = here.join(there, on=keys, suffix="_gpu")
    assert both.height >= 3
    assert both["score"].equals(both["score_gpu"].alias("score"))
    assert (both["loss"] - both["loss_gpu"]).abs().max() < 1e-3
    assert (both["loss"] != both["loss_gpu"]).any()  # another machine, another rounding: not the same file


def test_the_page_on_the_two_signs_has_the_stored_numbers():
    study = load_results(Store.read(RESULTS / "paper"))["charge-signs"]
    page = (RESULTS.parent / "docs/experiments/charge-signs.md").read_text(encoding="utf-8")
    rows = [line.split(" | ")[2:] for line in page.splitlines() if line.startswith(("| tilted", "| TD", "| SARSA"))]
    rows = [row for row in rows if len(row) == 5]
    names = ("tilted", "expected", "averaged", "first", "five", "five-constant", "n-over-n", "tdc", "fixed")
    for name, (original, mirrored, difference, both, verdict) in zip(names, rows, strict=True):
        scores = claims.chosen(study, name)[:2]
        interval = mean_and_interval(scores[1] - scores[0])
        assert [original, mirrored] == [f"{values.mean():,.0f}" for values in scores], name
        found = [f"{float(x):,.0f}".replace("-", "−") for x in interval]
        assert difference == f"{found[0]} [{found[1]}, {found[2]}]", name
        assert both == f"{100 * np.mean((scores[0] < 1_000) & (scores[1] < 1_000)):.0f} %", name
        assert (
            name == "tilted"
            or verdict.removesuffix(" |") == claims.difference(study, name, -claims.MARGIN, claims.MARGIN).status
        ), name


def test_the_picture_of_compare_is_drawn_from_the_stored_runs():
    """The step sizes that the script chooses again are those that were stored as chosen."""
    made = runpy.run_path(str(RESULTS.parent / "docs/figures/make_compare.py"))
    stored = pl.read_parquet(made["RUNS"]).filter("chosen").unique(["arm", "seed"])
    chosen = dict(zip(zip(stored["arm"], stored["seed"], strict=True), stored["step_size"], strict=True))
    found = made["stored_comparison"]()
    assert {
        (one.arm.label, seed): one.step_sizes[place] for one in found.outcomes for seed, place in enumerate(one.chosen)
    } == chosen
