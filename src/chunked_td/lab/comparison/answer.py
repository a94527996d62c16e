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
from chunked_td.lab.wording import list_text, rounded_text, seeds_text

NOT_LEARNED = "Is the state hidden, is exploration too weak, or are the episodes too few?"
_NAMED = 5  # λ sources that are named in a list; more are counted
GOOD, UNCLEAR = "as good", "unclear"
LEAST_GROUP = 2
"""Runs that make a group of their own."""
_MEMORY = "chunked_td.envs:KeptPercepts"


def answer(found: Comparison) -> list[str]:
    """The headline, what else there is to know, how to train what it recommends, and caveats."""
    return [headline_text(found), *points(found), *recipe_texts(found), *caveats(found)]


def headline_text(found: Comparison) -> str:
    """The headline, a line each."""
    return "\n".join(f"{name}: {text}" for name, text in headline(found).items())


def headline(found: Comparison) -> dict[str, str]:
    """What to use, why, and how sure that is, by these words; or why there is no answer."""
    first = best_of(found) or best_of(found, plans=True)
    if first is None:
        text = "every learner diverged at every step size. Take smaller step sizes, or rewards of a smaller scale."
        return {"No answer": text}
    if found.family.spread == 0.0:
        text = f"every run of every learner has the same return, {rounded_text(first.score.value, 4)}."
    elif found.seeds < LEAST:
        few = f"{seeds_text(found.seeds)} are too few, {LEAST} are the least."
        return {"No verdict": f"{few} Highest mean so far: {named(first.arm)}, {first.text}."}
    elif not learned(found):
        assert found.reference is not None
        text = f"no learner is shown to be better than acting at random, {found.reference.text}."
    else:
        hidden, used = hidden_lines(found), recommended(found) or first
        lines = {
            "Until then, use" if hidden else "Use": _use(found, used),
            "Why": reason(found),
            "How sure": sure(found),
        }
        lines["Planning is better"] = planning_text(found, better=True)
        return {**hidden, **{name: text for name, text in lines.items() if text}}
    if hidden := hidden_lines(found):
        return {"No answer": text, **hidden}
    late = found.facts.late if found.facts else ""
    return {"No answer": text, "Ask": NOT_LEARNED, **({"Known": f"{late}."} if late else {})}


def _use(found: Comparison, used: Standing) -> str:
    """The recommended learner with its step size and score."""
    what = f"{named(used.arm)}, step size {used.outcome.best_step_size:.4g}"
    if found.settings.question == VALUES:
        return f"{what}: error of values {(-used.score).span()}."
    random = found.reference and f"; acting at random: {rounded_text(found.reference.score.value, 3)}"
    return f"{what}: mean return {used.text}{random or ''}."


def points(found: Comparison) -> list[str]:
    """What else there is to know: the best λ source beside the best fixed λ, planning, the mask."""
    if not learned(found):
        return groups_text(found)
    used, mask = recommended(found), found.facts.masked if found.facts else ""
    meant = getattr(used.arm.source(), "means", "") if used is not None else ""
    planning = planning_text(found, better=False)
    return [
        *([f"{_label(used)}: {meant}."] if used and meant else []),
        *direct_texts(found),
        *([f"Planning is not shown to be better: {planning}"] if planning else []),
        *groups_text(found),
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
    """The λ to use: that with the best mean; the best fixed λ unless a learned one is shown to be better."""
    best, pair = best_of(found), _source_and_fixed(found)
    if pair is None or pair[0] is not best or found.seeds < LEAST:
        return best
    return best if found.family.gap(pair[1].place, pair[0].place).shown else pair[1]


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
    fixed = [row for row in _same_bootstrap(found, used) if row.arm.group == "fixed"]
    fixed.sort(key=lambda row: row.arm.lambda_source.value)
    causes = (facts.late, facts.random) if facts and len(fixed) > 1 else ("", "")  # of the lowest and the highest
    texts, ends = [], fixed[:: max(len(fixed) - 1, 1)]
    for row, cause in zip(ends, causes, strict=False):
        gap = found.family.gap(row.place, used.place)
        if gap.low > 0.0:
            by = rounded_text(gap.value, 2)
            less = f"errs by {by} more" if found.settings.question == VALUES else f"earns {by} less"
            fits = used.arm.group == "fixed" or row.score.value == min(end.score.value for end in ends)
            texts.append(f"{_label(row)} {less}{f': {cause}' if cause and fits else ''}")
    if used is not best_of(found):
        simplest = ", and a fixed one is simplest; of those it has the highest mean"
        texts.append(f"no learned λ is shown to be better{'' if texts else simplest}")
    return f"{'; '.join(texts) or 'it has the highest mean'}."


def sure(found: Comparison) -> str:
    """Which λs are as good, which may be, and which are shown to be worse, with the same bootstrap."""
    used = recommended(found)
    if used is None:
        return ""
    seeds, others = seeds_text(found.seeds), [row for row in _same_bootstrap(found, used) if row is not used]
    if all_tied(found):
        rivals = [row for row in found.rows if not row.plans and row is not used]
        widest = max(found.family.gap(row.place, used.place).half_width for row in rivals)
        more = f"--seeds {4 * found.seeds} may tell"
        return f"a tie; {seeds} can miss a difference of {rounded_text(widest, 2)} ({more})."
    by = {name: [row.arm for row in others if verdict(found, row) == name] for name in (GOOD, UNCLEAR, "worse")}
    heads = {"as good": by[GOOD], f"undecided with {seeds}": by[UNCLEAR], "shown to be worse": by["worse"]}
    texts = [f"{head}: {_listed(arms)}" for head, arms in heads.items() if arms]
    return f"{'; '.join(texts)}." if texts else ""  # one λ alone


def _same_bootstrap(found: Comparison, used: Standing) -> list[Standing]:
    return [row for row in found.rows if not row.plans and row.arm.learner == used.arm.learner]


def groups_text(found: Comparison) -> list[str]:
    """That all λs have the same runs, or that runs of the recommended learner fall into two groups."""
    plain = [found.family.scores[row.place] for row in found.rows if not row.plans]
    if len(plain) > 1 and not np.ptp(plain, axis=0).any():
        return ["Every λ gave the very same returns."]
    used = recommended(found)
    scores = np.sort([] if used is None else found.family.scores[used.place])
    if scores.size < 2 * LEAST_GROUP:
        return []
    split = int(np.diff(scores).argmax()) + 1
    low, high = scores[:split], scores[split:]
    apart = high[0] - low[-1] > max(0.5 * np.ptp(scores), 0.1 * found.family.spread)
    if not apart or min(low.size, high.size) < LEAST_GROUP:
        return []
    means = [rounded_text(part.mean(), 2) for part in (low, high)]
    parts = f"{low.size} of {scores.size} near {means[0]}, {high.size} near {means[1]}"
    return [f"Runs with {_label(used)} fall into two groups: {parts}."] if used is not None else []


def _label(row: Standing) -> str:
    return source_label(row.arm)


def hidden_lines(found: Comparison) -> dict[str, str]:
    """That observations hide the state, and what to do."""
    if found.facts is None or not found.facts.hidden:
        return {}
    again = {"Compare again with a memory": f"chunked-td compare {found.settings.env} --wrappers {_MEMORY}"}
    return {"Observations hide the state": f"{found.facts.hidden}."} | (
        again if _MEMORY not in found.settings.wrappers else {}
    )


def planning_text(found: Comparison, *, better: bool) -> str:
    """The best that plans, with its cost, where it is shown to be `better` than the recommended λ, or is not."""
    used, planned = recommended(found), best_of(found, plans=True)
    if used is None or planned is None or (found.family.gap(used.place, planned.place).low > 0.0) != better:
        return ""
    gap = found.family.gap(used.place, planned.place)
    by = f"ahead by {gap.span()}" if gap.value >= 0 else f"behind by {(-gap).span()}"
    return f"{named(planned.arm)} is {by}, {PLANS[planned.arm.group]}."


def verdict(found: Comparison, row: Standing) -> str:
    """An arm beside the recommended one, in a word or two; nothing is recommended where nothing has learned."""
    used = recommended(found)
    if used is None or found.seeds < LEAST or not learned(found):
        return ""
    gap = found.family.gap(row.place, used.place)
    if row.place == used.place:
        return "use this"
    if gap.shown:
        return "worse" if gap.value > 0 else "better"
    return GOOD if max(gap.high, -gap.low) <= found.family.close else UNCLEAR


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
    text = f"The best learned λ, {_label(source)}, is {side} the best fixed one, {_label(fixed)}, by"
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
    if best is None or found.settings.question == VALUES or not learned(found):  # no policy is learned
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
