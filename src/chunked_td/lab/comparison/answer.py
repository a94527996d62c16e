"""Which λ to use, in sentences made from the numbers: the answer, the direct comparison, and caveats."""

from __future__ import annotations

import itertools

import numpy as np

from chunked_td.lab.comparison.arms import BOOTSTRAPS, PLANS, VALUES, source_label
from chunked_td.lab.comparison.ranking import LEAST, PairedFamily
from chunked_td.lab.comparison.recipe import agent_line, command
from chunked_td.lab.comparison.sweep import ArmOutcome, Comparison, Standing
from chunked_td.lab.wording import list_text, seeds_text

NOT_LEARNED = "Is the state hidden, is exploration too weak, or are the episodes too few?"
_NAMED = 5  # sources not worth trying that are named; more are counted


def answer(found: Comparison) -> list[str]:
    """The headline, the direct comparison, how to train the best, and caveats."""
    more = [*direct_texts(found), *recipe_texts(found)] if learned(found) else []
    return [headline(found), *more, *found.facts, *caveats(found)]


def headline(found: Comparison) -> str:
    """The answer in a few sentences."""
    best, planned = best_of(found), best_of(found, plans=True)
    first = best or planned
    if first is None:
        return "Every arm diverged at every step size: take smaller step sizes, or rewards of a smaller scale."
    if found.family.spread == 0.0:
        return f"Nothing to choose: every run of every arm has the same return, {first.score.value:.4g}. {NOT_LEARNED}"
    if found.seeds < LEAST:
        text = f"No verdict: {seeds_text(found.seeds)} are too few, {LEAST} are the least."
        return f"{text} Highest mean so far: {_scored(first)}."
    if not learned(found):
        assert found.reference is not None
        text = f"Nothing is shown to have learned: no arm is better than acting at random ({found.reference.text})"
        return f"{text}. {NOT_LEARNED}"
    parts = [f"Best λ here: {_scored(best)}.", *simpler_text(found)] if best is not None else []
    if planned is not None:
        parts.append(f"With planning: {_scored(planned)}, {PLANS[planned.arm.group]}.")
    return " ".join([*parts, *avoid_text(found)])


def best_of(found: Comparison, *, plans: bool = False) -> Standing | None:
    """The best mean of the arms that plan, or of those that do not."""
    return next((row for row in found.rows if row.plans == plans), None)


def learned(found: Comparison) -> bool:
    """Whether some arm is shown to be better than acting at random."""
    random = found.reference
    return random is None or any(found.family.gap(random.place, row.place).low > 0.0 for row in found.rows)


def _scored(row: Standing) -> str:
    return f"{row.arm.label}, {row.text}"


def avoid_text(found: Comparison) -> list[str]:
    """The λ sources that are worse than the best with every bootstrap."""
    best = best_of(found)
    if best is None:
        return []
    plain = [row for row in found.rows if not row.plans]
    kept = {source_label(row.arm) for row in plain if found.tied(row, best)}
    worse = [row.arm for row in plain if source_label(row.arm) not in kept]
    names = list(dict.fromkeys(source_label(arm) for arm in worse if arm.group != "fixed"))
    values = sorted({arm.lambda_source.value for arm in worse if arm.group == "fixed"})
    names += [f"λ = {', '.join(f'{value:g}' for value in values)}"] if values else []
    if not names:
        return [] if len(plain) < 2 else ["No other λ is shown to be worse with every bootstrap."]
    listed = names if len(names) <= _NAMED else [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} more"]
    return [f"Not worth trying: {list_text(listed)}."]


def simpler_text(found: Comparison) -> list[str]:
    """That a fixed λ may do as well, where the best is a λ source that is not shown to be ahead of it."""
    pair = _source_and_fixed(found)
    if pair is None or pair[0] is not best_of(found) or found.family.gap(pair[1].place, pair[0].place).shown:
        return []
    return [f"A fixed {source_label(pair[1].arm)} is simpler, and {found.seeds} seeds do not tell the two apart."]


def direct_texts(found: Comparison) -> list[str]:
    """The best λ source and the best fixed λ with the same bootstrap, side by side."""
    pair = _source_and_fixed(found)
    if pair is None:
        return []
    source, fixed = pair
    gap = found.family.gap(fixed.place, source.place)
    ours, theirs = source_label(source.arm), source_label(fixed.arm)
    side = "ahead of" if gap.value >= 0 else "behind"
    shown = "" if gap.shown or found.seeds < LEAST else ", not shown"
    return [f"{ours} is {side} the best fixed λ ({theirs}) by {(gap if gap.value >= 0 else -gap).span('.3g')}{shown}."]


def _source_and_fixed(found: Comparison) -> tuple[Standing, Standing] | None:
    """The best λ source and the best fixed λ with the bootstrap of the best arm."""
    best = best_of(found)
    if best is None or found.family.spread == 0.0:
        return None
    alike = [row for row in found.rows if row.arm.learner == best.arm.learner and not row.plans]
    fixed = next((row for row in alike if row.arm.group == "fixed"), None)
    source = next((row for row in alike if row.arm.group != "fixed"), None)
    return None if fixed is None or source is None else (source, fixed)


def recipe_texts(found: Comparison) -> list[str]:
    """How to train the best, for the shell and in Python."""
    best = best_of(found) or best_of(found, plans=True)
    if best is None or found.settings.question == VALUES:  # no policy is learned
        return []
    line, label = command(best.outcome, found.settings), best.arm.label
    first = [f"To train {label}: {line}"] if line else []
    return [*first, f"{label} in Python: {agent_line(best.outcome, found.settings)}"]


def bootstrap_texts(found: Comparison) -> list[str]:
    """Each pair of bootstraps of which one is shown to be better, averaged over the λ sources that both have."""
    scores: dict[str, dict[str, np.ndarray]] = {one.arm.learner: {} for one in found.outcomes}
    for one in found.outcomes:
        if not one.diverged:
            scores[one.arm.learner][source_label(one.arm)] = one.scores
    texts = []
    for pair in itertools.combinations(scores, 2):
        first, second = (scores[name] for name in pair)
        both = [key for key in first if key in second]
        if not both:
            continue
        means = [np.mean([part[key] for key in both], axis=0) for part in (first, second)]
        gap = PairedFamily.of(np.stack(means)).gap(1, 0)
        if gap.shown:
            names = [BOOTSTRAPS[name] for name in pair]
            (better, worse), gap = (names, gap) if gap.value > 0 else (names[::-1], -gap)
            texts.append(f"{better} beats {worse} by {gap.span('.3g')}, averaged over {len(both)} λ sources.")
    return texts


def caveats(found: Comparison) -> list[str]:
    """Bootstraps that differ, divergence, step sizes at the grid's edge, few seeds."""
    texts = bootstrap_texts(found)
    texts += [_divergence(one) for one in found.outcomes if one.lost.any()]
    if found.at_edge:
        names = list_text([f"{one.arm.label} (α = {one.step_size_text})" for one in found.at_edge])
        texts.append(f"Warning: the best step size lies at the edge of the grid for {names}; it may lie beyond.")
    if found.looks > 1 and not found.family.clear:
        texts.append(
            f"Not clear after {found.seeds} seeds: some arms are neither shown to be worse than the best nor to be as "
            "good. A longer --minutes, or more --seeds, may tell."
        )
    return texts


def _divergence(one: ArmOutcome) -> str:
    lost = [
        f"α = {size:.4g} ({int(runs.sum())} of {runs.size} runs)"
        for size, runs in zip(one.step_sizes, one.lost, strict=True)
        if runs.any()
    ]
    return f"{'Not ranked' if one.diverged else 'Diverged'}: {one.arm.label} at {list_text(lost)}."
