"""Tests of what kernels compute, in files of many combinations: run as plain Python, where nothing is to be compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
KERNELS = ["test_traces.py", "test_policies.py", "test_lambdas.py", "test_seeding.py", "test_numba_room.py"]
KERNELS += ["models/test_counts.py", "learners/test_sutton_singh.py", "learners/test_planning.py"]
MARKED = [
    path.relative_to(FOLDER).as_posix()
    for path in sorted(FOLDER.rglob("test_*.py"))
    if "pytest.mark.uncompiled" in path.read_text(encoding="utf-8") and path != Path(__file__)
]


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="is what it runs")
@pytest.mark.parametrize("files", [KERNELS, *([file] for file in MARKED)], ids=lambda files: files[-1])
def test_passes_without_compilation(files, pytestconfig):
    """Every test of the file, the long ones if those are asked for."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", pytestconfig.option.markexpr]
    command += [str(FOLDER / file) for file in files]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=FOLDER.parent)
    assert done.returncode == 0, done.stdout + done.stderr
