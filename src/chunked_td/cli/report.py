"""`chunked-td report`: rebuild figures and report.html from stored runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import tyro

from chunked_td.cli._shared import command, show
from chunked_td.lab.errors import guarded


@command
class Report:
    """Rebuild figures and report.html from stored runs.

    For example:
        chunked-td report runs/quick
        chunked-td report runs/quick --open
    """

    directory: tyro.conf.Positional[Path]
    """Run directory."""
    experiments: tuple[str, ...] = ()
    """Files and folders of experiments of your own, for their claims, figures and texts."""
    open: bool = False
    """Open the report in a browser."""

    def run(self) -> int:
        """Build it."""
        return build(self.directory, self.experiments, only_if_stale=False, open_it=self.open)


@partial(guarded, kept="")
def build(directory: Path, experiments: Sequence[str], *, only_if_stale: bool, open_it: bool) -> int:
    """Build the report and print where it is; returns the exit code.

    Args:
      experiments: as for `chunked-td reproduce`.
      only_if_stale: leave a page that is newer than every stored batch as it is.
      open_it: open it in a browser.
    """
    from chunked_td.lab.catalogue import known
    from chunked_td.lab.report.page import build_report, build_study_page, headline
    from chunked_td.lab.report.text import summary
    from chunked_td.lab.results.claims import judge_all, load_directory, print_verdicts

    page, studies, code = directory / "report.html", known(experiments), 0
    fresh = only_if_stale and page.exists() and page.stat().st_mtime >= _newest(directory)
    loaded = load_directory(directory, studies)
    if not fresh:
        code = loaded.report_findings()
        for name, folder in loaded.folders.items():
            if directory in (folder, folder.parent):
                own = build_study_page(studies[name], folder, loaded.results[name])
                page = page if own is None or loaded.store else own
                if not loaded.store:  # else they are many, and on the page
                    print_verdicts(studies[name], loaded.results)
        page = build_report(loaded, None, studies) if loaded.store else page
    found = headline(loaded.results, studies) or summary(judge_all(loaded.results, studies))
    left = f" (left as it was: no run is newer; chunked-td report {directory} builds it again)" if fresh else ""
    if page.exists():
        print(f"report: {page}{left}. Found: {found}")
        print(f"every claim with its numbers: chunked-td claims {directory}")
    if open_it and page.exists():
        show(page)
    return code


def say_if_stale(directory: Path) -> None:
    """Say that the report of a directory was built before its latest runs, where that is so."""
    page = directory / "report.html"
    if page.exists() and page.stat().st_mtime < _newest(directory):
        print(f"note: {page} is older than the stored runs; chunked-td report {directory} builds it again")


def _newest(directory: Path) -> float:
    """When the stored runs last changed."""
    return max((path.stat().st_mtime for path in directory.rglob("*.parquet")), default=0.0)
