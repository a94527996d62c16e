"""Digests of stored batches, kept apart from them: `digests.sha256` in a run directory.

One line per file, as `sha256sum` writes and checks it. A line is added before its file is written, so a file without a
line was written by version 0.1, came by hand, or lost its line to a power cut: such files are read in full once, in a
process of their own (`chunked_td.lab.store.certify`), before they are used.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
from pathlib import Path

from chunked_td._files import open_regular, read_regular

NAME = "digests.sha256"
_LINE = re.compile(r"([0-9a-f]{64})  ([^\n]+)")


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
            found = _LINE.fullmatch(line)
            if found:
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
