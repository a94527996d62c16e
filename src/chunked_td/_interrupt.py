"""Ctrl-C while the command `chunked-td` is still loading: one line and exit code 130 instead of a traceback.

It imports nothing that is not there when Python has started; `signal` itself would take as long as half of the rest.
"""

import _signal as signal  # type: ignore[import-not-found]
import os
import sys


def _end(*_: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)


def _is_command() -> bool:
    """Whether this process is `chunked-td` or `python -m chunked_td`."""
    words = sys.orig_argv
    module = words[words.index("-m") + 1 :][:1] if "-m" in words else []
    return module == ["chunked_td"] or os.path.basename(sys.argv[0]).removesuffix(".exe") == "chunked-td"


def restore() -> None:
    """From here on Ctrl-C raises KeyboardInterrupt, as usual; where Python would swallow it, it is raised again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = _unraisable


def _unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
    """Called where an error cannot be raised, as in the callback with which an import gives back its lock."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    import _thread
    import threading

    threading.Timer(0.01, _thread.interrupt_main).start()  # at once, it would be raised inside this function


def is_behind(error: BaseException) -> bool:
    """Whether Ctrl-C caused an error: while a class is made, Python 3.11 turns it into a RuntimeError."""
    return isinstance(error, KeyboardInterrupt) or isinstance(error.__cause__, KeyboardInterrupt)


if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _end)
