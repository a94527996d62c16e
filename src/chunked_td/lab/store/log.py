"""The log of a run directory, `log.jsonl`: how results were made. One JSON line per session and per batch.

Reports and estimates of running time read it. It is never compared, and results do not depend on it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chunked_td._files import open_regular, read_regular
from chunked_td.lab.errors import DirectoryError


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


@dataclass(frozen=True)
class RunLog:
    """The log of the run directory `folder`."""

    folder: Path

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.folder / "log.jsonl"

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
        return [_batch(line) for line in self.lines() if line.get("event") == "batch"]

    def sessions(self) -> list[SessionRecord]:
        """The sessions, in order."""
        return [_session(line) for line in self.lines() if line.get("event") == "session"]


def _batch(line: Mapping[str, Any]) -> BatchRecord:
    return BatchRecord(
        protocol=_text(line, "protocol", "?"),
        arm=_text(line, "arm", "?"),
        kind=_text(line, "kind", "?"),
        runs=int(_number(line, "runs")),
        steps=_number(line, "steps"),
        seconds=_number(line, "seconds"),
        host=_text(line, "host", "?"),
        file=_text(line, "file"),
        precision=_text(line, "precision"),
        device=_text(line, "device"),
    )


def _session(line: Mapping[str, Any]) -> SessionRecord:
    versions = line.get("versions")
    return SessionRecord(
        command=_text(line, "command"),
        commit=_text(line, "commit"),
        host=_text(line, "host"),
        python=_text(line, "python"),
        versions={str(k): str(v) for k, v in versions.items()} if isinstance(versions, Mapping) else {},
        processor=_text(line, "processor"),
        cores=int(_number(line, "cores")),
        accelerator=_text(line, "accelerator"),
        device=_text(line, "device"),
        system=_text(line, "system"),
    )


def _text(line: Mapping[str, Any], key: str, default: str = "") -> str:
    value = line.get(key)
    return default if value is None else str(value).encode("utf-8", "replace").decode()


def _number(line: Mapping[str, Any], key: str) -> float:
    """A number that makes sense as a count or a time; 0 for anything else."""
    value = line.get(key)
    return value if isinstance(value, (int, float)) and 0 <= value <= 1e18 else 0.0
