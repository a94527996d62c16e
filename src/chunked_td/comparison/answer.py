"""Sentences made from the numbers: what to use, how sure that is, why, and what else there is to know."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from chunked_td.comparison.arms import BOOTSTRAPS, ERRORS, FIXED, LEARNED, PLANS, Candidate
from chunked_td.comparison.ranking import LEAST, PairedFamily
from chunked_td.comparison.recipe import compare_again
from chunked_td.comparison.results import Comparison, Outcome, Row
from chunked_td.comparison.wording import listed, rounded, seeds_text

LEAST_GROUP = 2
"""Runs that make a group of their own."""
MEMORY = "chunked_td.envs:KeptPercepts"
"""Wrapper that gives observations a percept memory."""


def headline(found: Comparison) -> str:
    """One to three sentences: what to use, and how sure that is."""
    used, seeds = found.recommended, seeds_text(found.seeds)
    if not (found.rows or found.planning):
        return "No answer: every learner diverged at every step size. Try smaller --step-sizes or smaller rewards."
    if found.seeds < LEAST:
        best = (found.rows or found.planning)[0]
        few = f"{seeds} are too few; {LEAST} is the minimum"
        more = f"Run the same command with --seeds {LEAST}, or with more --minutes: finished runs are kept"
        return f"No verdict: {few}. {more}. Highest mean so far: {found.name(best.arm)} ({mean_text(best)})."
    if found.family.spread == 0.0:
        return f"No answer: every run of every learner has the same return, {rounded(found.reference.score.value, 4)}."
    if used is None:
        return (
            f"Nothing to recommend: no learner is shown to beat acting at random ({mean_text(found.reference)}, "
            f"{seeds}). Try more --episodes, more exploration (--epsilon, --bonus) or more --seeds."
        )
    if used.arm.kind == PLANS:
        lead = found.lead(used, found.reference).span()
        return (
            f"Use {found.name(used.arm)} ({mean_text(used)}): only planning beats acting at random, by {lead}, {seeds}."
        )
    text = _fixed(found, used) if used.arm.kind == FIXED else _learned(found, used)
    return f"{text}{_planning(found, used)}."


def _learned(found: Comparison, used: Row) -> str:
    """A learned λ, or expected TD errors, that is shown to be better than the best fixed λ."""
    fixed, seeds = found.best_fixed, seeds_text(found.seeds)
    start = f"Use {found.name(used.arm)} ({mean_text(used)}, {seeds})"
    lead = None if fixed is None else found.lead(used, fixed)
    if fixed is None or lead is None or lead.low <= 0.0:
        by = found.lead(used, found.reference).span()
        return f"{start}: no fixed λ is shown to beat acting at random; this does, by {by}"
    return f"{start}: better than the best fixed λ, {found.name(fixed.arm)}, by {lead.span()}"


def _fixed(found: Comparison, used: Row) -> str:
    """The best fixed λ, because nothing simple is shown to be better."""
    rivals, seeds, name = [row for row in found.rows if row is not used], seeds_text(found.seeds), found.name(used.arm)
    if not rivals:
        return f"Use {name} ({mean_text(used)}, {seeds})"
    first = rivals[0]
    lead = found.lead(first, used)
    if all(found.lead(used, row).low > 0.0 for row in rivals):
        return f"Use {name} ({mean_text(used)}): better than every other λ, the next by {(-lead).span()}, {seeds}"
    if lead.value > 0.0:
        more = f"{found.name(first.arm)} may be better by {lead.span()}"
        return f"No λ is clearly better ({seeds}). Take the simplest, {name} ({mean_text(used)}); {more}"
    more = f"the next, {found.name(first.arm)}, is behind by {(-lead).span()}"
    return f"No λ is clearly better than {name} ({mean_text(used)}, {seeds}). Take it; {more}"


def _planning(found: Comparison, used: Row) -> str:
    """Planning, if it is or may be better."""
    if not found.planning:
        return ""
    lead, name = found.lead(found.planning[0], used), found.name(found.planning[0].arm)
    if lead.value <= 0.0 or (not lead.shown and lead.value <= found.family.close):
        return ""
    return f"; planning ({name}) {'is' if lead.low > 0.0 else 'may be'} better by {lead.span()}"


def mean_text(row: Row) -> str:
    """A mean return, short."""
    return rounded(row.score.value, 3)


def hidden_texts(found: Comparison) -> list[str]:
    """That observations hide the state, and the command with a memory."""
    if found.facts is None or not found.facts.hidden:
        return []
    if MEMORY in found.settings.wrappers:
        return [f"With the percept memory, observations still hide a part of the state: {found.facts.hidden}."]
    start = "Observations hide the state, so read all below as a comparison without memory"
    again = f"Compare again with a percept memory: {compare_again(found.settings, MEMORY)}"
    return [f"{start}: {found.facts.hidden}.", again]


def why(found: Comparison) -> list[str]:
    """Why this λ: what the lowest and the highest fixed λ lose, if that is shown and the headline has not said it."""
    used, facts = found.recommended, found.facts
    fixed = [row for row in found.rows if row.arm.kind == FIXED and used and row.arm.bootstrap == used.arm.bootstrap]
    fixed.sort(key=lambda row: row.arm.value)
    if used is None or not fixed:
        return [facts.late[0].upper() + facts.late[1:] + "."] if facts and facts.late and used is None else []
    causes = (facts.late, facts.random) if facts and len(fixed) > 1 else ("", "")  # of the lowest and of the highest
    texts, ends = [], fixed[:: max(len(fixed) - 1, 1)]
    for row, cause in zip(ends, causes, strict=False):
        lead = found.lead(used, row)
        if lead.low > 0.0:
            fits = used.arm.kind == FIXED or row.score.value == min(end.score.value for end in ends)
            because = f" ({cause})" if cause and fits else ""
            if not because and used.arm.kind != FIXED and row is found.best_fixed:
                continue
            texts.append(f"{row.arm.label} earns {rounded(lead.value, 2)} less{because}.")
    return texts


def verdict(found: Comparison, row: Row) -> str:
    """A learner beside the recommended one, in one or two words."""
    used = found.recommended
    if used is None:
        return ""
    if row.place == used.place:
        return "use this"
    lead = found.lead(row, used)
    if lead.shown:
        return "better" if lead.value > 0 else "worse"
    return "equivalent" if found.family.equivalent(lead) else "inconclusive"


def same_texts(found: Comparison) -> list[str]:
    """Arms with the same returns, with the reason if it is known."""
    return [_same(found, one) for one in found.outcomes if one.same]


def _same(found: Comparison, one: Outcome) -> str:
    names = listed([found.name(arm) for arm in one.arms], most=10)
    lambdas = [other.at_chosen(other.mean_lambda) for other in (one, *one.same)]
    kinds, sure_world = {arm.kind for arm in one.arms}, found.facts is not None and found.facts.deterministic
    alike = all(np.allclose(lambdas[0], other, atol=1e-9, equal_nan=True) for other in lambdas)
    known = lambdas[0][np.isfinite(lambdas[0])]
    if sure_world and alike and LEARNED in kinds and known.size and np.allclose(known, 1.0, atol=1e-9):
        others = any(row.arm.kind == LEARNED for row in found.rows if row.outcome is not one)
        reason = f"your world is deterministic: {'their' if others else 'every learned'} λ is 1"
    elif sure_world and alike and ERRORS in kinds:
        reason = "your world is deterministic: the expected TD error is the TD error"
    else:
        reason = "their λ is the same at every step" if alike else "their λs differ, but that changed no return"
    return f"{names} have the same returns ({reason})."


def points(found: Comparison) -> list[str]:
    """What else there is to know."""
    mask = found.facts.masked if found.facts else ""
    return [
        *same_texts(found),
        *groups_texts(found),
        *([f"The action mask is applied: {mask}."] if mask else []),
        *bootstrap_texts(found),
        *caveats(found),
    ]


def groups_texts(found: Comparison) -> list[str]:
    """That runs of the recommended learner fall into two groups."""
    used = found.recommended
    scores = np.sort([] if used is None else found.family.scores[used.place])
    if used is None or scores.size < 2 * LEAST_GROUP:
        return []
    split = int(np.diff(scores).argmax()) + 1
    low, high = scores[:split], scores[split:]
    everyone = np.ptp(found.family.scores[: found.family.ranked])
    apart = high[0] - low[-1] > max(0.5 * np.ptp(scores), 0.1 * everyone)
    if not apart or min(low.size, high.size) < LEAST_GROUP:
        return []
    parts = (f"{part.size} of {scores.size} near {rounded(part.mean(), 2)}" for part in (low, high))
    return [f"Runs with {found.name(used.arm)} fall into two groups: {', '.join(parts)}."]


def bootstrap_texts(found: Comparison) -> list[str]:
    """Each pair of bootstraps of which one is shown to be better, averaged over the rules that both have."""
    scores: dict[str, dict[str, np.ndarray]] = {}
    for one in found.outcomes:
        if not one.diverged:
            for arm in one.arms:
                scores.setdefault(arm.bootstrap, {})[arm.rule] = one.scores
    texts = []
    for pair in itertools.combinations(scores, 2):
        both = [rule for rule in scores[pair[0]] if rule in scores[pair[1]]]
        if both:
            means = np.array([np.mean([scores[name][rule] for rule in both], axis=0) for name in pair])
            lead = PairedFamily.of(means).lead(0, 1)
            (better, worse), lead = (pair, lead) if lead.value > 0 else (pair[::-1], -lead)
            if lead.shown:
                by = f"by {lead.span()}, averaged over {len(both)} rules"
                texts.append(f"{BOOTSTRAPS[better]} is better than {BOOTSTRAPS[worse]} {by}.")
    return texts


def caveats(found: Comparison) -> list[str]:
    """Runs that diverged, and step sizes at the edge of the grid."""
    ranked = [one for one in found.outcomes if not one.diverged]
    texts = []
    heads = {"Not ranked, diverged": found.diverged, "Diverged at step sizes that were not chosen": ranked}
    for head, outcomes in heads.items():
        lost = list(_divergence(found, outcomes))
        more = f"; {len(lost) - 3} more" if len(lost) > 3 else ""
        texts += [f"{head}: {'; '.join(lost[:3])}{more}."] if lost else []
    edge = [
        f"{found.name(one.arm)} (α = {one.step_size_text})"
        for one in ranked
        if one.step_sizes.size > 1 and any(one.at_edge)
    ]
    if edge:
        texts.append(f"The best step size of {listed(edge)} is at the edge of the grid; a better one may be beyond.")
    return texts


def _divergence(found: Comparison, outcomes: Sequence[Outcome]) -> Iterator[str]:
    for one in outcomes:
        rows = zip(one.step_sizes, one.lost, strict=True)
        lost = [f"α = {size:.4g} ({int(runs.sum())} of {runs.size} runs)" for size, runs in rows if runs.any()]
        if lost:
            yield f"{found.name(one.arm)} at {listed(lost)}"


def meanings(arms: Sequence[Candidate]) -> list[tuple[str, str, str]]:
    """What the names of learned λs mean: label, words, formula."""
    sources = [arm.made[0] for arm in arms if arm.kind == LEARNED]
    return list(dict.fromkeys((source.label, source.means, source.formula) for source in sources))
