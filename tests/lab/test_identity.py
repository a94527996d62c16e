"""Stored results are a contract: names of code, settings, hashes and manifests stay what they were."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from chunked_td.lab import identity as identity_module
from chunked_td.lab.catalogue import catalogue, load_protocols
from chunked_td.lab.errors import DirectoryError, LabError
from chunked_td.lab.identity import check_id, identity, resolve, schedule_parts, schedule_text
from chunked_td.lab.running.plan import SweepOptions, make_plan
from chunked_td.lab.running.reproduce import reproduce
from chunked_td.lab.store.batch_store import Store, inspect_file
from chunked_td.lab.store.directory import RunDirectory
from chunked_td.lab.store.importing import load_npz, save_npz
from chunked_td.lab.store.manifest import Description, Manifest, describe
from chunked_td.lab.store.settings import BatchSettings, digest_of, family_of
from chunked_td.lab.study import NetworkSpec, misses_and_returns
from chunked_td.learners.schedule import Schedule, linear

RESULTS = Path(__file__).parents[2] / "results"
FILES = sorted(path for path in RESULTS.rglob("*.parquet") if path.parent.parent.name in ("batches", "cpu", "gpu"))


def test_every_stored_batch_belongs_to_an_arm_as_it_is_now():
    """The family in each file's settings is, value for value, what this version would write."""
    assert len(FILES) > 100
    protocols = {protocol.id: protocol for study in catalogue().values() for protocol in study.protocols("paper")}
    for path in FILES:
        settings = inspect_file(path).settings
        protocol = protocols[settings.protocol]
        assert settings.family == family_of(protocol, protocol.arm(settings.arm)), path
        assert path.stem == settings.name


def test_nothing_of_the_stored_results_would_run_again(capsys):
    """The commands of results/README.md, as dry runs."""
    every = {"profile": "paper", "out": RESULTS / "paper", "dry_run": True}
    assert reproduce(list(stored_requests()), **every) == 0
    assert reproduce(["key-to-door"], arms=["fixed", "oracle"], seeds=100, **every) == 0
    assert reproduce(["key-to-door"], arms=["network"], seeds=40, **every) == 0
    assert reproduce(["chain-and-split"], arms=["sarsa-0", "sarsa-1", "chunked"], seeds=30, **every) == 0
    assert reproduce(["accumulated-charge"], arms=["fixed"], seeds=30, **every) == 0
    said = capsys.readouterr().out
    assert [line.split()[0] for line in said.splitlines() if "estimate" in line] == ["0"] * 5


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("manifest.json")), ids=lambda path: str(path.parent.name))
def test_stored_manifests_are_read_and_written_without_a_change(path):
    text = path.read_text(encoding="utf-8")
    assert Manifest.from_text(text).to_text() == text


def stored_requests():
    """{protocol id: request} of the stored results."""
    return Manifest.from_text((RESULTS / "paper" / "manifest.json").read_text(encoding="utf-8")).protocols


def test_descriptions_of_the_catalogue_are_those_of_the_stored_manifest():
    for name, request in stored_requests().items():
        assert request.description == describe(catalogue()[name].protocol)


def test_code_keeps_its_stored_name_wherever_it_moves(monkeypatch):
    assert identity(misses_and_returns) == "chunked_td.lab.protocols:misses_and_returns"
    assert resolve("chunked_td.lab.protocols:misses_and_returns") is misses_and_returns
    room = load_protocols(["chain-and-split"])[0].scoring
    assert room.__module__ == "chunked_td.lab.studies.chain_and_split.protocol"
    assert identity(room) == "chunked_td.lab.experiments.chain_and_split:action_gap"
    monkeypatch.setitem(identity_module.STORED_MODULES, "chunked_td.old", "chunked_td.lab.study")
    monkeypatch.setitem(identity_module._NOW_TO_STORED, "chunked_td.lab.study", "chunked_td.old")
    assert identity("chunked_td.lab.study:misses_and_returns") == "chunked_td.old:misses_and_returns"
    assert resolve("chunked_td.old:misses_and_returns") is misses_and_returns


def test_every_name_in_stored_settings_still_leads_to_code():
    for protocol in load_protocols():
        for thing in (protocol.environment.dynamics, protocol.scoring, protocol.runner):
            assert callable(resolve(thing))


def test_users_code_is_known_by_its_source():
    def one(runs):
        return 1

    def two(runs):
        return 2

    assert identity(one) != identity(two)
    assert identity(one).startswith("test_users_code_is_known_by_its_source.<locals>.one@")
    assert NetworkSpec("mine", one).stored_name != NetworkSpec("mine", two).stored_name
    assert NetworkSpec("mine", misses_and_returns).stored_name == "network:mine"


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (Schedule(((0, 1.0),)), "Exploration(first=1.0, last=1.0, hold=0, anneal=0)"),
        (Schedule(((0, 1.0), (1_000, 0.1)), hold=True), "Exploration(first=1.0, last=0.1, hold=1000, anneal=0)"),
        (linear(1.0, 0.1, 500), "Exploration(first=1.0, last=0.1, hold=0, anneal=500)"),
        (Schedule(((0, 1.0), (2, 1.0), (5, 0.1))), "Exploration(first=1.0, last=0.1, hold=2, anneal=3)"),
        (Schedule(((0, 1.0), (2, 0.5), (5, 0.1))), "Schedule(points=((0, 1.0), (2, 0.5), (5, 0.1)), hold=False)"),
        (Schedule(((3, 1.0), (5, 0.1))), "Schedule(points=((3, 1.0), (5, 0.1)), hold=False)"),
    ],
)
def test_schedules_are_written_as_they_were_and_come_back(schedule, text):
    assert schedule_text(schedule) == text
    about = replace(describe(load_protocols(["key-to-door"])[0]), exploration=schedule)
    assert Description.from_json(json.loads(json.dumps(about.to_json()))) == about
    assert (schedule_parts(schedule) is None) == text.startswith("Schedule")


@pytest.mark.parametrize("bad", ["", "..", ".hidden", "a/b", "../up", "a b", "-x", None, 3, "a\\b", 'a"b'])
def test_ids_that_are_not_safe_are_refused(bad):
    with pytest.raises(ValueError, match="must be made of letters"):
        check_id("id", bad)


def changed(path, *keys, value):
    """The stored manifest with one value changed, and a checksum that fits."""
    values = json.loads(path.read_text(encoding="utf-8"))
    values.pop("checksum")
    place = values
    for key in keys[:-1]:
        place = place[key]
    if value is KeyError:
        del place[keys[-1]]
    else:
        place[keys[-1]] = value
    return json.dumps({**values, "checksum": digest_of(values)})


DOOR = ("protocols", "key-to-door")


@pytest.mark.parametrize(
    ("keys", "value", "words"),
    [
        ((*DOOR, "description", "id"), "../../evil", "id of an experiment must be made of letters"),
        ((*DOOR, "description", "id"), "other", "must have its own description"),
        ((*DOOR, "description", "arms", 0, "id"), "<script>", "id of an arm must be made of letters"),
        ((*DOOR, "description", "title"), 3, "title of a description must be a text, got 3"),
        ((*DOOR, "description", "best"), "many", "best of a description must be a number or null, got 'many'"),
        ((*DOOR, "description", "title"), KeyError, "must have the keys"),
        (
            (*DOOR, "arms", "c-default", "seeds"),
            [0, "1"],
            "each of seeds of c-default of arms of a protocol must be a whole number",
        ),
        ((*DOOR, "arms", "c-default", "episodes"), 0, "episodes of a request must be a whole number from 1, got 0"),
        ((*DOOR, "arms", "../x"), {}, "id of an arm must be made of letters"),
        (("format",), 2, "format must be 1, got 2"),
    ],
)
def test_a_manifest_that_is_wrong_is_refused_with_its_reason(tmp_path, keys, value, words):
    (tmp_path / "manifest.json").write_text(changed(RESULTS / "paper" / "manifest.json", *keys, value=value))
    with pytest.raises(DirectoryError) as refusal:
        RunDirectory.for_reading(tmp_path)
    assert words in str(refusal.value)
    assert "will be reused" in str(refusal.value)


def test_a_batch_with_an_unsafe_id_is_not_taken_in(toy, tmp_path):
    batch = make_plan([toy], SweepOptions(networks=False)).batches[0]
    for name in ("protocol", "arm"):
        evil = replace(batch.settings, family={**batch.settings.family, name: "../../outside"})
        (tmp_path / "evil.npz").write_bytes(save_npz({}, evil))
        with pytest.raises(LabError, match="must be made of letters"):
            load_npz(tmp_path / "evil.npz")


def test_settings_come_back_as_they_were(toy):
    for batch in make_plan([toy], SweepOptions(networks=False)).batches:
        back = BatchSettings.from_json(json.loads(json.dumps(batch.settings.to_json())))
        assert back == batch.settings
        assert (back.key, back.name) == (batch.settings.key, batch.settings.name)


def test_the_committed_table_has_the_rows_that_were_asked_for():
    table = Store.read(RESULTS / "paper").table("skewed-split")
    assert table.filter(pl.col("arm") == "chunked").height == 3 * 20 * 100
