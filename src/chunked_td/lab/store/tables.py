"""The table that a study collects of all its runs: one Parquet file, with its digest in `digests.sha256`."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from chunked_td._files import read_regular
from chunked_td.lab.errors import DirectoryError, LabError
from chunked_td.lab.store.certify import Digests, certify, parsed, sha256
from chunked_td.lab.store.directory import RunDirectory, refuse

if TYPE_CHECKING:
    import polars as pl


def save_table(directory: RunDirectory, name: str, frame: pl.DataFrame) -> Path:
    """Write the table of a study, whole or not at all, and record its digest. The same rows give the same bytes."""
    buffer, path = io.BytesIO(), directory.path / name
    frame.write_parquet(buffer, compression="zstd", compression_level=19)
    content = buffer.getvalue()
    with refuse(DirectoryError):
        Digests(directory.path).record(path, sha256(content))
    directory.write(path, content)
    return path


def load_table(path: Path) -> pl.DataFrame:
    """The table of a study. LabError where its bytes are not those that were recorded, or cannot be read.

    A table without a recorded digest is read in a process of its own first.
    """
    import polars as pl

    content, known = check_table(path)
    try:
        if not known and (reason := next(certify([path], "table"))[2]):
            raise LabError(reason)
        return parsed(lambda: pl.read_parquet(io.BytesIO(content)))
    except LabError as error:
        raise LabError(f"{path}: {error}") from error


def check_table(path: Path) -> tuple[bytes, int]:
    """The bytes of a table and how many digests it has; LabError where they have none of them."""
    try:
        content, recorded = read_regular(path, links=False), Digests(path.parent).of(path)
    except (ValueError, OSError) as error:
        raise LabError(f"{path}: {error}") from error
    if recorded and sha256(content) not in recorded:
        raise LabError(f"{path}: its bytes do not match its digest in digests.sha256")
    return content, len(recorded)
