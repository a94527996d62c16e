"""The store: what is written survives, what is damaged is noticed, what is there is not repeated."""

from __future__ import annotations

import errno
import json
import os

import numpy as np
import polars as pl
import pytest

from chunked_td.lab.errors import DirectoryError, LabError, WriteError
from chunked_td.lab.running.batches import Batch, execute
from chunked_td.lab.store.batch_store import Store, encode, inspect_file
from chunked_td.lab.store.directory import RunDirectory
from chunked_td.lab.store.importing import load_npz, save_npz
from chunked_td.lab.store.manifest import ArmRequest
from helpers.lab_helpers import TOY, contents, start


def batch_of(toy, seeds=(0, 1), episodes=40):
    pairs = tuple((seed, exponent) for seed in seeds for exponent in toy.exponents)
    return Batch(toy, toy.arms[0], pairs, episodes, toy.record_at(episodes))


def test_the_table_is_what_the_batch_gave(toy, tmp_path):
    batch = batch_of(toy)
    columns = execute(batch)
    with RunDirectory.for_writing(tmp_path) as directory:
        Store(directory).write(batch.settings, columns)
        table = Store(directory).frame([ArmRequest.of(batch.settings)])
    assert table.columns == ["arm", "seed", "exponent", "step_size", "episode", "score", "mean_return"]
    assert table.height == batch.rows == 2 * 2 * 4
    row = table.row(
        by_predicate=(pl.col("seed") == 1) & (pl.col("exponent") == -1) & (pl.col("episode") == 30), named=True
    )
    place = 3 * 4 + 2  # runs are seed by seed, then exponents 0, −1; checkpoints 10, 20, 30, 40
    assert row["score"] == columns["score"][place]
    assert row["step_size"] == 0.05


def test_the_same_numbers_give_the_same_bytes(toy):
    batch = batch_of(toy)
    first, second = (encode(batch.settings, execute(batch)) for _ in range(2))
    assert first == second
    changed = execute(batch)
    changed["score"][0] += 1
    assert encode(batch.settings, changed) != first


@pytest.mark.parametrize("part", ["seeds", "episodes", "arm", "protocol"])
def test_whatever_determines_a_batch_changes_its_key(toy, part):
    from dataclasses import replace

    batch = batch_of(toy)
    other = {
        "seeds": batch_of(toy, seeds=(0, 2)),
        "episodes": batch_of(toy, episodes=30),
        "arm": replace(batch, arm=replace(batch.arm, lambda_source=0.25)),
        "protocol": replace(batch, protocol=replace(toy, discount=0.9)),
    }[part]
    assert other.settings.key != batch.settings.key
    assert (other.settings.family_key == batch.settings.family_key) == (part in ("seeds", "episodes"))


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def empty(path):
    path.write_bytes(b"")


def foreign(path):
    pl.DataFrame({"a": [1, 2]}).write_parquet(path)


def swap(path):
    other = next(p for p in sorted(path.parent.glob("*.parquet")) if p != path)
    path.write_bytes(other.read_bytes())


def alter(path):
    header = pl.read_parquet_metadata(path)["chunked_td"]
    table = pl.read_parquet(path).with_columns(pl.col("score") + 1)
    table.write_parquet(path, metadata={"chunked_td": header})


def resettle(path):
    header = json.loads(pl.read_parquet_metadata(path)["chunked_td"])
    header["settings"]["discount"] = 0.5
    pl.read_parquet(path).write_parquet(path, metadata={"chunked_td": json.dumps(header)})


@pytest.mark.parametrize("harm", [truncate, empty, foreign, swap, alter, resettle])
def test_a_damaged_file_is_reported_and_done_again(reproduce, tmp_path, capsys, harm):
    assert reproduce() == 0
    before = contents(tmp_path / "run")
    victim = sorted((tmp_path / "run").glob("batches/toy/*.parquet"))[0]
    harm(victim)
    harmed = victim.read_bytes()
    assert len(Store.read(tmp_path / "run").damaged) == 1
    capsys.readouterr()
    assert reproduce() == 0
    said = capsys.readouterr()
    assert f"damaged: {victim}" in said.err
    assert "20 runs in 1 batches" in said.out
    assert contents(tmp_path / "run") == before
    assert victim.with_suffix(".parquet.damaged").read_bytes() == harmed


def test_fewer_seeds_arms_and_episodes_are_read_from_what_is_there(reproduce, tmp_path, capsys):
    assert reproduce() == 0
    capsys.readouterr()
    for options in ({"seeds": 5}, {"arms": ["sarsa-0"]}, {"episodes": 20}, {"seeds": 13, "episodes": 30}):
        assert reproduce(**options) == 0
        assert "nothing to do" in capsys.readouterr().out
    assert reproduce(episodes=25) == 0  # no checkpoint there
    assert "120 runs in 6 batches" in capsys.readouterr().out


def test_more_seeds_run_only_what_is_missing(reproduce, tmp_path, capsys):
    assert reproduce(seeds=5, arms=["sarsa-0"]) == 0
    capsys.readouterr()
    assert reproduce(seeds=20, arms=["sarsa-0"]) == 0
    assert "30 runs in 2 batches, 10 runs are there already" in capsys.readouterr().out
    assert reproduce(out=tmp_path / "straight", seeds=20, arms=["sarsa-0"]) == 0
    tables = [Store.read(tmp_path / name).table("toy") for name in ("run", "straight")]
    assert tables[0].equals(tables[1])
    assert tables[0].height == 20 * 2 * 4


def test_a_table_holds_what_was_last_asked_for(reproduce, tmp_path):
    assert reproduce() == 0
    assert reproduce(seeds=3, episodes=20, arms=["sarsa-1"]) == 0
    table = Store.read(tmp_path / "run").table("toy")
    asked = table.filter(pl.col("arm") == "sarsa-1")
    assert set(asked["seed"]) == {0, 1, 2}
    assert asked["episode"].max() == 20
    assert table.filter(pl.col("arm") == "sarsa-0")["seed"].n_unique() == 20


def test_a_second_process_is_turned_away(reproduce, tmp_path):
    with RunDirectory.for_writing(tmp_path / "run"):
        process = start(tmp_path / "run")
        _, said = process.communicate(timeout=300)
    assert process.returncode == 3
    assert f"in use by process {os.getpid()} on" in said
    assert reproduce() == 0


def test_a_lock_left_by_a_dead_process_is_taken_over(reproduce, tmp_path, capsys):
    import socket

    (tmp_path / "run").mkdir()
    owner = {"pid": 999_999_999, "host": socket.gethostname(), "since": "yesterday"}
    (tmp_path / "run" / "owner.json").write_text(json.dumps(owner))
    assert reproduce() == 0
    assert "process 999999999" in capsys.readouterr().err
    assert not (tmp_path / "run" / "owner.json").exists()


def test_a_lock_left_on_another_host_is_not(tmp_path):
    (tmp_path / "owner.json").write_text(json.dumps({"pid": 1, "host": "elsewhere", "since": "yesterday"}))
    with pytest.raises(DirectoryError, match=r"process 1 on elsewhere.*delete"):
        RunDirectory.for_writing(tmp_path)


@pytest.mark.parametrize("why", ["no filelock", "no locks on this file system"])
def test_without_a_system_lock_a_live_owner_is_respected(tmp_path, monkeypatch, why):
    import socket
    import sys

    import filelock

    def unsupported(*_, **__):
        raise NotImplementedError("no flock")

    if why == "no filelock":
        monkeypatch.setitem(sys.modules, "filelock", None)
    else:
        monkeypatch.setattr(filelock.FileLock, "acquire", unsupported)
    for pid, alive in ((os.getppid(), True), (999_999_999, False)):
        owner = {"pid": pid, "host": socket.gethostname(), "since": "today"}
        (tmp_path / "owner.json").write_text(json.dumps(owner))
        if alive:
            with pytest.raises(DirectoryError, match=f"in use by process {pid}"):
                RunDirectory.for_writing(tmp_path)
            assert (tmp_path / "owner.json").exists()
        else:
            with RunDirectory.for_writing(tmp_path) as directory:
                assert "was killed or crashed" in directory.notes[0]
            assert not (tmp_path / "owner.json").exists()


@pytest.mark.parametrize("edit", ["number", "nonsense"])
def test_an_edited_settings_file_is_noticed_and_nothing_is_lost(reproduce, tmp_path, capsys, edit):
    assert reproduce() == 0
    before = contents(tmp_path / "run")
    manifest = tmp_path / "run" / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"episodes": 40', '"episodes": 50') if edit == "number" else "{")
    capsys.readouterr()
    assert reproduce() == 3
    said = capsys.readouterr().err
    assert "manifest.json" in said
    assert "will be reused" in said
    with pytest.raises(DirectoryError):
        Store.read(tmp_path / "run")
    manifest.unlink()
    assert reproduce() == 0
    assert "nothing to do" in capsys.readouterr().out
    assert contents(tmp_path / "run") == before


def test_a_full_disk_stops_the_sweep_and_keeps_what_is_done(tmp_path, reproduce):
    """The stand-in: a limit on the size of files, set after the start of a process of its own."""
    code = (
        "import resource, sys\n"
        "from chunked_td.lab.errors import leave\n"
        "from chunked_td.lab.running.reproduce import reproduce\n"
        "from chunked_td.lab.store import batch_store as store\n"
        "encode, done = store.encode, []\n"
        "def fill(settings, columns):\n"
        "    done.append(1)\n"
        "    if len(done) == 3:\n"
        "        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "    return encode(settings, columns)\n"
        "store.encode = fill\n"
        f"leave(reproduce([{TOY!r}], out={str(tmp_path / 'run')!r}, networks=False))\n"
    )
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 4, done.stderr
    assert "File too large" in done.stderr
    assert "everything finished so far is kept" in done.stderr
    kept = contents(tmp_path / "run")
    assert len(kept) == 2
    assert reproduce() == 0
    assert reproduce(out=tmp_path / "straight") == 0
    assert contents(tmp_path / "run") == contents(tmp_path / "straight")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_no_space_leaves_no_half_file(toy, tmp_path, monkeypatch, number):
    write = os.write

    def fail(handle, data):
        write(handle, data[:10])
        raise OSError(number, os.strerror(number))

    with RunDirectory.for_writing(tmp_path) as directory:
        store = Store(directory)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", fail)
            with pytest.raises(WriteError, match="Free some space"):
                store.write(batch_of(toy).settings, execute(batch_of(toy)))
    assert [p for p in tmp_path.rglob("*") if p.is_file() and p.name not in ("lock", "digests.sha256")] == []
    with RunDirectory.for_writing(tmp_path) as directory:  # half a line in the digests is no obstacle
        Store(directory).write(batch_of(toy).settings, execute(batch_of(toy)))
        assert Store(directory).directory.notes == Store(directory).damaged == []


def test_a_read_only_directory_is_named(reproduce, tmp_path, monkeypatch, capsys):
    """Tests may run as root, who may write anywhere: the stand-in refuses to create files."""
    real = os.open

    def refuse(path, flags, *rest, **more):
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    assert reproduce() == 4
    said = capsys.readouterr().err
    assert "Read-only file system" in said
    assert str(tmp_path / "run") in said


def test_reading_changes_nothing(reproduce, tmp_path):
    assert reproduce() == 0
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    Store.read(tmp_path / "run").table("toy")
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before


def test_reading_where_there_is_nothing(tmp_path):
    with pytest.raises(DirectoryError, match="holds no runs"):
        Store.read(tmp_path)


def test_npz_files_travel(toy, tmp_path):
    batch = batch_of(toy)
    columns = execute(batch)
    path = tmp_path / "one.npz"
    path.write_bytes(save_npz(columns, batch.settings))
    found, settings = load_npz(path)
    assert settings == batch.settings
    assert list(found) == list(columns)
    assert all(np.array_equal(found[name], columns[name]) for name in columns)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(LabError, match="cut short"):
        load_npz(path)


def test_inspecting_says_what_is_wrong(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 nothing more")
    with pytest.raises(LabError, match="not a readable Parquet file"):
        inspect_file(tmp_path / "x.parquet")
