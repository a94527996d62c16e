"""The registered held-out comparison once more, small, on the package's own learners.

    python tools/replicate_three_scores.py      # runs.parquet and tables/agreement.md of results/three-scores-again

The stored runs (results/three-scores) were made by kernels of their own, which were written apart from the learners of
the package. Here the rule and six fixed λs run again, on the middle setting of every held-out family, with every second
step size and 20 seeds; the random numbers are others. In control the stored score has the noise of outcomes taken out;
its expectation is the same.

Criterion, written before the runs. They agree if all of this holds:

- Raw means. For every problem, score, method and step size at which no run has diverged, z is the difference of the two
  means over its standard error. At most 2 % of all |z| exceed 3 (0.3 % by chance for large samples; with 20 seeds tails
  are longer), and the median of |z| is at most 0.80 (0.67 by chance).
- Normalised scores. At each of the three scores the rule's mean over families differs by at most 0.10 from that of the
  stored runs of the same methods and step sizes.
- Verdict. At each score the rule less the best single fixed λ has the same sign in both, or an interval that contains 0
  in one of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from chunked_td.lab.report.page import write_parts
from chunked_td.lab.results.tables import markdown
from chunked_td.lab.running.plan import SweepOptions
from chunked_td.lab.running.reproduce import RunOptions, run_protocols
from chunked_td.lab.store.batch_store import Store
from chunked_td.lab.store.directory import RunDirectory
from chunked_td.lab.store.tables import load_table, save_table
from chunked_td.lab.studies.three_scores.methods import FIXED, OTHERS, RULE
from chunked_td.lab.studies.three_scores.protocol import EXPONENTS, ScoreSize, families, score_protocols
from chunked_td.lab.studies.three_scores.results import COLLECT, raw_scores, scored

RESULTS = Path(__file__).parents[1] / "results"
STORED, AGAIN = RESULTS / "three-scores" / "runs.parquet", RESULTS / "three-scores-again"
METHODS = (
    "accumulating-0",
    "accumulating-0.8",
    "replacing-0.4",
    "replacing-0.8",
    "replacing-0.95",
    "replacing-1",
    RULE,
)
SIZE = ScoreSize(seeds=20, exponents=EXPONENTS[::2], middle_only=True)
SCORES = ("values", "decisions", "control")


def run(folder: Path) -> None:
    """Run what is missing in a run directory, and collect it."""
    arms = [{**FIXED, **OTHERS}[name] for name in METHODS]
    there = set(load_table(STORED)["family"].unique().to_list())  # Taxi was not run
    protocols = score_protocols([family for name, family in families(True).items() if name in there], arms, SIZE)
    if run_protocols(protocols, SweepOptions("paper"), folder, RunOptions()):
        sys.exit("some batches failed")
    with RunDirectory.for_writing(folder) as directory:
        save_table(directory, "runs.parquet", COLLECT(Store(directory)))


def both(folder: Path) -> tuple[dict, dict]:
    """{score: {problem: {method: float64[step sizes, seeds]}}} of the new runs, and of the same cells as stored."""
    new = {name: runs for name, runs in raw_scores(load_table(folder / "runs.parquet")).items() if name in SCORES}
    stored, kept = raw_scores(load_table(STORED)), [EXPONENTS.index(exponent) for exponent in SIZE.exponents]
    old = {name: {key: {m: stored[name][key][m][kept] for m in METHODS} for key in runs} for name, runs in new.items()}
    return {name: {key: {m: each[m] for m in METHODS} for key, each in runs.items()} for name, runs in new.items()}, old


def z_values(new: dict, old: dict) -> np.ndarray:
    """z of every cell of one score in which no run has diverged."""
    found = []
    for key, methods in new.items():
        for method, ours in methods.items():
            for one, other in zip(ours, old[key][method], strict=True):
                if min(one.min(), other.min()) > -1e6:
                    error = np.sqrt(one.var(ddof=1) / one.size + other.var(ddof=1) / other.size)
                    gap = one.mean() - other.mean()
                    found.append(gap / error if error > 1e-9 else 0.0 if abs(gap) < 1e-6 else np.inf)
    return np.array(found)


def compare(folder: Path) -> str:
    """The table of agreement, and what the criterion says."""
    new, old = both(folder)
    rows, agrees = [], []
    for name in SCORES:
        z = np.abs(z_values(new[name], old[name]))
        ours, theirs = scored(new[name]), scored(old[name])
        common = set(ours.cells) & set(theirs.cells)
        means = [float(np.mean([each.by_family(RULE)[family] for family in common])) for each in (ours, theirs)]
        gaps = [each.difference(RULE, each.best_fixed()) for each in (ours, theirs)]
        same = gaps[0].value * gaps[1].value > 0 or not (gaps[0].shown and gaps[1].shown)
        agrees += [(z > 3).mean() <= 0.02, np.median(z) <= 0.8, abs(means[0] - means[1]) <= 0.1, same]
        cells = (f"{z.size}", f"{np.median(z):.2f}", f"{100 * (z > 3).mean():.1f} %", str(len(common)))
        rows.append((name, *cells, f"{means[0]:.2f}", f"{means[1]:.2f}", *(gap.text("+.2f") for gap in gaps)))
    heads = ("score", "cells", "median of |z|", "|z| > 3", "families", "the rule, again", "stored")
    heads += ("less the best single fixed λ, again", "stored")
    found = "agree" if all(agrees) else "do not agree"
    text = f"{markdown(heads, rows)}\n\nBy the criterion in tools/replicate_three_scores.py they {found}."
    return text.replace(" -", " −").replace("| −--", "| ---")


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else AGAIN  # a folder for the batches, of which the table is kept
    if not (place / "runs.parquet").is_file() or (place / "manifest.json").is_file():
        run(place)
    text = compare(place)
    write_parts(place, {"agreement": text})
    print(text)
