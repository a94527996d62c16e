"""Compiled programs on disk, and the notice shown during compilation.

A program's file is named by a digest of everything that it was linked from (`link`), so no file is ever out of date.
Files end in a checksum; a damaged one is compiled again. A folder that is not writable only costs time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from numba.core import caching as numba_caching
from numba.core import config as numba_config
from numba.misc.appdirs import AppDirs

CONFIG: Any = numba_config  # Numba sets its attributes on import; type checkers do not see them
_FILE: Any = getattr(numba_caching, "IndexDataCacheFile", object)  # not in Numba's public API


def folder() -> str:
    """Return the folder of compiled programs."""
    return CONFIG.CACHE_DIR or os.path.join(AppDirs("chunked_td", appauthor=False).user_cache_dir, "programs")


@contextlib.contextmanager
def caching_here() -> Iterator[None]:
    """Make `numba.njit(cache=True)` store compiled code in our folder. The caller holds the lock."""
    previous, CONFIG.CACHE_DIR = CONFIG.CACHE_DIR, folder()
    try:
        yield
    finally:
        CONFIG.CACHE_DIR = previous


class _Sealed(_FILE):
    """Compiled code on disk with a checksum: Numba alone would run damaged code."""

    def __init__(self, file: Any) -> None:
        self.__dict__.update(file.__dict__)
        # File names contain the process id, so that processes compiling at the same time do not mix files.
        self._data_name_pattern = self._data_name_pattern.replace("{number", f"{os.getpid()}.{{number")

    def save(self, key: Any, data: Any) -> None:
        """Store code; if that fails, the program runs without a file."""
        with contextlib.suppress(OSError):
            super().save(key, data)

    def _dump(self, obj: Any) -> bytes:
        content = super()._dump(obj)
        return content + hashlib.sha256(content).digest()

    def _load_index(self) -> dict[Any, str]:
        try:
            content, head = Path(self._index_path).read_bytes(), pickle.dumps(self._version, protocol=-1)
        except OSError:
            return {}
        whole = content.startswith(head) and _is_whole(content[len(head) :])
        return super()._load_index() if whole else {}

    def _load_data(self, name: str) -> Any:
        if not _is_whole(Path(self._data_path(name)).read_bytes()):
            raise OSError(f"{name} is damaged")  # Numba then treats it as missing
        return super()._load_data(name)


def _is_whole(content: bytes) -> bool:
    return hashlib.sha256(content[:-32]).digest() == content[-32:]


def seal(compiled: Any) -> None:
    """Make a compiled function store its code in files with a checksum."""
    with contextlib.suppress(AttributeError):  # not in Numba's public API
        compiled._cache._cache_file = _Sealed(compiled._cache._cache_file)


def kept_on_disk(name: str) -> int:
    """Return the number of compiled programs of an entry on disk."""
    pattern = re.compile(rf"(^|\.){name}_[0-9a-f]+-")
    return sum(1 for path in Path(folder()).rglob("*.nbc") if pattern.search(path.name))


@contextlib.contextmanager
def elsewhere(work: Callable[..., None], *arguments: Any, wait: bool = True) -> Iterator[None]:
    """Run `work` in another process inside the context, then wait for it or end it.

    Only for work that saves time and that nothing depends on: if it cannot run there, it is skipped.
    """
    try:
        letter = pickle.dumps((work, arguments))
    except Exception:
        yield
        return
    command = "import pickle, sys; work, arguments = pickle.load(sys.stdin.buffer); work(*arguments)"
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", command], stdin=subprocess.PIPE, **quiet) as process:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(letter)
        try:
            yield
            if not wait:
                process.kill()
        except BaseException:
            process.kill()
            raise


class Notice:
    """Prints a notice if a compilation takes longer than `patience` seconds.

    It prints only if standard error is a terminal, if the code runs in a notebook, or inside `calling`, which commands
    use for their progress lines.
    """

    patience = 2.0

    def __init__(self) -> None:
        self._depth = 0
        self._name = ""
        self._given_up = False
        self._local = threading.Lock()

    @contextlib.contextmanager
    def calling(self, name: str) -> Iterator[None]:
        """Use this name in notices inside the context, instead of the name of a kernel."""
        before, self._name, self._given_up = self._name, name, False
        try:
            yield
        finally:
            self._name = before

    def give_up(self) -> None:
        """Print nothing more until the next `calling`."""
        self._given_up = True

    @contextlib.contextmanager
    def compiling(self, what: str) -> Iterator[None]:
        """Time one compilation; nested ones are part of the outermost."""
        begun, shown = time.perf_counter(), threading.Event()
        timer = threading.Timer(self.patience, self._show, (what, shown))
        timer.daemon = True
        with self._local:
            self._depth += 1
            outermost = self._depth == 1
        if outermost and (self._name or _watched()):
            timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._local:
                self._depth -= 1
            if shown.is_set() and not self._given_up:
                print(f"chunked_td: compiled in {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)

    def _show(self, what: str, shown: threading.Event) -> None:
        if self._given_up:
            return
        shown.set()
        later = "" if self._name else " for its first use on this machine; later runs start at once"
        print(f"chunked_td: compiling {self._name or what}{later} …", file=sys.stderr, flush=True)


def _watched() -> bool:
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())


NOTICE = Notice()
