"""Sensitivity of the verdict on the held-out families to choices of the analysis and to expected TD errors."""

from __future__ import annotations

import numpy as np

from studies.credit.families import HELD_OUT
from studies.credit.methods import COMPARED, FIXED, LABELS, RULE, STEPS
from studies.credit.normalised import Runs, Scored, on_common_seeds, scored
from studies.runner.text import markdown, minus

HALVES = 20
MARGIN = -0.15
"""Registered: how much the form with less memory may lose."""


def held_out_only(raw: dict[str, Runs]) -> dict[str, Runs]:
    """The runs on held-out families."""
    return {name: {key: each for key, each in runs.items() if key[0] in HELD_OUT} for name, runs in raw.items()}


def difference(found: Scored, method: str, other: str) -> str:
    """One method less another, with its interval; "not run" where one of them was not."""
    if not {method, other} <= found.methods(True):
        return "not run"
    gap = found.difference(method, other, True)
    return f"{gap.value:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]"


def worst_family(found: Scored, method: str) -> str:
    """Its lowest score, and where."""
    each = found.by_family(method, True)
    worst = min(each, key=lambda family: each[family])
    return f"{each[worst]:.2f} ({worst})"


def robustness(raw: dict[str, Runs]) -> str:
    """Sensitivity to the split of the seeds, and to the two families that help the rule most.

    Args:
      raw: runs on held-out families.
    """
    rng = np.random.default_rng(0)
    head = (
        "score", "mean over 20 random halves: lowest, median, highest", "worst family: lowest, median, highest",
        "without the two families that help most: the rule", "best single fixed λ", "difference",
        "all families: the rule less λ = 0.9 with the same expected errors",
    )  # fmt: skip
    rows = []
    for name, runs in raw.items():
        means, worst = [], []
        for _ in range(HALVES):
            orders = {size: rng.permutation(size) for size in {m[RULE].shape[1] for m in runs.values()}}
            kept = (*FIXED, RULE)
            mixed = {key: {k: m[k][:, orders[m[k].shape[1]]] for k in kept} for key, m in runs.items()}
            each = scored(mixed).by_family(RULE, True).values()
            means.append(np.mean(list(each)))
            worst.append(min(each))
        spread = (f"{np.min(x):.2f}, {np.median(x):.2f}, {np.max(x):.2f}" for x in (means, worst))
        found = scored(runs)
        rows.append((name, *spread, *_without_best_two(found), difference(found, RULE, "replacing-0.9-expected")))
    return minus(markdown(head, rows))


def _without_best_two(found: Scored) -> tuple[str, str, str]:
    """The rule and the best single fixed λ without the two families on which the rule gains most."""
    ours = found.by_family(RULE, True)
    fixed = found.best_fixed(True)
    gaps = {family: ours[family] - found.by_family(fixed, True)[family] for family in ours}
    kept = sorted(gaps, key=lambda family: gaps[family])[:-2]
    rest = Scored({family: found.cells[family] for family in kept}, ())
    theirs = rest.best_fixed(True)
    return f"{rest.mean(RULE, True):.2f}", f"{rest.mean(theirs, True):.2f}", difference(rest, RULE, theirs)


def every_method(raw: dict[str, Runs]) -> str:
    """Every method against the rule at the three scores, on the families on which all were run at every setting."""
    return minus("\n\n".join(_all_methods(name, raw[name]) for name in ("values", "decisions", "control")))


def _all_methods(name: str, runs: Runs) -> str:
    run = on_common_seeds(runs, [*FIXED, *COMPARED])
    missing = sorted({family for family, _ in set(runs) - set(run)})
    run = {problem: each for problem, each in run.items() if problem[0] not in missing}
    rest = scored(run)
    methods = sorted([*COMPARED, rest.best_fixed(True)], key=lambda method: -rest.mean(method, True))
    count = len(rest.by_family(RULE, True))
    rows = []
    for method in methods:
        each = np.array(list(rest.by_family(method, True).values()))
        less = "(it is this one)" if method == RULE else difference(rest, method, RULE)
        numbers = (f"{each.mean():.2f}", f"{np.median(each):.2f}", worst_family(rest, method))
        rows.append((LABELS[method], *numbers, less))
    few: dict[int, set[str]] = {}
    for (family, _), each in run.items():
        few.setdefault(each[RULE].shape[1], set()).add(family)
    fewer = "; ".join(f"{', '.join(sorted(few[n]))}: the first {n} seeds" for n in sorted(few)[:-1])
    notes = [f"Without {', '.join(missing)}, where not every method was run."] if missing else []
    notes += [f"{max(few)} seeds, except for {fewer}."] if fewer else []
    head = (f"{name}, {count} held-out families", "mean", "median", "worst family", "less the rule")
    return f"{markdown(head, rows)}\n\n{' '.join(notes)}".rstrip()


def less_memory(raw: dict[str, Runs]) -> str:
    """The rule with counts of single steps against the rule and the best single fixed λ, on the same seeds."""
    head = ("score", "families, seeds", "single steps", "the rule", "best single fixed λ",
            "single steps less the rule", "worst family, single steps", "the rule", "as registered")  # fmt: skip
    rows = []
    for name in ("values", "decisions", "control"):
        run = on_common_seeds(raw[name], [*FIXED, RULE, STEPS])
        found = scored(run)
        fixed, gap = found.best_fixed(True), found.difference(STEPS, RULE, True)
        means = [found.mean(method, True) for method in (STEPS, RULE, fixed)]
        size = f"{len(found.by_family(RULE, True))}, {min(each[RULE].shape[1] for each in run.values())}"
        texts = [f"{mean:.2f}" for mean in means[:2]] + [f"{means[2]:.2f} ({LABELS[fixed]})"]
        held = "holds" if gap.low > MARGIN and means[0] >= means[2] else "does not hold"
        worst = worst_family(found, STEPS), worst_family(found, RULE)
        rows.append((name, size, *texts, gap.text("+.2f"), *worst, held))
    return minus(markdown(head, rows))
