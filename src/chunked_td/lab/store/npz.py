"""Batches as .npz files, which carry results between hosts that have NumPy only."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np

from chunked_td.lab.errors import LabError
from chunked_td.lab.store.settings import BatchSettings, Columns, digest_columns


def save_npz(columns: Columns, settings: BatchSettings) -> bytes:
    """A batch's numbers and settings as the bytes of an .npz file."""
    header = {"settings": settings.to_json(), "digest": digest_columns(columns), "columns": list(columns)}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{"__header__": np.array(json.dumps(header))}, **columns)  # type: ignore[arg-type]
    return buffer.getvalue()


def load_npz(path: Path) -> tuple[Columns, BatchSettings]:
    """Numbers and settings of a file written by `save_npz`; LabError if it is cut short or of another kind."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
            header = json.loads(str(archive["__header__"]))
            columns = {name: archive[name] for name in header["columns"]}
            digest, settings = header["digest"], BatchSettings.from_json(header["settings"])
    except Exception as error:  # zip, key, value and JSON errors all mean the same here
        raise LabError(f"{path}: not a batch result, or cut short ({error})") from error
    if digest_columns(columns) != digest:
        raise LabError(f"{path}: its numbers do not match its checksum; run that batch again")
    return columns, settings
