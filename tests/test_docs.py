"""The documentation: its search works from disk, and every public name has its place in the API pages."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import chunked_td
from helpers import browser

ROOT = Path(__file__).parents[1]


def test_every_public_name_is_in_the_api_pages():
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "api").glob("*.md")]
    shown = {line[4:].strip() for page in pages for line in page.splitlines() if line.startswith("::: ")}
    whole = tuple(f"{one}." for page in pages for one in re.findall(r"::: (\S+)(?:\n .*)*show_submodules: true", page))
    for name in chunked_td.__all__:
        thing = getattr(chunked_td, name)
        module = getattr(thing, "__module__", None)
        if isinstance(module, str) and module.startswith("chunked_td."):
            assert module.startswith(whole) or shown & {module, f"{module}.{name}"}, f"{name} of {module}"


@pytest.fixture
def site(tmp_path):
    """Two pages with the theme, plugins and scripts of the documentation, without its API."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    settings["plugins"] = [plugin for plugin in settings["plugins"] if "mkdocstrings" not in plugin]
    settings["docs_dir"], settings["site_dir"] = str(tmp_path / "docs"), str(tmp_path / "site")
    for unwanted in ("nav", "markdown_extensions", "hooks"):
        del settings[unwanted]
    (tmp_path / "docs" / "guide").mkdir(parents=True)
    shutil.copytree(ROOT / "docs" / "javascripts", tmp_path / "docs" / "javascripts")
    (tmp_path / "docs" / "index.md").write_text("# Home\n\nNothing here.\n")
    (tmp_path / "docs" / "guide" / "one.md").write_text("# One\n\nAbout the BackwardLambda of the world.\n")
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(settings, allow_unicode=True), encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", str(tmp_path / "mkdocs.yml")]
    subprocess.run(command, check=True, timeout=300, capture_output=True)
    return tmp_path / "site"


@browser.needed
def test_the_search_works_from_disk(site, tmp_path):
    """A word inside a name of a class finds its page, and nothing is asked of the network."""
    with browser.Browser(tmp_path / "profile") as page:
        page.size(1280)
        page.open(site / "index.html")
        page.ask(
            "(() => { const box = document.querySelector('.md-search__input');"
            " document.querySelector('[for=__search]').click(); box.focus(); box.value = 'backward';"
            " box.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true})); return 1; })()"
        )
        page.wait_for("document.querySelectorAll('.md-search-result__item').length > 0")
        found = page.ask("document.querySelector('.md-search-result__link').href")
        assert found.split("?")[0].endswith("/guide/one.html")
        assert all(address.startswith(("file:", "data:", "about:")) for address in page.requests)
        assert page.errors == []
