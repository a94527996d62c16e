"""`python -m studies`: run a study, judge its claims, write its page."""

from __future__ import annotations

import shlex
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Any

import tyro

from chunked_td._files import write_atomically
from studies.runner import data, pages
from studies.runner.criteria import judged

REPORT = Path("runs/studies.html")
PAPER = data.HERE / "paper.md"
Ids = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[ID ...]")]


def list_() -> None:
    """List the studies and their questions."""
    for name, study in data.load_studies().items():
        print(f"{name:20} {data.title(study)}")


def table_of(study: Any, quick: bool, **how: Any) -> Any:
    """Run the missing runs of a study and return all. Args: quick: the small version."""
    return study.runs(data.folder(study) / ("quick" if quick else "runs"), quick, **how)


def run(ids: Ids = (), quick: bool = False, engine: str = "", jobs: int = -1) -> None:
    """Run studies, or resume them, and print their tables.

    Args:
        ids: ids of the studies; all by default.
        quick: run a small version, to preview the tables.
        engine: threads, processes or ray; by default the study's own.
        jobs: number of parallel runs; -1 is one per core.
    """
    how = {"jobs": jobs, **({"engine": engine} if engine else {})}
    for name, study in data.load_studies(ids).items():
        print(f"{name}: {data.title(study)}", flush=True)
        table = table_of(study, quick, **how)
        print(*(f"{marker}:\n\n{text}" for marker, text in study.tables(table).items()), "", sep="\n\n")
        print("next: python -m studies", "report --quick" if quick else f"store {name}", flush=True)


def store(name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ID")]) -> None:
    """Run the missing runs of a study, and add new rows to runs.parquet. Stored rows are unchanged."""
    study = data.load_studies([name])[name]
    try:
        added = data.store(study, table_of(study, False), shlex.join(["python", "-m", "studies", "run", name]))
    except ValueError as error:
        sys.exit(str(error))
    print(f"{name}: {added:,} new rows; next: python -m studies report {name}")


def claims(ids: Ids = ()) -> None:
    """Print the verdicts on the claims of studies, from their stored runs."""
    for name, study in data.load_studies(ids).items():
        found = judged(study.CLAIMS, data.stored(study))
        for claim in found:
            print(f"{claim.verdict.status.upper():14}{claim.claim}")
            for line in (f"{name}, {claim.source}", pages.evidence(claim, found), f"Criterion: {claim.criterion}"):
                print(textwrap.fill(line, width=110, initial_indent=" " * 14, subsequent_indent=" " * 16))
            print()


def report(ids: Ids = (), quick: bool = False, check: bool = False) -> None:
    """Write tables, verdicts and figures to the pages of studies, and one report of all.

    Args:
        ids: ids of the studies; all by default.
        quick: report the quick runs instead, without changing the pages.
        check: only check whether the pages are current; write nothing.
    """
    studies = data.load_studies(ids)
    if quick:
        studies = {name: study for name, study in studies.items() if (data.folder(study) / "quick").is_dir()}
        tables = {name: table_of(study, True, quiet=True) for name, study in studies.items()}
        pages.write_report(REPORT, studies, tables, "Quick runs: fewer seeds, step sizes or episodes than the studies.")
        print(f"report: {REPORT}")
        print(*filter(None, (headline(studies[name], table) for name, table in tables.items())), sep="\n")
        return
    tables = {name: data.stored(study) for name, study in studies.items()}
    paper = {PAPER: PAPER.read_text("utf-8")} if PAPER.exists() and not ids else {}
    filled = pages.fill(paper, {"claims": pages.of_the_paper(studies, tables)}) if paper else {}
    stale = [
        name
        for name, study in studies.items()
        if check and any(len(set(each)) > 1 for each in pages.pages_of(study, tables[name]).values())
    ]
    stale += [PAPER.stem] if check and filled != paper else []
    if stale:
        sys.exit(f"pages differ from runs.parquet: {', '.join(stale)}; write the pages with: python -m studies report")
    if not check:
        for name, study in studies.items():
            pages.write_page(study, tables[name])
        for path, text in filled.items():
            write_atomically(path, text.encode())
        pages.write_report(REPORT, studies, tables, "Stored runs.")
        print(f"pages: {', '.join(studies)}; report: {REPORT}")


def headline(study: Any, table: Any) -> str:
    """Return the sentence that a study's quick runs support; most have none."""
    return study.headline(table) if hasattr(study, "headline") else ""


def credit() -> None:
    """Score your method, or methods on your problems: --method mine.py, --families mine.py."""
    from studies.credit.answer import credit as command

    try:
        tyro.cli(command, prog="python -m studies credit", args=sys.argv[2:])
    except ValueError as error:
        sys.exit(str(error))


COMMANDS = {"list": list_, "run": run, "store": store, "claims": claims, "report": report, "credit": credit}

if __name__ == "__main__":
    if sys.argv[1:2] == ["credit"]:  # imported only for this command, so that the others start fast
        sys.exit(credit())
    tyro.extras.subcommand_cli_from_dict(COMMANDS, prog="python -m studies", description=__doc__)
