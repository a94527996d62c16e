"""The headline of the held-out families again, from the stored runs, with NumPy alone: nothing of the study is used.

Written from what was registered (studies/credit/registered.md). Intervals come from another bootstrap than the study's
(all draws of a setting's seeds at once), so they may differ by 0.01 or 0.02.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest

ROOT = Path(__file__).parents[2]
RULE, TOLD_APART, DRAWS = "lineage-expected", 4.0, 2_000
FAMILIES = (
    "rooms", "roads", "deep-sea", "upstream", "slope", "snakes", "homeward", "bridge", "harvest", "tide", "tributaries",
    "cliff", "lake", "stock", "machine", "pig",
)  # fmt: skip
FIXED = [f"{kind}-{value}" for value in ("0", "0.2", "0.4", "0.6", "0.8", "0.9", "0.95", "1") for kind in
         ("accumulating", "replacing")]  # fmt: skip
"""In this order; of fixed λs that tie on the seeds that choose, the first is taken."""
SCORES = {"values": ("given", "score"), "decisions": ("given", "decision"), "control": ("bonus", "score")}


def runs_of(table: pl.DataFrame, behaviour: str, column: str) -> dict:
    """{(family, setting): {method: float64[step sizes, seeds]}}."""
    found: dict = defaultdict(dict)
    rows = table.filter((pl.col("behaviour") == behaviour) & pl.col("family").is_in(FAMILIES))
    rows = rows.filter(pl.col("arm").is_in([*FIXED, RULE]))
    for (family, setting, method), some in rows.group_by("family", "setting", "arm", maintain_order=True):
        size, seed = -some["exponent"].to_numpy().astype(int), some["seed"].to_numpy().astype(int)
        numbers = np.full((size.max() + 1, seed.max() + 1), np.nan)
        numbers[size, seed] = some[column].to_numpy()
        assert not np.isnan(numbers).any()
        found[family, setting][method] = np.maximum(numbers, -1e30)
    return found


def normalised(methods: dict) -> dict | None:
    """{method: float64[seeds]}: 0 the worst fixed λ, 1 the best, chosen on the other half; None if not told apart."""
    seeds = methods[RULE].shape[1]
    halves = [np.arange(seeds) < seeds // 2, np.arange(seeds) >= seeds // 2]
    scores = {name: np.empty(seeds) for name in methods}
    best, worst = np.empty(seeds), np.empty(seeds)
    for choose, score in (halves, halves[::-1]):
        means = {name: runs[:, choose].mean(axis=1) for name, runs in methods.items()}
        for name, runs in methods.items():
            scores[name][score] = runs[np.argmax(means[name])][score]
        known = np.array([means[name].max() for name in FIXED])
        best[score] = scores[FIXED[int(known.argmax())]][score]
        worst[score] = scores[FIXED[int(known.argmin())]][score]
    gap = best - worst
    if gap.mean() <= TOLD_APART * gap.std(ddof=1) / np.sqrt(seeds):
        return None
    return {name: (each - worst) / gap.mean() for name, each in scores.items()}


def interval(families: list[list[np.ndarray]], rng: np.random.Generator) -> tuple[float, float]:
    """95 % bootstrap over families, their settings and seeds."""
    drawn = np.empty((len(families), 4, DRAWS))
    for number, settings in enumerate(families):
        means = [x[rng.integers(x.size, size=(4 * DRAWS, x.size))].mean(1).reshape(4, DRAWS) for x in settings]
        for copy in range(4):  # a family that is drawn often is drawn anew each time, up to four versions of it
            chosen = rng.integers(len(settings), size=(len(settings), DRAWS))
            drawn[number, copy] = np.mean([np.choose(row, [m[copy] for m in means]) for row in chosen], axis=0)
    shape = (len(families), DRAWS)
    who, copy = rng.integers(len(families), size=shape), rng.integers(4, size=shape)
    low, high = np.quantile(drawn[who, copy, np.arange(DRAWS)].mean(0), [0.025, 0.975])
    return float(low), float(high)


@pytest.mark.parametrize("score", SCORES)
def test_the_headline(score):
    table = pl.read_parquet(ROOT / "studies" / "credit" / "runs.parquet")
    stored = json.loads(Path(__file__).with_name("claims.json").read_text(encoding="utf-8"))
    evidence = next(claim["evidence"] for claim in stored if claim["id"] == f"three-scores-{score}")
    cells: dict = defaultdict(list)
    for (family, _), methods in runs_of(table, *SCORES[score]).items():
        found = normalised(methods)
        if found is not None:
            cells[family].append(found)
    by_family = {m: {f: np.mean([one[m].mean() for one in each]) for f, each in cells.items()} for m in (*FIXED, RULE)}
    mean = {m: float(np.mean(list(each.values()))) for m, each in by_family.items()}
    best, ours = max(FIXED, key=lambda m: mean[m]), by_family[RULE]
    worst = min(ours, key=lambda f: ours[f])
    numbers = f"mean {mean[RULE]:.2f}, worst family {worst} {ours[worst]:.2f}; {mean[RULE] - mean[best]:+.2f} ["
    assert evidence.startswith(numbers)
    assert evidence.endswith(f"against the best single fixed λ ({best})")
    differences = [[one[RULE] - one[best] for one in each] for each in cells.values()]
    found = np.array(interval(differences, np.random.default_rng(1)))
    theirs = np.array([float(x) for x in re.findall(r"\[(.+), (.+)\]", evidence)[0]])
    assert np.abs(found - theirs).max() <= 0.03
