"""The runs of this study: a file per problem and way to act.

    python -m studies.same_information.runs --out DIR        # an hour on a core

The three scores are those of the credit study (`studies.credit.scoring`). What is finished is not run again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from studies.credit.families import HELD_OUT
from studies.credit.scoring import prepare, scores
from studies.same_information.families import FAMILIES
from studies.same_information.methods import METHODS

SEEDS = 24
EXPONENTS = (0, -1, -2, -3, -4, -6)
BEHAVIOURS = ("given", "bonus")
SCHEMA = {"family": pl.String, "setting": pl.String, "behaviour": pl.String, "arm": pl.String, "exponent": pl.Int8,
          "seed": pl.Int16, "score": pl.Float32, "decision": pl.Float32, "seconds": pl.Float32}  # fmt: skip


def problems(old: bool) -> list[tuple[Any, Any]]:
    """(family, setting): every new problem, or the middle one of every old family but Taxi."""
    if not old:
        return [(family, setting) for family in FAMILIES.values() for setting in family.settings]
    return [(family, setting) for name, family in HELD_OUT.items() if name != "taxi" for setting in family.middle]


def runs(
    family: Any, setting: Any, behaviour: str, methods: Iterable[str], seeds: Sequence[int], exponents: Sequence[int]
) -> pl.DataFrame:
    """Runs of methods on a problem; `seconds` of processor time are the mean over the runs of a method."""
    table = family.problem(setting)
    exact = prepare(table, family.discount)
    sizes, numbers = (each.ravel() for each in np.meshgrid(2.0 ** np.array(exponents), seeds, indexing="ij"))
    found = []
    for name in methods:
        began = time.process_time()
        each = scores(
            table, exact, behaviour, METHODS[name], step_sizes=sizes, seeds=numbers, threads=1,
            episodes=family.episodes, epsilon=family.epsilon,
        )  # fmt: skip
        spent = (time.process_time() - began) / len(sizes)
        found.append(pl.DataFrame({
            "family": [family.id] * len(sizes), "setting": [str(setting)] * len(sizes),
            "behaviour": [behaviour] * len(sizes), "arm": [name] * len(sizes),
            "exponent": np.log2(sizes).round(), "seed": numbers, "score": each["score"],
            "decision": each["decision"], "seconds": [spent] * len(sizes),
        }, schema=SCHEMA, strict=False))  # fmt: skip
    return pl.concat(found)


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--old", action="store_true", help="the problems of the credit study in place of the new ones")
    parser.add_argument("--behaviours", nargs="+", default=list(BEHAVIOURS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for behaviour in given.behaviours:
        for family, setting in problems(given.old):
            path = given.out / f"{family.id}-{setting}-{behaviour}.parquet"
            if not path.exists():
                began = time.monotonic()
                runs(family, setting, behaviour, given.methods, range(SEEDS), EXPONENTS).write_parquet(path)
                print(f"{path.stem}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
