"""The table that a study collects of all its runs: one Parquet file, with its digest in `digests.sha256`."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from chunked_td._files import read_regular
from chunked_td.lab.errors import DirectoryError, LabError
from chunked_td.lab.store.digests import Digests, sha256
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


def check_table(folder: Path, name: str) -> None:
    """Refuse a table whose bytes are not those that were recorded: LabError. Without a record it is taken as it is."""
    path = folder / name
    try:
        recorded = Digests(folder).of(path)
        if recorded and sha256(read_regular(path, links=False)) not in recorded:
            raise LabError(f"{path}: its bytes do not match its recorded digest")
    except (ValueError, OSError) as error:
        raise LabError(f"{path}: {error}") from error
