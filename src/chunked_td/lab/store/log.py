"""The log of a run directory, `log.jsonl`: how results were made. One JSON line per session and per batch.

Reports and estimates of running time read it. It is never compared, and results do not depend on it.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
        line = json.dumps({"event": event, "time": time.time(), **values}, ensure_ascii=False)
        with contextlib.suppress(OSError), open(self.path, "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def lines(self) -> list[dict[str, Any]]:
        """All lines as they are; those that were cut short are left out."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
                with contextlib.suppress(ValueError):
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
    return default if value is None else str(value)


def _number(line: Mapping[str, Any], key: str) -> float:
    value = line.get(key)
    return value if isinstance(value, (int, float)) else 0.0
