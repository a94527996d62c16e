"""The code in the README and in the documentation runs, top to bottom, with warnings as errors."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
DOCUMENTS = [ROOT / "README.md", ROOT / "docs" / "index.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]


def blocks(document: Path):
    """(line of the first statement, code) of every Python block."""
    text = document.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        yield text.count("\n", 0, match.start(1)), match.group(1)


UNCOMPILED = ("choosing.md", "lambda-sources.md", "models.md", "planning.md", "rivals.md")
"""Pages that show many kinds of learners for a few episodes: compiling them takes longer than running them plainly."""


def run_blocks(document: Path) -> None:
    namespace = {"__name__": "__main__"}
    for line, code in blocks(document):
        # Blank lines in front, so that a traceback shows the document's own line numbers.
        exec(compile("\n" * line + code, str(document), "exec"), namespace)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_code_runs(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    if document.name not in UNCOMPILED:
        run_blocks(document)
        return
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    code = f"from pathlib import Path; import test_readme; test_readme.run_blocks(Path({str(document)!r}))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr


def test_the_readme_shows_code():
    assert list(blocks(ROOT / "README.md"))


TABLE = re.compile(r"<!-- table: (\S+) -->\n(.*?)<!-- end -->", re.DOTALL)


def test_the_tables_of_the_history_compressor_come_from_its_data():
    from chunked_td.lab.studies.compression.report import all_tables
    from chunked_td.lab.studies.compression.results import LOAD

    folder = ROOT / "results" / "compression"
    for name, text in all_tables(LOAD(folder)).items():
        assert (folder / "tables" / f"{name}.md").read_text(encoding="utf-8").strip() == text


PAGES_WITH_TABLES = [page for page in DOCUMENTS if "<!-- table: " in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", PAGES_WITH_TABLES, ids=lambda path: path.name)
def test_tables_in_pages_are_those_of_the_results(page):
    text = page.read_text(encoding="utf-8")
    found = TABLE.findall(text)
    assert len(found) == text.count("<!-- table: ")
    for path, text in found:
        assert text.strip() == (ROOT / path).read_text(encoding="utf-8").strip(), f"run docs/fill_tables.py: {path}"
