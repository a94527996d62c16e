"""Sentences of the atlas page, computed from the map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chunked_td.lab.atlas.controls import ControlPair
from chunked_td.lab.atlas.methods import FIXED_GROUP, Method
from chunked_td.lab.atlas.problems import FAMILIES
from chunked_td.lab.atlas.protocols import ProblemKey
from chunked_td.lab.atlas.ranking import (
    GOOD_ENOUGH,
    AtlasBootstrap,
    RankedMethod,
    ScoreEstimate,
    best_single_fixed,
    score_text,
    unclear,
)
from chunked_td.lab.atlas.results import CreditMap, WrittenVerdict
from chunked_td.lab.results.wording import list_text

CHUNKED, PLANNING, PAPER = "chunked", "planning", "forward"
LAMBDA_GROUPS = (CHUNKED, "other λ", "yours")
"""Groups of methods that are λ sources: what the criterion is about."""


def count_text(count: int, noun: str) -> str:
    """As "1 problem", "3 problems"; nouns in -y are families."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def places(keys: Sequence[ProblemKey]) -> str:
    """Problems in words, family by family: "Delay (16 and 64), Grid"."""
    texts = []
    for name in dict.fromkeys(key.family for key in keys):
        settings = [key.setting for key in keys if key.family == name]
        every = len(settings) == len(FAMILIES[name].settings)
        texts.append(FAMILIES[name].title + ("" if every else f" ({list_text([str(s) for s in settings])})"))
    return ", ".join(texts)


def answer(
    rows: Sequence[RankedMethod],
    atlas: CreditMap,
    bootstrap: AtlasBootstrap,
    methods: Mapping[str, Method],
    problems: Sequence[ProblemKey],
) -> list[str]:
    """The answer in plain words, one paragraph each."""
    found = [_best(rows, bootstrap, methods, problems)]
    by_id = {row.method: row for row in rows}
    fixed = by_id[best_single_fixed(atlas, problems)]
    found.append(
        f"The best single fixed λ is {methods[fixed.method].label.removeprefix('λ = ')}: {fixed.mean.text} on average, "
        f"{score_text(fixed.worst)} at worst ({fixed.worst_at.name}). Choosing the best fixed λ for each problem would "
        "need a search over λ on each; that is what 1 stands for."
    )
    chunked = [row for row in rows if methods[row.method].group == CHUNKED]
    listed = [row for row in (by_id.get(PAPER), chunked[0] if chunked else None) if row is not None]
    found += [_where(row, methods, len(problems)) for row in dict.fromkeys(listed)]
    found += _parts(atlas, bootstrap, methods)
    if vague := unclear(atlas, problems):
        found.append(
            f"On {count_text(len(vague), 'problem')} the intervals of the best and the worst fixed λ overlap, so "
            f"relative scores there are mostly noise: {places(vague)}."
        )
    planning = next((row for row in rows if methods[row.method].group == PLANNING), None)
    if planning is not None and chunked:
        gap = bootstrap.difference(chunked[0].method, planning.method, problems)
        found.append(
            f"Planning with the same counts: {methods[planning.method].label} has {planning.mean.text} on average. "
            f"{methods[chunked[0].method].label} minus it: {gap.text}{_meaning(gap)}."
        )
    return found


def _best(
    rows: Sequence[RankedMethod],
    bootstrap: AtlasBootstrap,
    methods: Mapping[str, Method],
    problems: Sequence[ProblemKey],
) -> str:
    best, others = rows[0], rows[1:]
    families = len({key.family for key in problems})
    text = (
        f"Over {count_text(len(problems), 'problem')} of {count_text(families, 'family')}, "
        f"{methods[best.method].label} does best on average: a mean relative score of {best.mean.text}, where 0 is the "
        "worst and 1 the best fixed λ in hindsight on each problem."
    )
    near = [row for row in others if bootstrap.difference(best.method, row.method, problems).contains_zero]
    if not others:
        return text
    if not near:
        return f"{text} The interval of its lead over every other method lies above 0."
    names = "; ".join(methods[row.method].label for row in near)  # some labels have commas
    return f"{text} The interval of the difference contains 0, so these runs do not tell it apart from: {names}."


def _where(row: RankedMethod, methods: Mapping[str, Method], count: int) -> str:
    wins = f"on {len(row.wins)} of {count_text(count, 'problem')}" + (f": {places(row.wins)}" if row.wins else "")
    losses = f"on {len(row.losses)}" + (f": {places(row.losses)}" if row.losses else "")
    return (
        f"{methods[row.method].label}: {row.mean.text} on average, {score_text(row.worst)} at worst "
        f"({row.worst_at.name}). It wins (its interval lies above the best fixed λ) {wins}. It loses (its interval "
        f"lies below {GOOD_ENOUGH}) {losses}."
    )


def _parts(atlas: CreditMap, bootstrap: AtlasBootstrap, methods: Mapping[str, Method]) -> list[str]:
    """Families used for design beside those held out."""
    parts = {"used for design": atlas.held_out(False), "held out from it": atlas.held_out(True)}
    if not all(parts.values()):
        return []
    texts = []
    for name, keys in parts.items():
        best, fixed = atlas.ranking(keys)[0], best_single_fixed(atlas, keys)
        value = methods[fixed].label.removeprefix("λ = ")
        texts.append(
            f"On the {count_text(len(keys), 'problem')} of families {name}, {methods[best].label} is best with "
            f"{bootstrap.mean(best, keys).text}, and the best single fixed λ ({value}) has "
            f"{bootstrap.mean(fixed, keys).text}."
        )
    return [" ".join(texts)]


def _meaning(gap: ScoreEstimate) -> str:
    return ", not told apart" if gap.contains_zero else ", chunking is ahead" if gap.low > 0 else ", planning is ahead"


def candidate(atlas: CreditMap, methods: Mapping[str, Method]) -> str | None:
    """The λ source that the criterion is applied to: the best mean over the families used for design."""
    design = atlas.held_out(False) or atlas.main()
    found = [m for m in atlas.ranking(design) if methods[m].group in LAMBDA_GROUPS and atlas.has(m, atlas.main())]
    return found[0] if found else None


def verdict_text(judged: WrittenVerdict) -> str:
    """The three parts of the criterion, each with its number."""
    parts = [
        (f"mean {score_text(judged.mean)} (≥ {judged.MEAN})", judged.mean >= judged.MEAN),
        (f"worst problem {score_text(judged.worst)} (≥ {judged.WORST})", judged.worst >= judged.WORST),
        (
            f"best single fixed λ {score_text(judged.best_fixed_mean)} (< {judged.FIXED_MEAN})",
            judged.best_fixed_mean < judged.FIXED_MEAN,
        ),
    ]
    return "; ".join(f"{text}: {'met' if met else 'not met'}" for text, met in parts) + "."


def controls_of(method: str, pairs: Sequence[ControlPair]) -> str:
    """Whether one method passes its controls, in a sentence."""
    wins = [pair for pair in pairs if pair.method == method and pair.wins]
    if not any(pair.method == method for pair in pairs):
        return "Controls: none among these runs."
    if not wins:
        return "Controls: it wins no problem that has one, so there is no win to check."
    kept = sum(not pair.lost for pair in wins)
    return f"Controls: of {count_text(len(wins), 'win')} on problems that have one, {kept} survive it."


def control_findings(pairs: Sequence[ControlPair], methods: Mapping[str, Method]) -> list[str]:
    """Which wins survive their controls, in words."""
    if not pairs:
        return ["These runs have no controls; the full profile has."]
    wins = [pair for pair in pairs if pair.wins and methods[pair.method].group != FIXED_GROUP]
    lost = [pair for pair in wins if pair.lost]
    if not wins:
        return ["No method wins a problem that has a control, so there is no win to check."]
    found = [f"{len(wins) - len(lost)} of {count_text(len(wins), 'win')} on problems with a control survive it."]
    for method in dict.fromkeys(pair.method for pair in lost):
        texts = [
            f"{pair.problem.name}: {score_text(pair.plain.relative)}, control {score_text(pair.control.relative)} "
            f"[{score_text(pair.control.low)}, {score_text(pair.control.high)}]"
            + ("" if pair.clearly_lost else " (the interval reaches 1)")
            for pair in lost
            if pair.method == method
        ]
        found.append(f"{methods[method].label} wins, but not on the control: {'; '.join(texts)}.")
    return found
