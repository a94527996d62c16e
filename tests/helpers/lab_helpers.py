"""The toy protocol's path, the command in a process of its own, and the bytes of a store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from chunked_td.lab.catalogue import known
from chunked_td.lab.errors import guarded
from chunked_td.lab.store import importing

TOY = str(Path(__file__).with_name("toy.py"))

_CALL = """
import json, sys
from chunked_td.lab.errors import leave
from chunked_td.lab.running.reproduce import reproduce
arguments = json.loads(sys.argv[1])
leave(reproduce(arguments.pop("experiments"), **arguments))
"""


def start(out, experiments=(TOY,), environment=None, before=(), **options) -> subprocess.Popen:
    """The same in a process of its own. Args: before: a command that runs it."""
    arguments = {"experiments": list(experiments), "out": str(out), "networks": False, **options}
    return subprocess.Popen(
        [*before, sys.executable, "-c", _CALL, json.dumps(arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )


def import_batches(source, *, out, experiments=()) -> int:
    """Take batches of another host in, as `chunked-td reproduce --import` does."""
    plain = [study for study in known(experiments).values() if not study.table]
    protocols = {protocol.id: protocol for study in plain for protocol in study.protocols("paper")}
    return guarded(importing.import_batches)(Path(source), Path(out), protocols)


def contents(out: Path) -> dict[str, bytes]:
    """Name and bytes of every stored batch."""
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.glob("batches/*/*.parquet"))}


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    """Exit code and what was said, once it has ended."""
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def twelve(text: str) -> float:
    """A number to twelve decimals: the last bits of a sum differ between processors."""
    return round(float(text), 12)
