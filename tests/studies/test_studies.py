"""Every study: its claims keep their words and verdicts, its page says what its runs say, its rows have a key."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from studies.runner import data, pages
from studies.runner.criteria import STATUSES, judged

ROOT = Path(__file__).parents[2]
STUDIES = data.load_studies()
CLAIMS = json.loads(Path(__file__).with_name("claims.json").read_text("utf-8"))
MOVED = {
    "chain-and-split": "chain_and_split",
    "accumulated-charge": "accumulated_charge",
    "accumulated-charge-mirrored": "accumulated_charge",
    "charge-signs": "accumulated_charge",
    "key-to-door": "key_to_door",
    "key-to-door-scalar": "key_to_door",
    "skewed-split": "skewed_split",
    "three-scores": "credit",
    "linear-key-to-door": "linear_key_to_door",
    "memory-marks": "memory",
    "deep": "networks",
    "hidden": "networks",
    "luck": "networks",
    "compression": "history_compression",
    "tokens": "tokens",
}
"""Studies of the stored verdicts, and the folder that has their claims now."""
KEPT = {"Chunking is robust to errors of the model where planning with the same model is not.": "wrong_models"}
"""Single claims of withdrawn studies."""


@pytest.fixture(scope="module", params=STUDIES)
def study(request):
    return STUDIES[request.param]


@pytest.fixture(scope="module")
def table(study):
    return data.stored(study)


@pytest.fixture(scope="module")
def claims(study, table):
    return judged(study.CLAIMS, table)


def test_claims_keep_their_text_criterion_verdict_and_numbers(study, claims):
    name = data.folder(study).name
    expected = [each for each in CLAIMS if name in (MOVED.get(each["study"]), KEPT.get(each["text"]))]
    found = {(each.claim, each.criterion, each.source): (each.verdict.status, each.verdict.text) for each in claims}
    for each in expected:
        key = each["text"], each["criterion"], each["source"]
        assert key in found, each["text"]
        assert found[key] == (each["status"], each["evidence"]), each["text"]
    assert len(found) == len(study.CLAIMS)


def test_controls_are_claims_of_the_study(claims):
    names = {each.name for each in claims}
    assert all(set(each.controls) <= names for each in claims)
    assert all(each.verdict.status in STATUSES for each in claims)


def test_the_page_says_what_the_runs_say(study, table):
    for before, after in pages.pages_of(study, table).values():
        assert before == after, f"write it with: python -m studies report {data.folder(study).name}"


def test_the_page_shows_figures_that_are_drawn(study, table):
    page = (data.folder(study) / "README.md").read_text("utf-8")
    drawn = set(pages.figures_of(study, table))
    assert drawn == {path.stem for path in (data.folder(study) / "figures").glob("*.svg")}
    shown = {part.partition(".svg")[0] for part in page.split("figures/")[1:]}
    assert shown
    assert shown <= drawn


def test_the_page_on_the_paper_says_what_the_runs_say():
    studies = {name: study for name, study in STUDIES.items() if any(map(pages.is_of_the_paper, study.CLAIMS))}
    text = pages.of_the_paper(studies, {name: data.stored(study) for name, study in studies.items()})
    page = {data.HERE / "paper.md": (data.HERE / "paper.md").read_text("utf-8")}
    assert pages.fill(page, {"claims": text}) == page
    assert "The paper's 16 claims by verdict:" in text


def test_every_row_is_known_by_its_key(study):
    table = pl.read_parquet(data.folder(study) / "runs.parquet", columns=list(study.KEY))
    assert not table.is_duplicated().any()
    assert not any(table[name].is_null().any() for name in study.KEY)


def test_every_row_has_a_provenance(study):
    rows = pl.read_parquet(data.folder(study) / "runs.parquet", columns=["arm", "seed"]).unique()
    sources = data.provenance(study)
    assert all(set(each["session"]) >= {"command", "commit", "date", "machine", "precision"} for each in sources)
    covered = {(arm, seed) for each in sources for arm in each["arms"] for seed in each["seeds"]}
    assert set(rows.rows()) <= covered
