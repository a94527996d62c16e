"""The code in the README and in the documentation runs, top to bottom, with warnings as errors."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
FOLDERS = ("start", "guide")
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "docs" / "index.md",
    *sorted(page for folder in FOLDERS for page in (ROOT / "docs" / folder).glob("*.md")),
]


def blocks(document: Path):
    """(line of the first statement, code) of every Python block that is not a file of its own."""
    text = document.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        if "title=" not in match.group().partition("\n")[0]:
            yield text.count("\n", 0, match.start(1)), match.group(1)


PLAIN = {"NUMBA_DISABLE_JIT": "1", "MPLBACKEND": "agg"}
UNCOMPILED = ("choosing.md", "lambda-sources.md", "models.md", "planning.md", "other-lambdas.md")
"""Pages that show many kinds of learners for a few episodes: compiling them takes longer than running them plainly."""


OTHERS = ("torch", "tensorboard", "wandb")
"""Packages of others that pages show beside ours; no extra brings the last two."""


def run_blocks(document: Path) -> None:
    namespace = {"__name__": "__main__"}
    for line, code in blocks(document):
        # Blank lines in front, so that a traceback shows the document's own line numbers.
        exec(compile("\n" * line + code, str(document), "exec"), namespace)


PAGES_WITH_CODE = [page for page in DOCUMENTS if list(blocks(page))]


@pytest.mark.parametrize("document", PAGES_WITH_CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_code_runs(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    if document.name not in UNCOMPILED:
        try:
            run_blocks(document)
        except ModuleNotFoundError as missing:
            if missing.name not in OTHERS:
                raise
            pytest.skip(f"{missing.name} is not installed")
        return
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    code = f"from pathlib import Path; import test_readme; test_readme.run_blocks(Path({str(document)!r}))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr


FILE = re.compile(r'^```python title="([^"]+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
FIRST_PAGES = sorted((ROOT / "docs" / "start").glob("*.md"))


@pytest.mark.parametrize("document", FIRST_PAGES, ids=lambda path: path.name)
def test_the_commands_of_the_first_pages_run(document, tmp_path):
    """Commands in `sh` blocks, with the files that the page shows; in plain Python, which is faster than compiling."""
    text = document.read_text(encoding="utf-8")
    for name, content in FILE.findall(text):
        (tmp_path / name).write_text(content, encoding="utf-8")
    for line in "".join(SHELL.findall(text)).splitlines():
        program, *words = shlex.split(line, comments=True)
        assert program == "chunked-td", line
        command = [sys.executable, "-m", "chunked_td", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | PLAIN)
        assert done.returncode == 0, f"{line}\n{done.stderr}"


def test_the_notebook_runs(tmp_path):
    """Its code runs top to bottom; in what is stored each cell has run, and the last shows a picture."""
    path = ROOT / "docs" / "notebook.ipynb"
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert "image/png" in cells[-1]["outputs"][-1]["data"]
    copy = tmp_path / path.name
    shutil.copy(path, copy)
    commands = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, str(ROOT / "tools" / "run_notebook.py"), str(copy)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | PLAIN | {"PATH": commands}
    )
    assert done.returncode == 0, done.stderr


def test_the_readme_is_short_and_shows_code():
    assert list(blocks(ROOT / "README.md"))
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_is_long(document):
    assert len(document.read_text(encoding="utf-8").split()) <= 1_500
