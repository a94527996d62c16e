"""Methods without networks on both signs with 300 seeds: ten seeds of scores with two peaks pin down very little.

    python -m studies.accumulated_charge.many_seeds --out DIR      # ten minutes on a core

Chunked SARSA with the true model and with counts, the expected form with counts, and SARSA(1), at every step size. The
regretful choices of 2,000 and of 10,000 episodes are kept. Seeds that are stored come out the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

from chunked_td.simulation import simulate
from studies.accumulated_charge import study

ARMS = {**study.MODELS, "sarsa-1": study.FIXED["sarsa-1"]}
SEEDS, RECORD = 300, (2_000, 10_000)


def runs(arm: str, mirrored: bool, seeds: range = range(SEEDS)) -> pl.DataFrame:
    """An arm's runs at every step size, in the columns of runs.parquet."""
    dynamics, common = study.settings(mirrored, study.EPISODES)
    common |= {"record_at": list(RECORD), "threads": 1, **ARMS[arm]}
    sizes, numbers = (each.ravel() for each in np.meshgrid(study.STEP_SIZES, np.array(seeds), indexing="ij"))
    found = simulate(dynamics, step_sizes=sizes, seeds=numbers, **common)
    n = len(sizes) * len(RECORD)
    return pl.DataFrame({
        "problem": [study.PROBLEMS[mirrored]] * n,
        "precision": ["float64"] * n,
        "arm": [arm] * n,
        "step_size": np.repeat(sizes, len(RECORD)),
        "seed": np.repeat(numbers, len(RECORD)),
        "episode": list(RECORD) * len(sizes),
        "score": np.asarray(found.misses_at, np.float64).ravel(),
    })  # fmt: skip


def main() -> None:
    """Run, and write a table per arm and sign; what is there is not run again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for arm in ARMS:
        for mirrored in (False, True):
            path = given.out / f"{arm}-{study.PROBLEMS[mirrored]}.parquet"
            if not path.exists():
                runs(arm, mirrored, range(given.seeds)).write_parquet(path)


if __name__ == "__main__":
    main()
