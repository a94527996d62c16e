"""The lock of a run directory: one process at a time may write to it.

`lock` is an operating-system lock (filelock), which ends with its process. `owner.json` names the process that holds
it, for messages, and because on some network file systems a lock is not seen by other hosts. Hosts without filelock
rely on `owner.json` and on whether the process that it names is alive.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from chunked_td._files import read_regular, write_atomically
from chunked_td.lab.errors import DirectoryError


@dataclass(frozen=True)
class Owner:
    """A process that writes, or wrote, to a run directory."""

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} (since {self.since})"

    @property
    def here(self) -> bool:
        """Whether it is on this host."""
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


class DirectoryLock:
    """The lock of the run directory `path`. `previous` is an owner that died without releasing it, if there was one."""

    def __init__(self, path: Path):
        self.path = path
        self.previous: Owner | None = None
        self._lock: Any = None
        self._held = False

    @property
    def owner_file(self) -> Path:
        """The file that names the owner."""
        return self.path / "owner.json"

    def acquire(self) -> None:
        """Take the lock, or raise DirectoryError that names the owner."""
        if not self._take_system_lock():
            who = _read_owner(self.owner_file) or "another process"
            raise DirectoryError(f"{self.path} is in use by {who}. Wait until it has ended, or choose another --out.")
        owner = _read_owner(self.owner_file)
        if owner and not owner.here:
            self.release()
            raise DirectoryError(
                f"{self.path} was last owned by {owner}, which never released it. If that process is gone, delete "
                f"{self.owner_file} and try again."
            )
        self.previous = owner
        mine = Owner(os.getpid(), socket.gethostname(), time.strftime("%Y-%m-%d %H:%M:%S %z"))
        self._held = True
        write_atomically(self.owner_file, json.dumps(asdict(mine)).encode())

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


def _read_owner(path: Path) -> Owner | None:
    try:
        values = json.loads(read_regular(path, links=False))
        return Owner(int(values["pid"]), str(values["host"]), str(values["since"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
