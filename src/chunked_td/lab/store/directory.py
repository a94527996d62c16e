"""A run directory: one process may write to it, a manifest says what was requested, a log says how it was made."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from chunked_td._files import check_inside, check_regular, read_regular, unfinished, write_atomically
from chunked_td.lab.errors import DirectoryError, LabError, WriteError
from chunked_td.lab.store.lock import DirectoryLock
from chunked_td.lab.store.log import RunLog
from chunked_td.lab.store.manifest import Manifest, Request

_ADVICE = (
    "Restore it, or delete it and run the command again: finished batches carry their own settings and will be "
    "reused. To change an experiment, pass options or write a protocol file instead."
)


class RunDirectory:
    """An open run directory. Use `for_writing` (a context manager) or `for_reading`.

    Attributes:
      path: where it is.
      manifest: what was requested.
      log: how it was made.
      notes: what to tell the user.
    """

    def __init__(self, path: Path, lock: DirectoryLock | None = None):
        self.path = path
        self.manifest = Manifest()
        self.log = RunLog(path)
        self.notes: list[str] = []
        self._lock = lock

    @classmethod
    def for_reading(cls, path: str | Path) -> RunDirectory:
        """Open an existing run directory without locking it."""
        path = Path(path)
        if not os.path.lexists(path / "manifest.json"):
            raise DirectoryError(f"{path} holds no runs (it has no manifest.json)")
        directory = cls(path)
        _check_own_files(path)
        directory.manifest = _read_manifest(path)
        return directory

    @classmethod
    def for_writing(cls, path: str | Path) -> RunDirectory:
        """Create or open a run directory and become its one owner."""
        path = Path(path)
        lock = DirectoryLock(path)
        directory = cls(path, lock)
        try:
            path.mkdir(parents=True, exist_ok=True)
            _check_own_files(path)
            lock.acquire()
            for leftover in _leftovers(path):
                leftover.unlink()
            directory.manifest = _read_manifest(path)
        except OSError as error:
            directory.close()
            raise write_error(path, error) from error
        except DirectoryError:
            directory.close()
            raise
        if lock.previous is not None:
            directory.notes.append(f"{lock.previous} was killed or crashed; continuing with what it finished")
        return directory

    @property
    def writable(self) -> bool:
        """Whether this process owns the directory."""
        return self._lock is not None

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the directory."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def write(self, path: Path, content: bytes) -> None:
        """Write a file in the directory so that after any crash it is there whole or not at all."""
        with refuse(DirectoryError):
            check_inside(self.path, path.parent)
        write_or_explain(path, content)

    def request(self, protocol_id: str) -> Request:
        """The last request for a protocol."""
        try:
            return self.manifest.protocols[protocol_id]
        except KeyError:
            known = sorted(self.manifest.protocols)
            raise DirectoryError(f"{self.path} has no runs of {protocol_id!r}; it has {known}") from None

    @property
    def protocol_ids(self) -> tuple[str, ...]:
        """Protocols that were requested in this directory, in order."""
        return tuple(self.manifest.protocols)

    def add_request(self, request: Request) -> None:
        """Record a request. Arms that it does not name stay as they were requested before."""
        manifest = self.manifest.with_request(request)
        if manifest != self.manifest:
            self.write(self.path / "manifest.json", manifest.to_text().encode())
            self.manifest = manifest


OURS = ("lock", "owner.json", "manifest.json", "log.jsonl", "digests.sha256")
"""Files of a run directory that are opened by name."""


def _check_own_files(path: Path) -> None:
    """Refuse a directory where one of our files is something else: a link would lead our writing elsewhere."""
    for name in OURS:
        with refuse(DirectoryError):
            check_regular(path / name)


def _leftovers(path: Path) -> Iterator[Path]:
    """Temporary files that a process of ours left when it was killed, in the folders where it writes."""
    folders = {path: (*OURS, "report.html"), path / "figures": None, path / "tables": None}
    if (path / "batches").is_dir() and not (path / "batches").is_symlink():
        folders |= {folder: None for folder in (path / "batches").iterdir()}
    for folder, names in folders.items():
        if folder.is_dir() and (folder == path or not folder.is_symlink()):
            for file in folder.iterdir():
                whole = unfinished(file.name)
                if whole is not None and _is_ours(whole, names):
                    yield file


def _is_ours(name: str, names: tuple[str, ...] | None) -> bool:
    """Whether we write files of this name: one of `names`, or a batch, a figure or a table."""
    return (
        name in names or name.endswith(".npz") if names else name.endswith((".parquet", ".svg", ".pdf", ".png", ".md"))
    )


@contextlib.contextmanager
def refuse(kind: type[LabError]) -> Iterator[None]:
    """A ValueError of a check as an error that a user sees."""
    try:
        yield
    except ValueError as error:
        raise kind(str(error)) from error


def _read_manifest(path: Path) -> Manifest:
    try:
        return Manifest.from_text(read_regular(path / "manifest.json", links=False).decode("utf-8"))
    except FileNotFoundError:
        return Manifest()
    except (ValueError, RecursionError) as error:
        raise DirectoryError(f"{path / 'manifest.json'} cannot be used: {error}. {_ADVICE}") from error


def write_or_explain(path: Path, content: bytes) -> None:
    """Write a file atomically; WriteError says what to do if that fails."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise write_error(path, error) from error


def write_error(path: Path, error: OSError) -> WriteError:
    """What to tell a user about a failed write."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        advice = "Free some space and run the same command again"
    else:
        advice = "Make it writable, or choose another --out"
    return WriteError(f"cannot write {path}: {reason}. {advice}: everything finished so far is kept.")
