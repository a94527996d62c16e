"""Reading stored files that have no digest, in a process of their own: a hostile one may end it, and nothing else.

    python -m chunked_td.lab.store.certify < names       # prints [name, digest, reason] per line, as JSON

A parser of Parquet files that meets a damaged one may panic, end its process or take all memory.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from chunked_td.lab.errors import LabError

MEMORY = 4 << 30  # bytes of data of the process
SECONDS = 60.0  # for one file


def certify(paths: Sequence[Path]) -> Iterator[tuple[Path, str, str]]:
    """(path, digest, what is wrong with it) of every file; "" where nothing is."""
    left = list(paths)
    while left:
        command = [sys.executable, "-m", "chunked_td.lab.store.certify"]
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


def _main() -> None:
    from chunked_td.lab.store.batch_store import inspect_file

    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    for line in sys.stdin:
        path = Path(json.loads(line))
        digest = reason = ""
        try:
            digest = inspect_file(path).digest
        except LabError as error:
            reason = str(error)
        print(json.dumps([str(path), digest, reason]), flush=True)


if __name__ == "__main__":
    _main()
