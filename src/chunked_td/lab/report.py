"""The report: one page with every figure and table beside the published numbers, from stored runs.

    build_report(Path("runs/paper"))      # writes runs/paper/report.html and runs/paper/figures/*.{svg,pdf,png}

The page is one file that works without a network: interactive plots, tables, the verdict on every claim, what
differs from the paper and why, and how it was made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chunked_td.lab.claims import Claim, claims_of
from chunked_td.lab.errors import DirectoryError
from chunked_td.lab.figures import Drawing, save_all, write_whole
from chunked_td.lab.report_html import bullets, page, paragraphs, plot_html, table_html, tag, words
from chunked_td.lab.report_plots import plots_of
from chunked_td.lab.report_text import PAPER, PUBLISHED, duration, findings, summary
from chunked_td.lab.store import Store
from chunked_td.lab.studies import Study, labels, load_studies
from chunked_td.lab.tables import Table, seeds_text, tables_of

CLASSES = {"holds": "holds", "does not hold": "fails", "undecided": "undecided", "not run": "unrun"}
TITLE = "Chunked-TD: the paper's experiments, run again"


def build_report(directory: Path, out: Path | None = None) -> Path:
    """Write the report of a run directory.

    Args:
      directory: a run directory.
      out: folder to write to; None is the run directory itself.
    Returns:
      the path of report.html; figures and tables (Markdown) lie beside it in figures/ and tables/. Every file is
      written whole or not at all, the page last.
    """
    directory = Path(directory)
    store = Store.read(directory)
    studies = load_studies(store)
    if not studies:
        raise DirectoryError(f"{directory} has no finished runs yet, so there is nothing to report")
    folder = directory if out is None else Path(out)
    drawings = save_all(studies, folder / "figures")
    tables = {study.id: tables_of(study) for study in studies.values()}
    for table in (table for found in tables.values() for table in found):
        write_whole(folder / "tables" / f"{table.name}.md", table.markdown().encode())
    text = report_page(store, studies, tables, drawings)
    write_whole(folder / "report.html", text.encode())
    return folder / "report.html"


def report_page(
    store: Store, studies: Mapping[str, Study], tables: Mapping[str, Sequence[Table]], drawings: Sequence[Drawing]
) -> str:
    """The page as text."""
    verdicts = claims_of(studies)
    parts = [
        tag("a", "Skip to the results", href="#claims", class_="skip"),
        header(studies, verdicts),
        "<main>",
        claims_section(verdicts, studies),
        *(experiment(study, studies, verdicts, tables[study.id], drawings) for study in studies.values()),
        provenance_section(store),
        "</main>",
        tag("footer", tag("p", words(f"The paper: {PAPER}."))),
    ]
    return page(TITLE, "\n".join(parts))


def header(studies: Mapping[str, Study], verdicts: Sequence[Claim]) -> str:
    """Title, what this is, and where to go."""
    sizes = "; ".join(
        f"{study.description['title']}: {seeds_text(study.seeds)}, {study.length:,} episodes"
        for study in studies.values()
    )
    absent = [
        f"{labels([arm for arm in study.absent if arm.in_paper])} ({study.description['title']})"
        for study in studies.values()
        if any(arm.in_paper for arm in study.absent)
    ]
    texts = [
        f"Every experiment of {PAPER}, beside what was published, with our controls.",
        summary(verdicts),
        sizes + ".",
    ]
    if absent:
        texts.append(f"Arms of the paper that were not run at this profile: {', '.join(absent)}.")
    links = [("claims", "Claims"), *((study.id, study.description["title"]) for study in studies.values())]
    items = [tag("li", tag("a", words(text), href=f"#{name}")) for name, text in [*links, ("made", "How it was made")]]
    contents = tag("nav", tag("ul", *items), aria_label="Contents")
    return tag("header", tag("h1", words(TITLE)), paragraphs(texts), contents)


def claims_section(verdicts: Sequence[Claim], studies: Mapping[str, Study]) -> str:
    """Each claim with its status, the numbers and the criterion."""
    cards = []
    for claim in verdicts:
        study = studies.get(claim.experiment)
        where = study.description["title"] if study else claim.experiment
        seeds = f", {seeds_text(claim.seeds)}" if claim.seeds else ""
        cards.append(
            tag(
                "li",
                tag("p", tag("span", words(claim.status), class_="status"), " ",
                    tag("span", words(f"{where}, {claim.source}{seeds}"), class_="source")),
                tag("p", words(claim.text)),
                tag("p", words(claim.evidence), class_="evidence"),
                tag("details", tag("summary", "Criterion"), tag("p", words(claim.criterion))),
                class_=CLASSES[claim.status],
                id=f"claim-{claim.id}",
            )
        )  # fmt: skip
    intro = (
        "Each claim is judged from the stored runs by a criterion that was fixed in the code. Intervals are 95 % "
        "bootstrap "
        "intervals over seeds; tests are two-sided sign-flip tests over common seeds at 5 %, with Holm's correction."
    )
    body = tag("h2", "Claims"), paragraphs([intro]), tag("ul", *cards, class_="claims")
    return tag("section", *body, id="claims")


def experiment(
    study: Study,
    studies: Mapping[str, Study],
    verdicts: Sequence[Claim],
    tables: Sequence[Table],
    drawings: Sequence[Drawing],
) -> str:
    """One experiment: what it is, what was published, what we found, plots, tables, deviations, print versions."""
    about = study.description
    parts = [tag("h2", words(about["title"])), paragraphs([about["description"]] if about["description"] else [])]
    if about["references"]:
        parts.append(paragraphs([f"Reproduces {', '.join(about['references'])} of the paper."]))
    if study.id in PUBLISHED:
        parts += [tag("h3", "What was published"), paragraphs([PUBLISHED[study.id]])]
    parts += [tag("h3", "What we found"), paragraphs(findings(study, verdicts))]
    parts += [table_html(table) for table in tables]
    parts += [plot_html(plot) for plot in plots_of(study, studies)]
    notes = [f"{arm.label}: {arm.note}" for arm in study.arms if arm.note]
    if about["deviations"]:
        parts += [tag("h3", "What differs from the paper, and why"), bullets(about["deviations"])]
    if notes:
        parts += [tag("h3", "Arms that we added"), bullets(notes)]
    printed = [drawing for drawing in drawings if drawing.study == study.id]
    if printed:
        items = [tag("li", words(f"{drawing.caption} "), *_links(drawing.name)) for drawing in printed]
        parts.append(tag("details", tag("summary", "Figures for print, beside this page"), tag("ul", *items)))
    return tag("section", *parts, id=study.id)


def _links(name: str) -> list[str]:
    return [tag("a", kind.upper(), href=f"figures/{name}.{kind}") + " " for kind in ("svg", "pdf", "png")]


def provenance_section(store: Store) -> str:
    """Commands, commits, versions, hardware and time, from the diary of the run directory."""
    diary = store.directory.diary()
    sessions = [line for line in diary if line.get("event") == "session"]
    batches = [line for line in diary if line.get("event") == "batch"]
    parts = [tag("h2", "How it was made"), table_html(time_table(batches))]
    if not sessions:
        parts.append(paragraphs(["The diary of this run directory names no session."]))
    items = [session_html(session) for session in _distinct(sessions)]
    if items:
        parts += [tag("h3", "Sessions"), *items]
    if store.damaged:
        texts = [f"{damage.path.name}: {damage.reason}" for damage in store.damaged]
        parts += [tag("h3", "Damaged files, left out"), bullets(texts)]
    parts.append(paragraphs(["This page was made from those runs by `chunked-td report`; it can be made again."]))
    return tag("section", *parts, id="made")


def time_table(batches: Sequence[Mapping[str, Any]]) -> Table:
    """Where the time went: runs, steps and seconds per protocol and kind of arm."""
    sums: dict[tuple[str, str, str], list[float]] = {}
    for line in batches:
        key = (str(line.get("protocol", "?")), str(line.get("kind", "?")), str(line.get("host", "?")))
        total = sums.setdefault(key, [0.0, 0.0, 0.0])
        for i, name in enumerate(("runs", "steps", "seconds")):
            total[i] += float(line.get(name, 0) or 0)
    rows = [
        (protocol, kind, host, f"{runs:,.0f}", f"{steps / 1e6:,.3g} million", duration(seconds))
        for (protocol, kind, host), (runs, steps, seconds) in sums.items()
    ]
    caption = "Batches finished in this directory, with the wall time of each summed."
    return Table("time", caption, ("experiment", "arms", "host", "runs", "steps", "time"), tuple(rows))


def _distinct(sessions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Sessions without repeats of the same command on the same commit; the last of each."""
    found = {(s.get("command"), s.get("commit"), s.get("host")): s for s in sessions}
    return list(found.values())


def session_html(session: Mapping[str, Any]) -> str:
    """One session as a list of terms."""
    versions = session.get("versions") or {}
    hardware = [session.get("processor"), f"{session['cores']} cores" if session.get("cores") else None]
    hardware += [session.get("accelerator"), session.get("device"), session.get("system")]
    entries = {
        "Command": session.get("command"),
        "Commit": session.get("commit"),
        "Versions": ", ".join(
            [f"Python {session.get('python')}", *(f"{name} {version}" for name, version in versions.items())]
        ),
        "Hardware": ", ".join(str(part) for part in hardware if part),
    }
    terms = [tag("dt", words(term)) + tag("dd", tag("code", words(str(v)))) for term, v in entries.items() if v]
    return tag("dl", *terms)
