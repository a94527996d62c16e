"""The answer in sentences: recommendation, evidence, reasons, caveats; and the verdict on each learner."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from chunked_td.comparison.arms import BOOTSTRAPS, ERRORS, FIXED, LEARNED, PLANS, Candidate
from chunked_td.comparison.ranking import LEAST, PairedFamily
from chunked_td.comparison.recipe import compare_again
from chunked_td.comparison.results import Comparison, Outcome

LEAST_GROUP = 2
"""Fewest runs that make a group of their own."""
MEMORY = "chunked_td.envs:KeptPercepts"
"""Wrapper that adds a percept memory to observations."""


# ---- the recommendation


def headline(found: Comparison) -> str:
    """The recommendation and its evidence, in one to three sentences."""
    used, seeds, every = found.recommended, seeds_text(found.seeds), found.rows or found.planning
    if not every:
        return "No answer: every learner diverged at every step size. Try smaller --step-sizes or smaller rewards."
    if found.seeds < LEAST:
        return (
            f"No verdict: {seeds} are too few; {LEAST} is the minimum. Run the same command with --seeds {LEAST}, or "
            f"with more --minutes: finished runs are kept. Highest mean so far: {_named(found, every[0])}."
        )
    if found.family.spread == 0.0:
        same = rounded(found.score(found.random).value, 4)
        return f"No answer: every run of every learner has the same return, {same}."
    if used is None:
        return (
            f"Nothing to recommend: no learner is shown to beat acting at random ({mean_text(found, found.random)}, "
            f"{seeds}). Try more --episodes, more exploration (--epsilon, --bonus) or more --seeds."
        )
    if used.arm.kind == PLANS:
        lead = found.lead(used, found.random).span()
        return f"Use {_named(found, used)}: only planning beats acting at random, by {lead}, {seeds}."
    text = _fixed(found, used) if used.arm.kind == FIXED else _learned(found, used)
    return f"{text}{_planning(found, used)}."


def _learned(found: Comparison, used: Outcome) -> str:
    """A learned λ, or expected TD errors, shown to be better than the best fixed λ."""
    fixed, seeds = found.best_fixed, seeds_text(found.seeds)
    start = f"Use {found.name(used.arm)} ({mean_text(found, used)}, {seeds})"
    if fixed is None or (lead := found.lead(used, fixed)).low <= 0.0:
        by = found.lead(used, found.random).span()
        return f"{start}: no fixed λ is shown to beat acting at random; this does, by {by}"
    return f"{start}: better than the best fixed λ, {found.name(fixed.arm)}, by {lead.span()}"


def _fixed(found: Comparison, used: Outcome) -> str:
    """The best fixed λ, because nothing else is shown to be better."""
    others, seeds, name = [one for one in found.rows if one is not used], seeds_text(found.seeds), found.name(used.arm)
    if not others:
        return f"Use {name} ({mean_text(found, used)}, {seeds})"
    first = others[0]
    lead = found.lead(first, used)
    if all(found.lead(used, one).low > 0.0 for one in others):
        return f"Use {_named(found, used)}: better than every other λ, the next by {(-lead).span()}, {seeds}"
    if lead.value > 0.0:
        more = f"{found.name(first.arm)} may be better by {lead.span()}"
        return f"No λ is clearly better ({seeds}). Take the simplest, {_named(found, used)}; {more}"
    more = f"the next, {found.name(first.arm)}, is behind by {(-lead).span()}"
    return f"No λ is clearly better than {name} ({mean_text(found, used)}, {seeds}). Take it; {more}"


def _planning(found: Comparison, used: Outcome) -> str:
    """Planning, if it is or may be better."""
    if not found.planning:
        return ""
    lead, name = found.lead(found.planning[0], used), found.name(found.planning[0].arm)
    if lead.value <= 0.0 or (not lead.shown and lead.value <= found.family.close):
        return ""
    return f"; planning ({name}) {'is' if lead.low > 0.0 else 'may be'} better by {lead.span()}"


def hidden_texts(found: Comparison) -> list[str]:
    """Evidence that observations hide the state, and the command that adds a memory."""
    if found.facts is None or not found.facts.hidden:
        return []
    if MEMORY in found.settings.wrappers:
        return [f"With the percept memory, observations still hide a part of the state: {found.facts.hidden}."]
    start = "Observations hide the state, so read all below as a comparison without memory"
    again = f"Compare again with a percept memory: {compare_again(found.settings, MEMORY)}"
    return [f"{start}: {found.facts.hidden}.", again]


def why(found: Comparison) -> list[str]:
    """The loss of the lowest and of the highest fixed λ with its cause, if shown and not in the headline."""
    used, facts = found.recommended, found.facts
    if used is None:
        return [facts.late[0].upper() + facts.late[1:] + "."] if facts and facts.late else []
    fixed = [one for one in found.rows if one.arm.kind == FIXED and one.arm.bootstrap == used.arm.bootstrap]
    fixed.sort(key=lambda one: one.arm.value)
    causes = (facts.late, facts.random) if facts and len(fixed) > 1 else ("", "")  # of the lowest and of the highest
    texts, ends = [], fixed[:: max(len(fixed) - 1, 1)]
    for one, cause in zip(ends, causes, strict=False):
        lead = found.lead(used, one)
        if lead.low > 0.0:
            worst = min(ends, key=lambda end: found.score(end).value)
            because = f" ({cause})" if cause and (used.arm.kind == FIXED or one is worst) else ""
            if because or used.arm.kind == FIXED or one is not found.best_fixed:
                texts.append(f"{one.arm.label} earns {rounded(lead.value, 2)} less{because}.")
    return texts


def verdict(found: Comparison, one: Outcome) -> str:
    """A learner compared with the recommended one, in one or two words."""
    used = found.recommended
    if used is None:
        return ""
    if one is used:
        return "use this"
    lead = found.lead(one, used)
    if lead.shown:
        return "better" if lead.value > 0 else "worse"
    return "equivalent" if found.family.equivalent(lead) else "inconclusive"


# ---- further facts


def points(found: Comparison) -> list[str]:
    """Further facts of the comparison."""
    mask = found.facts.masked if found.facts else ""
    return [
        *same_texts(found),
        *groups_texts(found),
        *([f"The action mask is applied: {mask}."] if mask else []),
        *bootstrap_texts(found),
        *divergence_texts(found),
        *edge_texts(found),
    ]


def same_texts(found: Comparison) -> list[str]:
    """Arms with identical returns, with the reason if it is known."""
    return [_same(found, one) for one in found.outcomes if one.same]


def _same(found: Comparison, one: Outcome) -> str:
    names = listed([found.name(arm) for arm in one.arms], most=10)
    lambdas = [other.at_chosen(other.mean_lambda) for other in (one, *one.same)]
    kinds, deterministic = {arm.kind for arm in one.arms}, found.facts is not None and found.facts.deterministic
    alike = all(np.allclose(lambdas[0], other, atol=1e-9, equal_nan=True) for other in lambdas)
    known = lambdas[0][np.isfinite(lambdas[0])]
    if deterministic and alike and LEARNED in kinds and known.size and np.allclose(known, 1.0, atol=1e-9):
        others = any(row.arm.kind == LEARNED for row in found.rows if row is not one)
        reason = f"your world is deterministic: {'their' if others else 'every learned'} λ is 1"
    elif deterministic and alike and ERRORS in kinds:
        reason = "your world is deterministic: the expected TD error is the TD error"
    else:
        reason = "their λ is the same at every step" if alike else "their λs differ, but that changed no return"
    return f"{names} have the same returns ({reason})."


def groups_texts(found: Comparison) -> list[str]:
    """Two groups of runs of the recommended learner, if there are two."""
    used = found.recommended
    scores = np.sort([] if used is None else found.seeds_of(used))
    if used is None or scores.size < 2 * LEAST_GROUP:
        return []
    split = int(np.diff(scores).argmax()) + 1
    low, high = scores[:split], scores[split:]
    apart = high[0] - low[-1] > max(0.5 * np.ptp(scores), 0.1 * np.ptp(found.family.scores[: found.family.ranked]))
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


def divergence_texts(found: Comparison) -> list[str]:
    """Runs that diverged: of arms that are not ranked for it, and of others."""
    heads = {True: "Not ranked, diverged", False: "Diverged at step sizes that were not chosen"}
    texts = []
    for diverged, head in heads.items():
        lost = list(_lost(found, [one for one in found.outcomes if one.diverged == diverged]))
        more = f"; {len(lost) - 3} more" if len(lost) > 3 else ""
        texts += [f"{head}: {'; '.join(lost[:3])}{more}."] if lost else []
    return texts


def _lost(found: Comparison, outcomes: Sequence[Outcome]) -> Iterator[str]:
    for one in outcomes:
        rows = zip(one.step_sizes, one.lost, strict=True)
        lost = [f"α = {size:.4g} ({int(runs.sum())} of {runs.size} runs)" for size, runs in rows if runs.any()]
        if lost:
            yield f"{found.name(one.arm)} at {listed(lost)}"


def edge_texts(found: Comparison) -> list[str]:
    """Arms whose best step size is at the edge of the grid."""
    ranked = (one for one in found.outcomes if not one.diverged and one.step_sizes.size > 1)
    edge = [f"{found.name(one.arm)} (α = {one.step_size_text})" for one in ranked if any(one.at_edge)]
    most = f"The best step size of {listed(edge)} is at the edge of the grid; a better one may be beyond."
    return [most] if edge else []


def meanings(arms: Sequence[Candidate]) -> list[tuple[str, str, str]]:
    """Learned λs: label, words, formula."""
    sources = [arm.made[0] for arm in arms if arm.kind == LEARNED]
    return list(dict.fromkeys((source.label, source.means, source.formula) for source in sources))


# ---- numbers and lists as text


def mean_text(found: Comparison, one: Outcome) -> str:
    """A mean return with three digits."""
    return rounded(found.score(one).value, 3)


def _named(found: Comparison, one: Outcome) -> str:
    return f"{found.name(one.arm)} ({mean_text(found, one)})"


def rounded(value: float, digits: int) -> str:
    """A number of significant digits, without an exponent between 0.0001 and a million: "−1,080", "0.25"."""
    near = float(f"{value:.{digits}g}")
    plain = 1e-4 <= abs(near) < 1e6
    whole = plain and abs(near) >= 10 ** (digits - 1)
    return (f"{near:,.0f}" if whole else f"{value:{'#' if plain else ''}.{digits}g}").replace("-", "−")


def seeds_text(count: int) -> str:
    """Number of seeds: "1 seed", "10 seeds"."""
    return "1 seed" if count == 1 else f"{count} seeds"


def listed(names: Sequence[str], most: int = 6) -> str:
    """A list in words: "A, B and C"; beyond `most` names the rest is counted."""
    shown = list(names) if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} more"]
    return ", ".join(shown[:-1]) + " and " + shown[-1] if len(shown) > 1 else "".join(shown)
