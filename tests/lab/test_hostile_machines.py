"""Machines that refuse: several writers at once, folders that may only be read, a full disk, little memory.

Whatever happens, what is finished stays, no half file is left, and the same command later gives the same bytes.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from helpers.lab_helpers import contents, finish, start

pytestmark = pytest.mark.long


def works(*command):
    """Whether this machine lets us run a command."""
    try:
        return subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.fixture
def straight(reproduce, tmp_path):
    """What an undisturbed run stores."""
    assert reproduce(out=tmp_path / "straight", quiet=True) == 0
    return contents(tmp_path / "straight")


def test_several_writers_of_one_folder(straight, tmp_path):
    """One writes; the others are turned away, or come when all is done."""
    turned_away = 0
    for turn in range(4):
        out = tmp_path / str(turn)
        found = [finish(process) for process in [start(out, environment={"TOY_SLEEP": "0.3"}) for _ in range(3)]]
        codes = [code for code, _, _ in found]
        assert set(codes) <= {0, 3}, found
        assert 0 in codes
        assert all(f"{out} is in use by" in said for code, _, said in found if code == 3)
        assert contents(out) == straight
        assert len((out / "digests.sha256").read_text().splitlines()) == len(straight)
        assert not list(out.rglob("*.unfinished"))
        turned_away += codes.count(3)
    assert turned_away


# Root may write anywhere, unless that right is taken away.
ORDINARY = () if os.geteuid() else ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


@pytest.mark.skipif(not works(*ORDINARY, "env"), reason="root may write anywhere here (needs setpriv)")
def test_a_folder_that_may_only_be_read(straight, reproduce, tmp_path):
    run = tmp_path / "run"
    assert reproduce(arms=["sarsa-0"], quiet=True) == 0
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    folders = [run, *(path for path in before if path.is_dir())]
    for path in [*before, run]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        for out in (run, run / "new"):
            code, _, said = finish(start(out, before=ORDINARY))
            assert code in (3, 4), said
            assert str(run) in said
            assert "Permission denied" in said
            assert "Traceback" not in said
        read = [*ORDINARY, sys.executable, "-m", "chunked_td", "claims", str(run)]
        done = subprocess.run(read, capture_output=True, text=True, timeout=300, check=False)
        assert "Traceback" not in done.stderr
        assert "NOT RUN" in done.stdout
        assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    finally:
        for path in folders:
            path.chmod(0o755)
        for path in before:
            if path.is_file():
                path.chmod(0o644)
    assert reproduce(quiet=True) == 0
    assert contents(run) == straight


FULL = """
mount -t tmpfs -o size=1m none "$0" && head -c {ballast} /dev/zero > "$0/ballast"
"$@"; first=$?
ls -R "$0" > "$0.listed"
rm "$0/ballast"
"$@"; second=$?
cp -r "$0/run" "$0.kept"
echo "codes $first $second"
"""
"""A disk with little space left; the command; space; the command again."""
APART = ("unshare", "--mount") if not os.geteuid() else ("unshare", "--mount", "--map-root-user")


@pytest.mark.skipif(not works(*APART), reason="this machine lets nobody mount a disk (needs unshare)")
@pytest.mark.parametrize("pages", [1, 4, 8, 13])
def test_a_full_disk(straight, tmp_path, pages):
    """Space ends at the manifest, at the first batch, or later."""
    disk = tmp_path / "disk"
    disk.mkdir()
    script = FULL.format(ballast=(1 << 20) - 4096 * pages)
    code, out, said = finish(start(disk / "run", before=(*APART, "sh", "-c", script, str(disk))))
    assert code == 0, said
    first, second = out.split("codes ")[1].split()
    assert (first, second) == ("4", "0"), said
    assert "Traceback" not in said
    assert "No space left on device" in said
    assert ".unfinished" not in (tmp_path / "disk.listed").read_text()
    assert contents(tmp_path / "disk.kept") == straight


@pytest.mark.parametrize("megabytes", [300, 600, 1_000, 2_000])
def test_little_memory(straight, tmp_path, megabytes):
    """`ulimit -v`: libraries may not even load; whatever was stored before they gave up is right."""
    limited = ("sh", "-c", 'ulimit -v "$0" && exec "$@"', str(1024 * megabytes))
    code, _, _ = finish(start(tmp_path / "run", before=limited))
    kept = contents(tmp_path / "run")
    assert kept.items() <= straight.items()
    assert code != 0 or kept == straight
    assert finish(start(tmp_path / "run"))[0] == 0
    assert contents(tmp_path / "run") == straight
    assert not list((tmp_path / "run").rglob("*.unfinished"))
