"""Errors of the lab, and the exit codes of its commands.

0  done, or nothing to do          3  the run directory cannot be used (locked, settings edited)
1  some batches failed             4  writing failed (disk full, read-only directory)
2  the request makes no sense      130  interrupted; everything finished is kept
"""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Callable
from typing import NoReturn, ParamSpec

from chunked_td._interrupt import is_behind

P = ParamSpec("P")

DONE, FAILED, USAGE, DIRECTORY, WRITE, INTERRUPTED = 0, 1, 2, 3, 4, 130


class LabError(Exception):
    """An error the user can act on: its text is shown without a traceback."""

    code = FAILED


class UsageError(LabError):
    """The request names something that does not exist or makes no sense."""

    code = USAGE


class DirectoryError(LabError):
    """The run directory is locked by another process, or its settings were edited."""

    code = DIRECTORY


class WriteError(LabError):
    """The run directory cannot be written: disk full, read-only, no permission."""

    code = WRITE


KEPT = "; every finished batch is kept, the same command continues from there"


def guarded(work: Callable[P, int], kept: str = KEPT) -> Callable[P, int]:
    """A function that returns an exit code: an error that a user can act on becomes a message and its code.

    Args:
      kept: what to say after "interrupted"; "" for commands that run nothing.
    """

    @functools.wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            return work(*args, **kwargs)
        except LabError as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            return error.code
        except (KeyboardInterrupt, RuntimeError) as error:
            if not is_behind(error):
                raise
            print(f"interrupted{kept}", file=sys.stderr, flush=True)
            return INTERRUPTED

    return run


def leave(code: int) -> NoReturn:
    """End the process now with this exit code, also while compiled code is busy in other threads."""
    sys.stdout.flush()
    sys.stderr.flush()
    if code == INTERRUPTED:
        gc.collect()  # a pool of processes gives back its semaphores, which would be reported as leaked otherwise
        os._exit(code)
    sys.exit(code)
