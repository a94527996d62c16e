"""Claims of the atlas, which is not yet in `chunked_td.lab.studies`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, Claim, Verdict

if TYPE_CHECKING:
    from chunked_td.lab.results.claims import JudgedClaim


def FurtherClaim(
    name: str,
    study: str,
    source: str,
    text: str,
    criterion: str,
    status: str,
    evidence: str,
    short: str,
    data: Path,
    controls: tuple[str, ...] = (),
) -> JudgedClaim:
    """A judged claim whose data lie in a file."""
    from chunked_td.lab.results.claims import JudgedClaim

    verdict = Verdict(status, evidence)
    claim = Claim(name, source, text, criterion, (), lambda *_: verdict, short, controls)
    return JudgedClaim(claim, study, TITLES[study], verdict, link=str(data) if data.is_file() else "")


TITLES = {"atlas": "Atlas: which method where"}
"""What the report calls the studies."""


def further_claims(*roots: Path) -> list[JudgedClaim]:
    """The claims of the atlas in the first of `roots` that has one."""
    place = next((root / "atlas" for root in roots if (root / "atlas").is_dir()), None)
    return [] if place is None else list(_atlas(place))


def _atlas(folder: Path) -> Iterator[JudgedClaim]:
    """Methods on families of problems, by the criteria of `chunked_td.lab.atlas`."""
    from chunked_td.lab.atlas.claims import judge_claims
    from chunked_td.lab.atlas.ranking import AtlasBootstrap
    from chunked_td.lab.atlas.results import SCORES, make_atlas, read_scores

    path = folder / SCORES
    if not path.is_file():
        return
    found = make_atlas(read_scores(path))
    status = {"supported": HOLDS, "not supported": FAILS, "mixed": IN_PART}
    for claim, finding in judge_claims(found, AtlasBootstrap(found)):
        verdict = status.get(finding.verdict, NOT_RUN)
        yield FurtherClaim(
            claim.id,
            "atlas",
            "ours",
            claim.text,
            claim.criterion,
            verdict,
            " ".join(finding.numbers),
            claim.short,
            folder / "atlas.html",
        )
