"""SIGKILL or Ctrl-C at random moments, resume, and the final files are byte for byte those of an uninterrupted run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from helpers.lab_helpers import TOY, contents, finish, start

SLOW = {"TOY_SLEEP": "0.05"}


def killed_and_resumed(tmp_path, reproduce, kills, seed):
    rng = np.random.default_rng(seed)
    begun = time.monotonic()
    assert finish(start(tmp_path / "measure", environment=SLOW))[0] == 0
    length = time.monotonic() - begun
    for _ in range(kills):
        process = start(tmp_path / "run", environment=SLOW)
        time.sleep(rng.uniform(0.1, 1.1) * length)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if process.returncode == 0:  # it was done before the kill: make the next one begin again
            victim = rng.choice(sorted((tmp_path / "run").glob("batches/*/*.parquet")))
            os.unlink(victim)
    assert finish(start(tmp_path / "run", environment=SLOW))[0] == 0
    assert reproduce(out=tmp_path / "straight") == 0
    assert contents(tmp_path / "run") == contents(tmp_path / "straight")
    assert not list((tmp_path / "run").rglob("*.unfinished"))


def test_five_kills(tmp_path, reproduce):
    killed_and_resumed(tmp_path, reproduce, kills=5, seed=1)


@pytest.mark.long
def test_twenty_kills(tmp_path, reproduce):
    killed_and_resumed(tmp_path, reproduce, kills=20, seed=2)


@pytest.mark.parametrize("point", ["before the rename", "after the rename"])
def test_death_in_the_middle_of_a_write(tmp_path, reproduce, point):
    """Die exactly where a half-written file would show."""
    name = {"before the rename": "replace", "after the rename": "_sync_folder"}[point]
    target = "_files.os" if name == "replace" else "_files"
    code = (
        "import os, signal\n"
        "from chunked_td import _files\n"
        "from chunked_td.lab.running.reproduce import reproduce\n"
        f"real = {target}.{name}\n"
        "seen = []\n"
        "def die(*a):\n"
        "    seen.append(a)\n"
        "    if 'parquet' in str(a[0]) or 'batches' in str(a[0]):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return real(*a)\n"
        f"{target}.{name} = die\n"
        f"reproduce([{TOY!r}], out={str(tmp_path / 'run')!r}, networks=False)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL
    leftovers = list((tmp_path / "run").rglob("*.unfinished"))
    assert len(leftovers) == (point == "before the rename")
    assert len(contents(tmp_path / "run")) == (point == "after the rename")
    assert reproduce() == 0
    assert reproduce(out=tmp_path / "straight") == 0
    assert contents(tmp_path / "run") == contents(tmp_path / "straight")
    assert not list((tmp_path / "run").rglob("*.unfinished"))


COMPARE = """compare FrozenLake-v1 --seeds 8 --episodes 5000 --bootstraps sarsa --lambdas 0 0.9
--sources forward expected --step-sizes 0.2 0.8 --extend 1 --csv"""


def begin_comparison(out):
    """A whole comparison in a process group of its own, as a terminal starts it."""
    command = [sys.executable, "-m", "chunked_td", *COMPARE.split(), "--out", str(out)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, start_new_session=True, **pipes)


def answer_in(out):
    """The files of a comparison without its log, which has times: the digests in any order, all others by the byte."""
    files = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    files["digests.sha256"] = b"\n".join(sorted(files["digests.sha256"].splitlines()))
    return {name: content for name, content in files.items() if name not in ("log.jsonl", "lock")}


@pytest.mark.long
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_a_comparison_stopped_at_twenty_moments(tmp_path, sent):
    """The same command again until one ends by itself: nothing finished is lost or run again, the answer is the same.

    A folder that is done gives way to a fresh one, so every moment falls into a comparison that has something to do.
    """
    assert finish(begin_comparison(tmp_path / "compiles"))[0] == 0
    begun = time.monotonic()
    assert finish(begin_comparison(tmp_path / "straight"))[0] == 0
    length, straight = time.monotonic() - begun, answer_in(tmp_path / "straight")
    rng, stopped, resumed, place = np.random.default_rng(sent), 0, [], tmp_path / "0"
    while stopped < 20 or place.exists():
        kept = {path: path.stat().st_mtime_ns for path in place.glob("batches/*/*.parquet")}
        process = begin_comparison(place)
        if stopped < 20:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(rng.uniform(0.0, length))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, sent)
        code, _, said = finish(process)
        assert code in (0, 130 if sent == signal.SIGINT else -sent), said
        assert "Traceback" not in said
        assert {path: path.stat().st_mtime_ns for path in kept} == kept
        stopped += code != 0
        if code == 0:
            assert answer_in(place) == straight
            resumed.append(place)
            place = tmp_path / str(len(resumed))
    print(f"\n{sent.name}: stopped {stopped} times, {len(resumed)} comparisons came to their end, all as uninterrupted")
