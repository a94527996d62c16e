"""What `chunked-td atlas` answers: its sentences, table and page, from runs with known scores."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

from chunked_td.lab.errors import DirectoryError
from chunked_td.lab.studies.atlas.page import ROWS, AtlasAnswer, build_page
from chunked_td.lab.studies.three_scores.methods import FIXED, RULE
from helpers import browser

FAMILIES = {"delay": False, "walk": False, "rooms": True}
MINE = "<b>mine</b> $\\frac{1}$"


def runs(levels, *, families=FAMILIES, seeds=20, noise=1e-3):
    """A table of runs. Fixed λs score λ, so that 1 is the best and 0 the worst; others what `levels` says.

    Args:
      levels: {method or (method, family) or (method, family, column): score}; 0.9 by default.
    """
    rng, rows = np.random.default_rng(1), []
    for family in families:
        for method in dict.fromkeys([*FIXED, RULE, *(key if isinstance(key, str) else key[0] for key in levels)]):
            for behaviour in ("given", "bonus"):
                for exponent in (0, -2):
                    for seed in range(seeds):
                        found = []
                        for column in ("values", "decisions") if behaviour == "given" else ("control",):
                            level = FIXED[method].lambda_source if method in FIXED else 0.9
                            for key in (method, (method, family), (method, family, column)):
                                level = levels.get(key, level)
                            found.append(level + 0.2 * exponent + noise * rng.normal())
                        rows.append((family, "1", behaviour, method, exponent, seed, found[0], found[-1]))
    columns = ["family", "setting", "behaviour", "method", "exponent", "seed", "score", "decision"]
    return pl.DataFrame(rows, columns, orient="row")


def test_a_method_of_yours_in_three_sentences():
    levels = {"mine": 0.7, ("mine", "walk"): 0.1, ("mine", "delay", "control"): 1.3, "kin": 0.72, ("kin", "walk"): 0.1}
    view = AtlasAnswer.of(runs(levels), {"mine": "Mine", "kin": "Kin"}, ["mine"])
    against, relative, worst = view.sentences("mine")
    assert against.startswith("Mine and the best single fixed λ: values 0.50 against 1.00, ")
    assert re.search(r"control 0\.70 against 1\.00, not told apart \(−0\.30 \[.*?\]; λ = 1, \w+\)\.$", against)
    assert "nearest relative is Kin" in relative
    assert "the package's rule has 0.90, 0.90 and 0.90" in relative
    assert (
        worst
        == "Mine is worst on values Random walk (0.10), decisions Random walk (0.10) and control Random walk (0.10)."
    )


def test_what_is_chosen_is_named_and_left_out_where_nothing_is_told_apart():
    alike = {(name, "walk"): 0.5 for name in FIXED} | {("mine", "walk"): 3.0}
    view = AtlasAnswer.of(runs({"mine": 0.7, **alike}, seeds=10, noise=0.1), {}, ["mine"])
    assert all(each.unclear == ("walk 1",) for each in view.scores.values())
    said = " ".join(view.caveats())
    assert "designed on: Delay, Random walk" in said
    assert "(marked *): Four rooms" in said
    assert "Left out of control, fixed λs not told apart: walk 1" in said
    assert "10 seeds" in said
    nothing = AtlasAnswer.of(runs({**alike, "mine": 0.7}, families=("walk",), noise=0.1), {}, ["mine"])
    assert "nothing is scored" in nothing.sentences("mine")[0]
    assert not nothing.shown


def test_without_a_method_it_is_about_the_rule_and_one_family_has_no_interval():
    view = AtlasAnswer.of(runs({}, families=("rooms",)), {}, [])
    assert view.subjects == (RULE,)
    assert "[" not in " ".join(view.sentences(RULE))
    assert "values 0.90 against 1.00 (λ = 1, " in view.sentences(RULE)[0]


def test_the_table_is_short_and_has_what_the_sentences_name():
    levels = {f"m{k}": 0.5 + k / 50 for k in range(12)} | {"mine": 0.2}
    view = AtlasAnswer.of(runs(levels), {"mine": "Mine"}, ["mine"])
    table = view.table(ROWS)
    assert len(table.rows) == ROWS
    names = [row[0] for row in table.rows]
    assert names[0] == "Mine"
    fixed = {view.label(each.best_fixed()) for each in view.scores.values()}
    assert {view.label(view.nearest("mine")), view.label(RULE), *fixed} <= set(names)
    assert len(view.table(None).rows) == len(view.methods) == len(FIXED) + 15  # the rule, tied, mine and twelve


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("map")
    runs({"mine": 4.0}).write_parquet(folder / "runs.parquet")
    return build_page(folder, {"mine": MINE}, ["mine"])


def test_the_page_works_alone_and_escapes_labels(page):
    text = page.read_text(encoding="utf-8")
    assert "<b>mine" not in text
    assert "&lt;b&gt;mine" in text
    assert all(source.startswith("data:") for source in re.findall(r'(?:src|href)="([^"]*)"', text))
    assert text.index("headline") < text.index("<img") < text.index("<table")
    assert (page.parent / "figures" / "scores-mine.svg").is_file()
    assert "and the best single fixed λ: values 4.00" in (page.parent / "tables" / "answer.md").read_text(
        encoding="utf-8"
    )
    with pytest.raises(DirectoryError, match=r"has no runs\.parquet"):
        build_page(page.parent / "tables", {})


@browser.needed
def test_the_page_in_a_browser(page, tmp_path):
    with browser.Browser(tmp_path / "profile") as window:
        for width in (1280, 390):
            window.size(width)
            window.open(page)
            assert window.ask("document.documentElement.scrollWidth") <= width
            assert window.ask("Array.from(document.images).every(image => image.naturalWidth > 100)")
        assert window.errors == []
