"""Attacks on pages: labels that hold HTML and scripts, read by a parser and, where there is one, by a real browser."""

from __future__ import annotations

import contextlib
import functools
import html.parser
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.attack.registry import Case, Found, Outcome, attack

PIECES = (
    "<script>window.hit=1</script>",
    "</script><script>window.hit=1//",
    '<img src="x:" onerror="window.hit=1">',
    '"><svg onload=window.hit=1>',
    "' onmouseover='window.hit=1' x='",
    '<a href="javascript:window.hit=1">here</a>',
    '<iframe srcdoc="<script>parent.hit=1</script>"></iframe>',
    "<!--<script>",
    "]]>",
    "</style></title></textarea>",
    "{{ 7 * 7 }}{% raw %}",
    "${window.hit=1}`",
    "\\u003cimg src=x: onerror=window.hit=1\\u003e",
    "&lt;script&gt;window.hit=1&lt;/script&gt;",
    "\u2028\u2029\x00\x1f",
    "\u202e\ufeff",
    "<b>",
    "&amp",
    "\\",
    "λ",
)
TESTS = Path(__file__).parents[2] / "tests"


class Structure(html.parser.HTMLParser):
    """Every element with the names of its attributes: what a label must not change."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[tuple[str, ...]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, *sorted(name for name, _ in attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.found.append((f"/{tag}",))


def label(case: Case) -> str:
    """A text of a few pieces."""
    text = "".join(case.rng.choice(PIECES, size=int(case.rng.integers(1, 4))))
    case.say(ascii(text))
    return text


@functools.cache
def explained() -> Any:
    """An explained episode."""
    import gymnasium as gym

    import chunked_td as ctd

    env = gym.make("FrozenLake-v1", is_slippery=False)
    agent = ctd.ChunkedSarsa(env, seed=1)
    agent.learn(env, 5, progress=False)
    return agent.explain(env, 0, against=(0.5,), max_steps=20)


def explanation_page(*labels: str) -> str:
    """Its page, with labels for the environment, the places and the learners."""
    from chunked_td.lab.explain.page import render_page

    told = explained()
    learners = tuple(replace(one, label=labels[1 + k % 2]) for k, one in enumerate(told.learners))
    return render_page(replace(told, env=labels[0], places=(labels[2],) * len(told.places), learners=learners))


@functools.cache
def filled() -> Path:
    """A run directory of made-up scores."""
    import atexit
    import shutil

    sys.path.append(str(TESTS))
    from helpers.fake_runs import fill

    folder = Path(tempfile.mkdtemp(prefix="attack-pages-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return fill(folder / "run", ("key-to-door",), seeds=3, networks=False)


def report_page(*labels: str) -> str:
    """A report, with labels for the arms and in the texts of its experiment."""
    from unittest import mock

    from chunked_td.lab.report import page
    from chunked_td.lab.results import claims
    from chunked_td.lab.results.runs import load_results
    from chunked_td.lab.store.batch_store import Store

    (study,) = load_results(Store.read(filled())).values()
    arms = tuple(replace(arm, label=f"{labels[0]} {k}", note=labels[1]) for k, arm in enumerate(study.arms))
    texts = dict.fromkeys(("title", "description", "score_label", "best_label"), labels[2])
    about = replace(study.about, deviations=(labels[1],), references=(labels[0],), **texts)
    changed = {study.id: replace(study, about=about, arms=arms)}
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as out:
        stack.enter_context(mock.patch.object(page, "save_all", return_value=[]))
        stack.enter_context(mock.patch.object(claims, "load_results", return_value=changed))
        return page.build_report(filled(), Path(out)).read_text(encoding="utf-8")


PAGES = {"explanation": explanation_page, "report": report_page}


@functools.cache
def plain(name: str) -> list[tuple[str, ...]]:
    """The structure of a page with labels that hold nothing."""
    return Structure(PAGES[name]("a", "b", "c")).found


@functools.cache
def browser() -> Any:
    """A headless browser that lives as long as this process; None where there is none."""
    import atexit

    sys.path.append(str(TESTS))
    from helpers.browser import Browser, find

    if find() is None:
        return None
    folder = tempfile.TemporaryDirectory(prefix="attack-browser-", ignore_cleanup_errors=True)
    opened = Browser(Path(folder.name), timeout=120.0)
    atexit.register(folder.cleanup)
    atexit.register(opened.__exit__)
    return opened


def prepared() -> None:
    """Both pages as they should be, and the browser."""
    for name in PAGES:
        plain(name)
    browser()


TOUCH = """(() => { for (const node of document.querySelectorAll('*'))
  for (const kind of ['mouseover', 'mouseenter', 'focus'])
    node.dispatchEvent(new MouseEvent(kind, {bubbles: kind === 'mouseover'}));
  return new Promise(done => setTimeout(() => done(window.hit ?? 0), 50)); })()"""


@attack("pages: labels with HTML", prepare=prepared, seconds=180.0, megabytes=1_024)
def labels_with_html(case: Case) -> Outcome:
    """The page is built as with plain labels, and in a browser no label is run, loads anything or breaks a script."""
    name = str(case.rng.choice(list(PAGES)))
    case.say(name)
    text = PAGES[name](label(case), label(case), label(case))
    path = case.folder / "page.html"
    path.write_text(text, encoding="utf-8")
    if Structure(text).found != plain(name):
        raise Found(Outcome.SILENT, "a label changed the structure of the page")
    page = browser()
    if page is None:
        return Outcome.HARMLESS
    page.errors.clear()
    page.requests.clear()
    page.open(path)
    hit = page.ask(TOUCH)
    outside = [one for one in page.requests if not one.startswith((path.as_uri(), "data:", "blob:", "about:"))]
    if hit or outside or page.errors:
        raise Found(Outcome.SILENT, f"in the browser: script {hit}, loaded {outside}, errors {page.errors}")
    return Outcome.HARMLESS
