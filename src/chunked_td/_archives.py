"""NumPy archives that may come from strangers: nothing is parsed before the digest agrees, nothing unpacked unasked.

An archive is a zip file of arrays, as `np.savez` writes it. `seal` adds a SHA-256 digest of all other bytes as the
comment of the zip file, so that every reader of NumPy archives still reads it, and `unseal` checks it first.
`Archive` compares declared sizes with the file before memory is taken, and unpacks what it is asked for. Nothing is
ever unpickled. The checksums of the zip file are read only where there is no digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping

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


def unseal(content: bytes) -> bool:
    """Refuse a sealed archive that was changed. One without a comment, as version 0.1 wrote it, passes.

    Returns:
      whether it is sealed.
    Raises:
      ValueError: says what is wrong.
    """
    end = content[-_END - _COMMENT : -_COMMENT]
    if content[-_COMMENT:-64] == _SEAL and end.startswith(b"PK\5\6"):
        if hashlib.sha256(content[:-64]).hexdigest().encode() != content[-64:]:
            raise ValueError("damaged: its bytes do not match its digest")
        return True
    if not (content[-_END:].startswith(b"PK\5\6") and content.endswith(b"\0\0") and len(content) >= _END):
        raise ValueError("cut short, damaged, or something else altogether")
    return False


class Archive(Mapping[str, np.ndarray]):
    """The arrays of an archive, each unpacked when it is first asked for; its digest is checked before all else.

    Args:
      content: the file.
      room: bytes that all arrays together may take; None is `ROOM`, or `RATIO` times the file if that is more.
    Raises:
      ValueError: says what is wrong; also when an array is asked for.
    """

    def __init__(self, content: bytes, room: int | None = None):
        room = max(ROOM, RATIO * len(content)) if room is None else room
        self._content, self._sealed = content, unseal(content)
        with _explained():
            members = zipfile.ZipFile(io.BytesIO(content)).infolist()
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
            with _explained():
                self._read[name] = _array(member.filename, _unpacked(self._content, member, self._sealed))
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


def _unpacked(content: bytes, member: zipfile.ZipInfo, sealed: bool) -> np.ndarray:
    """The bytes of a member. Memory is taken once, as much as the member declares."""
    unpacked, at = np.empty(member.file_size, np.uint8), 0
    for part in _parts(content, member):
        if at + len(part) > unpacked.size:
            raise ValueError(f"{member.filename}: longer than the {unpacked.size:,} bytes that it declares")
        unpacked[at : at + len(part)] = np.frombuffer(part, np.uint8)
        at += len(part)
    if at != unpacked.size or not (sealed or zlib.crc32(unpacked.data) == member.CRC):
        raise ValueError(f"{member.filename}: cut short or damaged")
    return unpacked


def _parts(content: bytes, member: zipfile.ZipInfo) -> Iterator[bytes | memoryview]:
    """What a member unpacks to, in small parts."""
    name, extra = struct.unpack_from("<HH", content, member.header_offset + 26)
    start = member.header_offset + 30 + name + extra
    packed = memoryview(content)[start : start + member.compress_size]
    if member.compress_type == zipfile.ZIP_STORED:
        yield packed
    elif member.compress_type == zipfile.ZIP_DEFLATED:
        inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        for at in range(0, len(packed), 1 << 14):
            part = inflate.decompress(packed[at : at + (1 << 14)], 1 << 18)
            while part:
                yield part
                part = inflate.decompress(inflate.unconsumed_tail, 1 << 18)
    else:
        raise ValueError(f"{member.filename}: packed in a way that is not used here")


def _array(name: str, unpacked: np.ndarray) -> np.ndarray:
    """An array from the bytes of an .npy file: numbers, texts or truth values, and nothing after it."""
    begin = unpacked[:12].tobytes()
    start = 10 if begin[6:7] == b"\1" else 12
    if not begin.startswith(b"\x93NUMPY") or begin[6:7] not in (b"\1", b"\2", b"\3") or len(begin) < 12:
        raise ValueError(f"{name}: no array")
    (length,) = struct.unpack("<H" if start == 10 else "<I", begin[8:start])
    found = _HEADER.fullmatch(unpacked[start : start + min(length, 10_000)].tobytes().decode("latin1"))
    if found is None:
        raise ValueError(f"{name}: not an array of little-endian numbers or texts; objects are never unpickled")
    shape = tuple(int(n) for n in found[3].replace(" ", "").split(",") if n)
    dtype, numbers = np.dtype(found[1]), unpacked[start + length :]
    if not dtype.itemsize or numbers.size != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name}: {dtype}{list(shape)} does not match its {numbers.size:,} bytes")
    array = numbers.view(dtype).reshape(shape, order="F" if found[2] == "True" else "C")
    return np.require(array, requirements=["C", "A", "W"])
