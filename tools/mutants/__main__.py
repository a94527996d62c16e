"""`python -m tools.mutants`: plant each mistake in a copy of the sources, and see whether its tests fail."""

from __future__ import annotations

import argparse
import fnmatch
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tools.mutants.edits import EDITS, Edit

ROOT = Path(__file__).parents[2]
CAUGHT, HANGS, SURVIVED, BROKEN = "caught", "caught (hangs)", "SURVIVED", "TESTS BROKEN"


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0 if every mistake was caught, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--only", default="*", help="mistakes whose names or files match this pattern")
    parser.add_argument("--table", type=Path, default=None, help="write to this table, too; it keeps its other rows")
    parser.add_argument("--missing", action="store_true", help="only mistakes that the table does not have yet")
    limit = "seconds for the tests of one mistake; one that makes them hang is caught too"
    parser.add_argument("--limit", type=float, default=600.0, help=limit)
    options = parser.parse_args(arguments)
    before = read_rows(options.table)
    edits = [e for e in EDITS if fnmatch.fnmatch(e.name, options.only) or fnmatch.fnmatch(e.file, options.only)]
    edits = [e for e in edits if not (options.missing and e.name in before)]
    if not edits:
        parser.error(f"--only {options.only!r} matches nothing")
    rows, sound, commit = dict(before), {}, head()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        place = Path(folder)
        copy_tree(place)
        for edit in edits:
            if (edit.tests, edit.compiled) not in sound:  # tests that fail anyway would catch everything
                sound[edit.tests, edit.compiled] = run_tests(place, edit, options.limit) == SURVIVED
            outcome, seconds = (
                try_edit(place, edit, options.limit) if sound[edit.tests, edit.compiled] else (BROKEN, 0.0)
            )
            rows[edit.name] = Row(edit.name, edit.file, outcome, f"{seconds:.0f}", commit)
            print(line_of(rows[edit.name]), flush=True)
            if options.table is not None:
                options.table.write_text(table_of(rows), encoding="utf-8")
    tried = [rows[edit.name] for edit in edits]
    caught = sum(row.caught for row in tried)
    print(f"\n{len(tried)} planted mistakes, {caught} caught")
    return 0 if caught == len(tried) else 1


def copy_tree(place: Path) -> None:
    """What the tests need of the repository."""
    for name in ("src", "tests", "tools", "results", "pyproject.toml", "README.md", "docs"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, place / name)


def try_edit(place: Path, edit: Edit, limit: float) -> tuple[str, float]:
    """Plant a mistake, run its tests, and take it out again; what came of it, and in how many seconds."""
    path = place / "src" / "chunked_td" / edit.file
    text = path.read_text(encoding="utf-8")
    if text.count(edit.old) != 1:
        raise SystemExit(f"{edit.name!r}: the old text occurs {text.count(edit.old)} times in {edit.file}, not once")
    path.write_text(text.replace(edit.old, edit.new), encoding="utf-8")
    began = time.monotonic()
    try:
        return run_tests(place, edit, limit), time.monotonic() - began
    finally:
        path.write_text(text, encoding="utf-8")


def run_tests(place: Path, edit: Edit, limit: float) -> str:
    """What came of the tests of a mistake, in the tree as it is."""
    inside = {"PYTHONPATH": str(place / "src"), "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": str(place / "cache")}
    inside["NUMBA_DISABLE_JIT"] = "0" if edit.compiled else "1"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *edit.tests]
    try:
        done = subprocess.run(
            command, cwd=place, env={**os.environ, **inside}, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return HANGS
    return {0: SURVIVED, 1: CAUGHT}.get(done.returncode, BROKEN if "error" not in done.stdout.lower() else CAUGHT)


class Row(NamedTuple):
    """One line of the table: what came of a mistake, in how many seconds, at which commit."""

    mistake: str
    file: str
    outcome: str
    seconds: str
    commit: str

    @property
    def caught(self) -> bool:
        """Whether its tests failed, as they should."""
        return self.outcome in (CAUGHT, HANGS)


def head() -> str:
    """The commit of this tree; empty outside a repository."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short=7", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def line_of(cells: tuple[str, ...]) -> str:
    """A line of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


def read_rows(table: Path | None) -> dict[str, Row]:
    """What a table has of mistakes that still exist, by name."""
    lines = table.read_text(encoding="utf-8").splitlines() if table is not None and table.exists() else []
    rows = [Row(*cells) for line in lines if len(cells := line.strip("| ").split(" | ")) == len(Row._fields)]
    names = {edit.name for edit in EDITS}
    return {row.mistake: row for row in rows if row.mistake in names}


def table_of(rows: dict[str, Row]) -> str:
    """The table, as Markdown, in the order of the mistakes."""
    caught = sum(row.caught for row in rows.values())
    said = f"`make mutants`: {len(EDITS)} planted mistakes, {len(rows)} tried, {caught} caught."
    ruler = "|---" * len(Row._fields) + "|"
    kept = [rows[edit.name] for edit in EDITS if edit.name in rows]
    return "\n".join([said, "", line_of(Row._fields), ruler, *map(line_of, kept), ""])


if __name__ == "__main__":
    sys.exit(main())
