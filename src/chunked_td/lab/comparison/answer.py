"""Which λ to use, in sentences made from the numbers: the answer, the direct comparison, and caveats."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from chunked_td.lab.comparison.arms import BOOTSTRAPS, PLANS, VALUES, source_label
from chunked_td.lab.comparison.ranking import LEAST, PairedFamily
from chunked_td.lab.comparison.recipe import agent_line, command
from chunked_td.lab.comparison.sweep import ArmOutcome, Comparison, Standing
from chunked_td.lab.study import Arm
from chunked_td.lab.wording import list_text, seeds_text

NOT_LEARNED = "Is the state hidden, is exploration too weak, or are the episodes too few?"
_NAMED = 5  # λ sources that are named in a list; more are counted
GOOD, UNCLEAR = "as good", "unclear"
_MEMORY = "chunked_td.envs:KeptPercepts"
_MEANS = {
    "forward": "λ is the model's probability of what happened at a step",
    "expected": "λ is high where the model can tell what comes next",
    "value": "λ is high where nothing that may come next differs in value",
    "junction": "λ is low where many ways meet, and where chance decides",
    "backward": "λ is high where the state tells which one came before it",
}


def answer(found: Comparison) -> list[str]:
    """The headline, what else there is to know, how to train what it recommends, and caveats."""
    more = [*points(found), *recipe_texts(found)] if learned(found) else []
    return [headline(found), *more, *caveats(found)]


def headline(found: Comparison) -> str:
    """What to use, its score, and why; or why there is no answer."""
    best, planned = best_of(found), best_of(found, plans=True)
    first = best or planned
    if first is None:
        return "Every arm diverged at every step size: take smaller step sizes, or rewards of a smaller scale."
    if found.family.spread == 0.0:
        text = f"Nothing to choose: every run of every arm has the same return, {first.score.value:.4g}."
    elif found.seeds < LEAST:
        return (
            f"No verdict: {seeds_text(found.seeds)} are too few, {LEAST} are the least. "
            f"Highest mean so far: {first.arm.label}, {first.text}."
        )
    elif not learned(found):
        assert found.reference is not None
        text = f"Nothing is shown to have learned: no arm is better than acting at random ({found.reference.text})."
    else:
        random = (
            "" if found.reference is None else f"; acting at random {found.reference.score.value:.3g}".replace("-", "−")
        )
        hidden, used = hidden_text(found), recommended(found) or first
        values = found.settings.question == VALUES
        score = f"error of values {(-used.score).span()}" if values else f"mean return {used.text[:-1]}{random})"
        what = "Until then, use" if hidden else "Take" if all_tied(found) else "Best λ here:"
        text = f"{what} {named(used.arm)}, {score}{'' if hidden else reason(found)}."
        return " ".join([*hidden, text, *planning_text(found, better=True)])
    hints = [f"{found.facts.late[0].upper()}{found.facts.late[1:]}."] if found.facts and found.facts.late else []
    return " ".join([text, *(hidden_text(found) or [*hints, NOT_LEARNED])])


def points(found: Comparison) -> list[str]:
    """What else there is to know: the best λ source beside the best fixed λ, what to leave out, the mask."""
    used, mask = recommended(found), found.facts.masked if found.facts else ""
    meant = _MEANS.get(used.arm.group) if used is not None else None
    return [
        *([f"{_label(used)}: {meant}."] if used is not None and meant else []),
        *direct_texts(found),
        *planning_text(found, better=False),
        *avoid_text(found),
        *([f"The action mask is obeyed: {mask}."] if mask else []),
    ]


def best_of(found: Comparison, *, plans: bool = False) -> Standing | None:
    """The best mean of the arms that plan, or of those that do not."""
    return next((row for row in found.rows if row.plans == plans), None)


def all_tied(found: Comparison) -> bool:
    """Whether no λ is shown to be worse than the best one, of several."""
    plain = [row for row in found.rows if not row.plans]
    return len(plain) > 1 and all(found.tied(row, plain[0]) for row in plain)


def recommended(found: Comparison) -> Standing | None:
    """The arm to use: that with the best mean, or the best fixed λ where it is about as good or nothing is shown."""
    best, pair = best_of(found), _source_and_fixed(found)
    if pair is None or pair[0] is not best or found.seeds < LEAST:
        return best
    gap = found.family.gap(pair[1].place, pair[0].place)
    good = not gap.shown and gap.high <= found.family.close
    return pair[1] if good or all_tied(found) else best


def named(arm: Arm) -> str:
    """An arm in a sentence: "λ = 0.9 with SARSA"."""
    return f"{source_label(arm)} with {BOOTSTRAPS[arm.learner]}"


def learned(found: Comparison) -> bool:
    """Whether some arm is shown to be better than acting at random."""
    random = found.reference
    return random is None or any(found.family.gap(random.place, row.place).low > 0.0 for row in found.rows)


def reason(found: Comparison) -> str:
    """Why this λ: what the lowest or the highest fixed λ loses, where that is shown, and what the problem is like."""
    used, facts = recommended(found), found.facts
    if used is None:
        return ""
    if all_tied(found):
        widest = max(found.family.gap(row.place, used.place).half_width for row in found.rows if not row.plans)
        simple = ", and a fixed λ is the simplest" if used.arm.group == "fixed" else ""
        text = f"{seeds_text(found.seeds)} show no difference between the λs (up to {widest:.2g} may be hidden)"
        return f", because {text}{simple}"
    fixed = [row for row in found.rows if row.arm.learner == used.arm.learner and row.arm.group == "fixed"]
    fixed.sort(key=lambda row: row.arm.lambda_source.value)
    causes, texts = (facts.late, facts.random) if facts else ("", ""), []
    for row, cause in zip(fixed[:: max(len(fixed) - 1, 1)], causes, strict=False):
        gap = found.family.gap(row.place, used.place)
        less = "errs by {:.2g} more" if found.settings.question == VALUES else "earns {:.2g} less"
        if gap.low > 0.0:
            texts.append(f"{_label(row)} {less.format(gap.value)}{' here, where ' if cause else ''}{cause}")
    if not texts:
        others = [row for row in found.rows if not row.plans and row is not used]
        worse = sum(found.family.gap(row.place, used.place).low > 0.0 for row in others)
        return f", because {worse} of {len(others)} others are shown to be worse" if worse else ""
    return f", because {', and '.join(texts)}"


def _label(row: Standing) -> str:
    return source_label(row.arm)


def hidden_text(found: Comparison) -> list[str]:
    """That observations hide the state, and what to do."""
    if found.facts is None or not found.facts.hidden:
        return []
    more = "" if _MEMORY in found.settings.wrappers else f" Compare again with a memory: --wrappers {_MEMORY}."
    return [f"Observations hide the state: {found.facts.hidden}.{more}"]


def planning_text(found: Comparison, *, better: bool) -> list[str]:
    """The best that plans, with its cost, where it is shown to be `better` than the recommended λ, or is not."""
    used, planned = recommended(found), best_of(found, plans=True)
    if used is None or planned is None or (found.family.gap(used.place, planned.place).low > 0.0) != better:
        return []
    what = "Planning is better" if better else "Planning is not shown to be better"
    return [f"{what}: {named(planned.arm)}, {planned.text}, {PLANS[planned.arm.group]}."]


def avoid_text(found: Comparison) -> list[str]:
    """λ sources beside the recommended one: as good, unclear, or worse with every bootstrap."""
    used = recommended(found)
    if used is None or found.seeds < LEAST:
        return []
    if all_tied(found):
        return ["More --seeds or --minutes may tell them apart."]
    plain = [row for row in found.rows if not row.plans and row is not used]
    by = {name: [row.arm for row in plain if verdict(found, row) == name] for name in (GOOD, UNCLEAR)}
    kept = {source_label(arm) for arm in (used.arm, *by[GOOD], *by[UNCLEAR])}
    worse = [row.arm for row in plain if _label(row) not in kept]
    more = f"Unclear with {seeds_text(found.seeds)} (more --seeds or --minutes may tell)"
    parts = {"As good": by[GOOD], "Not worth trying": worse, more: by[UNCLEAR]}
    return [f"{name}: {_listed(arms)}." for name, arms in parts.items() if arms]


def verdict(found: Comparison, row: Standing) -> str:
    """An arm beside the recommended one, in a word or two."""
    used = recommended(found)
    if used is None or found.seeds < LEAST:
        return ""
    gap = found.family.gap(row.place, used.place)
    if row.place == used.place:
        return "use this"
    if gap.shown:
        return "worse" if gap.value > 0 else "better"
    return GOOD if gap.high <= found.family.close else UNCLEAR


def _listed(arms: Sequence[Arm]) -> str:
    """λ sources by name, and the fixed λs."""
    names = list(dict.fromkeys(source_label(arm) for arm in arms if arm.group != "fixed"))
    values = sorted({arm.lambda_source.value for arm in arms if arm.group == "fixed"})
    names = [f"λ = {', '.join(f'{value:g}' for value in values)}"] * bool(values) + names
    return list_text(names if len(names) <= _NAMED else [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} more"])


def direct_texts(found: Comparison) -> list[str]:
    """The best λ source and the best fixed λ with the same bootstrap, side by side."""
    pair = _source_and_fixed(found)
    if pair is None:
        return []
    source, fixed = pair
    gap = found.family.gap(fixed.place, source.place)
    side = "ahead of" if gap.value >= 0 else "behind"
    text = f"The best learned λ ({_label(source)}) is {side} the best fixed one ({_label(fixed)}) by"
    by = (gap if gap.value >= 0 else -gap).span()
    return [f"{text} {by}{'' if gap.shown or found.seeds < LEAST else ', which may be chance'}."]


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
    best = recommended(found) or best_of(found, plans=True)
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
            texts.append(f"{better} beats {worse} by {gap.span()}, averaged over {len(both)} λ sources.")
    return texts


def caveats(found: Comparison) -> list[str]:
    """Bootstraps that differ, divergence, step sizes at the grid's edge, few seeds."""
    texts = bootstrap_texts(found)
    ranked = [one for one in found.outcomes if not one.diverged]
    for name, arms in {"Not ranked": found.diverged, "Diverged": ranked}.items():
        lost = [_divergence(one) for one in arms if one.lost.any()]
        texts += [f"{name}: {'; '.join(lost)}."] if lost else []
    if found.at_edge:
        names = list_text([f"{one.arm.label} (α = {one.step_size_text})" for one in found.at_edge])
        texts.append(f"Warning: the best step size lies at the edge of the grid for {names}; it may lie beyond.")
    return texts


def _divergence(one: ArmOutcome) -> str:
    lost = [
        f"α = {size:.4g} ({int(runs.sum())} of {runs.size} runs)"
        for size, runs in zip(one.step_sizes, one.lost, strict=True)
        if runs.any()
    ]
    return f"{one.arm.label} at {list_text(lost)}"
