"""Reading stored files that have no digest, in a process of their own: a hostile one may end it, and nothing else.

    python -m chunked_td.lab.store.certify batch < names       # prints [name, digest, reason] per line, as JSON

A parser of Parquet files that meets a damaged one may panic, end its process or take all memory.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from chunked_td.lab.errors import LabError

MEMORY = 4 << 30  # bytes of data of the process
SECONDS = 60.0  # for one file


def certify(paths: Sequence[Path], kind: str = "batch") -> Iterator[tuple[Path, str, str]]:
    """(path, digest, what is wrong with it) of every file; "" where nothing is. A "table" may hold anything."""
    left = list(paths)
    while left:
        command = [sys.executable, "-m", "chunked_td.lab.store.certify", kind]
        names = "".join(json.dumps(str(path.absolute())) + "\n" for path in left)
        try:
            said = subprocess.run(
                command, input=names.encode(), capture_output=True, timeout=SECONDS * len(left), check=False
            ).stdout
        except subprocess.TimeoutExpired as late:
            said = late.stdout or b""
        found = [json.loads(line) for line in said.splitlines() if line.endswith(b"]")]
        for path, (_, digest, reason) in zip(left, found, strict=False):
            yield path, digest, reason
        left = left[len(found) :]
        if left:
            yield left.pop(0), "", "reading it ended the process that tried"


T = TypeVar("T")


def parsed(read: Callable[[], T]) -> T:
    """What a reader of Parquet gives; LabError if it fails, also where it panics."""
    try:
        return read()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # polars raises several kinds, and panics are not even Exceptions
        raise LabError(
            f"not a readable Parquet file, cut short perhaps ({(str(error).splitlines() or [type(error).__name__])[0]})"
        ) from error


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
