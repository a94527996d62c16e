"""What the verdict on the held-out families owes to choices of the analysis, and to the model's expected errors.

python tools/held_out_checks.py          # writes results/three-scores/tables/held-out-checks.md
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chunked_td._files import write_atomically
from chunked_td.lab.store.tables import load_table
from chunked_td.lab.studies.three_scores.methods import FIXED, RULE
from chunked_td.lab.studies.three_scores.protocol import families
from chunked_td.lab.studies.three_scores.results import Scored, raw_scores, scored

FOLDER = Path(__file__).parents[1] / "results" / "three-scores"
HALVES = 20


def difference(found: Scored, other: str) -> str:
    """The rule less another method, with its interval."""
    gap = found.difference(RULE, other, True)
    return f"{gap.value:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]"


def without_best_two(found: Scored) -> str:
    """The rule and the best single fixed λ without the two families on which the rule gains most."""
    ours = found.by_family(RULE, True)
    fixed = found.best_fixed(True)
    gaps = {family: ours[family] - found.by_family(fixed, True)[family] for family in ours}
    kept = sorted(gaps, key=lambda family: gaps[family])[:-2]
    rest = Scored({family: found.cells[family] for family in kept}, ())
    theirs = rest.best_fixed(True)
    return f"{rest.mean(RULE, True):.2f} | {rest.mean(theirs, True):.2f} | {difference(rest, theirs)}"


def main() -> None:
    """Write the table."""
    rng = np.random.default_rng(0)
    head = (
        "score", "mean over 20 random halves: lowest, median, highest", "worst family: lowest, median, highest",
        "without the two families that help most: the rule", "best single fixed λ", "difference",
        "all families: the rule less λ = 0.9 with the same expected errors",
    )  # fmt: skip
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for name, runs in raw_scores(load_table(FOLDER / "runs.parquet")).items():
        runs = {key: methods for key, methods in runs.items() if key[0] in families(True)}
        if not runs:
            continue
        means, worst = [], []
        for _ in range(HALVES):
            orders = {size: rng.permutation(size) for size in {m[RULE].shape[1] for m in runs.values()}}
            kept = (*FIXED, RULE)
            mixed = {key: {k: m[k][:, orders[m[k].shape[1]]] for k in kept} for key, m in runs.items()}
            each = scored(mixed).by_family(RULE, True).values()
            means.append(np.mean(list(each)))
            worst.append(min(each))
        spread = " | ".join(f"{np.min(x):.2f}, {np.median(x):.2f}, {np.max(x):.2f}" for x in (means, worst))
        found = scored(runs)
        lines.append(
            f"| {name} | {spread} | {without_best_two(found)} | {difference(found, 'replacing-0.9-expected')} |"
        )
    text = "\n".join(lines).replace(" -", " −").replace("[-", "[−").replace("−--", "---")
    write_atomically(FOLDER / "tables" / "held-out-checks.md", f"{text}\n".encode())
    print(text)


if __name__ == "__main__":
    main()
