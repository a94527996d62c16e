"""Atomic file writes: after a crash a file holds its old content or its new one, never a part."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path

UNFINISHED = ".unfinished"
"""Suffix of temporary files. One that is left over belongs to a process that was killed and may be deleted."""


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write a file by way of a temporary file in the same folder; missing folders are made.

    On return the content is on the device. Raises OSError, and leaves no temporary file, if it cannot be written.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}{UNFINISHED}")
    try:
        _write(temporary, content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(path.parent)


def _write(path: Path, content: bytes) -> None:
    """Write a new file and flush it to the device."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags, 0o644)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(handle, view) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(path: Path) -> None:
    """Flush a rename to the device, on systems that can open a folder."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # some network file systems cannot flush a folder
            os.fsync(handle)
    finally:
        os.close(handle)
