"""What to use and why, in sentences made from the numbers."""

from __future__ import annotations

import numpy as np

from chunked_td.lab.comparison.arms import BOOTSTRAPS
from chunked_td.lab.comparison.ranking import FEW, Gap, paired_gap
from chunked_td.lab.comparison.sweep import ArmOutcome, Comparison, Standing, Standings
from chunked_td.lab.results.wording import list_text

NO_DIFFERENCE = "no difference"

_EFFORT = {"fixed": 0, "greedy": 1, "dyna": 3}  # others learn a model for λ


def headline(found: Comparison) -> str:
    """The answer in a sentence or two."""
    overall = found.overall
    if not overall.rows:
        return "Every arm diverged at every step size: take smaller step sizes, or rewards of a smaller scale."
    best, tied = overall.rows[0], overall.tied_rows
    if all(row.low == row.high == best.mean for row in overall.rows):
        return (
            f"Nothing to choose: every arm has the same return, {best.mean:.4g}, in every run. More episodes or more "
            f"exploration may be needed before anything is learned."
        )
    told = f"{found.seeds} seeds"
    if overall.family.no_difference and len(overall.rows) > 1:
        return (
            f"There is {NO_DIFFERENCE} between the arms that {told} can show: take the simplest, "
            f"{simplest(tied).outcome.arm.label}."
        )
    if len(tied) == 1:
        return f"Use {best.outcome.arm.label}: mean return {best.mean:.4g}, better than every other arm."
    text = f"Best mean return: {best.outcome.arm.label}, {best.mean:.4g}."
    easy = simplest(tied)
    if easy is best:
        return f"{text} {_count(len(tied) - 1)} cannot be told apart from it, but no simpler one. Use it."
    return (
        f"{text} {_count(len(tied) - 1)} cannot be told apart from it; the simplest is {easy.outcome.arm.label}, "
        f"{easy.mean:.4g}. Use that, or run more seeds."
    )


def _count(arms: int) -> str:
    return "One other arm" if arms == 1 else f"{arms} other arms"


def simplest(rows: list[Standing]) -> Standing:
    """A fixed λ before one from returns, before one from a model, before planning; the best of these."""
    return min(rows, key=lambda row: (_EFFORT.get(row.outcome.arm.source, 2), -row.mean))


def advice(found: Comparison) -> list[str]:
    """The headline, each bootstrap by itself, the bootstraps against each other, and what to be careful about."""
    texts = [headline(found), *planning_text(found)]
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
    models = [row for row in group.rows if row.outcome.arm.source not in ("fixed", "dyna")]
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
    ours = next((row for row in group.rows if row.outcome.arm.source not in ("fixed", "dyna")), None)
    if ours is None or not np.isfinite(ours.outcome.lambdas).any():
        return ""
    mean = np.nanmean(ours.outcome.lambdas, axis=0)[np.isfinite(ours.outcome.lambdas).any(axis=0)]
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


def bootstrap_texts(found: Comparison) -> list[str]:
    """Each pair of bootstraps, averaged over the λ sources that both have."""
    names = list(dict.fromkeys(one.arm.bootstrap for one in found.outcomes))
    texts = []
    for k, first in enumerate(names):
        for second in names[k + 1 :]:
            ours, theirs = (_by_source(found, name) for name in (first, second))
            both = [key for key in ours if key in theirs]
            if not both:
                continue
            gap = paired_gap([ours[key] for key in both], [theirs[key] for key in both])
            names_ = BOOTSTRAPS[first], BOOTSTRAPS[second]
            text = f"averaged over the {len(both)} λ sources that both have"
            if not gap.shown:
                texts.append(f"{names_[0]} and {names_[1]}, {text}: {NO_DIFFERENCE} ({_size(gap)}).")
            else:
                better, worse = names_ if gap.mean > 0 else names_[::-1]
                texts.append(f"{better} beats {worse}, {text}, by {_size(gap)}.")
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
        texts.append(f"Warning: {found.seeds} seeds are too few to tell arms apart; take {FEW} or more, better 20.")
    return texts


def divergence_text(one: ArmOutcome) -> str:
    """At which step sizes an arm diverged."""
    lost = [
        f"α = {size:.4g} ({int(runs.diverged.sum())} of {runs.diverged.size} runs)"
        for size, runs in sorted(one.curves.items())
        if runs.diverged.any()
    ]
    return f"{'Not ranked' if one.diverged else 'Diverged'}: {one.arm.label} at {list_text(lost)}."
