"""Where compiled code is kept on disk, and what the screen says while code is being compiled."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
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

_PACKAGE = Path(__file__).parent.parent
_CONFIG: Any = numba_config  # Numba sets its attributes when it is imported; type checkers do not see them
_FILE: Any = getattr(numba_caching, "IndexDataCacheFile", object)  # a name that Numba does not promise to keep
_LOCK = threading.Lock()

BOUNDSCHECK = os.environ.get("CHUNKED_TD_BOUNDSCHECK") == "1"
"""Whether kernels check every index, and raise IndexError; slow, for tests. Such code has a cache folder of its own."""


@functools.cache
def cache_folder() -> str:
    """Folder of the compiled code, named by a digest of the sources.

    Numba looks only at the file that defines a function when it decides whether its cache is fresh. A kernel that calls
    a kernel of another file would keep its old machine code after an edit there. So the folder's name is a digest of
    every file of the package.
    """
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    base = _CONFIG.CACHE_DIR or os.path.join(AppDirs("chunked_td", appauthor=False).user_cache_dir, "numba")
    return os.path.join(base, digest.hexdigest()[:16] + ("-boundscheck" if BOUNDSCHECK else ""))


@contextlib.contextmanager
def caching_here() -> Iterator[None]:
    """Inside, `numba.njit(cache=True)` keeps compiled code in our folder."""
    with _LOCK:
        previous, _CONFIG.CACHE_DIR = _CONFIG.CACHE_DIR, cache_folder()
        try:
            yield
        finally:
            _CONFIG.CACHE_DIR = previous


def kept_on_disk(kernel: Any) -> int:
    """How many compiled forms of a kernel are kept on disk."""
    return sum(1 for _ in Path(cache_folder()).rglob(f"*.{kernel.__qualname__}-*.nbc"))


class _Sealed(_FILE):
    """Compiled code on disk, sealed with a checksum: Numba would run what is damaged, here it is compiled again."""

    def __init__(self, file: Any) -> None:
        self.__dict__.update(file.__dict__)
        # Each process writes files of its own names, so that those that compile side by side do not mix them.
        self._data_name_pattern = self._data_name_pattern.replace("{number", f"{os.getpid()}.{{number")

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
            raise OSError(f"{name} is damaged")  # for Numba: there is none
        return super()._load_data(name)


def _is_whole(content: bytes) -> bool:
    return hashlib.sha256(content[:-32]).digest() == content[-32:]


def seal(compiled: Any) -> None:
    """Let a compiled function keep its code on disk in files that show damage."""
    with contextlib.suppress(AttributeError):  # Numba does not promise to keep these names
        compiled._cache._cache_file = _Sealed(compiled._cache._cache_file)


@contextlib.contextmanager
def elsewhere(work: Callable[..., None], *arguments: Any, wait: bool = True) -> Iterator[None]:
    """Call `work` in a process of its own meanwhile, and wait for it or end it.

    For work that saves time and that nothing depends on: if it cannot be done there, it is not done.
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
    """Says on the screen that code is being compiled, if it takes longer than `patience` seconds.

    Only where a person is watching (standard error is a terminal, or the code runs in a notebook), and inside
    `calling`, where a command tells of its work in lines.
    """

    patience = 2.0

    def __init__(self) -> None:
        self._depth = 0
        self._name = ""
        self._given_up = False
        self._local = threading.Lock()

    @contextlib.contextmanager
    def calling(self, name: str) -> Iterator[None]:
        """Inside, what is compiled is called by this name, which a user knows, and not by that of a kernel."""
        before, self._name, self._given_up = self._name, name, False
        try:
            yield
        finally:
            self._name = before

    def give_up(self) -> None:
        """Nobody waits any longer: nothing more is said until the next `calling`."""
        self._given_up = True

    @contextlib.contextmanager
    def compiling(self, what: str) -> Iterator[None]:
        """Around one compilation; nested ones are part of the outermost."""
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
