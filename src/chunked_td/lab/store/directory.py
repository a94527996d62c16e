"""A run directory: one process may write to it, a manifest says what was asked for, a log says how it was made."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from chunked_td._files import UNFINISHED, write_atomically
from chunked_td.lab.errors import DirectoryError, WriteError
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
      manifest: what was asked for.
      log: how it was made.
      notes: what a user should be told.
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
        if not (path / "manifest.json").exists():
            raise DirectoryError(f"{path} holds no runs (it has no manifest.json)")
        directory = cls(path)
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
            lock.acquire()
            for leftover in path.rglob(f"*{UNFINISHED}"):
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
        """Write a file so that after any crash it is there whole or not at all."""
        write_or_explain(path, content)

    def request(self, protocol_id: str) -> Request:
        """What was last asked for of a protocol."""
        try:
            return self.manifest.protocols[protocol_id]
        except KeyError:
            known = sorted(self.manifest.protocols)
            raise DirectoryError(f"{self.path} has no runs of {protocol_id!r}; it has {known}") from None

    @property
    def protocol_ids(self) -> tuple[str, ...]:
        """Protocols that were asked for in this directory, in order."""
        return tuple(self.manifest.protocols)

    def ask(self, request: Request) -> None:
        """Record a request. Arms that it does not name stay as they were asked for before."""
        manifest = self.manifest.with_request(request)
        if manifest != self.manifest:
            self.write(self.path / "manifest.json", manifest.to_text().encode())
            self.manifest = manifest


def _read_manifest(path: Path) -> Manifest:
    try:
        return Manifest.from_text((path / "manifest.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Manifest()
    except ValueError as error:
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
