"""The log of a run directory, `log.jsonl`: how results were made. One JSON line per session and per batch.

Reports and estimates of running time read it. It is never compared, and results do not depend on it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from chunked_td._files import open_regular, read_regular
from chunked_td.lab.errors import DirectoryError

T = TypeVar("T")


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
        return [_record(BatchRecord, line) for line in self.lines() if line.get("event") == "batch"]

    def sessions(self) -> list[SessionRecord]:
        """The sessions, in order."""
        return [_record(SessionRecord, line) for line in self.lines() if line.get("event") == "session"]


def _record(cls: type[T], line: Mapping[str, Any]) -> T:
    """A record from a line; what is missing or makes no sense is empty or 0."""
    readers = {"str": _text, "int": lambda *place: int(_number(*place)), "float": _number}
    return cls(**{field.name: readers.get(str(field.type), _texts)(line, field.name) for field in fields(cls)})  # type: ignore[arg-type]


def _texts(line: Mapping[str, Any], key: str) -> dict[str, str]:
    value = line.get(key)
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, Mapping) else {}


def _text(line: Mapping[str, Any], key: str) -> str:
    value = line.get(key)
    return "" if value is None else str(value).encode("utf-8", "replace").decode()


def _number(line: Mapping[str, Any], key: str) -> float:
    """A number that makes sense as a count or a time; 0 for anything else."""
    value = line.get(key)
    return value if isinstance(value, (int, float)) and 0 <= value <= 1e18 else 0.0
