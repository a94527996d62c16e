"""The report: one page with every figure and table beside the published numbers, from stored runs.

    build_report(Path("runs/paper"))      # writes runs/paper/report.html and runs/paper/figures/*.{svg,pdf,png}

The page is one file that works without a network. It opens with its findings: a headline, one picture, a table of all
verdicts. The claims follow, then per experiment plots, tables, what differs from the paper and why; then how it was
made. Its HTML, CSS and JavaScript are in `templates/`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chunked_td._durations import duration_text
from chunked_td._files import check_inside
from chunked_td.lab.catalogue import catalogue
from chunked_td.lab.errors import DirectoryError
from chunked_td.lab.report.choice import Plot, original_of, part
from chunked_td.lab.report.figures import files_of, save_all
from chunked_td.lab.report.networks import network_plots
from chunked_td.lab.report.plots import DEFAULT, mirror_plot
from chunked_td.lab.report.style import FORMATS
from chunked_td.lab.report.style import render as render_figure
from chunked_td.lab.report.text import (
    CITATION,
    MARKS,
    by_origin,
    findings,
    grouped,
    linked,
    not_run,
    paper_claims,
    summary,
)  # fmt: skip
from chunked_td.lab.results.claims import JudgedClaim, LoadedDirectory, judge_all, load_directory
from chunked_td.lab.results.runs import Results
from chunked_td.lab.results.tables import Table, tables_of
from chunked_td.lab.store.directory import refuse, write_or_explain
from chunked_td.lab.store.log import BatchRecord, RunLog, SessionRecord
from chunked_td.lab.study import NOT_RUN, Study, Verdict
from chunked_td.lab.wording import seeds_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Chunked-TD: the paper's experiments, run again"
SWITCHES = {"bands": "intervals", "logx": "logarithmic episodes", "logy": "logarithmic scores"}
"""What the page calls the switches of a plot."""


def build_study_page(study: Study, folder: Path, loaded: Any) -> Path | None:
    """Write the page, tables and figures of a study with a table into its folder; None if it has none."""
    make = study.part("report", "PAGE")
    if make is None or isinstance(loaded, Verdict):
        return None
    make(folder, loaded)
    return folder / study.page if study.page else None


def build_report(
    directory: Path | LoadedDirectory, out: Path | None = None, studies: Mapping[str, Study] | None = None
) -> Path:
    """Write the report of a run directory.

    Args:
      directory: a run directory, or what was loaded from it.
      out: folder to write to; None is the run directory itself.
      studies: by id, whose claims, choice of figures and texts are used; None is the catalogue.
    Returns:
      the path of report.html; figures and tables (Markdown) lie beside it in figures/ and tables/. Every file is
      written whole or not at all, the page last.
    """
    known = catalogue() if studies is None else studies
    loaded = directory if isinstance(directory, LoadedDirectory) else load_directory(directory, known)
    results = {name: found for name, found in loaded.results.items() if isinstance(found, Results)}
    if not results:
        raise DirectoryError(f"{loaded.path} has no finished runs yet, so there is nothing to report")
    folder = loaded.path if out is None else Path(out)
    plots = {name: plots_of(study, results, known) for name, study in results.items()}
    tables = {name: tables_of(study) for name, study in results.items()}
    pairs = ((original_of(name, results, known), study) for name, study in results.items())
    opening = next((mirror_plot(original, study) for original, study in pairs if original is not None), None)
    published = {name: found for name, found in tables.items() if results[name].about.published}
    judged = judge_all(loaded.results, known)
    texts = {table.name: table.markdown() for found in tables.values() for table in found}
    write_parts(folder, {**texts, "paper-claims": paper_claims(judged)})
    save_all({**plots, "": [opening] if opening else []}, published, folder / "figures")
    text = report_page(loaded, results, known, judged, plots, tables, opening, folder)
    write_or_explain(folder / "report.html", text.encode())
    return folder / "report.html"


def plots_of(study: Results, results: Mapping[str, Results], studies: Mapping[str, Study]) -> list[Plot]:
    """The plots of one study: those that it chooses, and diagnostics of its networks."""
    choice = part(study.id, "FIGURES", studies) or DEFAULT
    return choice.plots(study, original_of(study.id, results, studies)) + network_plots(study)


def write_parts(
    folder: Path, texts: Mapping[str, str], figures: Mapping[str, Figure] | None = None, kind: str = "svg"
) -> None:
    """Write tables/NAME.md, with one newline at the end, and figures/NAME.svg (or another `kind`) into a folder."""
    for name in ("figures", "tables"):
        with refuse(DirectoryError):
            check_inside(folder, folder / name)
    for name, text in texts.items():
        write_or_explain(folder / "tables" / f"{name}.md", (text.rstrip("\n") + "\n").encode("utf-8", "replace"))
    for name, figure in (figures or {}).items():
        write_or_explain(folder / "figures" / f"{name}.{kind}", render_figure(figure, kind))


def report_page(
    loaded: LoadedDirectory,
    results: Mapping[str, Results],
    studies: Mapping[str, Study],
    judged: Sequence[JudgedClaim],
    plots: Mapping[str, Sequence[Plot]],
    tables: Mapping[str, Sequence[Table]],
    opening: Plot | None,
    folder: Path,
) -> str:
    """The page as text; `folder` is where it will lie, for links to the studies beside the run directory."""
    shown = {name: [it.id for it in plots[name]] + [f"table-{it.name}" for it in tables[name]] for name in results}
    claims = linked(judged, shown, loaded.folders, folder)
    log, parts = RunLog(loaded.path), by_origin(claims)
    ran = [f"{it.about.title}: {seeds_text(it.seeds)}, {it.length:,} episodes" for it in results.values()]
    sizes = f"{'; '.join(ran)}."
    sections = [
        dict(  # what the page shows of one study; `figures`: {name of a figure for print: what it shows}
            study=study,
            published=part(name, "PUBLISHED", studies) or "",
            claims=[claim for claim in claims if claim.study == name],
            findings=findings(study),
            tables=tables[name],
            plots=plots[name],
            figures={file: plot.caption for plot in plots[name] for file in files_of(plot)}
            | {f"{table.name}-table": table.caption for table in tables[name] if study.about.published and table.rows},
        )
        for name, study in results.items()
    ]
    return render(
        "page.html",
        title=TITLE,
        paper=CITATION,
        headline=headline(results, studies),
        summaries=[summary(some, f"of {whose}") for whose, some in parts.items()],
        titles=list(grouped(claims, "title")),
        introduction=[f"Every experiment of {CITATION}, beside what was published, with our controls.", sizes],
        opening=opening,
        not_run=not_run(results),
        verdicts={f"{len(some)} claims of {whose}": grouped(some, "title") for whose, some in parts.items()},
        claims=[claim for claim in claims if claim.status != NOT_RUN],
        unrun=grouped([claim for claim in claims if claim.status == NOT_RUN], "evidence"),
        sections=sections,
        time_table=time_table(log.batches()),
        sessions=distinct(log.sessions()),
        damaged=loaded.store.damaged if loaded.store else [],
        pages=study_pages(loaded, studies, folder),
    )


def study_pages(loaded: LoadedDirectory, studies: Mapping[str, Study], folder: Path) -> list[dict[str, str]]:
    """The pages that studies have in folders of their own: ids, titles, summaries, and links from `folder`."""
    files = {name: place / studies[name].page for name, place in loaded.folders.items() if studies[name].page}
    return [
        {
            "id": name,
            "title": studies[name].title,
            "summary": part(name, "SUMMARY", studies) or "",
            "link": Path(os.path.relpath(file, folder)).as_posix(),
        }
        for name, file in files.items()
        if file.is_file()
    ]


def render(template: str, *, with_plotly: bool = True, **values: Any) -> str:
    """Fill in one of `templates/`. Text is escaped; only our own CSS and JavaScript (`source`) go in as they are.

    Args:
      with_plotly: whether the page has plots, with their switches and the look of the report.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = PackageLoader("chunked_td.lab.report")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}

    def source(name: str) -> Markup:
        return Markup(loader.get_source(environment, name)[0])

    environment.globals["source"] = source
    if with_plotly:
        from plotly.offline import get_plotlyjs

        environment.globals.update(
            seeds_text=seeds_text,
            switches=SWITCHES,
            formats=FORMATS,
            statuses=tuple(MARKS),
            marks=MARKS,
            claims_script=source("claims.js"),
            style=source("page.css"),
            script=source("plots.js"),
            plotly=Markup(get_plotlyjs().replace("</script", "<\\/script")),
        )
    text = environment.get_template(template).render(**values)
    return text.encode("utf-8", "replace").decode()  # names of states and paths may hold what no file can


def headline(results: Mapping[str, Results], studies: Mapping[str, Study]) -> str:
    """The first headline that a study has to give; "" if none has."""
    for name, study in results.items():
        make = part(name, "HEADLINE", studies)
        if make is not None and (text := make(study, original_of(name, results, studies))):
            return text
    return ""


def time_table(batches: Sequence[BatchRecord]) -> Table:
    """Where the time went: runs, steps and seconds per protocol, kind of arm and host."""
    groups: dict[tuple[str, str, str], list[BatchRecord]] = {}
    for record in batches:
        groups.setdefault((record.protocol, record.kind, record.host), []).append(record)
    rows = []
    for names, records in groups.items():
        runs, steps = sum(record.runs for record in records), sum(record.steps for record in records)
        seconds = sum(record.seconds for record in records)
        rows.append((*names, f"{runs:,}", f"{steps / 1e6:,.3g} million", duration_text(seconds)))
    caption = "Batches finished in this directory, with the wall time of each summed."
    return Table("time", caption, ("experiment", "arms", "host", "runs", "steps", "time"), tuple(rows))


def distinct(sessions: Sequence[SessionRecord]) -> list[SessionRecord]:
    """Sessions without repeats of the same command on the same commit; the last of each."""
    return list({(session.command, session.commit, session.host): session for session in sessions}.values())
