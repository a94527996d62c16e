"""Sentences of the atlas page, computed from the map."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from chunked_td.lab.statistics import Estimate
from chunked_td.lab.studies.atlas.families import FAMILIES
from chunked_td.lab.studies.atlas.methods import FIXED_GROUP
from chunked_td.lab.studies.atlas.protocol import ProblemKey
from chunked_td.lab.studies.atlas.ranking import (
    GOOD_ENOUGH,
    RankedMethod,
    best_single_fixed,
    estimate_text,
    score_text,
    unclear,
)
from chunked_td.lab.studies.atlas.results import ControlPair, CreditMap, WrittenVerdict
from chunked_td.lab.study import Arm
from chunked_td.lab.wording import list_text

if TYPE_CHECKING:
    from chunked_td.lab.studies.atlas.report import AtlasView

CHUNKED, PLANNING, PAPER = "chunked", "planning", "forward"
LAMBDA_GROUPS = (CHUNKED, "other λ", "yours")
"""Groups of methods that are λ sources: what the criterion is about."""


def count_text(count: int, noun: str) -> str:
    """As "1 problem", "3 problems"; nouns in -y are families."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def problems_text(keys: Sequence[ProblemKey]) -> str:
    """Problems in words, family by family: "Delay (16 and 64), Grid"."""
    texts = []
    for name in dict.fromkeys(key.family for key in keys):
        settings = [key.setting for key in keys if key.family == name]
        every = len(settings) == len(FAMILIES[name].settings)
        texts.append(FAMILIES[name].title + ("" if every else f" ({list_text([str(s) for s in settings])})"))
    return ", ".join(texts)


def answer(view: AtlasView) -> list[str]:
    """The answer in plain words, one paragraph each."""
    rows, problems = view.rows, view.problems
    found = [_best(view)]
    lead = _lead(view).method
    for method in dict.fromkeys([rows[0].method, lead]):
        found += _strength(view, method)
    found += _held_out(view, lead)
    by_id = {row.method: row for row in rows}
    fixed = by_id[best_single_fixed(view.atlas, problems)]
    found.append(
        f"The best single fixed λ is {_value(view, fixed.method)}: {estimate_text(fixed.mean)} on average, "
        f"{score_text(fixed.worst)} at worst ({fixed.worst_at.name}). Choosing the best fixed λ for each problem would "
        "need a search over λ on each; that is what 1 stands for."
    )
    chunked = [row for row in rows if view.methods[row.method].group == CHUNKED]
    listed = [row for row in (by_id.get(PAPER), chunked[0] if chunked else None) if row is not None]
    found += [f"{_where(view, row)} {controls_of(row.method, view.pairs)}" for row in dict.fromkeys(listed)]
    if view.unclear:
        found.append(
            f"On {count_text(len(view.unclear), 'problem')} the intervals of the best and the worst fixed λ overlap, "
            f"so relative scores there are mostly noise: {problems_text(view.unclear)}."
        )
    planning = next((row for row in rows if view.methods[row.method].group == PLANNING), None)
    if planning is not None and chunked:
        gap = view.bootstrap.difference(chunked[0].method, planning.method, problems)
        meaning = "not told apart" if not gap.shown else f"{'chunking' if gap.low > 0 else 'planning'} is ahead"
        found.append(
            f"Planning with the same counts: {view.label(planning.method)} has {estimate_text(planning.mean)} on "
            f"average. {view.label(chunked[0].method)} minus it: {estimate_text(gap)}, {meaning}."
        )
    return found


def headline(view: AtlasView) -> str:
    """The highest means, of all methods and of the λ sources, and what the latter rests on, in a few sentences."""
    rows, problems, lead = view.rows, view.problems, _lead(view)
    first, best = rows[0], lead.method
    others = [row.method for row in rows if row is not lead]
    near = sum(not view.bootstrap.difference(best, other, problems).shown for other in others)
    text = f"Of {count_text(len(rows), 'method')} on {count_text(len(problems), 'problem')}, "
    if lead is not first:
        text += f"{view.label(first.method)} has the highest mean, {estimate_text(first.mean)}; of the λ sources, "
    apart = f"not told apart from {near} of the other methods" if near else "told apart from all other methods"
    text += (
        f"{view.label(best)} has the highest mean, {estimate_text(lead.mean)}, {apart}. Where a score above 1 counts "
        f"as 1, {_standing(view, best, _by_capped(view), view.atlas.capped, problems)}."
    )
    if view.atlas.held_out(True) and view.atlas.held_out(False):
        text += f" On families held out it has {_held_out_standing(view, best)}."
    return text


def yours(view: AtlasView, method: str) -> str:
    """A method of the user's in three sentences: rank; wins and losses; its nearest relative and what controls say."""
    place, fixed = [row.method for row in view.rows].index(method), best_single_fixed(view.atlas, view.problems)
    row, gap = view.rows[place], view.bootstrap.difference(method, fixed, view.problems)
    against = f"minus {view.label(fixed)}, the best single fixed λ: {_difference_text(gap)}"
    mean = estimate_text(row.mean)
    if len(view.families) == 1:  # families are the unit of the intervals
        level = score_text(view.atlas.mean(fixed, view.problems))
        against, mean = f"{view.label(fixed)}, the best single fixed λ, has {level}", score_text(row.mean.value)
    wins, losses = (f"{len(keys)}{f' ({problems_text(keys)})' if keys else ''}" for keys in (row.wins, row.losses))
    near = nearest(view, method)
    return (
        f"{view.label(method)} is number {place + 1} of {count_text(len(view.rows), 'method')} on "
        f"{count_text(len(view.problems), 'problem')}: mean {mean}; {against}. It wins (its interval lies above the "
        f"best fixed λ of the problem) on {wins} and loses (below {GOOD_ENOUGH}) on {losses}. Its nearest relative is "
        f"{view.label(near)}, {score_text(_distance(view, method, near))} away on average; "
        f"c{controls_of(method, view.pairs)[1:]}"
    )


def nearest(view: AtlasView, method: str) -> str:
    """The other method whose relative scores differ least from this one's, in the mean over problems."""
    others = [name for name in view.atlas.ranking(view.problems) if name != method]
    return min(others, key=lambda name: _distance(view, method, name))


def _distance(view: AtlasView, one: str, other: str) -> float:
    """Mean over problems of how far the relative scores of two methods are apart."""
    scores = (view.atlas.relative(method, view.problems) for method in (one, other))
    return float(np.abs(np.subtract(*scores)).mean())


def _value(view: AtlasView, method: str) -> str:
    """The λ of a method with a fixed one."""
    return view.label(method).removeprefix("λ = ")


def _lead(view: AtlasView) -> RankedMethod:
    """The λ source with the highest mean; the first method if there is none."""
    return next((row for row in view.rows if view.methods[row.method].group in LAMBDA_GROUPS), view.rows[0])


def _by_capped(view: AtlasView) -> list[str]:
    return sorted((row.method for row in view.rows), key=lambda method: -view.atlas.capped(method, view.problems))


def _best(view: AtlasView) -> str:
    best, *others = view.rows
    families = len({key.family for key in view.problems})
    text = (
        f"Over {count_text(len(view.problems), 'problem')} of {count_text(families, 'family')}, "
        f"{view.label(best.method)} has the highest mean relative score, {estimate_text(best.mean)}, where 0 is the "
        "worst and 1 the best fixed λ in hindsight on each problem."
    )
    near = [r for r in others if not view.bootstrap.difference(best.method, r.method, view.problems).shown]
    if not others:
        return text
    if not near:
        return f"{text} The interval of its lead over every other method lies above 0."
    names = "; ".join(view.label(row.method) for row in near)  # some labels have commas
    return f"{text} The interval of the difference contains 0, so these runs do not tell it apart from: {names}."


def _strength(view: AtlasView, best: str) -> list[str]:
    """What becomes of a high mean if it is formed otherwise."""
    atlas, problems = view.atlas, view.problems
    if len(view.rows) == 1 or len(view.families) == 1:
        return []
    texts = [f"Where a score above 1 counts as 1, {_standing(view, best, _by_capped(view), atlas.capped, problems)}."]
    if clear := [key for key in problems if key not in view.unclear]:
        where = f"Over the {count_text(len(clear), 'problem')} that tell fixed λs apart"
        texts.append(f"{where}, {_standing(view, best, atlas.ranking(clear), atlas.mean, clear)}.")
    without = {name: [key for key in problems if key.family != name] for name in view.families}
    lifts = min(without, key=lambda name: atlas.mean(best, without[name]))
    where, rest = f"Without {FAMILIES[lifts].title}, which lifts it most", without[lifts]
    texts.append(f"{where}, {_standing(view, best, atlas.ranking(rest), atlas.mean, rest)}.")
    return [f"How {view.label(best)} stands if the mean is formed otherwise. {' '.join(texts)}"]


def _standing(
    view: AtlasView,
    method: str,
    order: Sequence[str],
    mean: Callable[[str, Sequence[ProblemKey]], float],
    problems: Sequence[ProblemKey],
) -> str:
    """As "it has 0.90, behind λ = 0.8 (0.93)"."""
    score, place = score_text(mean(method, problems)), order.index(method)
    others = order[:place] if place else order[1:2]
    scores = [score_text(mean(other, problems)) for other in others]
    listed = [f"{view.label(other)} ({value})" for other, value in zip(others, scores, strict=True)]
    more = f"; and {len(listed) - 4} more" if len(listed) > 4 else ""
    where = "level with" if set(scores) == {score} else "behind" if place else "ahead of"
    return f"it has {score}, {where} {'; '.join(listed[:4])}{more}"


def _held_out(view: AtlasView, best: str) -> list[str]:
    """The same method on families used for design, and on those that were not."""
    atlas, design, held = view.atlas, view.atlas.held_out(False), view.atlas.held_out(True)
    if not (design and held):
        return []
    order, name = atlas.ranking(held), view.label(best)
    text = (
        f"On the {count_text(len(design), 'problem')} of families used for design {name} has "
        f"{estimate_text(view.bootstrap.mean(best, design))}. On the {count_text(len(held), 'problem')} of families "
        f"held out from it, {len(held) - len(unclear(atlas, held))} of which tell fixed λs apart, {name} has "
        f"{_held_out_standing(view, best)}"
    )
    if best != PAPER and atlas.has(PAPER, held):
        same = [key for key in held if atlas.same_runs(best, PAPER, key)]
        text += f". On {len(same)} of them its scores are those of {view.label(PAPER)}, bit for bit" if same else ""
    ahead = [method for method in order[: order.index(best)] if view.methods[method].group in LAMBDA_GROUPS]
    if ahead:
        listed = [f"{view.label(method)} ({score_text(atlas.mean(method, held))})" for method in ahead]
        text += f". λ sources with a higher mean there: {'; '.join(listed)}"
    if best != order[0]:
        text += (
            f". The highest mean there has {view.label(order[0])}, {estimate_text(view.bootstrap.mean(order[0], held))}"
        )
    return [f"{text}."]


def _held_out_standing(view: AtlasView, method: str) -> str:
    """As "0.83 [0.60, 1.04], place 11 of 28; minus the best single fixed λ there (0.4): 0.01 [−0.17, 0.24], …"."""
    held = view.atlas.held_out(True)
    order, fixed = view.atlas.ranking(held), best_single_fixed(view.atlas, held)
    text = f"{estimate_text(view.bootstrap.mean(method, held))}, place {order.index(method) + 1} of {len(order)}"
    if method == fixed:
        return text
    gap = view.bootstrap.difference(method, fixed, held)
    return f"{text}; minus the best single fixed λ there ({_value(view, fixed)}): {_difference_text(gap)}"


def _difference_text(gap: Estimate) -> str:
    """As "0.01 [−0.17, 0.24], not told apart"."""
    return f"{estimate_text(gap)}, {'not told apart' if not gap.shown else 'ahead' if gap.low > 0 else 'behind'}"


def _where(view: AtlasView, row: RankedMethod) -> str:
    count = count_text(len(view.problems), "problem")
    wins = f"on {len(row.wins)} of {count}" + (f": {problems_text(row.wins)}" if row.wins else "")
    losses = f"on {len(row.losses)}" + (f": {problems_text(row.losses)}" if row.losses else "")
    return (
        f"{view.label(row.method)}: {estimate_text(row.mean)} on average, {score_text(row.worst)} at worst "
        f"({row.worst_at.name}). It wins (its interval lies above the best fixed λ) {wins}. It loses (its interval "
        f"lies below {GOOD_ENOUGH}) {losses}."
    )


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
