"""Batches as .npz files, which carry results between hosts that have NumPy only.

A file may come from anybody: its digest and its sizes are checked first (`chunked_td._archives`), then every column.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from chunked_td._archives import Archive, pack
from chunked_td._files import read_regular
from chunked_td.lab.errors import LabError
from chunked_td.lab.store.settings import BatchSettings, digest_columns
from chunked_td.lab.study import Columns

_COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")


def save_npz(columns: Columns, settings: BatchSettings) -> bytes:
    """A batch's numbers and settings as the bytes of an .npz file."""
    header = {"settings": settings.to_json(), "digest": digest_columns(columns), "columns": list(columns)}
    return pack({"__header__": np.array(json.dumps(header)), **columns})


def load_npz(path: Path) -> tuple[Columns, BatchSettings]:
    """Numbers and settings of a file written by `save_npz`; LabError if it is cut short or of another kind."""
    try:
        content = read_regular(path, links=False)
        archive = Archive(content)
        header = json.loads(str(archive["__header__"]))
        columns = {str(name): archive[name] for name in header["columns"]}
        digest, settings = header["digest"], BatchSettings.from_json(header["settings"])
        archive.check_all_read()
        check_columns(columns, settings)
    except Exception as error:  # zip, key, value and JSON errors all mean the same here
        raise LabError(f"{path}: not a batch result, or cut short ({error})") from error
    if digest_columns(columns) != digest:
        raise LabError(f"{path}: its numbers do not match its checksum; run that batch again")
    return columns, settings


def check_columns(columns: Columns, settings: BatchSettings) -> None:
    """Refuse columns that are not those of a batch with these settings: ValueError says which."""
    seeds, exponents = np.array(settings.pairs, np.int64).T
    record_at = np.array(settings.record_at, np.int64)
    wanted = {
        "seed": np.repeat(seeds, record_at.size),
        "exponent": np.repeat(exponents, record_at.size),
        "episode": np.tile(record_at, seeds.size),
    }
    for name, values in wanted.items():
        if columns[name].dtype != np.int64 or not np.array_equal(columns[name], values):
            raise ValueError(f"column {name} must be that of its settings")
    for name in columns.keys() - wanted.keys():
        if not _COLUMN.fullmatch(name) or name == "arm":
            raise ValueError(f"a column must have a name of letters and digits, got {name!r}")
        if columns[name].dtype != np.float64 or columns[name].shape != wanted["seed"].shape:
            raise ValueError(f"column {name} must be float64[{wanted['seed'].size}]")
    if not {"step_size", "score"} <= columns.keys():
        raise ValueError("columns must have step_size and score")
