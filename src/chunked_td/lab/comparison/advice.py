"""What to use and why, in sentences made from the numbers."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import numpy as np

from chunked_td.lab.comparison.arms import BOOTSTRAPS, DYNA
from chunked_td.lab.comparison.ranking import FEW, Gap, paired_gap
from chunked_td.lab.comparison.recipe import agent_line, command
from chunked_td.lab.comparison.sweep import ArmOutcome, Comparison, Standing, Standings
from chunked_td.lab.wording import list_text
from chunked_td.lambdas.base import MODEL, Needs

NO_DIFFERENCE = "no difference"
SCORE = "mean return of all training episodes, exploration included"
"""What arms are ranked by."""

_KINDS = ("a fixed λ", "a λ without a model", "a λ from a model", "planning")
_NAMED = 3  # more arms to avoid than this are counted, not named


def advice(found: Comparison) -> list[str]:
    """The headline, how to train what it recommends, and why."""
    return [headline(found), *recipe_texts(found), *reasons(found)]


def headline(found: Comparison) -> str:
    """The answer in a few sentences."""
    rows, chosen = found.overall.rows, recommended(found)
    if not rows:
        return "Every arm diverged at every step size: take smaller step sizes, or rewards of a smaller scale."
    best, tied = rows[0], found.overall.tied_rows
    if chosen is None:
        return (
            f"Nothing to choose: every arm has the same return, {best.mean:.4g}, in every run. More episodes or more "
            f"exploration may be needed before anything is learned."
        )
    if len(tied) == 1:
        text = f"Use {_scored(best)}: better than every other arm."
    elif found.overall.family.no_difference:
        text = f"There is {NO_DIFFERENCE} between the arms that {found.seeds} seeds can show. {choice_text(found)}"
    else:
        text = (
            f"{len(tied)} of {len(rows)} arms are not told apart; {_scored(best)} has the best mean. "
            f"{avoid_text(found)} {choice_text(found)}"
        )
    return f"{text} Scores: {SCORE}."


def _scored(row: Standing) -> str:
    return f"{row.outcome.arm.label} ({row.mean:.4g})"


def effort(row: Standing) -> int:
    """A fixed λ is 0, one from returns, errors or visits 1, one from a model 2, planning 3."""
    arm = row.outcome.arm
    if not arm.adapts:
        return {"fixed": 0, DYNA: 3}.get(arm.source, 1)
    return 2 if arm.lambda_source.needs & MODEL & ~Needs.VISITS else 1


def recommended(found: Comparison) -> Standing | None:
    """What to use, of all that cannot be told apart from the best: least effort, then the better bootstrap, then mean.

    None where there is nothing to choose between: no arm is ranked, or all have the same return in every run.
    """
    rows = found.overall.rows
    if not rows or all(row.low == row.high == rows[0].mean for row in rows):
        return None
    lost = beaten_bootstraps(found)
    return min(found.overall.tied_rows, key=lambda row: (effort(row), lost[row.outcome.arm.bootstrap], -row.mean))


def choice_text(found: Comparison) -> str:
    """What to use of several, and by which rule."""
    chosen = recommended(found)
    assert chosen is not None
    alike = [row for row in found.overall.tied_rows if effort(row) == effort(chosen)]
    arm, kind = chosen.outcome.arm, _KINDS[effort(chosen)]
    text = f"{kind[0].upper()}{kind[1:]} is simplest"
    if len(alike) == 1:
        return f"{text}, and the only one of these is {_scored(chosen)}."
    if any(row.mean > chosen.mean for row in alike):
        text = f"{text}, and {BOOTSTRAPS[arm.bootstrap]} is better on average"
    return f"{text}; the best mean of those is that of {_scored(chosen)}."


def avoid_text(found: Comparison) -> str:
    """The arms that are worse than the best: a λ source by itself where it is worse with every bootstrap."""
    rows = found.overall.rows
    worse = [row.outcome.arm for row in rows if not found.overall.tied(row)]
    kept = {row.outcome.arm.source_label for row in found.overall.tied_rows}
    names = list(dict.fromkeys(arm.label if arm.source_label in kept else arm.source_label for arm in worse))
    return f"Avoid {list_text(names)}." if len(names) <= _NAMED else f"The other {len(worse)} are worse."


def recipe_texts(found: Comparison) -> list[str]:
    """How to train what is recommended, for the shell and in Python."""
    chosen = recommended(found)
    if chosen is None:
        return []
    line, label = command(chosen.outcome, found.settings), chosen.outcome.arm.label
    first = [f"To train {label}: {line}"] if line else []
    return [*first, f"{label} in Python: {agent_line(chosen.outcome, found.settings)}"]


def reasons(found: Comparison) -> list[str]:
    """Each bootstrap by itself, the bootstraps against each other, and what to be careful about."""
    texts = planning_text(found)
    if len(found.groups) > 1:
        texts += [group_text(group) for group in found.groups]
    texts += [text for group in found.groups if (text := model_text(group))]
    texts += [text for group in found.groups if (text := lambda_text(group))]
    texts += bootstrap_texts(found)
    return texts + cautions(found)


def planning_text(found: Comparison) -> list[str]:
    """The best without planning, where the best plans."""
    rows = found.overall.rows
    plain = next((row for row in rows if row.outcome.arm.source != "dyna"), None)
    if plain is None or plain is rows[0]:
        return []
    gap = found.overall.family.gap(plain.place)
    shown = f"behind by {_size(gap)}" if gap.shown else f"{NO_DIFFERENCE} to the best ({_size(gap)})"
    return [
        f"Dyna makes ten more updates a step from its model. Without planning, the best mean is "
        f"{plain.outcome.arm.label}, {plain.mean:.4g}: {shown}."
    ]


def group_text(group: Standings) -> str:
    """The λ sources within one bootstrap."""
    if len(group.rows) < 2:
        return f"Within {group.title}: too few arms are left to compare."
    tied, rows = group.tied_rows, group.rows
    if group.family.no_difference:
        widest = group.family.widest
        open_ = f"; a difference of up to {widest:.3g} is not ruled out" if np.isfinite(widest) and widest > 0 else ""
        return f"Within {group.title}: {NO_DIFFERENCE} between λ sources{open_}."
    best = f"Within {group.title}: {rows[0].outcome.arm.source_label} has the best mean, {rows[0].mean:.4g}"
    others = [row.outcome.arm.source_label for row in tied[1:]]
    worse = [row for row in rows if not group.tied(row)]
    also = f"; not told apart from it: {list_text(others)}" if others else ", ahead of every other"
    if not worse:
        return f"{best}{also}."
    return f"{best}{also}. Worse: {list_text([row.outcome.arm.source_label for row in worse])}."


def model_text(group: Standings) -> str:
    """Whether a λ from a model pays, against the best fixed λ with the same bootstrap."""
    fixed = [row for row in group.rows if row.outcome.arm.source == "fixed"]
    models = [row for row in group.rows if row.outcome.arm.adapts]
    if not fixed or not models:
        return ""
    gap = group.family.gap(fixed[0].place, models[0].place)
    ours, theirs = models[0].outcome.arm.source_label, fixed[0].outcome.arm.source_label
    if gap.shown:
        first, second = (ours, theirs) if gap.mean > 0 else (theirs, ours)
        return f"{group.title}: {first} beats {second} by {_size(gap)}."
    return (
        f"{group.title}: the best λ that adapts ({ours}) and the best fixed λ ({theirs}) show {NO_DIFFERENCE} "
        f"({_size(gap)})."
    )


def lambda_text(group: Standings) -> str:
    """What λ the best of those that adapt had, beside the best fixed one: why it did as it did."""
    fixed = next((row for row in group.rows if row.outcome.arm.source == "fixed"), None)
    ours = next((row for row in group.rows if row.outcome.arm.adapts), None)
    there = None if ours is None else np.isfinite(ours.outcome.lambdas).any(axis=0)  # episodes of one step have no λ
    if ours is None or there is None or not there.any():
        return ""
    mean = np.nanmean(ours.outcome.lambdas[:, there], axis=0)
    tenth = max(mean.size // 10, 1)
    text = (
        f"Why, {ours.outcome.arm.label}: its λ was {mean[:tenth].mean():.2f} on average in the first tenth of training "
        f"and {mean[-tenth:].mean():.2f} in the last"
    )
    if fixed is None:
        return f"{text}."
    return f"{text}; the best fixed λ was {fixed.outcome.arm.value:g}."


def _size(gap: Gap) -> str:
    if not np.isfinite(gap.low):
        return f"{abs(gap.mean):.3g}, too few seeds for an interval"
    low, high = (gap.low, gap.high) if gap.mean >= 0 else (-gap.high, -gap.low)
    return f"{abs(gap.mean):.3g}, 95 % interval {low:.3g} to {high:.3g}"


def bootstrap_gaps(found: Comparison) -> Iterator[tuple[str, str, int, Gap]]:
    """Pairs of bootstraps, how many λ sources both have, and the first's lead in the mean over these."""
    names = list(dict.fromkeys(one.arm.bootstrap for one in found.outcomes))
    for first, second in itertools.combinations(names, 2):
        ours, theirs = (_by_source(found, name) for name in (first, second))
        both = [key for key in ours if key in theirs]
        if both:
            yield first, second, len(both), paired_gap([ours[key] for key in both], [theirs[key] for key in both])


def beaten_bootstraps(found: Comparison) -> Counter[str]:
    """How many others are better than a bootstrap on average."""
    return Counter(second if gap.mean > 0 else first for first, second, _, gap in bootstrap_gaps(found) if gap.shown)


def bootstrap_texts(found: Comparison) -> list[str]:
    """Each pair of bootstraps, averaged over the λ sources that both have."""
    texts = []
    for first, second, shared, gap in bootstrap_gaps(found):
        names = BOOTSTRAPS[first], BOOTSTRAPS[second]
        text = f"averaged over the {shared} λ sources that both have"
        if gap.shown:
            better, worse = names if gap.mean > 0 else names[::-1]
            texts.append(f"{better} beats {worse}, {text}, by {_size(gap)}.")
        else:
            texts.append(f"{names[0]} and {names[1]}, {text}: {NO_DIFFERENCE} ({_size(gap)}).")
    return texts


def _by_source(found: Comparison, bootstrap: str) -> dict[str, np.ndarray]:
    return {
        one.arm.source_label: one.scores
        for one in found.outcomes
        if one.arm.bootstrap == bootstrap and not one.diverged
    }


def cautions(found: Comparison) -> list[str]:
    """Divergence, step sizes at the grid's edge, few seeds."""
    texts = [divergence_text(one) for one in found.outcomes if any(runs.diverged.any() for runs in one.curves.values())]
    if found.at_edge:
        names = list_text([f"{one.arm.label} (α = {one.step_size_text})" for one in found.at_edge])
        texts.append(f"Warning: the best step size lies at the edge of the grid for {names}; it may lie beyond.")
    if found.seeds < FEW:
        texts.append(
            f"Warning: with {found.seeds} seeds only large differences can be shown; take {FEW} or more, better 20."
        )
    return texts


def divergence_text(one: ArmOutcome) -> str:
    """At which step sizes an arm diverged."""
    lost = [
        f"α = {size:.4g} ({int(runs.diverged.sum())} of {runs.diverged.size} runs)"
        for size, runs in sorted(one.curves.items())
        if runs.diverged.any()
    ]
    return f"{'Not ranked' if one.diverged else 'Diverged'}: {one.arm.label} at {list_text(lost)}."
