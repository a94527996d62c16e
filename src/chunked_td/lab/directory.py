"""A run directory: who may write to it, what was asked for, how it was made.

One process at a time owns a directory (`lock`, an flock: the system releases it however the process ends).
`manifest.json` says what was last asked for, arm by arm, and describes the protocols, so that a report needs nothing
else; a checksum tells a hand-edited one. `log.jsonl` is a diary, read by reports and by the estimate of running time.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chunked_td.lab.errors import DirectoryError, WriteError

FORMAT = 1
_TEMPORARY = ".unfinished"  # a suffix, so that nobody takes such a file for a finished one


@dataclass
class Directory:
    """An open run directory. Use `for_writing` (a context manager) or `for_reading`."""

    path: Path
    writable: bool
    manifest: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _lock: int | None = None

    @classmethod
    def for_reading(cls, path: str | Path) -> Directory:
        """Open an existing run directory without locking it."""
        path = Path(path)
        if not (path / "manifest.json").exists():
            raise DirectoryError(f"{path} holds no runs (it has no manifest.json)")
        return cls(path, writable=False, manifest=_read_manifest(path))

    @classmethod
    def for_writing(cls, path: str | Path) -> Directory:
        """Create or open a run directory and become its one owner."""
        path = Path(path)
        directory = cls(path, writable=True)
        try:
            path.mkdir(parents=True, exist_ok=True)
            directory._take_lock()
            for leftover in path.rglob(f"*{_TEMPORARY}"):
                leftover.unlink()
        except OSError as error:
            directory.close()
            raise _write_error(path, error) from error
        try:
            directory.manifest = _read_manifest(path)
        except DirectoryError:
            directory.close()
            raise
        return directory

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the directory up."""
        if self._lock is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._lock, 0)  # an empty lock file says: ended in good order
            os.close(self._lock)
            self._lock = None

    def _take_lock(self) -> None:
        handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = _owner(handle)
            os.close(handle)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise DirectoryError(
                f"{self.path} is in use by {_describe(owner)}. Wait until that is done, or choose another --out."
            ) from error
        owner = _owner(handle)
        if owner and owner.get("host") != socket.gethostname():
            # On some network file systems an flock is not seen by other hosts: do not guess.
            os.close(handle)
            raise DirectoryError(
                f"{self.path} was last owned by {_describe(owner)}, which never gave it up. If that process is gone, "
                f"delete {self.path / 'lock'} and try again."
            )
        if owner:
            self.notes.append(f"{_describe(owner)} did not end in good order; going on where it stopped")
        mine = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S %z")}
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(mine).encode(), 0)
        self._lock = handle

    def write_atomically(self, path: Path, content: bytes) -> None:
        """Write a file so that after any crash it is there whole or not at all."""
        temporary = path.with_name(path.name + _TEMPORARY)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(temporary, content)
            os.replace(temporary, path)
            _sync_folder(path.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise _write_error(path, error) from error

    def request(self, protocol_id: str) -> dict[str, Any]:
        """What was last asked for: {"description": {…}, "arms": {arm id: {family, seeds, exponents, …}}}."""
        try:
            return self.manifest["protocols"][protocol_id]
        except KeyError:
            known = sorted(self.manifest.get("protocols", {}))
            raise DirectoryError(f"{self.path} has no runs of {protocol_id!r}; it has {known}") from None

    @property
    def protocol_ids(self) -> tuple[str, ...]:
        """Protocols that were asked for in this directory, in order."""
        return tuple(self.manifest.get("protocols", {}))

    def ask(self, protocol_id: str, description: dict[str, Any], arms: dict[str, dict[str, Any]]) -> None:
        """Record a request. Arms it does not name stay as they were asked for before."""
        before = self.manifest.get("protocols", {})
        old = before.get(protocol_id, {}).get("arms", {})
        entry = {"description": description, "arms": {**old, **arms}}
        manifest = {"format": FORMAT, "protocols": {**before, protocol_id: entry}}
        if manifest == self.manifest:
            return
        text = json.dumps({**manifest, "checksum": _checksum(manifest)}, indent=1, ensure_ascii=False)
        self.write_atomically(self.path / "manifest.json", text.encode())
        self.manifest = manifest

    def log(self, event: str, **values: Any) -> None:
        """Add a line to the diary. A full disk does not stop the work for that."""
        line = json.dumps({"event": event, "time": time.time(), **values}, ensure_ascii=False)
        with contextlib.suppress(OSError), open(self.path / "log.jsonl", "a", encoding="utf-8") as diary:
            diary.write(line + "\n")

    def diary(self) -> list[dict[str, Any]]:
        """The lines of the diary; torn ones are left out."""
        lines = []
        with contextlib.suppress(FileNotFoundError):
            for line in (self.path / "log.jsonl").read_text(encoding="utf-8", errors="replace").splitlines():
                with contextlib.suppress(ValueError):
                    lines.append(json.loads(line))
        return lines


def write_file(path: Path, content: bytes) -> None:
    """Write and flush to the device."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(handle, view) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        text = (path / "manifest.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    advice = (
        "Restore it, or delete it and run the command again: finished batches carry their own settings and "
        "will be reused. To change an experiment, pass options or write a protocol file instead."
    )
    try:
        manifest = json.loads(text)
        checksum = manifest.pop("checksum")
        version = manifest["format"]
    except (ValueError, KeyError, AttributeError) as error:
        raise DirectoryError(f"{path / 'manifest.json'} is not readable ({error!r}). {advice}") from error
    if checksum != _checksum(manifest):
        raise DirectoryError(f"{path / 'manifest.json'} was edited: its checksum does not match. {advice}")
    if version != FORMAT:
        raise DirectoryError(f"{path / 'manifest.json'} has format {version}, this version reads {FORMAT}")
    return manifest


def _checksum(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _owner(handle: int) -> dict[str, Any]:
    try:
        return json.loads(os.pread(handle, 4096, 0) or b"{}")
    except ValueError:
        return {}


def _describe(owner: dict[str, Any]) -> str:
    if not owner:
        return "another process"
    return f"process {owner.get('pid')} on {owner.get('host')} (since {owner.get('since')})"


def _write_error(path: Path, error: OSError) -> WriteError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        advice = "Free some space and run the same command again"
    else:
        advice = "Make it writable, or choose another --out"
    return WriteError(f"cannot write {path}: {reason}. {advice}: everything finished so far is kept.")
