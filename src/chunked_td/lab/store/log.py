"""The log of a run directory, `log.jsonl`: how results were made. One JSON line per session and per batch.

Reports and estimates of running time read it. It is never compared, and results do not depend on it.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from chunked_td._files import open_regular, read_regular
from chunked_td.lab.errors import DirectoryError

T = TypeVar("T")
_PACKAGES = ("chunked-td", "numpy", "numba", "jax", "equinox", "optax", "polars", "ray")


@dataclass(frozen=True)
class BatchRecord:
    """A finished batch; `precision` and `device` are "" where no network ran."""

    protocol: str
    arm: str
    kind: str
    runs: int
    steps: float
    seconds: float
    host: str
    file: str
    precision: str
    device: str


@dataclass(frozen=True)
class SessionRecord:
    """The start of a command: what was run, with which code, on what. Entries that are unknown are empty."""

    command: str
    commit: str
    host: str
    python: str
    versions: Mapping[str, str]
    processor: str
    cores: int
    accelerator: str
    device: str
    system: str


class RunLog:
    """The log of the run directory `folder`."""

    def __init__(self, folder: Path):
        self.path = folder / "log.jsonl"

    def write(self, event: str, **values: Any) -> None:
        """Add a line: "session", "batch", "failure" or "end". A full disk does not stop the work for that."""
        self.write_line({"event": event, "time": time.time(), **values})

    def write_line(self, values: Mapping[str, Any]) -> None:
        """Add a line as it is, such as one from the log of another directory."""
        line = json.dumps(values, ensure_ascii=False) + "\n"
        with contextlib.suppress(OSError, ValueError):
            handle = open_regular(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, links=False)
            with os.fdopen(handle, "wb") as file:
                file.write(line.encode("utf-8", "backslashreplace"))

    def lines(self) -> list[dict[str, Any]]:
        """All lines as they are; those that were cut short are left out."""
        found: list[Any] = []
        try:
            text = read_regular(self.path, links=False).decode("utf-8", "replace")
        except FileNotFoundError:
            return []
        except (ValueError, OSError) as error:
            raise DirectoryError(str(error)) from error
        for line in text.splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                found.append(json.loads(line))
        return [line for line in found if isinstance(line, dict)]

    def batches(self) -> list[BatchRecord]:
        """The finished batches, in order."""
        return [_record(BatchRecord, line) for line in self.lines() if line.get("event") == "batch"]

    def sessions(self) -> list[SessionRecord]:
        """The sessions, in order."""
        return [_record(SessionRecord, line) for line in self.lines() if line.get("event") == "session"]


def _record(cls: type[T], line: Mapping[str, Any]) -> T:
    """A record from a line; what is missing or makes no sense is empty or 0."""
    readers = {"str": _text, "int": lambda value: int(_number(value)), "float": _number}
    return cls(**{field.name: readers.get(str(field.type), _texts)(line.get(field.name)) for field in fields(cls)})  # type: ignore[arg-type]


def _texts(value: Any) -> dict[str, str]:
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return "" if value is None else str(value).encode("utf-8", "replace").decode()


def _number(value: Any) -> float:
    """A number that makes sense as a count or a time; 0 for anything else."""
    return value if isinstance(value, (int, float)) and 0 <= value <= 1e18 else 0.0


def provenance() -> dict[str, Any]:
    """Command, commit, versions and hardware of this process, as plain JSON values."""
    versions = {}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return {
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "commit": _commit(),
        "python": platform.python_version(),
        "versions": versions,
        "host": socket.gethostname(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


def _commit() -> str | None:
    """The commit of the source tree, "+" if it has changes; None for an installed package."""
    root = Path(__file__).parents[4]
    if not (root / ".git").exists():
        return None

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "src")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
