"""Pages: tables and verdicts between the markers of README.md and others, figures, and one report of many studies."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from matplotlib.figure import Figure

from chunked_td import _pages
from chunked_td._files import write_atomically
from studies.runner import data
from studies.runner.criteria import HOLDS, Claim, Judged, judged
from studies.runner.plots import house_style, svg
from studies.runner.text import markdown


def fill(pages: Mapping[Path, str], texts: Mapping[str, str]) -> dict[Path, str]:
    """Fill every text between its markers, <!-- name --> and <!-- /name -->, which exactly one page has."""
    filled = dict(pages)
    for name, text in texts.items():
        marks, found = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL), 0
        for path, page in filled.items():
            filled[path], times = marks.subn(lambda mark, text=text: f"{mark[1]}\n{text}\n\n{mark[2]}", page)
            found += times
        if found != 1:
            names = ", ".join(f"{path.parent.name}/{path.name}" for path in pages)
            raise ValueError(f"{names} must have <!-- {name} --> … <!-- /{name} --> once, got them {found} times")
    return filled


def evidence(claim: Judged, others: Sequence[Judged]) -> str:
    """Return the numbers of a verdict, and the verdicts of its controls."""
    controls = [each for each in others if each.name in claim.controls]
    more = [f"Control, {each.verdict.status}: {each.claim}" for each in controls]
    return " ".join([claim.verdict.text, *more])


def verdicts(claims: Sequence[Judged]) -> str:
    """The table of claims with criterion, verdict and numbers."""
    rows = [(f"{c.claim} ({c.source})", c.criterion, c.verdict.status, evidence(c, claims)) for c in claims]
    return markdown(("claim", "criterion", "verdict", "numbers"), rows)


def of_the_paper(studies: Mapping[str, ModuleType], tables: Mapping[str, Any]) -> str:
    """The paper's claims as the runs judge them: how many hold, and a table of all."""
    rows, counts = [], Counter()
    for name, study in studies.items():
        if not any(map(is_of_the_paper, study.CLAIMS)):
            continue
        found, title = judged(study.CLAIMS, tables[name]), data.title(study).partition(" (")[0].partition(":")[0]
        for claim in itertools.compress(found, map(is_of_the_paper, study.CLAIMS)):
            against = [each for each in found if each.name in claim.controls and each.verdict.status != HOLDS]
            status = "; our control: ".join([claim.verdict.status, *(each.verdict.status for each in against)])
            counts[status] += 1
            rows.append((f"[{title}]({name}/README.md)", claim.claim, claim.source, status))
    lines = [f"- {status}: {count}" for status, count in counts.most_common()]
    table = markdown(("study", "claim", "where", "verdict"), rows)
    return "\n".join([f"The paper's {len(rows)} claims by verdict:", "", *lines, "", table])


def is_of_the_paper(claim: Claim) -> bool:
    """Whether a claim is the paper's, not ours."""
    return not vars(claim).get("source", "ours").startswith("ours")


def texts_of(study: ModuleType, table: Any, claims: Sequence[Judged] | None = None) -> dict[str, str]:
    """Return all texts between the markers of a page."""
    found = judged(study.CLAIMS, table) if claims is None else claims
    return {**({"verdicts": verdicts(found)} if study.CLAIMS else {}), **study.tables(table)}


def figures_of(study: ModuleType, table: Any) -> dict[str, Figure]:
    """{name: figure} of a study, drawn in the house style."""
    with house_style():
        return study.figures(table) if hasattr(study, "figures") else {"figure": study.figure(table)}


def pages_of(study: ModuleType, table: Any) -> dict[Path, tuple[str, str]]:
    """Return the study's pages, each with its present and its generated text."""
    before = {path: path.read_text("utf-8") for path in sorted(data.folder(study).glob("*.md"))}
    after = fill(before, texts_of(study, table))
    return {path: (text, after[path]) for path, text in before.items()}


def write_page(study: ModuleType, table: Any) -> None:
    """Write tables and verdicts on a study's page, and its figures."""
    for path, (_, text) in pages_of(study, table).items():
        write_atomically(path, text.encode())
    for name, figure in figures_of(study, table).items():
        write_atomically(data.folder(study) / "figures" / f"{name}.svg", svg(figure))


def write_report(path: Path, studies: Mapping[str, ModuleType], tables: Mapping[str, Any], note: str) -> None:
    """Write one page with every table, verdict and figure of some studies."""
    links = [f'<li><a href="#{name}">{_pages.escape(data.title(studies[name]))}</a>' for name in tables]
    parts = ["<h1>Chunked-TD: studies</h1>", _pages.paragraph(note), f"<ul>{''.join(links)}</ul>"]
    for name, table in tables.items():
        study = studies[name]
        parts.append(f'<h2 id="{name}">{_pages.escape(data.title(study))}</h2>')
        parts += [_pages.paragraph(" ".join(part.split())) for part in str(study.__doc__).split("\n\n")[1:]]
        parts += [_pages.picture(svg(figure).decode(), each) for each, figure in figures_of(study, table).items()]
        for marker, text in texts_of(study, table).items():
            parts += [f"<h3>{_pages.escape(marker.replace('-', ' '))}</h3>", as_html(text)]
    write_atomically(path, _pages.page("Chunked-TD: studies", *parts).encode())


def as_html(text: str) -> str:
    """Markdown with tables and plain lines as HTML."""
    parts, rows = [], []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        elif rows:
            head, _, *body = rows
            parts.append(f'<div style="overflow-x: auto">{_pages.table(head, body)}</div>')
            rows = []
        if line and not line.startswith("|"):
            parts.append(_pages.paragraph(line))
    return "\n".join(parts)
