"""What can go wrong in the lab, each with the exit code a script can act on.

0  done, or nothing to do          3  the run directory cannot be used (locked, settings edited)
1  some batches failed             4  writing failed (disk full, read-only directory)
2  the request makes no sense      130  interrupted; everything finished is kept
"""

from __future__ import annotations

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
