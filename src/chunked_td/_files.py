"""Atomic writes, and reads of regular files only.

After a crash a file has its old content or its new content, never a part of it.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import uuid
from pathlib import Path
from typing import Any

UNFINISHED = ".unfinished"
"""Suffix of temporary files."""


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write a file through a temporary file in the same folder; create missing folders.

    On return the content is on the device. If it cannot be written, this raises OSError and leaves no temporary file.
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


def write_table(path: str | Path, frame: Any, **options: Any) -> None:
    """Write a Polars table as a Parquet file; `options` are those of its `write_parquet`."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, **options)
    write_atomically(path, buffer.getvalue())


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
    """Flush a rename to the device if the system can open a folder."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # some network file systems cannot flush a folder
            os.fsync(handle)
    finally:
        os.close(handle)


def read_regular(path: str | Path) -> bytes:
    """Content of a regular file; never blocks on a FIFO or a device.

    Raises:
      ValueError: if it is not a regular file, such as a directory, a FIFO or a device.
      OSError: if it cannot be read.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise _not_regular(path, os.lstat(path).st_mode) from error
        raise
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise _not_regular(path, mode)
    with os.fdopen(handle, "rb") as file:
        return file.read()


_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _not_regular(path: str | Path, mode: int) -> ValueError:
    kind = _KINDS.get(stat.S_IFMT(mode), "something else")
    return ValueError(f"{path} must be a regular file, got {kind}")


def plain(value: Any) -> Any:
    """A copy that JSON can write: dataclasses as dicts of their fields, NumPy numbers and arrays as Python's."""
    if hasattr(value, "__dataclass_fields__"):
        return plain(vars(value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value
