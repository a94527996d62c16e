"""The claims as the page shows them: grouped, linked to what shows them, summed up in a sentence."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from chunked_td.lab.results.claims import JudgedClaim
from chunked_td.lab.results.tables import Table
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, NOT_SHOWN, NOT_TESTABLE, OURS, PAPER
from chunked_td.lab.wording import list_text

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
