"""The committed results: whole, and the same decisions in float32 on a CPU as in TF32 on a GPU."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from chunked_td.lab.store import Store

RESULTS = Path(__file__).parents[2] / "results"


def test_every_stored_batch_is_whole():
    store = Store.read(RESULTS / "paper")
    assert not store.damaged
    assert store.table("key-to-door").filter(pl.col("arm") == "expected-sarsa-1")["seed"].n_unique() == 100


@pytest.mark.parametrize("path", sorted((RESULTS / "float32").rglob("*.parquet")), ids=lambda path: path.stem)
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
