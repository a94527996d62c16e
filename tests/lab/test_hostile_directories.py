"""Run directories and results from strangers: what is wrong is named, nothing is written elsewhere, nothing hangs."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest

from chunked_td._archives import pack
from chunked_td._files import write_atomically
from chunked_td.cli.claims import Claims
from chunked_td.cli.report import build
from chunked_td.lab.errors import DirectoryError, LabError, guarded
from chunked_td.lab.report.page import build_report
from chunked_td.lab.store import certify
from chunked_td.lab.store.batch_store import METADATA_KEY, Store
from chunked_td.lab.store.certify import sha256
from chunked_td.lab.store.directory import RunDirectory
from chunked_td.lab.store.importing import load_npz
from chunked_td.lab.store.log import RunLog
from chunked_td.lab.store.settings import digest_columns, digest_of
from helpers.lab_helpers import TOY, contents, import_batches


@pytest.fixture
def run(reproduce, tmp_path):
    assert reproduce(quiet=True) == 0
    return tmp_path / "run"


def batches(run):
    return sorted(run.glob("batches/*/*.parquet"))


def record(run, path):
    with (run / "digests.sha256").open("a") as file:
        file.write(f"{sha256(path.read_bytes())}  {path.relative_to(run).as_posix()}\n")


# ---- digests


def test_every_stored_batch_has_a_digest_that_other_programs_check(run):
    lines = (run / "digests.sha256").read_text().splitlines()
    assert sorted(lines) == sorted(f"{sha256(p.read_bytes())}  {p.relative_to(run).as_posix()}" for p in batches(run))


def test_flipped_bits_are_found_before_any_parser_reads(run, monkeypatch):
    victim = batches(run)[0]
    content, rng = victim.read_bytes(), np.random.default_rng(0)
    for place in rng.integers(len(content), size=40):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        victim.write_bytes(damaged)
        found = Store.read(run).damaged
        assert [damage.path for damage in found] == [victim]
        assert "its bytes do not match" in found[0].reason


def rename_arm(path, to):
    """The numbers of one arm under the name of another; all that the file says of itself agrees."""
    header = pl.read_parquet_metadata(path)[METADATA_KEY]
    table = pl.read_parquet(path).with_columns(pl.lit(to).alias("arm"))
    table.write_parquet(path, metadata={METADATA_KEY: header}, compression="zstd")


@pytest.mark.parametrize("digest", ["old", "none", "forged"])
def test_numbers_never_appear_under_another_arm(run, capsys, digest):
    first, *_, last = batches(run)
    rename_arm(first, "sarsa-1")
    rename_arm(last, "sarsa-0")
    if digest == "none":
        (run / "digests.sha256").unlink()
    elif digest == "forged":
        record(run, first)
        record(run, last)
    assert Claims(run).run() == 1
    assert str(first) in capsys.readouterr().err


def test_report_and_claims_name_damaged_files_and_fail(run, capsys):
    victim = batches(run)[0]
    victim.write_bytes(victim.read_bytes()[:-1])
    for command in (Claims(run).run, lambda: build(run, (TOY,), only_if_stale=False, open_it=False)):
        assert command() == 1
        said = capsys.readouterr().err
        assert f"damaged: {victim}" in said
        assert "reproduce" in said


def test_a_directory_without_digests_is_read_in_full_and_recorded(run, reproduce, capsys):
    before, text = contents(run), (run / "digests.sha256").read_text()
    (run / "digests.sha256").unlink()
    assert Claims(run).run() == 0
    assert "6 stored files had no digest" in capsys.readouterr().err
    assert not (run / "digests.sha256").exists()
    assert reproduce() == 0
    said = capsys.readouterr()
    assert "recorded now" in said.err
    assert "nothing to do" in said.out
    assert sorted((run / "digests.sha256").read_text().splitlines()) == sorted(text.splitlines())
    assert contents(run) == before


def test_a_file_that_ends_its_reader_is_named_and_the_others_are_read(tmp_path, monkeypatch):
    reader = tmp_path / "python"
    reader.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        "    path = json.loads(line)\n"
        "    if 'bad' in path: os.abort()\n"
        "    print(json.dumps([path, 'digest', '']), flush=True)\n"
    )
    reader.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(reader))
    paths = [tmp_path / name for name in ("a", "bad", "b")]
    found = list(certify.certify(paths))
    assert [(path.name, bool(reason)) for path, _, reason in found] == [("a", False), ("bad", True), ("b", False)]


def test_a_file_that_claims_more_rows_than_it_can_hold_is_refused(run):
    victim = batches(run)[0]
    header = json.loads(pl.read_parquet_metadata(victim)[METADATA_KEY])
    kinds, rows = pl.read_parquet(victim).schema, 3_000_000
    columns = {n: pl.Series([None], dtype=k).new_from_index(0, rows) for n, k in kinds.items()}
    pl.DataFrame(columns).write_parquet(victim, metadata={METADATA_KEY: json.dumps(header)}, compression="zstd")
    record(run, victim)
    with pytest.raises(LabError, match=rf"{victim.name}: it must have 80 rows"):
        Store.read(run).table("toy")


def test_a_file_that_changes_after_its_check_is_not_read(run):
    store, victim = Store.read(run), batches(run)[0]
    metadata = {METADATA_KEY: pl.read_parquet_metadata(victim)[METADATA_KEY]}
    pl.read_parquet(victim).write_parquet(victim, metadata=metadata, compression="uncompressed")  # the same rows
    with pytest.raises(LabError, match=rf"{victim.name}: it has changed since it was checked"):
        store.table("toy")


def test_a_key_that_is_not_that_of_the_settings_is_found(run, capsys):
    victim = batches(run)[0]
    header = json.loads(pl.read_parquet_metadata(victim)[METADATA_KEY])
    header["key"] = header["key"][::-1]
    pl.read_parquet(victim).write_parquet(victim, metadata={METADATA_KEY: json.dumps(header)})
    record(run, victim)
    assert Claims(run).run() == 1
    assert f"{victim.name}: its name, its key and its settings do not belong together" in capsys.readouterr().err


def test_a_second_digest_of_a_file_is_a_note(run, capsys):
    name = batches(run)[0].relative_to(run).as_posix()
    with (run / "digests.sha256").open("a") as lines:
        lines.write(f"{'0' * 64}  {name}\n")
    assert Claims(run).run() == 0
    assert "note: 1 stored files have more than one digest" in capsys.readouterr().err


def test_a_second_digest_of_a_table_is_a_note(run, capsys):
    folder = run / "hidden"
    folder.mkdir()
    pl.DataFrame({"a": [1]}).write_parquet(folder / "runs.parquet")
    digest = hashlib.sha256((folder / "runs.parquet").read_bytes()).hexdigest()
    for lines, noted in (([digest], False), ([digest, "0" * 64], True)):
        (folder / "digests.sha256").write_text("".join(f"{line}  runs.parquet\n" for line in lines))
        Claims(run).run()
        assert (f"{folder / 'runs.parquet'} has more than one digest" in capsys.readouterr().err) == noted


@pytest.mark.parametrize("content", [b"[]", b"", b"PAR1junkPAR1", "another table", "a digest of something else"])
def test_tables_of_studies_are_checked_and_the_other_claims_are_judged(run, capsys, content):
    folder = run / "hidden"
    folder.mkdir()
    if isinstance(content, bytes):
        (folder / "runs.parquet").write_bytes(content)
    else:
        pl.DataFrame({"a": [1]}).write_parquet(folder / "runs.parquet")
    if content == "a digest of something else":
        (folder / "digests.sha256").write_text(f"{'0' * 64}  runs.parquet\n")
    code, said = Claims(run).run(), capsys.readouterr()
    damaged = [line for line in said.out.splitlines() if line.startswith("damaged: ")]
    if content == "another table":
        assert "its table cannot be judged" in said.out
        assert not damaged
    else:
        assert code == 1
        assert str(folder / "runs.parquet") in damaged[0]
    assert "NOT RUN" in said.out


# ---- what is not ours


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["fifo", "folder", "link", "device"])
@pytest.mark.parametrize("name", ["lock", "owner.json", "manifest.json", "log.jsonl", "digests.sha256", "batch"])
def test_things_that_are_not_files_are_refused(run, tmp_path, reproduce, capsys, name, kind):
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    path = batches(run)[0] if name == "batch" else run / name
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(outside if kind == "link" else "/dev/zero")
    code = reproduce()
    said = capsys.readouterr().err
    assert code == (0 if name == "batch" else 3)
    assert path.name in said
    assert "must be a regular file, got a" in said
    assert outside.read_text() == "untouched"


def test_links_among_the_folders_lead_nowhere(run, tmp_path, reproduce, capsys):
    outside = tmp_path / "outside"
    outside.mkdir()
    (run / "batches" / "toy").rename(tmp_path / "kept")
    (run / "batches" / "toy").symlink_to(outside)
    assert reproduce() == 3
    assert "symbolic link" in capsys.readouterr().err
    (run / "batches" / "toy").unlink()
    (tmp_path / "kept").rename(run / "batches" / "toy")
    (run / "figures").symlink_to(outside)
    with pytest.raises(DirectoryError, match="figures lies outside"):
        build_report(run)
    with RunDirectory.for_writing(run) as directory, pytest.raises(DirectoryError, match="lies outside"):
        directory.write(run / ".." / "outside" / "x", b"")
    assert list(outside.iterdir()) == []


def test_only_our_own_unfinished_files_are_deleted(run, reproduce, monkeypatch):
    mine = [run / "notes.unfinished", run / "draft.12345678.unfinished", run / "my" / "x.parquet.12345678.unfinished"]
    mine[2].parent.mkdir()
    for path in mine:
        path.write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        patch.setattr("pathlib.Path.unlink", lambda *_: None)
        for path in (run / "manifest.json", batches(run)[0]):
            with pytest.raises(KeyboardInterrupt):
                write_atomically(path, b"half")
    assert len(list(run.rglob("*.unfinished"))) == 5
    assert reproduce() == 0
    assert sorted(run.rglob("*.unfinished")) == sorted(mine)


def test_any_name_will_do_for_a_directory(reproduce, tmp_path, capsys):
    out = tmp_path / "a [1] *?"
    assert reproduce(out=out) == 0
    before = contents(out)
    assert reproduce(out=out) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert Store.read(out).table("toy").height == 6 * 80
    assert contents(out) == before


# ---- what comes in


def npz(path, run, change=None, **columns):
    victim = batches(run)[0]
    settings = json.loads(pl.read_parquet_metadata(victim)[METADATA_KEY])["settings"]
    table = pl.read_parquet(victim)
    found = {name: table[name].to_numpy() for name in table.columns if name != "arm"} | columns
    settings |= change or {}
    head = {"settings": settings, "digest": digest_columns(found), "columns": list(found)}
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pack({"__header__": np.array(json.dumps(head)), **found}))
    return path


@pytest.mark.parametrize("key", ["protocol", "arm"])
@pytest.mark.parametrize("name", ["../../outside", "/tmp/outside", "..", "a/b", "a\0b", "x" * 300, '"><b>', ""])
def test_ids_of_received_results_stay_in_the_directory(run, tmp_path, capsys, key, name):
    before = sorted(tmp_path.rglob("*"))
    source = npz(tmp_path / "from" / "x.npz", run, {key: name})
    assert import_batches(source.parent, out=run, experiments=[TOY]) == 1
    assert "x.npz" in capsys.readouterr().err
    assert set(tmp_path.rglob("*")) - set(before) <= {source, source.parent, run / "lock"}


@pytest.mark.parametrize(
    "columns",
    [
        {"seed": np.zeros(80, np.int64)},
        {"episode": np.arange(80.0)},
        {"score": np.zeros(79)},
        {"score": np.zeros(80, np.int32)},
        {"a/b": np.zeros(80)},
    ],
)
def test_columns_that_are_not_those_of_the_settings_are_refused(run, tmp_path, columns):
    with pytest.raises(LabError, match="column"):
        load_npz(npz(tmp_path / "x.npz", run, **columns))


def test_received_results_are_checked_by_their_digest(run, tmp_path):
    path = npz(tmp_path / "x.npz", run)
    content, rng = path.read_bytes(), np.random.default_rng(0)
    for place in rng.integers(len(content), size=60):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(LabError, match=r"x\.npz"):
            load_npz(path)
    path.write_bytes(content)
    with np.load(path) as stored:
        arrays = dict(stored)
    arrays["score"] = arrays["score"] + 1.0  # a whole archive with other numbers
    path.write_bytes(pack(arrays))
    with pytest.raises(LabError, match="do not match its checksum"):
        load_npz(path)


def rewrite_manifest(run, change):
    values = json.loads((run / "manifest.json").read_text())
    values.pop("checksum")
    values = change(values)
    (run / "manifest.json").write_text(json.dumps({**values, "checksum": digest_of(values)}))


@pytest.mark.parametrize("name", ["../../outside/x", "/tmp/x", "..", 'x"><script>alert(1)</script>', "x" * 101])
def test_ids_in_a_manifest_are_checked(run, tmp_path, name):
    rewrite_manifest(run, lambda v: json.loads(json.dumps(v).replace('"toy"', json.dumps(name))))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DirectoryError, match=r"manifest\.json cannot be used: id of an experiment must be"):
        build_report(run)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "change",
    [
        {"exploration": {"points": [5], "hold": False}},
        {"exploration": {"points": [[0, float("nan")]], "hold": False}},
        {"step_size_base": float("inf")},
        {"seeds": 10**30},
        {"title": "\ud800"},
    ],
)
def test_values_in_a_manifest_are_checked(run, change):
    def edit(values):
        values["protocols"]["toy"]["description"] |= change
        return values

    rewrite_manifest(run, edit)
    with pytest.raises(DirectoryError, match=r"manifest\.json cannot be used"):
        Store.read(run)


def test_texts_of_a_manifest_are_text_on_the_page(run):
    live = "</script><script>alert(1)</script><img src=x onerror=alert(2)>$\\frac"

    def edit(values):
        about = values["protocols"]["toy"]["description"]
        about |= {"title": live, "description": live, "score_label": live, "deviations": [live], "references": [live]}
        for arm in about["arms"]:
            arm |= {"label": live, "note": live}
        return values

    rewrite_manifest(run, edit)
    RunLog(run).write("session", command=live, host=live, versions={live: live}, processor=live)
    page = build_report(run).read_text()
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert "<img src=x" not in page


def test_malformed_logs_do_not_stop_anything(run, tmp_path, reproduce):
    lines = ['{"event": "batch", "runs": 1e999}', '{"event": 5, "self": 1, "values": 2}', "[" * 100_000, "\xff", "[]"]
    lines += [
        '{"event": "batch", "seconds": "x", "steps": -1e300}',
        '{"event": "session", "host": "\\ud800", "cores": {}}',
    ]
    (run / "log.jsonl").write_text("\n".join(lines), encoding="latin1")
    assert [record.runs for record in RunLog(run).batches()] == [0, 0]
    source = npz(tmp_path / "from" / "x.npz", run, {"version": 2})
    (source.parent / "log.jsonl").write_text("\n".join(lines), encoding="latin1")
    assert import_batches(source.parent, out=run, experiments=[TOY]) == 0
    assert reproduce() == 0
    build_report(run)


COMMAND = """
from chunked_td import cli

def ready(restore=cli.restore):
    restore()
    print("ready", flush=True)

cli.restore = ready
cli.main()
"""
"""The command, which says when Ctrl-C begins to raise KeyboardInterrupt."""


@pytest.mark.parametrize("delay", [0, 0.05, 0.4, 1.2])  # any will do: wherever it falls, there is no traceback
def test_an_interrupt_ends_in_a_sentence(run, tmp_path, delay):
    """While modules load, and while results are imported."""
    source = npz(tmp_path / "from" / "x.npz", run, {"version": 2})
    script = tmp_path / "chunked-td"
    script.write_text(COMMAND)
    command = [sys.executable, script, "reproduce", TOY, "--import", str(source.parent), "--out", str(run)]
    process = subprocess.Popen([*command, "--no-networks"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode in (0, 130), said
    assert "Traceback" not in said


def test_an_interrupt_that_python_turned_into_another_error_is_one(capsys):
    """Python 3.11 raises RuntimeError from the KeyboardInterrupt that comes while a class is made."""

    @guarded
    def loads():
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    @guarded
    def fails():
        raise RuntimeError("something else") from ValueError()

    assert loads() == 130
    assert capsys.readouterr().err.startswith("interrupted; every finished batch is kept")
    with pytest.raises(RuntimeError, match="something else"):
        fails()
