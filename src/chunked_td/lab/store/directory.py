"""A run directory: one process may write to it, a manifest says what was requested, a log says how it was made.

`lock` is an operating-system lock (filelock), which ends with its process. `owner.json` names the process that holds
it, for messages, and because on some network file systems a lock is not seen by other hosts. Hosts without filelock
rely on `owner.json` and on whether the process that it names is alive.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from chunked_td._files import check_inside, check_regular, read_regular, unfinished, write_atomically
from chunked_td.lab.errors import DirectoryError, LabError, WriteError
from chunked_td.lab.store.log import RunLog
from chunked_td.lab.store.manifest import Manifest, Request

OURS = ("lock", "owner.json", "manifest.json", "log.jsonl", "digests.sha256")
"""Files of a run directory that are opened by name."""
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

    def __init__(self, path: Path, lock: _Lock | None = None):
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
        directory = cls(path, _Lock(path))
        try:
            path.mkdir(parents=True, exist_ok=True)
            _check_own_files(path)
            previous = directory._lock.acquire()  # type: ignore[union-attr]
            for leftover in _leftovers(path):
                leftover.unlink()
            directory.manifest = _read_manifest(path)
        except (OSError, DirectoryError) as error:
            directory.close()
            if isinstance(error, OSError):
                raise write_error(path, error) from error
            raise
        if previous is not None:
            directory.notes.append(f"{previous} was killed or crashed; continuing with what it finished")
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


@dataclass(frozen=True)
class _Owner:
    """A process that writes, or wrote, to a run directory."""

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} (since {self.since})"

    @property
    def here(self) -> bool:
        return self.host == socket.gethostname()

    @property
    def alive(self) -> bool:
        """Whether it runs on this host."""
        if not self.here:
            return False
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:
            pass
        return True


class _Lock:
    """The lock of the run directory `path`."""

    def __init__(self, path: Path):
        self.path, self.owner_file = path, path / "owner.json"
        self._lock: Any = None
        self._held = False

    def acquire(self) -> _Owner | None:
        """Take the lock, or raise DirectoryError that names the owner. Returns one that died without releasing it."""
        taken, owner = self._take_system_lock(), _read_owner(self.owner_file)
        if not taken:
            who = owner or "another process"
            raise DirectoryError(f"{self.path} is in use by {who}. Wait until it has ended, or choose another --out.")
        if owner and not owner.here:
            self.release()
            raise DirectoryError(
                f"{self.path} was last owned by {owner}, which never released it. If that process is gone, delete "
                f"{self.owner_file} and try again."
            )
        mine = _Owner(os.getpid(), socket.gethostname(), time.strftime("%Y-%m-%d %H:%M:%S %z"))
        self._held = True
        write_atomically(self.owner_file, json.dumps(asdict(mine)).encode())
        return owner

    def _take_system_lock(self) -> bool:
        """Whether no other process has the lock; without filelock, or on a file system without locks, no live owner."""
        try:
            import filelock

            lock = filelock.FileLock(self.path / "lock", timeout=0, thread_local=False)
            lock.acquire()
        except (ImportError, NotImplementedError):
            owner = _read_owner(self.owner_file)
            return owner is None or not owner.alive
        except TimeoutError:  # filelock.Timeout
            return False
        self._lock = lock
        return True

    def release(self) -> None:
        """Release the lock and remove our name."""
        if self._held:
            with contextlib.suppress(OSError):
                self.owner_file.unlink()
        self._held = False
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _read_owner(path: Path) -> _Owner | None:
    try:
        values = json.loads(read_regular(path, links=False))
        return _Owner(int(values["pid"]), str(values["host"]), str(values["since"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _check_own_files(path: Path) -> None:
    """Refuse a directory where one of our files is something else: a link would lead our writing elsewhere."""
    for name in OURS:
        with refuse(DirectoryError):
            check_regular(path / name)


def _leftovers(path: Path) -> Iterator[Path]:
    """Temporary files that a process of ours left when it was killed, in the folders where it writes."""
    batches = path / "batches"
    inside = [path / "figures", path / "tables"]
    inside += batches.iterdir() if batches.is_dir() and not batches.is_symlink() else ()
    for folder in (path, *(folder for folder in inside if folder.is_dir() and not folder.is_symlink())):
        for file in folder.iterdir():
            whole = unfinished(file.name) or ""
            named = folder == path and (whole in (*OURS, "report.html") or whole.endswith(".npz"))
            if named or (folder != path and whole.endswith((".parquet", ".svg", ".pdf", ".png", ".md"))):
                yield file


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
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    advice = "Free some space and run the same command again" if full else "Make it writable, or choose another --out"
    return WriteError(f"cannot write {path}: {reason}. {advice}: everything finished so far is kept.")
