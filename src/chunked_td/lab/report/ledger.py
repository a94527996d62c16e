"""The claims as the page shows them: verdict, the verdicts of their controls, and links to what shows them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chunked_td.lab.results.claims import JudgedClaim
from chunked_td.lab.results.criteria import FAILS, HOLDS, NOT_RUN, PARTLY, UNDECIDED
from chunked_td.lab.results.further import TITLES, FurtherClaim
from chunked_td.lab.results.wording import list_text

STATUSES = (HOLDS, PARTLY, FAILS, UNDECIDED, NOT_RUN)


@dataclass(frozen=True)
class ControlVerdict:
    """What a control says: its status and text, and the id of its own claim on the page ("" if it has none)."""

    status: str
    text: str
    id: str = ""


@dataclass(frozen=True)
class Entry:
    """One claim on the page.

    Attributes:
      study: id of its experiment or study. title: what that is called.
      short: its name in the table of verdicts.
      link: where the page, or a file beside it, shows it; "" if nothing does.
      controls: their verdicts, in order.
    """

    id: str
    study: str
    title: str
    source: str
    text: str
    short: str
    criterion: str
    status: str
    evidence: str
    seeds: int
    link: str
    controls: tuple[ControlVerdict, ...]

    @property
    def contradicted(self) -> bool:
        """Whether a control says otherwise."""
        return self.status == HOLDS and any(control.status == FAILS for control in self.controls)


def ledger(
    claims: Sequence[JudgedClaim],
    further: Iterable[FurtherClaim],
    titles: Mapping[str, str],
    shown: Mapping[str, Sequence[str]],
    folder: Path,
) -> list[Entry]:
    """Every claim, those of the experiments first.

    Args:
      titles: {experiment: what it is called}.
      shown: {experiment: ids of its plots and tables, the first plot first}.
      folder: where the page will lie, for links to the files of further studies.
    """
    judged = {claim.id: claim for claim in claims}
    found = []
    for claim in claims:
        controls = [judged[name] for name in claim.claim.controls if name in judged]
        ids = shown.get(claim.experiment, ())
        target = claim.claim.figure if claim.claim.figure in ids else next(iter(ids), "")
        found.append(
            Entry(
                id=claim.id,
                study=claim.experiment,
                title=titles.get(claim.experiment, claim.experiment),
                source=claim.claim.source,
                text=claim.text,
                short=claim.claim.short or claim.text,
                criterion=claim.claim.criterion,
                status=claim.status,
                evidence=claim.evidence,
                seeds=claim.seeds,
                link=f"#{target}" if target else "",
                controls=tuple(ControlVerdict(control.status, control.text, control.id) for control in controls),
            )
        )
    return [*found, *(_further(claim, folder) for claim in further)]


def _further(claim: FurtherClaim, folder: Path) -> Entry:
    link = Path(os.path.relpath(claim.data, folder)).as_posix() if claim.data.is_file() else ""
    return Entry(
        id=claim.id,
        study=claim.study,
        title=TITLES[claim.study],
        source=claim.source,
        text=claim.text,
        short=claim.short,
        criterion=claim.criterion,
        status=claim.status,
        evidence=claim.evidence,
        seeds=0,
        link=link,
        controls=tuple(ControlVerdict(status, text) for status, text in claim.controls),
    )


def by_study(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """{title of the study: its claims}, in order."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.title, []).append(entry)
    return found


def by_reason(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """{why it was not run: the claims}, so that each reason is said once."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.status == NOT_RUN:
            found.setdefault(entry.evidence, []).append(entry)
    return found


def summary(entries: Sequence[Entry]) -> str:
    """One sentence about all claims; what a control contradicts is not counted as if it stood alone."""
    parts = []
    for status, words in (
        (HOLDS, ("holds", "hold")),
        (PARTLY, ("holds in part", "hold in part")),
        (FAILS, ("does not hold", "do not hold")),
        (UNDECIDED, ("is undecided with this many seeds", "are undecided with this many seeds")),
        (NOT_RUN, ("could not be judged from these runs",) * 2),
    ):
        count = sum(entry.status == status for entry in entries)
        against = sum(entry.contradicted for entry in entries) if status == HOLDS else 0
        if count:
            but = f" ({against} of them with a control that says otherwise)" if against else ""
            parts.append(f"{count} {words[count > 1]}{but}")
    return f"Of {len(entries)} claims, {list_text(parts)}."
