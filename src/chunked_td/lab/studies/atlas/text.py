"""Sentences of the atlas page, computed from the map."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from chunked_td.lab.studies.atlas.controls import ControlPair
from chunked_td.lab.studies.atlas.families import FAMILIES
from chunked_td.lab.studies.atlas.methods import FIXED_GROUP
from chunked_td.lab.studies.atlas.protocol import ProblemKey
from chunked_td.lab.studies.atlas.ranking import (
    GOOD_ENOUGH,
    AtlasBootstrap,
    RankedMethod,
    ScoreEstimate,
    best_single_fixed,
    score_text,
    unclear,
)
from chunked_td.lab.studies.atlas.results import CreditMap, WrittenVerdict
from chunked_td.lab.study import Arm
from chunked_td.lab.wording import list_text

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
    methods: Mapping[str, Arm],
    pairs: Sequence[ControlPair] = (),
) -> list[str]:
    """The answer in plain words, one paragraph each."""
    problems = atlas.main()
    found = [_best(rows, bootstrap, methods, problems)]
    lead = _lead(rows, methods).method
    for method in dict.fromkeys([rows[0].method, lead]):
        found += _strength(method, rows, atlas, methods)
    found += _held_out(lead, atlas, bootstrap, methods)
    by_id = {row.method: row for row in rows}
    fixed = by_id[best_single_fixed(atlas, problems)]
    found.append(
        f"The best single fixed λ is {methods[fixed.method].label.removeprefix('λ = ')}: {fixed.mean.text} on average, "
        f"{score_text(fixed.worst)} at worst ({fixed.worst_at.name}). Choosing the best fixed λ for each problem would "
        "need a search over λ on each; that is what 1 stands for."
    )
    chunked = [row for row in rows if methods[row.method].group == CHUNKED]
    listed = [row for row in (by_id.get(PAPER), chunked[0] if chunked else None) if row is not None]
    found += [
        f"{_where(row, methods, len(problems))} {controls_of(row.method, pairs)}" for row in dict.fromkeys(listed)
    ]
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


def headline(
    rows: Sequence[RankedMethod], atlas: CreditMap, bootstrap: AtlasBootstrap, methods: Mapping[str, Arm]
) -> str:
    """The highest means, of all methods and of the λ sources, and what the latter rests on, in a few sentences."""
    problems, lead = atlas.main(), _lead(rows, methods)
    first, best = rows[0], lead.method
    near = sum(bootstrap.difference(best, row.method, problems).contains_zero for row in rows if row is not lead)
    text = f"Of {count_text(len(rows), 'method')} on {count_text(len(problems), 'problem')}, "
    if lead is not first:
        text += f"{methods[first.method].label} has the highest mean, {first.mean.text}; of the λ sources, "
    told = f"not told apart from {near} of the other methods" if near else "told apart from all other methods"
    text += (
        f"{methods[best].label} has the highest mean, {lead.mean.text}, {told}. Where a score above 1 counts as 1, "
        f"{_standing(best, _by_capped(rows, atlas), methods, atlas.capped, problems)}."
    )
    if atlas.held_out(True) and atlas.held_out(False):
        text += f" On families held out it has {_held_out_standing(best, atlas, bootstrap, methods)}."
    return text


def yours(
    method: str,
    rows: Sequence[RankedMethod],
    atlas: CreditMap,
    bootstrap: AtlasBootstrap,
    methods: Mapping[str, Arm],
    pairs: Sequence[ControlPair],
) -> str:
    """A method of the user's in three sentences: rank; wins and losses; its nearest relative and what controls say."""
    problems, place = atlas.main(), [row.method for row in rows].index(method)
    row, fixed = rows[place], best_single_fixed(atlas, problems)
    gap, many = bootstrap.difference(method, fixed, problems), len({key.family for key in problems}) > 1
    told = "not told apart" if gap.contains_zero else "ahead" if gap.low > 0 else "behind"
    against = f"minus {methods[fixed].label}, the best single fixed λ: {gap.text}, {told}"
    if not many:  # families are the unit of the intervals
        against = f"{methods[fixed].label}, the best single fixed λ, has {score_text(atlas.mean(fixed, problems))}"
    mean = row.mean.text if many else score_text(row.mean.mean)
    wins, losses = (f"{len(keys)}{f' ({places(keys)})' if keys else ''}" for keys in (row.wins, row.losses))
    near = nearest(method, atlas, methods)
    apart = float(np.abs(atlas.relative(method, problems) - atlas.relative(near, problems)).mean())
    return (
        f"{methods[method].label} is number {place + 1} of {count_text(len(rows), 'method')} on "
        f"{count_text(len(problems), 'problem')}: mean {mean}; {against}. It wins (its interval lies above the best "
        f"fixed λ of the problem) on {wins} and loses (below {GOOD_ENOUGH}) on {losses}. Its nearest relative is "
        f"{methods[near].label}, {score_text(apart)} away on average; c{controls_of(method, pairs)[1:]}"
    )


def nearest(method: str, atlas: CreditMap, methods: Mapping[str, Arm]) -> str:
    """The other method whose relative scores differ least from this one's, in the mean over problems."""
    problems = atlas.main()
    others = [name for name in atlas.ranking(problems) if name != method]
    mine = atlas.relative(method, problems)
    return min(others, key=lambda name: float(np.abs(mine - atlas.relative(name, problems)).mean()))


def _lead(rows: Sequence[RankedMethod], methods: Mapping[str, Arm]) -> RankedMethod:
    """The λ source with the highest mean; the first method if there is none."""
    return next((row for row in rows if methods[row.method].group in LAMBDA_GROUPS), rows[0])


def _by_capped(rows: Sequence[RankedMethod], atlas: CreditMap) -> list[str]:
    return sorted((row.method for row in rows), key=lambda method: -atlas.capped(method, atlas.main()))


def _best(
    rows: Sequence[RankedMethod],
    bootstrap: AtlasBootstrap,
    methods: Mapping[str, Arm],
    problems: Sequence[ProblemKey],
) -> str:
    best, others = rows[0], rows[1:]
    families = len({key.family for key in problems})
    text = (
        f"Over {count_text(len(problems), 'problem')} of {count_text(families, 'family')}, "
        f"{methods[best.method].label} has the highest mean relative score, {best.mean.text}, where 0 is the "
        "worst and 1 the best fixed λ in hindsight on each problem."
    )
    near = [row for row in others if bootstrap.difference(best.method, row.method, problems).contains_zero]
    if not others:
        return text
    if not near:
        return f"{text} The interval of its lead over every other method lies above 0."
    names = "; ".join(methods[row.method].label for row in near)  # some labels have commas
    return f"{text} The interval of the difference contains 0, so these runs do not tell it apart from: {names}."


def _strength(best: str, rows: Sequence[RankedMethod], atlas: CreditMap, methods: Mapping[str, Arm]) -> list[str]:
    """What becomes of a high mean if it is formed otherwise."""
    problems = atlas.main()
    families = dict.fromkeys(key.family for key in problems)
    if len(rows) == 1 or len(families) == 1:
        return []
    capped = _by_capped(rows, atlas)
    texts = [f"Where a score above 1 counts as 1, {_standing(best, capped, methods, atlas.capped, problems)}."]
    vague = unclear(atlas, problems)
    if clear := [key for key in problems if key not in vague]:
        where = f"Over the {count_text(len(clear), 'problem')} that tell fixed λs apart"
        texts.append(f"{where}, {_standing(best, atlas.ranking(clear), methods, atlas.mean, clear)}.")
    without = {name: [key for key in problems if key.family != name] for name in families}
    lifts = min(without, key=lambda name: atlas.mean(best, without[name]))
    where, rest = f"Without {FAMILIES[lifts].title}, which lifts it most", without[lifts]
    texts.append(f"{where}, {_standing(best, atlas.ranking(rest), methods, atlas.mean, rest)}.")
    return [f"How {methods[best].label} stands if the mean is formed otherwise. {' '.join(texts)}"]


def _standing(
    method: str,
    order: Sequence[str],
    methods: Mapping[str, Arm],
    mean: Callable[[str, Sequence[ProblemKey]], float],
    problems: Sequence[ProblemKey],
) -> str:
    """As "it has 0.90, behind λ = 0.8 (0.93)"."""
    score, place = score_text(mean(method, problems)), order.index(method)
    others = order[:place] if place else order[1:2]
    scores = [score_text(mean(other, problems)) for other in others]
    listed = [f"{methods[other].label} ({value})" for other, value in zip(others, scores, strict=True)]
    more = f"; and {len(listed) - 4} more" if len(listed) > 4 else ""
    where = "level with" if set(scores) == {score} else "behind" if place else "ahead of"
    return f"it has {score}, {where} {'; '.join(listed[:4])}{more}"


def _held_out(best: str, atlas: CreditMap, bootstrap: AtlasBootstrap, methods: Mapping[str, Arm]) -> list[str]:
    """The same method on families used for design, and on those that were not."""
    design, held = atlas.held_out(False), atlas.held_out(True)
    if not (design and held):
        return []
    order = atlas.ranking(held)
    name, vague = methods[best].label, unclear(atlas, held)
    text = (
        f"On the {count_text(len(design), 'problem')} of families used for design {name} has "
        f"{bootstrap.mean(best, design).text}. On the {count_text(len(held), 'problem')} of families held out from it, "
        f"{len(held) - len(vague)} of which tell fixed λs apart, {name} has "
        f"{_held_out_standing(best, atlas, bootstrap, methods)}"
    )
    if best != PAPER and atlas.has(PAPER, held):
        same = [key for key in held if atlas.same_runs(best, PAPER, key)]
        text += f". On {len(same)} of them its scores are those of {methods[PAPER].label}, bit for bit" if same else ""
    ahead = [method for method in order[: order.index(best)] if methods[method].group in LAMBDA_GROUPS]
    if ahead:
        listed = [f"{methods[method].label} ({score_text(atlas.mean(method, held))})" for method in ahead]
        text += f". λ sources with a higher mean there: {'; '.join(listed)}"
    if best != order[0]:
        text += f". The highest mean there has {methods[order[0]].label}, {bootstrap.mean(order[0], held).text}"
    return [f"{text}."]


def _held_out_standing(method: str, atlas: CreditMap, bootstrap: AtlasBootstrap, methods: Mapping[str, Arm]) -> str:
    """As "0.83 [0.60, 1.04], place 11 of 28; minus the best single fixed λ there (0.4): 0.01 [−0.17, 0.24], …"."""
    held = atlas.held_out(True)
    order, fixed = atlas.ranking(held), best_single_fixed(atlas, held)
    text = f"{bootstrap.mean(method, held).text}, place {order.index(method) + 1} of {len(order)}"
    if method == fixed:
        return text
    gap, value = bootstrap.difference(method, fixed, held), methods[fixed].label.removeprefix("λ = ")
    told = "not told apart" if gap.contains_zero else "ahead" if gap.low > 0 else "behind"
    return f"{text}; minus the best single fixed λ there ({value}): {gap.text}, {told}"


def _where(row: RankedMethod, methods: Mapping[str, Arm], count: int) -> str:
    wins = f"on {len(row.wins)} of {count_text(count, 'problem')}" + (f": {places(row.wins)}" if row.wins else "")
    losses = f"on {len(row.losses)}" + (f": {places(row.losses)}" if row.losses else "")
    return (
        f"{methods[row.method].label}: {row.mean.text} on average, {score_text(row.worst)} at worst "
        f"({row.worst_at.name}). It wins (its interval lies above the best fixed λ) {wins}. It loses (its interval "
        f"lies below {GOOD_ENOUGH}) {losses}."
    )


def _meaning(gap: ScoreEstimate) -> str:
    return ", not told apart" if gap.contains_zero else ", chunking is ahead" if gap.low > 0 else ", planning is ahead"


def candidate(atlas: CreditMap, methods: Mapping[str, Arm]) -> str | None:
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
    survive = "survives" if kept == 1 else "survive"
    return f"Controls: of {count_text(len(wins), 'win')} on problems that have one, {kept} {survive} it."


def control_findings(pairs: Sequence[ControlPair], methods: Mapping[str, Arm]) -> list[str]:
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
