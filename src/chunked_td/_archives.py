"""NumPy archives that may come from strangers: nothing is parsed before the digest agrees, nothing unpacked unasked.

An archive is a zip file of arrays, as `np.savez` writes it. `seal` adds a SHA-256 digest of all other bytes as the
comment of the zip file, so that every reader of NumPy archives still reads it, and `unseal` checks it first.
`Archive` compares declared sizes with the file before memory is taken, and unpacks what it is asked for. Nothing is
ever unpickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from typing import IO

import numpy as np

_SEAL = b"sha256 of all bytes before: "
_COMMENT = len(_SEAL) + 64
_END = 22  # bytes of a zip file's end record, which the comment follows
ROOM = 1 << 30
"""Bytes that any archive may unpack to."""
RATIO = 100
"""An archive that unpacks to more than `ROOM` may be so many times its own size. (Deflate packs zeros 1000 times.)"""


def pack(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays as a sealed archive; compressed, unless it would look like a bomb to `Archive`."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    if sum(array.nbytes + 256 for array in arrays.values()) > max(ROOM, RATIO * buffer.tell()):
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return seal(buffer.getvalue())


def seal(archive: bytes) -> bytes:
    """A zip file without a comment, with its digest as the comment."""
    body = archive[:-2] + struct.pack("<H", _COMMENT) + _SEAL
    return body + hashlib.sha256(body).hexdigest().encode()


def unseal(content: bytes) -> None:
    """Refuse a sealed archive that was changed. One without a comment, as version 0.1 wrote it, passes.

    Raises:
      ValueError: says what is wrong.
    """
    end = content[-_END - _COMMENT : -_COMMENT]
    if content[-_COMMENT:-64] == _SEAL and end.startswith(b"PK\5\6"):
        if hashlib.sha256(content[:-64]).hexdigest().encode() != content[-64:]:
            raise ValueError("damaged: its bytes do not match its digest")
    elif not (content[-_END:].startswith(b"PK\5\6") and content.endswith(b"\0\0") and len(content) >= _END):
        raise ValueError("cut short, damaged, or something else altogether")


class Archive(Mapping[str, np.ndarray]):
    """The arrays of an archive whose digest was checked, each unpacked when it is first asked for.

    Args:
      content: the file.
      room: bytes that all arrays together may take; None is `ROOM`, or `RATIO` times the file if that is more.
    Raises:
      ValueError: says what is wrong; also when an array is asked for.
    """

    def __init__(self, content: bytes, room: int | None = None):
        room = max(ROOM, RATIO * len(content)) if room is None else room
        with _explained():
            self._zip = zipfile.ZipFile(io.BytesIO(content))
            members = self._zip.infolist()
        self._members = {member.filename.removesuffix(".npy"): member for member in members}
        self._read: dict[str, np.ndarray] = {}
        if len(self._members) != len(members):
            raise ValueError("an archive that holds two arrays of one name")
        wanted = sum(member.file_size for member in members)
        if wanted > room:
            raise ValueError(f"an archive that would unpack to {wanted:,} bytes, where {room:,} are allowed")

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._read:
            member = self._members[name]
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{member.filename}: packed in a way that is not used here")
            with _explained(), self._zip.open(member) as file:
                self._read[name] = _array(member, file)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def check_all_read(self) -> None:
        """Refuse an archive with arrays that nobody asked for; they were never unpacked."""
        unread = [name for name in self._members if name not in self._read]
        if unread:
            raise ValueError(f"an archive that holds {', '.join(map(repr, unread))}, which does not belong there")


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Any error as a ValueError: a damaged zip file fails in as many ways as it has fields."""
    try:
        yield
    except ValueError:
        raise
    except Exception as problem:
        raise ValueError(f"not an archive that can be read ({type(problem).__name__}: {problem})") from problem


_HEADER = re.compile(
    r"\{'descr': '([<|][biufU][0-9]{1,9})', 'fortran_order': (False|True), "
    r"'shape': \(((?:[0-9]{1,18}, ?)*(?:[0-9]{1,18})?)\), \} *\n"
)
"""The header of an array as NumPy writes it. Objects, fields, and big-endian numbers have others and are not read."""


def _array(member: zipfile.ZipInfo, file: IO[bytes]) -> np.ndarray:
    """An array from an .npy file: numbers, texts or truth values, and nothing after it. Memory is taken for it once."""
    name, begin = member.filename, file.read(12)
    start = 10 if begin[6:7] == b"\1" else 12
    if not begin.startswith(b"\x93NUMPY") or begin[6:7] not in (b"\1", b"\2", b"\3") or len(begin) < 12:
        raise ValueError(f"{name}: no array")
    (length,) = struct.unpack("<H" if start == 10 else "<I", begin[8:start])
    found = _HEADER.fullmatch((begin[start:] + file.read(min(length, 10_000) + start - 12)).decode("latin1"))
    if found is None:
        raise ValueError(f"{name}: not an array of little-endian numbers or texts; objects are never unpickled")
    shape = tuple(int(n) for n in found[3].replace(" ", "").split(",") if n)
    dtype, size = np.dtype(found[1]), member.file_size - start - length
    if not dtype.itemsize or size != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name}: {dtype}{list(shape)} does not match its {size:,} bytes")
    if found[2] == "True":
        return np.ascontiguousarray(_filled(np.empty(shape, dtype, order="F"), file))
    return _filled(np.empty(shape, dtype), file)


def _filled(array: np.ndarray, file: IO[bytes]) -> np.ndarray:
    """The array with the bytes of the file, in the order in which it lies in memory."""
    room, at = array.reshape(-1, order="A").view(np.uint8).data, 0
    while part := file.read(1 << 18):
        room[at : at + len(part)] = part
        at += len(part)
    if at != len(room):
        raise ValueError("cut short")
    return array
