"""Credit with the same information: stored rows come out again, and the headline with NumPy alone."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from studies.same_information import study
from studies.same_information.methods import METHODS

TABLE = pl.read_parquet(Path(study.__file__).with_name("runs.parquet"))
RULES = [f"accumulating-{x}" for x in ("0", "0.4", "0.6", "0.8", "0.9", "0.95", "1")]
RULES += [f"replacing-{x}" for x in ("0.4", "0.6", "0.8", "0.9", "0.95", "1")]
PLAIN = [f"{rule}+0" for rule in RULES]
SCORES = {"values": ("given", "score"), "decisions": ("given", "decision"), "control": ("bonus", "score")}


@pytest.mark.parametrize("behaviour", ["given", "bonus"])
@pytest.mark.parametrize("arm", ["lineage+1", "replacing-0.6+1", "dyna"])
def test_stored_rows_come_out_again_to_the_bit(behaviour, arm):
    seeds, exponents = np.array([0, 23, 7]), np.array([0, -1, -3])
    found = study.run(2.0**exponents, seeds, family="gamble", setting=8, behaviour=behaviour, **METHODS[arm])
    rows = TABLE.filter(family="gamble", setting="8", behaviour=behaviour, arm=arm)
    for seed, exponent, each in zip(seeds, exponents, found, strict=True):
        stored = rows.filter(seed=int(seed), exponent=int(exponent))
        assert stored["score"].item() == np.float32(each["score"])
        assert stored["decision"].item() == np.float32(each["decision"])


def by_family(score: str) -> dict[str, dict[str, float]]:
    """{method: {family: mean normalised score}}, from the stored runs and the registered text alone."""
    behaviour, column = SCORES[score]
    rows = TABLE.filter(behaviour=behaviour).sort("exponent", "seed", descending=[True, False])
    problems: dict = defaultdict(dict)
    for (family, setting, arm), part in rows.group_by("family", "setting", "arm", maintain_order=True):
        problems[family, setting][arm] = np.maximum(part[column].to_numpy().astype(float).reshape(6, 24), -1e30)
    found: dict = defaultdict(lambda: defaultdict(list))
    for (family, _), runs in problems.items():
        scores = {name: np.empty(24) for name in runs}
        best, worst = np.empty(24), np.empty(24)
        for choose, judge in itertools.permutations((slice(0, 12), slice(12, 24))):
            size = {name: int(np.argmax(each[:, choose].mean(1))) for name, each in runs.items()}
            for name, each in runs.items():
                scores[name][judge] = each[size[name], judge]
            level = [runs[name][size[name], choose].mean() for name in PLAIN]
            best[judge] = scores[PLAIN[int(np.argmax(level))]][judge]
            worst[judge] = scores[PLAIN[int(np.argmin(level))]][judge]
        gap = best - worst
        if gap.mean() > 4 * gap.std(ddof=1) / np.sqrt(24):
            for name, each in scores.items():
                found[name][family].append((each - worst).mean() / gap.mean())
    return {name: {f: float(np.mean(each)) for f, each in families.items()} for name, families in found.items()}


def exact(differences: np.ndarray) -> float:
    """Two-sided p-value by all signs of the family means."""
    sums = [abs(np.dot(signs, differences)) for signs in itertools.product((1, -1), repeat=differences.size)]
    return float(np.mean(np.array(sums) >= abs(differences.sum()) - 1e-9))


def test_the_headline_with_numpy_alone():
    scores = {score: by_family(score) for score in SCORES}

    def best(score: str, share: int) -> str:
        return max((f"{rule}+{share}" for rule in RULES), key=lambda m: np.mean(list(scores[score][m].values())))

    pairs = {
        1: ("values", "lineage+1", best("values", 1)), 2: ("decisions", "lineage+1", best("decisions", 1)),
        3: ("values", "lineage+1", "lineage+0.5"), 4: ("decisions", "lineage+1", "lineage+0.5"),
        5: ("values", best("values", 1), best("values", 0)),
        6: ("decisions", best("decisions", 1), best("decisions", 0)),
        7: ("control", best("control", 1), best("control", 0)), 8: ("control", "lineage+1", best("control", 0)),
        9: ("control", "lineage+1", best("control", 1)), 10: ("control", "lineage+1", "lineage+0.5"),
    }  # fmt: skip
    page = Path(study.__file__).with_name("README.md").read_text("utf-8").replace("−", "-")
    for number, (score, ours, theirs) in pairs.items():
        one, two = (np.array(list(scores[score][m].values())) for m in (ours, theirs))
        row = next(line for line in page.splitlines() if line.startswith(f"| {number}. At {score}"))
        mean, p = re.findall(r": ([+-][\d.]+) \[.*p = ([\d.]+),", row)[0]
        assert float(mean) == pytest.approx((one - two).mean(), abs=0.0051)
        assert float(p) == pytest.approx(exact(one - two), abs=0.0006)
        assert f"ahead in {np.sum(one > two)} of {one.size} families" in row
