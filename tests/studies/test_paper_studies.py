"""The paper's studies: short runs are the stored ones bit for bit."""

from __future__ import annotations

import polars as pl

from chunked_td import sweep
from studies.chain_and_split import study as chain
from studies.runner import data


def same_rows(study, table: pl.DataFrame, keys: tuple[str, ...] = ()) -> int:
    """The number of rows; each has the stored values."""
    keys = keys or study.KEY
    both = table.join(data.stored(study), on=list(keys), suffix="_stored", how="left", maintain_order="left")
    for name in table.columns:
        if name not in keys:
            assert both[name].equals(both[f"{name}_stored"].alias(name), null_equal=True), name
    return both.height


def test_chain_and_split_replays_stored_rows():
    arms = {arm: settings | {"episodes": 3_000} for arm, settings in chain.ARMS.items()}
    assert same_rows(chain, sweep(chain.run, arms, chain.STEP_SIZES[::4], range(2), jobs=1, quiet=True)) == 90
