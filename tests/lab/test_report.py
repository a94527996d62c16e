"""The report: complete, self-contained, honest about what is missing; opened in a browser where there is one."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from markupsafe import escape

from chunked_td.lab.catalogue import catalogue
from chunked_td.lab.errors import DirectoryError
from chunked_td.lab.report import page as page_module
from chunked_td.lab.report.page import build_report, plots_of, render, study_pages
from chunked_td.lab.report.plots import numbers
from chunked_td.lab.results import claims as claims_module
from chunked_td.lab.results.runs import load_results
from chunked_td.lab.results.tables import results_table, step_size_table
from chunked_td.lab.store.batch_store import Store
from helpers import browser
from helpers.fake_runs import fill

BUILD = Path(__file__).parents[2] / "build"
VOID = {"meta", "link", "input", "br", "img", "hr"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """The full protocol, network arms and diagnostics included."""
    return fill(tmp_path_factory.mktemp("report") / "full")


@pytest.fixture(scope="module")
def path(directory):
    return build_report(directory)


@pytest.fixture(scope="module")
def text(path):
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Without network arms, one seed: what a hurried reader has."""
    return fill(tmp_path_factory.mktemp("report") / "bare", networks=False, seeds=1)


class Outline(HTMLParser):
    """Checks that elements nest, and collects ids, links, headings and scripts."""

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.levels: list[int] = []
        self.sources: list[str] = []

    def handle_starttag(self, name, attributes):
        values = dict(attributes)
        if "id" in values:
            self.ids.append(values["id"])
        if "href" in values:
            self.links.append(values["href"])
        if "src" in values:
            self.sources.append(values["src"])
        if re.fullmatch(r"h\d", name):
            self.levels.append(int(name[1]))
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name


@pytest.fixture(scope="module")
def outline(text):
    found = Outline()
    found.feed(text)
    assert found.open == []
    return found


def test_page_is_well_formed_and_accessible(outline, text):
    assert len(set(outline.ids)) == len(outline.ids)
    assert outline.levels[0] == 1
    assert all(after <= before + 1 for before, after in zip(outline.levels, outline.levels[1:], strict=False))
    assert '<html lang="en">' in text
    assert text.count('scope="col"') > 20
    assert text.count("<figcaption>") == text.count('class="plot"') == text.count('role="group"') - 1  # and the filters


def test_page_needs_nothing_from_outside(outline, text, path):
    assert outline.sources == []
    for link in outline.links:
        if link.startswith("#"):
            assert link[1:] in outline.ids
        elif not link.startswith("data:"):
            assert (path.parent / link).is_file(), link
    assert text.count("plotly.js v") == 1  # the library's banner: it is put in once


def test_every_experiment_is_told_in_full(text, directory):
    for study in load_results(Store.read(directory)).values():
        part = text.split(f'<section id="{study.id}">')[1].split("</section>")[0]
        for heading in ("What was published", "What we found", "What differs from the paper, and why"):
            assert heading in part, (study.id, heading)
        for deviation in study.about.deviations:
            assert str(escape(deviation)) in part
        for arm in study.arms:
            assert str(escape(arm.label)) in part
    for number in ("1,881 ± 1,950", "2,261 ± 582", "669 ± 17", "0.1 × 2⁻¹¹"):
        assert number in text


def test_the_page_opens_with_its_findings(text):
    """Headline, picture of the control on the original's axes, table of verdicts; then claims, then experiments."""
    parts = ('class="headline"', 'id="accumulated-charge-mirrored-mirror"', 'class="verdicts"', '<section id="claims">')
    places = [text.index(part) for part in (*parts, '<section id="chain-and-split">')]
    assert places == sorted(places)
    headline = text.split('<p class="headline">')[1].split("</p>")[0]
    assert "regretful choices of 10,000 on Accumulated-Charge, where 950 is the best possible, and " in headline
    table = text.split('class="verdicts"')[1].split("</table>")[0]
    theirs, ours = table.split('class="origin"')[1:]
    for claim in (claim for experiment in catalogue().values() if not experiment.table for claim in experiment.claims):
        assert f'href="#claim-{claim.id}"' in (theirs if claim.origin == "paper" else ours)
    counts = [int(number) for number in re.findall(r"Of (\d+) claims of (?:the paper|ours)", text)]
    assert counts == [theirs.count('class="pair"'), ours.count('class="pair"')]
    for claim in (claim for experiment in catalogue().values() if not experiment.table for claim in experiment.claims):
        assert f'href="#claim-{claim.id}"' in table
        assert len(claim.short) <= 40, claim.id


def test_networks_of_reduced_size_have_a_headline_that_says_so(tmp_path):
    names = ("accumulated-charge", "accumulated-charge-mirrored")
    results = load_results(Store.read(fill(tmp_path, names, seeds=2, reduced=1_500)))
    ends = [np.mean(results[name].arms[12].runs.at()[6]) for name in names]  # Chunked SARSA at 0.1 × 2⁻³
    results = {name: one.with_arms([_at_one_size(arm, 6) for arm in one.arms]) for name, one in results.items()}
    text = page_module.headline(results, catalogue())
    for number in ends:
        assert f" {number:,.0f} " in text
    assert "of 1,500 on" in text
    assert "(2 seeds of reduced length)" in text


def _at_one_size(arm, place):
    runs = arm.runs
    columns = {name: values[place : place + 1] for name, values in runs.columns.items()}
    exponents, sizes = runs.exponents[place : place + 1], runs.step_sizes[place : place + 1]
    return replace(arm, runs=replace(runs, exponents=exponents, step_sizes=sizes, columns=columns))


def test_no_verdict_stands_alone_where_a_control_says_otherwise(text):
    card = text.split('id="claim-charge-floor"')[1].split("</li>")[0]
    assert '<span class="status">holds</span>' in card
    assert 'Control: <span class="status">does not hold</span>' in card
    assert 'href="#claim-charge-sign"' in card
    row = text.split('href="#claim-charge-floor"')[1].split("</span>\n<span")[0]
    assert 'class="chip does-not-hold" href="#claim-charge-sign"' in row
    assert "with a control that says otherwise" in text


def test_claims_lead_to_what_shows_them(outline, text):
    cards = text.split('<ul class="claims">')[1].split("</section>")[0]
    links = re.findall(r'href="(#[^"]+)">See it', cards)
    assert {"#table-chain-and-split-step-sizes", "#accumulated-charge-mirrored-control", "#skewed-split-value"} <= set(
        links
    )
    assert {link[1:] for link in links} <= set(outline.ids)


def test_claims_of_studies_beside_the_run_directory(bare, tmp_path, monkeypatch):
    """They are in the same list, and link to files that are there."""
    monkeypatch.setattr(page_module, "save_all", lambda *_: [])
    results = Path(__file__).parents[2] / "results"
    shutil.copytree(results / "compression", tmp_path / "compression")
    (tmp_path / "deep").mkdir()
    shutil.copy(results / "deep" / "runs.parquet", tmp_path / "deep")
    shutil.copytree(bare, tmp_path / "run")
    page = build_report(tmp_path / "run")
    text = page.read_text(encoding="utf-8")
    assert 'href="../compression/tables/known.md">Its data' in text
    assert (page.parent / "../compression/tables/known.md").is_file()
    assert 'id="claim-deep-ppo"' in text
    assert "../deep/" not in text  # its tables were not copied
    card = text.split('id="claim-compressor-easy"')[1].split("</li>")[0]
    assert "With noise in the middle it solves them, too." in card


def test_how_it_was_made(text):
    made = text.split('<section id="made">')[1].split("</section>")[0]
    for piece in ("reproduce --profile paper", "abc", "Python 3.11", "numpy 2", "a processor", "2 cores", "here"):
        assert piece in made


def test_files_beside_the_page(path):
    figures = {file.name for file in (path.parent / "figures").iterdir()}
    assert {f"key-to-door-sweep.{kind}" for kind in ("svg", "pdf", "png")} <= figures
    assert not any("unfinished" in file.name for file in path.parent.rglob("*"))
    assert (path.parent / "tables" / "key-to-door-results.md").read_text().startswith("| arm | paper |")


def test_missing_arms_are_named(bare, tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "save_all", lambda *_: [])
    text = build_report(bare, tmp_path / "elsewhere").read_text()
    assert not (bare / "report.html").exists()
    for said_once in (
        "Not run at this profile: ",
        "no runs of full length: Chunked SARSA<",
        "of full length: C-factored<",
    ):
        assert text.count(said_once) == 1, said_once
    said = text.split("Not run at this profile: ")[1].split("</p>")[0]
    assert "Chunked SARSA and Expected-λ SARSA (Accumulated-Charge, mirrored)" in said
    assert "C-default and C-factored (Key-to-Door)" in said
    assert '<p class="headline">Of ' in text


def test_reduced_and_shortened_runs_are_not_passed_off_as_full(tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "save_all", lambda *_: [])
    reduced = fill(tmp_path / "reduced", ("key-to-door",), reduced=1_000, seeds=2)
    text = build_report(reduced).read_text()
    assert "At a reduced size: C-default (2 seeds, 1,000 episodes" in text
    assert "reduced size, see below" in text
    assert "after as many episodes" in text
    short = fill(tmp_path / "short", ("key-to-door",), length=1_000, seeds=2)
    text = build_report(short).read_text()
    assert "These runs are shorter than the protocol: 1,000 of 5,000 episodes" in text
    assert '<span class="status">holds<' not in text


def test_an_empty_directory_is_refused(tmp_path):
    with pytest.raises(DirectoryError, match="holds no runs"):
        build_report(tmp_path)


def test_a_protocol_of_ones_own_has_a_report_too(reproduce, tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "save_all", lambda *_: [])
    assert reproduce(seeds=3) == 0
    text = build_report(tmp_path / "run").read_text()
    assert '<section id="toy">' in text
    assert 'id="toy-sweep"' in text


def test_tables_put_many_seeds_beside_ten(tmp_path):
    study = load_results(Store.read(fill(tmp_path / "many", ("key-to-door",), seeds=25, networks=False)))["key-to-door"]
    table = results_table(study)
    assert "ours, 10 seeds" in table.columns
    assert "ours, up to 25 seeds" in table.columns
    for row, arm in zip(table.rows, study.arms[:5], strict=False):
        everything = arm.runs.at()
        assert row[2].startswith(f"{everything[:, :10].mean(axis=1).min():,.0f} ± ")
        assert row[4].startswith(f"{everything.mean(axis=1).min():,.0f} ± ")
    assert any(row[2] != row[4] for row in table.rows)
    step_sizes = step_size_table(study)
    assert len({len(row) for row in (*table.rows, table.columns)}) == 1
    assert len({len(row) for row in (*step_sizes.rows, step_sizes.columns)}) == 1


def test_plots_are_plotlys(directory):
    """Plotly's own checks accept every plot; every arm with runs is in the legend once."""
    import plotly.graph_objects as go

    studies = load_results(Store.read(directory))
    for study in studies.values():
        for plot in plots_of(study, studies, catalogue()):
            go.Figure({"data": plot.data, "layout": plot.layout})
            names = [trace["name"] for trace in plot.data if trace.get("showlegend", True)]
            assert len(set(names)) == len(names), plot.id
            assert {trace.get("xaxis", "x") for trace in plot.data} == {
                f"x{n}" for n in ("", *range(2, plot.panels + 1))
            }
            json.loads(json.dumps(plot.data, allow_nan=False))
    sweep = next(
        p for p in plots_of(studies["accumulated-charge"], studies, catalogue()) if p.id == "accumulated-charge-sweep"
    )
    line = next(trace for trace in sweep.data if trace["name"] == "SARSA(0.3)")
    runs = studies["accumulated-charge"].runs("sarsa-0.3")
    assert np.allclose(line["y"], runs.at().mean(axis=1), rtol=1e-5)
    assert np.allclose(line["x"], runs.step_sizes, rtol=1e-5)


def test_the_papers_scores_stand_in_the_sweep_at_the_step_sizes_that_it_selected(directory):
    """Table 1 and Table 5 of the paper: C-factored misses 669 of 5,000 with step size 0.1 × 2^−1."""
    studies = load_results(Store.read(directory))
    (sweep,) = (p for p in plots_of(studies["key-to-door"], studies, catalogue()) if p.id == "key-to-door-sweep")
    crosses = [trace for trace in sweep.data if "published" in trace["name"]]
    assert (0.05, 669) in {(trace["x"][0], trace["y"][0]) for trace in crosses}
    named = {number.arm for number in studies["key-to-door"].about.published}
    assert len({(trace["x"][0], trace["y"][0]) for trace in crosses}) == len(named)


HOSTILE = "</script><script>alert(1)</script>\"'<b>&"


def test_text_cannot_break_out_of_the_page(bare, tmp_path, monkeypatch):
    """Every text of an experiment, whatever it holds, is shown as it is."""
    store = Store.read(bare)
    studies = load_results(store)
    study = studies["key-to-door"]
    arms = tuple(replace(arm, label=HOSTILE, note=HOSTILE) for arm in study.arms)
    texts = {name: HOSTILE for name in ("title", "description", "score_label", "best_label")}
    about = replace(study.about, deviations=(HOSTILE, "half \ud800"), references=(HOSTILE,), **texts)
    monkeypatch.setattr(page_module, "save_all", lambda *_: [])
    monkeypatch.setattr(
        claims_module, "load_results", lambda _: {**studies, study.id: replace(study, about=about, arms=arms)}
    )
    text = build_report(bare, tmp_path / "hostile").read_text(encoding="utf-8")
    assert HOSTILE not in text
    assert "alert(1)" in text
    assert "half ?" in text  # half a surrogate pair, which no file can hold
    assert "<script>alert" not in text
    assert text.count("</script>") == text.count("<script")
    outline = Outline()
    outline.feed(text)
    assert outline.open == []


def test_numbers_are_json():
    assert numbers([1.0, np.nan, np.inf]) == [1.0, None, None]


def test_a_template_that_names_something_unknown_is_an_error(monkeypatch):
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError):
        render("page.html", title="nothing else")


@browser.needed
def test_in_a_browser(path, tmp_path):
    """No errors, no requests but for the page, every plot drawn, no sideways scrolling; pictures under build/."""
    with browser.Browser(tmp_path / "profile") as page:
        for width, name in ((400, "narrow"), (1400, "wide")):
            page.size(width)
            page.open(path)
            page.wait_for("document.documentElement.dataset.plots !== undefined")
            plots = page.ask("document.querySelectorAll('.plot').length")
            assert plots >= 15
            drawn = "document.querySelectorAll('.plot.js-plotly-plot').length"
            assert page.ask(drawn) == plots
            empty = "[...document.querySelectorAll('.plot')].filter(p => !p.querySelector('.main-svg .trace')).length"
            assert page.ask(empty) == 0
            assert page.ask("document.documentElement.scrollWidth") <= width
            inside = (
                "[...document.querySelectorAll('.plot .main-svg')].every(s => s.getBoundingClientRect().right <= %d)"
            )
            assert page.ask(inside % width)
            page.picture(BUILD / f"report-{name}.png")
            hints = "[...document.querySelectorAll('.scroll.wide .scrolls')].some(s => s.getClientRects().length)"
            assert page.ask(hints) == (name == "narrow")
        check_switches(page)
        check_filters(page)
        check_ticks(page)
        page.size(500)
        page.wait_for("document.querySelector('.plot .main-svg').getBoundingClientRect().right <= 500")
        assert page.errors == []
        assert set(page.requests) == {path.resolve().as_uri()}
    assert (BUILD / "report-narrow.png").stat().st_size > 50_000


def check_switches(page: browser.Browser) -> None:
    """The switches for intervals and logarithmic axes do what they say; the legend hides an arm with its band."""
    bands = (
        "document.getElementById('key-to-door-sweep').data.filter(t => t.meta === 'band' && t.visible === false).length"
    )
    switch = "document.querySelector('[data-plot=key-to-door-sweep][data-switch={}]').click()"
    assert page.ask(bands) == 6  # five fixed λ, the best of them in both panels
    page.ask(switch.format("bands"))
    page.ask(switch.format("bands"))
    page.wait_for(bands + " === 0")
    page.ask(switch.format("logy"))
    page.wait_for("document.getElementById('key-to-door-sweep').layout.yaxis.type === 'log'")
    assert page.ask("document.getElementById('key-to-door-sweep').layout.yaxis2.type") == "log"


def check_filters(page: browser.Browser) -> None:
    """Buttons and list hide the other claims; a link to a hidden claim shows all again."""
    shown = "document.querySelectorAll('.claims [data-status]:not([hidden])').length"
    total = page.ask(shown)
    page.ask("document.querySelector('.filters [data-status=\\'does not hold\\']').click()")
    assert 0 < page.ask(shown) < total
    assert page.ask(shown) == page.ask("document.querySelectorAll('.claims [data-status=\\'does not hold\\']').length")
    page.ask("document.querySelector('.filters select').value = 'Key-to-Door'")
    page.ask("document.querySelector('.filters select').dispatchEvent(new Event('change'))")
    assert page.ask("document.querySelector('.count').textContent") == f"{page.ask(shown)} of {total}"
    page.ask("location.hash = 'claim-gap-fastest'")
    page.wait_for(f"{shown} === {total}")


def check_ticks(page: browser.Browser) -> None:
    """An axis of less than two powers of ten has round numbers between them."""
    labels = "[...document.querySelectorAll('#accumulated-charge-loss .ytick text')].map(t => t.textContent)"
    assert len(page.ask(labels)) >= 3


def test_the_report_links_to_the_pages_of_studies_in_the_run_directory_or_beside_it(tmp_path):
    from chunked_td.lab.results.claims import LoadedDirectory
    from chunked_td.lab.study import Study

    study = Study("mine", "Mine", lambda profile: (), table="mine.parquet", page="mine.html")
    run, elsewhere = tmp_path / "runs" / "quick", tmp_path / "pages"

    def links(place, page):
        loaded = LoadedDirectory(run, None, {}, {"mine": place})
        return [found["link"] for found in study_pages(loaded, {"mine": study}, page)]

    assert links(run / "mine", run) == []  # no page there
    for place, address in ((run.parent / "mine", "../mine/mine.html"), (run / "mine", "mine/mine.html")):
        place.mkdir(parents=True)
        (place / "mine.html").write_text("a map")
        assert links(place, run) == [address]
        assert (elsewhere / links(place, elsewhere)[0]).resolve() == place / "mine.html"
