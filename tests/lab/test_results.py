"""The committed results are whole."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from chunked_td.lab.store.batch_store import Store
from chunked_td.lab.store.settings import digest_columns

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
