"""Sweeps: one table whatever the engine, whatever was interrupted, and never of runs that were made otherwise."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import chunked_td as ctd
from chunked_td import sweeps

ARMS = {"a": {"shift": 0.0}, "b": {"shift": 1.0}}
SIZES, SEEDS = [0.5, 0.25], range(5)


def play(step_size, seed, *, shift, factor=1.0):
    rng = np.random.default_rng(seed)
    return {"episode": [10, 20], "score": factor * step_size * rng.random(2) + shift}


def loop(arms=ARMS, sizes=SIZES, seeds=SEEDS, **settings):
    """The same table by a plain loop."""
    rows = []
    for arm, own in arms.items():
        for step_size in sizes:
            for seed in seeds:
                found = play(step_size, seed, **settings, **own)
                rows += [(arm, step_size, seed, *values) for values in zip(*found.values(), strict=True)]
    return pl.DataFrame(rows, ["arm", "step_size", "seed", "episode", "score"], orient="row")


SCRIPT = """
import sys, time
import chunked_td as ctd

SLEEP = 0.03

def run(step_size, seed, *, shift):
    time.sleep(SLEEP)
    return {"score": step_size * seed + shift}

if __name__ == "__main__":
    print("started", flush=True)
    table = ctd.sweep(
        run, {"a": {"shift": 0.0}, "b": {"shift": 1.0}}, [0.5, 0.1], range(25), out="runs", engine=sys.argv[1],
        jobs=2, save_every=0.2,
    )
    table.write_parquet(sys.argv[2])
"""


def start(folder: Path, engine: str = "threads", table: str = "table.parquet") -> subprocess.Popen[bytes]:
    (folder / "own_sweep.py").write_text(SCRIPT)
    command = [sys.executable, "own_sweep.py", engine, table]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for_parts(folder: Path, least: int) -> None:
    for _ in range(600):
        if len(list(folder.glob("runs/part-*"))) >= least:
            return
        time.sleep(0.05)
    raise AssertionError("no parts were written")


def rows_on_disk(folder: Path) -> int:
    return sum(pl.read_parquet(path).height for path in folder.glob("runs/part-*.parquet"))


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_a_sweep_is_the_table_of_a_plain_loop(engine):
    found = ctd.sweep(play, ARMS, SIZES, SEEDS, engine=engine, jobs=2, quiet=True, factor=2.0)
    assert found.equals(loop(factor=2.0))
    assert found.schema["seed"] == pl.Int64


def test_the_order_is_that_of_arms_step_sizes_and_seeds_and_runs_count_once(tmp_path):
    ctd.sweep(play, {"b": ARMS["b"]}, SIZES, SEEDS, out=tmp_path, quiet=True)
    found = ctd.sweep(play, ARMS, SIZES[::-1], [3, 1, 3], out=tmp_path, quiet=True)
    assert found.equals(loop(sizes=SIZES[::-1], seeds=[3, 1]))


def test_each_arm_may_have_its_own_step_sizes():
    found = ctd.sweep(play, ARMS, {"a": [0.5], "b": [0.25]}, SEEDS, quiet=True)
    assert found.select("arm", "step_size").unique().sort("arm").rows() == [("a", 0.5), ("b", 0.25)]


def test_columns_that_an_arm_lacks_are_null_and_come_in_the_order_of_the_arms(tmp_path):
    def run(step_size, seed, *, names):
        return {name: np.nan for name in names}

    arms = {"first": {"names": ["x", "y"]}, "second": {"names": ["z", "x"]}}
    ctd.sweep(run, {"second": arms["second"]}, [1.0], range(2), out=tmp_path, quiet=True)
    found = ctd.sweep(run, arms, [1.0], range(2), out=tmp_path, quiet=True)
    assert found.columns == ["arm", "step_size", "seed", "x", "y", "z"]
    assert found["z"].to_list()[:2] == [None, None]
    assert np.isnan(found["y"].to_list()[0])


def test_a_single_value_is_repeated():
    found = ctd.sweep(lambda step_size, seed: {"x": 3, "y": [1, 2], "z": "text"}, {"a": {}}, [1.0], [0], quiet=True)
    assert found.drop("arm", "step_size", "seed").rows() == [(3, 1, "text"), (3, 2, "text")]
    found = ctd.sweep(lambda step_size, seed: {"x": 3.0}, {"a": {}}, [1.0], [0], quiet=True)
    assert found["x"].to_list() == [3.0]


def test_several_runs_may_be_made_by_one_call():
    calls = []

    def run(step_size, seed, *, shift):
        calls.append(len(seed))
        return [play(float(each), int(one), shift=shift) for each, one in zip(step_size, seed, strict=True)]

    found = ctd.sweep(run, ARMS, SIZES, SEEDS, together=4, jobs=1, quiet=True)
    assert found.equals(loop())
    assert calls == [4, 4, 2, 4, 4, 2]
    with pytest.raises(ValueError, match="list of the columns of 4 runs, got dict"):
        ctd.sweep(lambda step_size, seed: {}, {"a": {}}, SIZES, SEEDS, together=4, jobs=1, quiet=True)


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_after_a_kill_the_same_call_resumes_and_the_table_has_the_same_bytes(tmp_path, engine):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    process = start(killed, engine)
    wait_for_parts(killed, 2)
    process.kill()
    process.wait()
    there = rows_on_disk(killed)
    assert 0 < there < 100
    for folder in (whole, killed):
        assert start(folder, engine).wait() == 0
    assert (whole / "table.parquet").read_bytes() == (killed / "table.parquet").read_bytes()
    assert rows_on_disk(killed) == 100  # no finished run was made again


@pytest.mark.long
def test_after_kills_at_random_times_nothing_is_lost_and_the_bytes_are_the_same(tmp_path):
    """SIGKILL again and again, wherever the process is: importing, in runs, writing a part, reading the folder."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    assert start(whole).wait() == 0
    rng, process, there = np.random.default_rng(0), start(killed), 0
    wait_for_parts(killed, 1)
    for _ in range(12):
        time.sleep(rng.uniform(0.0, 2.5))
        process.kill()
        process.wait()
        assert rows_on_disk(killed) >= there
        there = rows_on_disk(killed)
        process = start(killed)
    assert process.wait() == 0
    assert rows_on_disk(killed) == 100  # no finished run was made again
    assert (whole / "table.parquet").read_bytes() == (killed / "table.parquet").read_bytes()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_killed_sweep_leaves_no_workers_behind(tmp_path):
    process = start(tmp_path, "processes")
    wait_for_parts(tmp_path, 1)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    workers = [pid for pid in children if "loky" in Path(f"/proc/{pid}/cmdline").read_text()]
    assert workers
    process.kill()
    process.wait()
    for _ in range(100):
        if not any(Path(f"/proc/{pid}/cmdline").exists() for pid in workers):
            return
        time.sleep(0.1)
    raise AssertionError("workers outlived the sweep")


def test_ctrl_c_keeps_the_finished_runs(tmp_path):
    process = start(tmp_path)
    wait_for_parts(tmp_path, 1)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    stopped = time.monotonic()
    assert process.wait(10) != 0
    assert time.monotonic() - stopped < 5
    assert 0 < rows_on_disk(tmp_path) < 100
    assert not list(tmp_path.glob("runs/*.unfinished"))


def test_two_sweeps_at_once_do_no_harm(tmp_path):
    both = [start(tmp_path, table=f"{k}.parquet") for k in range(2)]
    assert [process.wait(60) for process in both] == [0, 0]
    again = start(tmp_path, table="2.parquet")
    assert again.wait(60) == 0
    tables = [(tmp_path / f"{k}.parquet").read_bytes() for k in range(3)]
    assert tables[0] == tables[1] == tables[2]
    assert pl.read_parquet(tmp_path / "2.parquet").height == 100


def test_runs_that_were_made_twice_count_once(tmp_path):
    expected = ctd.sweep(play, ARMS, SIZES, SEEDS, out=tmp_path, quiet=True)
    part = next(tmp_path.glob("part-*.parquet"))
    (tmp_path / "part-copy.parquet").write_bytes(part.read_bytes())
    assert ctd.sweep(play, ARMS, SIZES, SEEDS, out=tmp_path, quiet=True).equals(expected)


@pytest.mark.parametrize(("engine", "jobs"), [("threads", 1), ("processes", 1), ("processes", 2)])
def test_an_error_names_its_run_and_finished_runs_are_kept(tmp_path, engine, jobs):
    def run(step_size, seed, *, shift, broken):
        if broken and seed == 3:
            raise ArithmeticError("no more")
        return play(step_size, seed, shift=shift)

    how = {"out": tmp_path, "jobs": jobs, "quiet": True, "engine": engine, "save_every": 0.0}
    with pytest.raises(ArithmeticError) as caught:
        ctd.sweep(run, {"a": {"shift": 0.0, "broken": True}}, [0.5], SEEDS, **how)
    assert "in the run with arm 'a', step_size 0.5 and seed 3" in caught.value.__notes__
    assert {0, 1} <= set(pl.concat(map(pl.read_parquet, tmp_path.glob("part-*")))["seed"]) <= {0, 1, 2, 4}
    fixed = {"a": {"shift": 0.0, "broken": True}}
    with pytest.raises(ArithmeticError):
        ctd.sweep(run, fixed, [0.5], SEEDS, **how)  # it is made again, and the others are not


def test_a_full_disk_is_an_error_that_says_what_is_kept(tmp_path, monkeypatch):
    written = []

    def write(path, table):
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        written.append(path)
        original(path, table)

    original = sweeps.write_table
    monkeypatch.setattr(sweeps, "write_table", write)
    with pytest.raises(OSError, match="No space") as caught:
        ctd.sweep(play, ARMS, SIZES, SEEDS, out=tmp_path, save_every=0.0, jobs=1, quiet=True)
    assert caught.value.__notes__ == [f"1 finished runs are not in {tmp_path}; the parts before them are"]
    monkeypatch.undo()
    assert ctd.sweep(play, ARMS, SIZES, SEEDS, out=tmp_path, quiet=True).equals(loop())


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounts a small disk")
def test_a_disk_that_is_really_full_loses_the_last_part_alone(tmp_path):
    disk, noise = tmp_path / "disk", np.random.default_rng(0).random(4_000)
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("root may not mount here")

    def run(step_size, seed):
        return {"score": noise + seed}  # 32 KB that do not compress

    def swept(out):
        return ctd.sweep(run, {"a": {}}, [1.0], range(8), out=out, save_every=0.0, jobs=1, quiet=True)

    try:
        with pytest.raises(OSError, match="No space left on device"):
            swept(disk / "runs")
        assert 0 < len(list(disk.glob("runs/part-*.parquet"))) < 8
        assert not list(disk.glob("runs/*.unfinished"))
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        assert swept(disk / "runs").equals(swept(None))
        assert len(list(disk.glob("runs/part-*.parquet"))) == 8  # what was there was not made again
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_part_that_cannot_be_read_is_named(tmp_path):
    ctd.sweep(play, ARMS, SIZES, SEEDS, out=tmp_path, quiet=True)
    part = next(tmp_path.glob("part-*.parquet"))
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(ValueError, match=f"{part.name} cannot be read .*; delete it to repeat its runs"):
        ctd.sweep(play, ARMS, SIZES, SEEDS, out=tmp_path, quiet=True)
    part.unlink()
    assert ctd.sweep(play, ARMS, SIZES, SEEDS, out=tmp_path, quiet=True).equals(loop())


def test_other_settings_are_refused_by_name_and_new_arms_are_not(tmp_path):
    ctd.sweep(play, {"a": ARMS["a"]}, SIZES, SEEDS, out=tmp_path, quiet=True)
    with pytest.raises(ValueError, match=r"shift of a was 0\.0, is 0\.5\. Name another folder"):
        ctd.sweep(play, {"a": {"shift": 0.5}}, SIZES, SEEDS, out=tmp_path, quiet=True)
    with pytest.raises(ValueError, match=r"factor of a was missing, is 2\.0"):
        ctd.sweep(play, {"a": ARMS["a"]}, SIZES, SEEDS, out=tmp_path, quiet=True, factor=2.0)
    assert ctd.sweep(play, ARMS, SIZES, SEEDS, out=tmp_path, quiet=True).equals(loop())
    assert list(json.loads((tmp_path / "settings.json").read_text())["arms"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (("SLEEP = 0.03", "SLEEP = 0.02"), "own_sweep.SLEEP was 0.03, is 0.02"),
        (("step_size * seed", "step_size + seed"), "own_sweep.run has changed"),
        (('"b": {"shift": 1.0}', '"b": {"shift": 2.0}'), "shift of b was 1.0, is 2.0"),
    ],
)
def test_edited_code_is_refused_by_name(tmp_path, edit, said):
    assert start(tmp_path).wait() == 0
    (tmp_path / "own_sweep.py").write_text(SCRIPT.replace(*edit))
    command = [sys.executable, "own_sweep.py", "threads", "table.parquet"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("said", "change"),
    [
        ("engine must be", {"engine": "cloud"}),
        ("arms must be", {"arms": {"a": 3}}),
        ("arms must have at least one entry, with strings as names", {"arms": {}}),
        ("settings of arm 'a' must not have seed", {"arms": {"a": {"seed": 3}}}),
        ("must be given for every arm, got none for 'b'", {"step_sizes": {"a": [0.1]}}),
        ("step_sizes must be finite, got nan", {"step_sizes": [float("nan")]}),
        ("at least one entry", {"seeds": []}),
        ("seeds must be", {"seeds": [-1]}),
        ("together must be", {"together": 0}),
    ],
)
def test_arguments_are_checked(said, change):
    with pytest.raises((ValueError, TypeError), match=said):
        ctd.sweep(play, **({"arms": ARMS, "step_sizes": SIZES, "seeds": SEEDS, "quiet": True} | change))


@pytest.mark.parametrize(
    ("said", "columns"),
    [
        ("run must return {column: values}, got None", None),
        ("run must not return seed", {"seed": 1}),
        ("columns of one length, at least 1", {"x": [1, 2], "y": [1]}),
        ("columns of one length, at least 1", {"x": []}),
    ],
)
def test_what_a_run_returns_is_checked(said, columns):
    with pytest.raises(ValueError, match=said):
        ctd.sweep(lambda step_size, seed: columns, {"a": {}}, [0.1], [0], jobs=1, quiet=True)


def test_piped_progress_is_a_line_every_ten_seconds_at_most(capsys, monkeypatch):
    clock = iter(np.arange(0.0, 1000.0, 4.0))
    monkeypatch.setattr(sweeps.time, "monotonic", lambda: float(next(clock)))
    lines = sweeps.Lines(100, 50)
    for _ in range(9):
        lines(2)
    said = capsys.readouterr().err.splitlines()
    assert said == ["56 of 100 runs, 88 s left", "62 of 100 runs, 76 s left", "68 of 100 runs, 64 s left"]


def test_nothing_is_left_to_do_and_nothing_is_said(tmp_path, capsys):
    ctd.sweep(play, ARMS, SIZES, SEEDS, out=tmp_path)
    before = sorted(os.listdir(tmp_path))
    assert ctd.sweep(play, ARMS, SIZES, SEEDS, out=tmp_path).equals(loop())
    assert sorted(os.listdir(tmp_path)) == before
    assert capsys.readouterr().err == ""


RAY = """
import os, sys, time
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

import chunked_td as ctd

HERE = Path(sys.argv[1])

def run(step_size, seed, *, shift):
    time.sleep(0.05)
    (HERE / f"node-{ray.get_runtime_context().get_node_id()}").touch()
    if seed == 7 and not (HERE / "killed").exists():
        (HERE / "killed").touch()
        os.kill(os.getpid(), 9)
    return {"score": step_size * seed + shift}

if __name__ == "__main__":
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
    arms = {"a": {"shift": 0.0}, "b": {"shift": 1.0}}
    how = {"out": HERE / "runs", "quiet": True}
    found = ctd.sweep(run, arms, [0.5, 0.1], range(25), engine="ray", **how)
    scores = [size * seed + shift for shift in (0.0, 1.0) for size in (0.5, 0.1) for seed in range(25)]
    assert found["score"].to_list() == scores
    assert len(list(HERE.glob("node-*"))) == 2, "one node did all of it"
    assert (HERE / "killed").exists()
    ray.shutdown()
    cluster.shutdown()
"""


@pytest.mark.long
def test_ray_with_two_nodes_and_a_killed_worker_gives_the_same_table(tmp_path):
    pytest.importorskip("ray")
    (tmp_path / "own_sweep.py").write_text(RAY)
    done = subprocess.run(
        [sys.executable, "own_sweep.py", str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
