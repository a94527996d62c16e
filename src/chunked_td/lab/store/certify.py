"""Digests of stored files, kept apart from them; and how files without one are read.

`digests.sha256` in a run directory has a line per file, as `sha256sum` writes and checks it. A line is added before its
file is written, so a file without a line was written by version 0.1, came by hand, or lost its line to a power cut.
Such files are read in full once, in a process of their own, before they are used: a parser of Parquet files that meets
a damaged one may panic, end its process or take all memory.

    python -m chunked_td.lab.store.certify batch < names       # prints [name, digest, reason] per line, as JSON
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from chunked_td._files import open_regular, read_regular
from chunked_td.lab.errors import LabError

MEMORY = 4 << 30  # bytes of data of the process
SECONDS = 60.0  # for one file
NAME = "digests.sha256"
AGAIN = f"more than one digest in {NAME}: written again, or somebody added lines"
_LINE = re.compile(r"([0-9a-f]{64})  ([^\n]+)")
T = TypeVar("T")


def sha256(content: bytes) -> str:
    """The digest of a file's bytes."""
    return hashlib.sha256(content).hexdigest()


class Digests:
    """The digests of the run directory `folder`. A file may have several: what it was, and what it is now."""

    def __init__(self, folder: Path):
        self.folder, self.path = folder, folder / NAME
        self._known: dict[str, set[str]] = {}
        text = ""
        with contextlib.suppress(FileNotFoundError):
            text = read_regular(self.path, links=False).decode("utf-8", "replace")
        self._cut = bool(text) and not text.endswith("\n")
        for line in text.splitlines():
            if found := _LINE.fullmatch(line):
                self._known.setdefault(found[2], set()).add(found[1])

    def of(self, path: Path) -> frozenset[str]:
        """The digests that a file may have; empty if none was recorded."""
        return frozenset(self._known.get(self._name(path), ()))

    def record(self, path: Path, digest: str) -> None:
        """Add the digest of a file, about to be written or just read in full."""
        name = self._name(path)
        known = self._known.setdefault(name, set())
        if digest in known:
            return
        handle = open_regular(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, links=False)
        try:
            line = b"\n" * self._cut + f"{digest}  {name}\n".encode()
            self._cut = True  # until the whole line is there
            if os.write(handle, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._cut = False
        finally:
            os.close(handle)
        known.add(digest)

    def _name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()


def certify(paths: Sequence[Path], kind: str = "batch") -> Iterator[tuple[Path, str, str]]:
    """(path, digest, what is wrong with it) of every file; "" where nothing is. A "table" may hold anything."""
    left = list(paths)
    while left:
        command = [sys.executable, "-m", "chunked_td.lab.store.certify", kind]
        names = "".join(json.dumps(str(path.absolute())) + "\n" for path in left).encode()
        try:
            said = subprocess.run(command, input=names, capture_output=True, timeout=SECONDS * len(left)).stdout
        except subprocess.TimeoutExpired as late:
            said = late.stdout or b""
        found = [json.loads(line) for line in said.splitlines() if line.endswith(b"]")]
        for path, (_, digest, reason) in zip(left, found, strict=False):
            yield path, digest, reason
        left = left[len(found) :]
        if left:
            yield left.pop(0), "", "reading it ended the process that tried"


def parsed(read: Callable[[], T]) -> T:
    """What a reader of Parquet gives; LabError if it fails, also where it panics."""
    try:
        return read()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # polars raises several kinds, and panics are not even Exceptions
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise LabError(f"not a readable Parquet file, cut short perhaps ({why})") from error


def _main() -> None:
    import polars as pl

    from chunked_td.lab.store.batch_store import inspect_file

    is_table = sys.argv[1:] == ["table"]
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    for line in sys.stdin:
        path = Path(json.loads(line))
        digest = reason = ""
        try:
            if is_table:
                parsed(partial(pl.read_parquet, path))
            else:
                digest = inspect_file(path).digest
        except LabError as error:
            reason = str(error)
        print(json.dumps([str(path), digest, reason]), flush=True)


if __name__ == "__main__":
    _main()
