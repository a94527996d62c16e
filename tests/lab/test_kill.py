"""SIGKILL at random moments, resume, and the final tables are byte for byte those of an uninterrupted run."""

from __future__ import annotations

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
