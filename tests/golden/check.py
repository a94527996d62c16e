"""Digests of what a case returns, and the comparison with `expected.json`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

EXPECTED = Path(__file__).parent / "expected.json"
KEPT = 1
"""Raw values that stand beside a digest, so that a difference can be looked at."""


def digest_of(values):
    """[shape, digest of the bytes, some values]: floats as float64, all else as int64; one NaN and one zero each."""
    array = np.asarray(values)
    array = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.nan, array + 0.0)
    text = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:12]
    there = array.ravel()[array.ravel() != 0]
    shown = [float(x) if x == x else None for x in there[-KEPT:]]
    return [list(array.shape), text, *shown]


def digests(columns):
    return {name: digest_of(values) for name, values in columns.items()}


def expected():
    return json.loads(EXPECTED.read_text(encoding="utf-8"))


def differences(name, columns, recorded=None):
    """What differs from the record of a case, in words; empty where nothing does."""
    wanted = (expected() if recorded is None else recorded)[name]
    found = digests(columns)
    if found.keys() != wanted.keys():
        return [f"{name}: columns {sorted(found)}, recorded {sorted(wanted)}"]
    return [f"{name}: {k}: {found[k]}, recorded {wanted[k]}" for k in wanted if found[k] != wanted[k]]
