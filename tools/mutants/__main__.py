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

from tools.mutants.edits import EDITS, Edit

ROOT = Path(__file__).parents[2]
LIMIT = 600
"""Seconds for the tests of one mistake; one that makes them hang is caught too."""

CAUGHT, HANGS, SURVIVED, BROKEN = "caught", "caught (hangs)", "SURVIVED", "TESTS BROKEN"


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0 if every mistake was caught, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--only", default="*", help="mistakes whose names or files match this pattern")
    parser.add_argument("--table", type=Path, default=None, help="write the table to this file too")
    options = parser.parse_args(arguments)
    edits = [e for e in EDITS if fnmatch.fnmatch(e.name, options.only) or fnmatch.fnmatch(e.file, options.only)]
    if not edits:
        parser.error(f"--only {options.only!r} matches nothing")
    rows, sound = [], {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        place = Path(folder)
        copy_tree(place)
        for edit in edits:
            if (edit.tests, edit.compiled) not in sound:  # tests that fail anyway would catch everything
                sound[edit.tests, edit.compiled] = run_tests(place, edit) == SURVIVED
            rows.append((edit, try_edit(place, edit) if sound[edit.tests, edit.compiled] else (BROKEN, 0.0)))
            print(row_of(*rows[-1]), flush=True)
    text = table_of(rows)
    print(f"\n{text.splitlines()[0]}")
    if options.table is not None:
        options.table.write_text(text, encoding="utf-8")
    return 0 if all(outcome in (CAUGHT, HANGS) for _, (outcome, _) in rows) else 1


def copy_tree(place: Path) -> None:
    """What the tests need of the repository."""
    for name in ("src", "tests", "tools", "results", "pyproject.toml", "README.md", "docs"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, place / name)


def try_edit(place: Path, edit: Edit) -> tuple[str, float]:
    """Plant a mistake, run its tests, and take it out again; what came of it, and in how many seconds."""
    path = place / "src" / "chunked_td" / edit.file
    text = path.read_text(encoding="utf-8")
    if text.count(edit.old) != 1:
        raise SystemExit(f"{edit.name!r}: the old text occurs {text.count(edit.old)} times in {edit.file}, not once")
    path.write_text(text.replace(edit.old, edit.new), encoding="utf-8")
    began = time.monotonic()
    try:
        return run_tests(place, edit), time.monotonic() - began
    finally:
        path.write_text(text, encoding="utf-8")


def run_tests(place: Path, edit: Edit) -> str:
    """What came of the tests of a mistake, in the tree as it is."""
    inside = {"PYTHONPATH": str(place / "src"), "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": str(place / "cache")}
    inside["NUMBA_DISABLE_JIT"] = "0" if edit.compiled else "1"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *edit.tests]
    try:
        done = subprocess.run(
            command, cwd=place, env={**os.environ, **inside}, capture_output=True, text=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return HANGS
    return {0: SURVIVED, 1: CAUGHT}.get(done.returncode, BROKEN if "error" not in done.stdout.lower() else CAUGHT)


def row_of(edit: Edit, result: tuple[str, float]) -> str:
    """One line of the table."""
    outcome, seconds = result
    return f"| {edit.name} | {edit.file} | {outcome} | {seconds:.0f} |"


def table_of(rows: list[tuple[Edit, tuple[str, float]]]) -> str:
    """The table, as Markdown."""
    caught = sum(outcome in (CAUGHT, HANGS) for _, (outcome, _) in rows)
    head = f"`make mutants`: {len(rows)} planted mistakes, {caught} caught."
    return "\n".join(
        [head, "", "| mistake | file | outcome | seconds |", "|---|---|---|---|", *(row_of(*r) for r in rows), ""]
    )


if __name__ == "__main__":
    sys.exit(main())
