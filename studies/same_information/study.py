"""Does a rule for λ assign credit better than fixed λs that have the same model?

Lineage traces with fully expected TD errors (ρ = 1) against fixed λs with the same expected errors, on ten families of
problems that did not exist when both were chosen. Comparisons, corrections and the rules for the default and for the
recommendation were registered before any run (`registered.md`). Scores, the choice of step sizes on other seeds and the
normalisation are those of the credit study.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from chunked_td.statistics import Estimate, holm, normalised, paired_test
from studies.credit import families as credit_families
from studies.credit import study as credit
from studies.credit.normalised import Runs, Scored, raw_scores, scored
from studies.runner.criteria import FAILS, HOLDS, IN_PART, LEVEL, NOT_SHOWN, Claim, Verdict, make_claim, source
from studies.runner.data import of_latest
from studies.runner.plots import legend_below, new_figure
from studies.runner.text import SUPERSCRIPTS, markdown, minus, score_text
from studies.same_information.families import FAMILIES
from studies.same_information.methods import (
    FIXED,
    LABELS,
    METHODS,
    PLANNERS,
    RULES,
    SHARE_TEXT,
    SHARES,
    label,
    named,
)

KEY = ("family", "setting", "behaviour", "arm", "exponent", "seed")
EXPONENTS, SEEDS = (0, -1, -2, -3, -4, -6), 24
SCORES = ("values", "decisions", "control")
REFERENCES = tuple(named(rule, 0) for rule in FIXED)
"""0 is the worst and 1 the best of these: fixed λs without expected errors."""
CANDIDATE, HALF, BEST = named("lineage", 1), named("lineage", 0.5), "best"
WORST = -0.1
"""A mean difference in control below this is evidence against ρ = 1 as the default."""

# ---- what is run


credit_families.FAMILIES.update(FAMILIES)  # `credit.run` finds a family by its id


def run(step_size: Any, seed: Any, **cell: Any) -> list[dict[str, Any]]:
    """Runs: their scores, and the mean of their processor time in seconds."""
    began = time.process_time()
    found = credit.run(step_size, seed, **cell)
    seconds = (time.process_time() - began) / len(seed)
    return [{**each, "seconds": seconds} for each in found]


def runs(out: Path, quick: bool, **how: Any) -> pl.DataFrame:
    """Every method on every problem; quick: two problems, a few methods, four seeds."""
    problems = [(name, setting) for name, family in FAMILIES.items() for setting in family.settings]
    methods, sizes, seeds = METHODS, [2.0**j for j in EXPONENTS], SEEDS
    if quick:
        few = ("accumulating-0", "accumulating-0.8", "replacing-0.9", "accumulating-1", "lineage")
        methods = {named(rule, share): METHODS[named(rule, share)] for rule in few for share in (0, 0.5, 1)}
        problems, sizes, seeds = [("selling", 8), ("gamble", 8)], sizes[::2], 4
    return credit.run_all(out, problems, methods, sizes, range(seeds), run=run, together=len(sizes) * SEEDS, **how)


# ---- comparisons


class Comparison(NamedTuple):
    """One method less another at a score. `BEST` stands for the best single fixed λ with this share."""

    score: str
    ours: tuple[str, float]
    theirs: tuple[str, float]


class Found(NamedTuple):
    """Result of a comparison. Args: p: exact. adjusted: after Holm's correction. ahead: in how many families."""

    ours: str
    theirs: str
    gap: Estimate
    p: float
    adjusted: float
    ahead: int
    families: int


PRIMARY = {
    1: Comparison("values", ("lineage", 1.0), (BEST, 1.0)),
    2: Comparison("decisions", ("lineage", 1.0), (BEST, 1.0)),
    3: Comparison("values", ("lineage", 1.0), ("lineage", 0.5)),
    4: Comparison("decisions", ("lineage", 1.0), ("lineage", 0.5)),
}
SECONDARY = {
    5: Comparison("values", (BEST, 1.0), (BEST, 0.0)),
    6: Comparison("decisions", (BEST, 1.0), (BEST, 0.0)),
    7: Comparison("control", (BEST, 1.0), (BEST, 0.0)),
    8: Comparison("control", ("lineage", 1.0), (BEST, 0.0)),
    9: Comparison("control", ("lineage", 1.0), (BEST, 1.0)),
    10: Comparison("control", ("lineage", 1.0), ("lineage", 0.5)),
}


class Results(NamedTuple):
    """Runs and normalised scores by score, and every comparison by its number."""

    raw: dict[str, Runs]
    scored: dict[str, Scored]
    compared: dict[int, Found]


@of_latest
def results(table: pl.DataFrame) -> Results:
    """Runs, normalised scores and comparisons."""
    raw = raw_scores(table)
    found = {name: scored(raw[name], REFERENCES) for name in SCORES if name in raw}
    return Results(raw, found, {**compare(found, PRIMARY), **compare(found, SECONDARY)})


def best_fixed(found: Scored, share: float) -> str:
    """Return the single fixed λ with this share and the largest mean (oracle selection)."""
    return max((n for n in (named(rule, share) for rule in FIXED) if n in found.methods()), key=found.mean)


def chosen(found: Scored, method: tuple[str, float]) -> str:
    """The id of a method; `BEST` is the best single fixed λ."""
    return best_fixed(found, method[1]) if method[0] == BEST else named(*method)


def compare(found: Mapping[str, Scored], comparisons: Mapping[int, Comparison]) -> dict[int, Found]:
    """These comparisons, with Holm's correction over them."""
    parts = []
    for each in comparisons.values():
        part = found[each.score]
        ours, theirs = chosen(part, each.ours), chosen(part, each.theirs)
        one, two = (np.array(list(part.by_family(name).values())) for name in (ours, theirs))
        gap = part.difference(ours, theirs)
        parts.append((ours, theirs, gap, paired_test(one, two), int(np.sum(one > two)), one.size))
    adjusted = holm([part[3] for part in parts])
    return {
        number: Found(ours, theirs, gap, p, float(corrected), ahead, families)
        for number, (ours, theirs, gap, p, ahead, families), corrected in zip(comparisons, parts, adjusted, strict=True)
    }


# ---- the claims


def verdict_of(found: Found) -> Verdict:
    """Shown in favour, shown against, or neither."""
    status = NOT_SHOWN if found.adjusted >= LEVEL else HOLDS if found.gap.value > 0 else FAILS
    return Verdict(status, text_of(found))


def text_of(found: Found) -> str:
    """The numbers of a comparison."""
    return minus(
        f"{label(found.ours)} less {label(found.theirs)}: {found.gap.text('+.2f')}, ahead in {found.ahead} of "
        f"{found.families} families, p = {found.p:.3f}, {found.adjusted:.3f} after Holm"
    )


def claim_of(number: int) -> Claim:
    """A registered comparison as a claim."""
    each = {**PRIMARY, **SECONDARY}[number]
    names = {BEST: "the best single fixed λ", "lineage": "lineage"}
    one, two = (f"{names[rule]} with ρ = {'½' if share == 0.5 else f'{share:g}'}" for rule, share in each[1:])
    count = "four primary" if number in PRIMARY else "six secondary"
    return make_claim(
        f"comparison_{number}",
        f"{number}. At {each.score}, {one} is better than {two}.",
        "Mean over new families of the difference of normalised scores; exact test by the signs of the family means, "
        f"p < 0.05 after Holm's correction over the {count} comparisons. It does not hold if the same is shown the "
        "other way round.",
        lambda table: verdict_of(results(table).compared[number]),
    )


@source("ours")
def default_is_all_expected(table: pl.DataFrame) -> Verdict:
    """`LineageExpectedSarsa` is to have ρ = 1.

    If comparison 3 is shown in its favour, and the intervals of 4 and 10 do not lie below 0 and their means are not
    below −0.1. Else it keeps ρ = ½.
    """
    found = results(table).compared
    met = [verdict_of(found[3]).status == HOLDS]
    met += [found[k].gap.high >= 0 and found[k].gap.value >= WORST for k in (4, 10)]
    text = "; ".join(f"{k}: {found[k].gap.text('+.2f')}" for k in (3, 4, 10))
    return Verdict(HOLDS if all(met) else FAILS, minus(text))


@source("ours")
def expected_errors_recommended(table: pl.DataFrame) -> Verdict:
    """`ExpectedError(1)` with any λ is recommended where a table fits.

    If comparisons 5 and 6 are shown in its favour.
    """
    return both(table, (5, 6), all)


@source("ours")
def lineage_recommended(table: pl.DataFrame) -> Verdict:
    """Lineage is recommended beside it at a score.

    If comparison 1 (values) or 2 (decisions) is shown in its favour; in part if one of them is.
    """
    return both(table, (1, 2), any)


def both(table: pl.DataFrame, numbers: tuple[int, int], enough: Callable[[Any], bool]) -> Verdict:
    """Whether enough of two comparisons are shown in favour."""
    shown = [verdict_of(results(table).compared[k]).status == HOLDS for k in numbers]
    status = HOLDS if all(shown) else IN_PART if enough(shown) else FAILS
    text = "; ".join(f"{k}: {'shown' if yes else 'not shown'}" for k, yes in zip(numbers, shown, strict=True))
    return Verdict(status, text)


CLAIMS = (
    *map(claim_of, (*PRIMARY, *SECONDARY)),
    default_is_all_expected,
    expected_errors_recommended,
    lineage_recommended,
)

# ---- tables and the figure


def tables(table: pl.DataFrame) -> dict[str, str]:
    """The headline, the answer, every method, one step size for all problems, cost, families."""
    found = results(table)
    shown = {"answers": answers(found, table["seed"].n_unique()), "headline": headline_table(table, found)}
    if table["family"].n_unique() < len(FAMILIES):  # a quick run
        return shown
    return shown | {
        "every-method": every_method(found),
        "one-step-size": one_step_size(found),
        "families": by_family(found),
        "left-out": left_out(found),
        "sizes": chosen_sizes(found),
    }


def answers(found: Results, seeds: int) -> str:
    """Compare the rule with the opponent that has the same information, one sentence per score."""
    lines = []
    for k, score in ((1, "values"), (2, "decisions"), (9, "control")):
        one, part = found.compared[k], found.scored[score]
        verdict = {HOLDS: "better", FAILS: "worse", NOT_SHOWN: "inconclusive"}[verdict_of(one).status]
        lines.append(
            f"- *{score.capitalize()}*: lineage with ρ = 1 has {part.mean(one.ours):.2f}, the best single fixed λ with "
            f"ρ = 1 ({short(one.theirs)}) {part.mean(one.theirs):.2f}: {one.gap.text('+.2f')}, {one.families} families "
            f"with {seeds} seeds, p = {one.adjusted:.2f} after Holm, **{verdict}**."
        )
    return minus("\n".join(lines))


def headline_table(table: pl.DataFrame, found: Results) -> str:
    """Rule, best single fixed λ, best single fixed λ with the same errors, planners; by score, and the cost."""
    ratios = costs(table)
    rows = []
    for name in (CANDIDATE, HALF, "best 0", "best 1", *reversed(PLANNERS)):
        ids = {s: best_fixed(f, float(name[5:])) if name.startswith("best ") else name for s, f in found.scored.items()}
        if not all(ids[s] in f.methods() for s, f in found.scored.items()):
            continue
        cells = [cell(f, ids[s], short(ids[s]) if name.startswith("best ") else "") for s, f in found.scored.items()]
        text = {"best 0": "best single fixed λ", "best 1": "best single fixed λ, ρ = 1"}.get(name) or label(name)
        ratio = np.mean([ratios[each] for each in ids.values()])
        rows.append((text, *cells, f"{ratio:.1f}"))
    return minus(markdown(("method", *found.scored, "time"), rows))


def cell(found: Scored, name: str, note: str = "") -> str:
    """Mean, worst family, and a note."""
    each = found.by_family(name)
    worst = min(each, key=lambda family: each[family])
    return f"{score_text(found.mean(name))} ({worst} {score_text(each[worst])})" + (f", {note}" if note else "")


def short(name: str) -> str:
    """A fixed λ in few words: "0.9, replacing"."""
    kind, _, value = name.partition("+")[0].partition("-")
    return f"{value}, {kind}"


def costs(table: pl.DataFrame) -> dict[str, float]:
    """Processor time over that of fixed λs without expected errors, geometric mean over problems and ways to act."""
    problem_ = ["family", "setting", "behaviour"]
    each = table.group_by(*problem_, "arm").agg(pl.mean("seconds"))
    plain = each.filter(pl.col("arm").is_in(list(REFERENCES))).group_by(*problem_).agg(pl.mean("seconds").alias("of"))
    ratio = (pl.col("seconds") / pl.col("of")).log().mean().exp()
    return dict(each.join(plain, on=problem_).group_by("arm").agg(ratio).rows())


def rules_of(found: Results) -> list[tuple[str, dict[float, dict[str, str]]]]:
    """{rule: {share: {score: id}}}, the best single fixed λ first."""
    best = {share: {s: best_fixed(f, share) for s, f in found.scored.items()} for share in SHARES}
    return [
        ("best single fixed λ", best),
        *(
            (LABELS[rule], {share: dict.fromkeys(found.scored, named(rule, share)) for share in SHARES})
            for rule in RULES
            if rule not in FIXED
        ),
    ]


def every_method(found: Results) -> str:
    """Means of every rule at every share."""
    rows = []
    for text, ids in rules_of(found):
        for score, part in found.scored.items():
            rows.append((text, score, *(score_text(part.mean(ids[share][score])) for share in SHARES)))
    for name in PLANNERS:
        rows += [(label(name), s, score_text(part.mean(name)), *["–"] * 3) for s, part in found.scored.items()]
    return minus(markdown(("rule", "score", "ρ = 0", "ρ = ½", "ρ = ¾", "ρ = 1"), rows))


def with_one_size(runs: Runs) -> dict[str, tuple[float, str]]:
    """{method: (mean, step sizes)}: one step size for all problems, chosen on the other half of the seeds."""
    parts: dict[str, dict[str, list[np.ndarray]]] = {}
    for (family, _), methods in runs.items():
        if normalised(methods, REFERENCES) is None:
            continue
        level, scale = references(methods)
        for name, each in methods.items():
            parts.setdefault(name, {}).setdefault(family, []).append((each - level) / scale)
    found = {}
    for name, families in parts.items():
        mean = np.mean([np.mean(members, axis=0) for members in families.values()], axis=0)
        half = mean.shape[1] // 2
        sizes = [int(np.argmax(part.mean(axis=1))) for part in (mean[:, half:], mean[:, :half])]
        score = (mean[sizes[0], :half].mean() + mean[sizes[1], half:].mean()) / 2
        text = " and ".join(dict.fromkeys(power(EXPONENTS[k]) for k in sizes))
        found[name] = float(score), text
    return found


def references(methods: Mapping[str, np.ndarray]) -> tuple[float, float]:
    """Place of 0 and distance of 1 from it; step sizes and references are chosen on the other half of the seeds."""
    half = next(iter(methods.values())).shape[1] // 2
    best, worst = [], []
    for choose, score in ((slice(half, None), slice(0, half)), (slice(0, half), slice(half, None))):
        means = {name: methods[name][:, choose].mean(axis=1) for name in REFERENCES}
        tops = {name: each.max() for name, each in means.items()}
        names = max(REFERENCES, key=tops.__getitem__), min(REFERENCES, key=tops.__getitem__)
        for name, into in zip(names, (best, worst), strict=True):
            into.append(methods[name][np.argmax(means[name]), score])
    low = float(np.concatenate(worst).mean())
    return low, float(np.concatenate(best).mean()) - low


def one_step_size(found: Results) -> str:
    """One step size for all problems: lineage, the best single fixed λ and planners."""
    each = {score: with_one_size(found.raw[score]) for score in found.scored}
    rows = []
    for share in SHARES:
        best = {s: max((named(rule, share) for rule in FIXED), key=lambda n, f=f: f[n][0]) for s, f in each.items()}
        cells = (size_cell(each[s][best[s]], short(best[s])) for s in each)
        rows.append((f"best single fixed λ, {SHARE_TEXT[share]}", *cells))
    names = (*(named("lineage", share) for share in SHARES), *PLANNERS)
    rows += [(label(name), *(size_cell(scores_[name]) for scores_ in each.values())) for name in names]
    return minus(markdown(("method", *each), rows))


def size_cell(found: tuple[float, str], note: str = "") -> str:
    """A score with the step size."""
    return f"{score_text(found[0])} (α = {found[1]}{', λ = ' + note if note else ''})"


def power(exponent: int) -> str:
    """A step size: "2⁻¹"."""
    return f"2{str(exponent).translate(SUPERSCRIPTS)}" if exponent else "1"


def by_family(found: Results) -> str:
    """Lineage less the best single fixed λ, both with ρ = 1, and ρ = 1 less ρ = ½ for lineage, family by family."""
    names = list(FAMILIES)
    head, columns = ["family"], []
    shown = {"lineage − fixed λ, ρ = 1": (1, 2, 9), "lineage: ρ 1 − ½": (3, 4, 10), "fixed λ: ρ 1 − 0": (5, 6, 7)}
    for text, numbers in shown.items():
        for score, k in zip(SCORES, numbers, strict=True):
            each, one = found.scored[score], found.compared[k]
            a, b = each.by_family(one.ours), each.by_family(one.theirs)
            head.append(f"{text}, {score}")
            columns.append({name: f"{a[name] - b[name]:+.2f}" for name in a})
    rows = [(FAMILIES[name].title, *(column.get(name, "left out") for column in columns)) for name in names]
    return minus(markdown(head, rows))


def left_out(found: Results) -> str:
    """Problems in which differences between fixed λs are inconclusive."""
    lines = [f"- {score}: {', '.join(part.unclear) or 'none'}" for score, part in found.scored.items()]
    return "\n".join(lines)


def chosen_sizes(found: Results) -> str:
    """Number of problems and halves for which each step size is chosen, at values."""
    rows = []
    for name in (named("lineage", 1), named("lineage", 0.5), found.compared[1].theirs, found.compared[5].theirs):
        picks = []
        for methods in found.raw["values"].values():
            half = methods[name].shape[1] // 2
            picks += [int(np.argmax(part.mean(axis=1))) for part in (methods[name][:, half:], methods[name][:, :half])]
        counts = np.bincount(picks, minlength=len(EXPONENTS))
        rows.append((label(name), *counts.tolist()))
    return markdown(("values: step size chosen", *map(power, EXPONENTS)), rows)


def figure(table: pl.DataFrame) -> Figure:
    """Means of every rule by the share of expected errors, a panel per score; a dot per fixed λ."""
    found = results(table)
    drawn, axes = new_figure(len(found.scored), height=3.0)
    shares = [share for share in SHARES if named("lineage", share) in set(table["arm"].unique())]
    for panel, (score, part) in zip(axes, found.scored.items(), strict=True):
        for kind, marker in (("accumulating", "."), ("replacing", "x")):
            for rule in (each for each in FIXED if each.startswith(kind) and named(each, 0) in part.methods()):
                means = [part.mean(named(rule, share)) for share in shares]
                panel.plot(shares, means, marker, color="#9a9a9a", markersize=4, label=f"fixed λs, {kind}")
        best = [part.mean(best_fixed(part, share)) for share in shares]
        panel.plot(shares, best, color="#b5442e", marker="D", markersize=4, label="best single fixed λ")
        panel.plot(
            shares, [part.mean(named("lineage", s)) for s in shares], color="#1b6ca8", marker="o", label="lineage"
        )
        if "certainty-equivalence" in part.methods():
            panel.axhline(part.mean("certainty-equivalence"), color="#4a7d3a", linestyle=(0, (4, 1.5)),
                          label="learned model solved")  # fmt: skip
        panel.set(xlabel="ρ, share of expected errors", xticks=shares)
        panel.set_title(score, loc="left")
        panel.set_ylim(bottom=max(panel.get_ylim()[0], -0.5))
    axes[0].set_ylabel("0 worst, 1 best fixed λ of a problem")
    legend_below(drawn, 3)
    return drawn
