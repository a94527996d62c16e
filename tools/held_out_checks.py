"""What the verdict on the held-out families owes to choices of the analysis, and to the model's expected errors.

python tools/held_out_checks.py          # writes held-out-checks.md and held-out-others.md of results/three-scores
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chunked_td._files import write_atomically
from chunked_td.lab.store.tables import load_table
from chunked_td.lab.studies.three_scores.methods import FIXED, LABELS, RULE
from chunked_td.lab.studies.three_scores.protocol import families
from chunked_td.lab.studies.three_scores.results import Scored, raw_scores, scored

METHODS = tuple(name for name in LABELS if name not in FIXED)
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


def all_methods(name: str, found: Scored) -> str:
    """Every method against the rule, on the families on which all were run at every setting."""
    cells = {
        family: each
        for family, each in found.cells.items()
        if family in families(True) and all(method in one for one in each.values() for method in METHODS)
    }
    rest = Scored(cells, ())
    methods = sorted([*METHODS, rest.best_fixed(True)], key=lambda method: -rest.mean(method, True))
    rows = [
        f"| {name}, {len(cells)} held-out families | mean | median | worst family | less the rule |",
        "| --- " * 5 + "|",
    ]
    for method in methods:
        each = rest.by_family(method, True)
        worst = min(each, key=lambda family: each[family])
        gap = rest.difference(method, RULE, True)
        less = "(it is this one)" if method == RULE else f"{gap.value:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]"
        numbers = (
            f"{np.mean(list(each.values())):.2f} | {np.median(list(each.values())):.2f} | {each[worst]:.2f} ({worst})"
        )
        rows.append(f"| {LABELS[method]} | {numbers} | {less} |")
    missing = sorted({family for family in found.cells if family in families(True)} - set(cells))
    return "\n".join(rows) + f"\n\nWithout {', '.join(missing) or 'none'}, where not every method was run."


def minus(text: str) -> str:
    """With the sign for minus in numbers."""
    return text.replace(" -", " −").replace("[-", "[−").replace("−--", "---")


def main() -> None:
    """Write both tables."""
    others = []
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
        others.append(all_methods(name, found))
        lines.append(
            f"| {name} | {spread} | {without_best_two(found)} | {difference(found, 'replacing-0.9-expected')} |"
        )
    for file, text in (("held-out-checks", "\n".join(lines)), ("held-out-others", "\n\n".join(others))):
        write_atomically(FOLDER / "tables" / f"{file}.md", f"{minus(text)}\n".encode())
        print(minus(text))


if __name__ == "__main__":
    main()
