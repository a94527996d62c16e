"""Tests of what kernels compute, run as plain Python: those of many combinations would spend minutes on compiling."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.compilation import COMPILED

FOLDER = Path(__file__).parent
KERNELS = ["test_traces.py", "test_policies.py", "test_lambdas.py", "test_seeding.py", "test_link.py"]
KERNELS += ["models/test_counts.py", "learners/test_sutton_singh.py"]

pytestmark = pytest.mark.skipif(not COMPILED, reason="is what they run")


def run_uncompiled(paths, chosen):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", chosen, *map(str, paths)]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=FOLDER.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_kernels_pass_without_compilation():
    run_uncompiled([FOLDER / name for name in KERNELS], "not long")


def test_what_is_marked_passes_without_compilation(pytestconfig):
    """The long ones among them are played if those are asked for."""
    files = [path for path in FOLDER.rglob("test_*.py") if "uncompiled" in path.read_text(encoding="utf-8")]
    also = pytestconfig.option.markexpr
    run_uncompiled(sorted(set(files) - {Path(__file__)}), f"uncompiled and ({also})" if also else "uncompiled")
