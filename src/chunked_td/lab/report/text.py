"""Sentences of the report, computed from the stored runs; and its claims: grouped, linked, summed up."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from chunked_td.lab.results.claims import JudgedClaim
from chunked_td.lab.results.criteria import LEVEL, selected_of
from chunked_td.lab.results.runs import ArmResults, Results
from chunked_td.lab.results.tables import PAPER_SEEDS, Table, selected_scores
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, NOT_SHOWN, NOT_TESTABLE, OURS, PAPER
from chunked_td.lab.wording import list_text, seeds_text
from chunked_td.statistics import holm, paired_test

CITATION = (
    "“Sequence Compression Speeds Up Credit Assignment in Reinforcement Learning”, Ramesh, Young, Kirsch and "
    "Schmidhuber, ICML 2024"
)

MARKS = {HOLDS: "✓", IN_PART: "◐", FAILS: "✗", NOT_SHOWN: "?", NOT_TESTABLE: "∅", NOT_RUN: "–"}
"""Signs of the verdicts, for the table that opens the page."""
_COUNTED = {
    HOLDS: ("holds", "hold"),
    IN_PART: ("holds in part", "hold in part"),
    FAILS: ("does not hold", "do not hold"),
    NOT_SHOWN: ("is not shown by these runs", "are not shown by these runs"),
    NOT_TESTABLE: ("cannot be tested", "cannot be tested"),
    NOT_RUN: ("could not be judged from these runs",) * 2,
}


def findings(study: Results) -> list[str]:
    """What the stored runs say beside the claims, one paragraph each."""
    return order(study) + _sizes(study)


def not_run(studies: Mapping[str, Results]) -> list[str]:
    """What a profile left out or ran at a reduced size, in one paragraph each; nothing if all was run."""

    def listed(kind: str) -> str:
        found = [(list_text([arm.label for arm in getattr(it, kind)]), it.about.title) for it in studies.values()]
        return "; ".join(f"{names} ({title})" for names, title in found if names)

    heads = {
        "absent": "Not run at this profile",
        "reduced": "Run at a reduced size, and left out of comparisons at the end of training",
    }
    return [f"{head}: {names}." for kind, head in heads.items() if (names := listed(kind))]


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
    last = ([curves[:, -1] for curves in selected_of(study, pair)] for pair in pairs)  # over the seeds that both have
    p = holm([paired_test(*both, resamples=5_000) for both in last])
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


def _sizes(study: Results) -> list[str]:
    """What was run at another size than the protocol says, or not at all."""
    found = []
    if study.shortened:
        found.append(
            f"These runs are shorter than the protocol: {study.length:,} of {study.about.episodes:,} episodes. "
            "They show that the code runs; they are too short to judge a claim."
        )
    if study.reduced:
        found.append(f"At a reduced size: {'; '.join(map(_reduced, study.reduced))}.")
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


def linked(
    claims: Iterable[JudgedClaim], shown: Mapping[str, Sequence[str]], folders: Mapping[str, Path], page: Path
) -> list[JudgedClaim]:
    """Claims with links to what shows them.

    Args:
      shown: {protocol: ids of its plots and tables on the page, the first plot first}.
      folders: {study: folder} of studies with a table; `Claim.figure` is a file in it.
      page: folder of the page.
    """
    return [replace(claim, link=_link(claim, shown.get(claim.study, ()), folders, page)) for claim in claims]


def _link(claim: JudgedClaim, ids: Sequence[str], folders: Mapping[str, Path], page: Path) -> str:
    figure = claim.figure
    file = Path(claim.link) if claim.link else folders[claim.study] / figure if claim.study in folders else None
    if file is not None:
        return Path(os.path.relpath(file, page)).as_posix() if file.is_file() else ""
    target = figure if figure in ids else next(iter(ids), "")
    return f"#{target}" if target else ""


def by_origin(claims: Sequence[JudgedClaim]) -> dict[str, list[JudgedClaim]]:
    """{"the paper" or "ours": its claims}; only those that there are."""
    parts = {"the paper": PAPER, "ours": OURS}
    found = {whose: [claim for claim in claims if claim.origin == origin] for whose, origin in parts.items()}
    return {whose: part for whose, part in found.items() if part}


def grouped(claims: Iterable[JudgedClaim], name: str) -> dict[str, list[JudgedClaim]]:
    """Claims by an attribute, in order: by "title", that of their study; those not run by "evidence", the reason."""
    found: dict[str, list[JudgedClaim]] = {}
    for claim in claims:
        found.setdefault(getattr(claim, name), []).append(claim)
    return found


def summary(claims: Sequence[JudgedClaim], whose: str = "") -> str:
    """One sentence about claims; what a control contradicts is not counted as if it stood alone."""
    parts = []
    for status, words in _COUNTED.items():
        count = sum(claim.status == status for claim in claims)
        against = sum(claim.contradicted for claim in claims) if status == HOLDS else 0
        if count:
            but = f" ({against} of them with a control that says otherwise)" if against else ""
            parts.append(f"{count} {words[count > 1]}{but}")
    return f"Of {len(claims)} claims{whose and f' {whose}'}, {list_text(parts)}."


def paper_claims(claims: Iterable[JudgedClaim]) -> str:
    """The paper's claims as Markdown: a sentence, and a table with an experiment a row and a verdict a column."""
    theirs = [claim for claim in claims if claim.origin == PAPER]
    statuses = [status for status in MARKS if any(claim.status == status for claim in theirs)]
    rows = []
    for title, found in grouped(theirs, "title").items():
        seeds = sorted({claim.seeds for claim in found} - {0})
        size = f" ({' to '.join(map(str, sorted({seeds[0], seeds[-1]})))} seeds)" if seeds else ""
        rows.append((title + size, *(_verdicts(found, status) for status in statuses)))
    table = Table("paper-claims", "", ("experiment", *statuses), tuple(rows))
    return f"{summary(theirs, 'of the paper')}\n\n{table.markdown()}"


def _verdicts(claims: Sequence[JudgedClaim], status: str) -> str:
    """The claims with this verdict, each with the control that speaks against it."""
    texts = []
    for claim in (claim for claim in claims if claim.status == status):
        against = "; ".join(control.short for control in claim.judged_controls if control.status == FAILS)
        texts.append(f"{claim.short} (our control does not hold: {against})" if against else claim.short)
    return "; ".join(texts)
