"""Sentences of the report: what the stored runs say, computed from them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from chunked_td.lab.results.criteria import LEVEL, selected_of
from chunked_td.lab.results.runs import ArmResults, Results
from chunked_td.lab.results.tables import PAPER_SEEDS, selected_scores
from chunked_td.lab.statistics import holm, paired_test
from chunked_td.lab.wording import list_text, seeds_text

PAPER = (
    "“Sequence Compression Speeds Up Credit Assignment in Reinforcement Learning”, Ramesh, Young, Kirsch and "
    "Schmidhuber, ICML 2024"
)


def findings(study: Results) -> list[str]:
    """What the stored runs say beside the claims, one paragraph each."""
    return order(study) + _sizes(study)


def not_run(studies: Mapping[str, Results]) -> list[str]:
    """What a profile left out or ran at a reduced size, in one paragraph each; nothing if all was run."""
    absent, reduced = [], []
    for study in studies.values():
        absent += [f"{list_text(names)} ({study.about.title})"] if (names := [a.label for a in study.absent]) else []
        reduced += [f"{list_text(names)} ({study.about.title})"] if (names := [a.label for a in study.reduced]) else []
    texts = []
    if absent:
        texts.append(f"Not run at this profile: {'; '.join(absent)}.")
    if reduced:
        texts.append(
            f"Run at a reduced size, and left out of comparisons at the end of training: {'; '.join(reduced)}."
        )
    return texts


def order(study: Results) -> list[str]:
    """The order of the arms beside the paper's, and which pairs our seeds tell apart."""
    published = {arm.id: number for arm in study.present if (number := study.published(arm.id, "score")) is not None}
    arms = [arm for arm in study.present if arm.id in published]
    if len(arms) < 2:
        return []
    theirs = {arm.id: published[arm.id].value for arm in arms}
    scores = {arm.id: values for arm in arms if (values := selected_scores(study, arm.id)) is not None}
    ours = {name: float(np.nanmean(values)) for name, values in scores.items()}
    pairs = list(combinations([arm.id for arm in arms], 2))
    p = holm([_compare(study, a, b) for a, b in pairs])
    apart = [pair for pair, value in zip(pairs, p, strict=True) if value < LEVEL]
    against = [(a, b) for a, b in apart if (ours[a] < ours[b]) != (theirs[a] < theirs[b])]
    names = {arm.id: arm.label for arm in arms}
    lists = [", ".join(names[a] for a in sorted(names, key=means.__getitem__)) for means in (theirs, ours)]
    sizes = sorted({len(values) for values in scores.values()})
    seeds = f"{sizes[0]} seeds tell" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} seeds per arm tell"
    text = (
        f"Order in the paper, best first: {lists[0]}. Ours: {lists[1]}. Of {len(pairs)} pairs our {seeds} "
        f"{len(apart)} apart (paired tests over common seeds, Holm)"
    )
    if not against:
        return [text + ("; none of these is ordered against the paper." if apart else ".")]
    listed = "; ".join(f"{names[a]} and {names[b]}" for a, b in against)
    return [f"{text}; ordered against the paper: {listed}."]


def _compare(study: Results, one: str, other: str) -> float:
    """p-value that two arms, each at its selected step size, score the same over the seeds that both have."""
    ours, theirs = selected_of(study, (one, other))
    return paired_test(ours[:, -1], theirs[:, -1], resamples=5_000)


def _sizes(study: Results) -> list[str]:
    """What was run at another size than the protocol says, or not at all."""
    found = []
    if study.shortened:
        found.append(
            f"These runs are shorter than the protocol: {study.length:,} of {study.about.episodes:,} episodes. "
            "They show that the code runs; they are too short to judge a claim."
        )
    if study.reduced:
        found.append(f"At a reduced size: {'; '.join(_reduced(arm) for arm in study.reduced)}.")
    found += [text for arm in study.arms if (text := _broken(arm))]
    if study.seeds > PAPER_SEEDS:
        found.append(
            f"Arms have up to {study.seeds} seeds, the paper {PAPER_SEEDS}. Tables give both; plots and claims use all."
        )
    return found


def _reduced(arm: ArmResults) -> str:
    runs = arm.require_runs()
    tried = "1 step size" if len(runs.exponents) == 1 else f"{len(runs.exponents)} step sizes"
    return f"{arm.label} ({seeds_text(len(runs.seeds))}, {runs.length:,} episodes, {tried})"


def _broken(arm: ArmResults) -> str:
    """A sentence about runs whose network broke down; "" if there are none."""
    if arm.runs is None or "broken" not in arm.runs.columns:
        return ""
    count = int(np.sum(arm.runs.at(column="broken") > 0))
    why = "(its loss was not finite); their scores are left out from there"
    return f"{arm.label}: the network of {count} runs broke down {why}." if count else ""
