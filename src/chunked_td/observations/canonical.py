"""Canonical bytes of an observation: equal observations give equal bytes, different ones different bytes.

`decode` reads them, except for enum members and dataclasses, whose classes are not in the bytes.

Growing tables need a dictionary from observations to ids, and saved agents store it. Arrays and dicts are not hashable,
and pickles run code when they are read. So an observation is encoded as bytes: one letter for its type, its length, its
content.

NumPy scalars count as Python numbers, lists as tuples, and anything with `__array__` (JAX, Torch on the CPU) as a NumPy
array. All other types differ: 1, 1.0 and True are three observations.
"""

from __future__ import annotations

import dataclasses
import enum
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

_DOUBLE = struct.Struct("<d")
_LENGTH = struct.Struct("<I")


def encode(observation: Any) -> bytes:
    """Encode an observation as canonical bytes.

    Args:
      observation: None, bool, number, str, bytes, array, enum member, dataclass instance; lists, tuples, sets
        and dicts of those.

    Raises:
      TypeError: for any other type.
    """
    encoder = _ENCODERS.get(type(observation))
    return encoder(observation) if encoder else _encode_other(observation)


def _piece(kind: bytes, content: bytes) -> bytes:
    return kind + _LENGTH.pack(len(content)) + content


@lru_cache(maxsize=1024)
def _array_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    if dtype.kind not in "biufcSU":
        raise TypeError(f"observation: arrays of {dtype} have no canonical form; use numbers, bools or strings")
    return _piece(b"A", f"{dtype.newbyteorder('<').str}{shape}".encode())


def _encode_array(array: np.ndarray) -> bytes:
    if array.ndim == 0:
        return encode(array.item())
    header = _array_header(array.dtype, array.shape)
    if array.dtype.kind in "fc":
        array = array + 0.0  # −0.0 and 0.0 are one observation
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return _piece(header, array.tobytes())


def _encode_sequence(items: Any) -> bytes:
    return _piece(b"t", b"".join([encode(item) for item in items]))


def _encode_mapping(mapping: Mapping[Any, Any]) -> bytes:
    pairs = sorted([(encode(key), encode(value)) for key, value in mapping.items()])
    return _piece(b"d", b"".join([part for pair in pairs for part in pair]))


def _encode_set(items: Any) -> bytes:
    return _piece(b"s", b"".join(sorted(encode(item) for item in items)))


def _encode_dataclass(instance: Any) -> bytes:
    fields = [instance.__class__.__qualname__]
    fields += [getattr(instance, field.name) for field in dataclasses.fields(instance) if field.compare]
    return _piece(b"c", _encode_sequence(fields))


_ENCODERS: dict[type, Any] = {
    type(None): lambda value: _piece(b"n", b""),
    bool: lambda value: _piece(b"b", b"1" if value else b"0"),
    int: lambda value: _piece(b"i", b"%d" % value),
    float: lambda value: _piece(b"f", _DOUBLE.pack(value + 0.0)),
    complex: lambda value: _piece(b"z", _DOUBLE.pack(value.real + 0.0) + _DOUBLE.pack(value.imag + 0.0)),
    str: lambda value: _piece(b"u", value.encode()),
    bytes: lambda value: _piece(b"y", value),
    tuple: _encode_sequence,
    list: _encode_sequence,
    dict: _encode_mapping,
    set: _encode_set,
    frozenset: _encode_set,
    np.ndarray: _encode_array,
}


def _encode_other(observation: Any) -> bytes:
    """Encode types that are not in `_ENCODERS`: subclasses, enums, dataclasses, arrays of other libraries."""
    if isinstance(observation, enum.Enum):
        return _piece(b"e", _encode_sequence([type(observation).__qualname__, observation.name]))
    if isinstance(observation, np.generic):
        return encode(observation.item())
    if dataclasses.is_dataclass(observation) and not isinstance(observation, type):
        return _encode_dataclass(observation)
    for kind in (bool, int, float, str, bytes, tuple, list, np.ndarray):
        if isinstance(observation, kind):
            return _ENCODERS[kind](observation)
    if isinstance(observation, Mapping):
        return _encode_mapping(observation)
    if isinstance(observation, (set, frozenset)):
        return _encode_set(observation)
    if hasattr(observation, "__array__"):
        return _encode_array(np.asarray(observation))
    raise TypeError(
        f"observation: a {type(observation).__name__} has no canonical form; accepted are None, bools, numbers, "
        f"strings, bytes, arrays, enum members and dataclasses, and lists, tuples, sets and dicts of those"
    )


def decode(content: bytes) -> Any:
    """Decode the bytes of `encode`. Lists become tuples, NumPy scalars Python numbers.

    Raises:
      ValueError: for enum members and dataclasses, whose classes are not in the bytes, and for other bytes.
    """
    try:
        value, end = _read(content, 0)
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise ValueError(f"decode: not canonical bytes of an observation ({problem!r})") from problem
    if end != len(content):
        raise ValueError("decode: not canonical bytes of an observation: there are bytes after its end")
    return value


def _read(content: bytes, at: int) -> tuple[Any, int]:
    """Observation that begins at `at`, and the index of its end."""
    kind, start = content[at : at + 1], at + 5
    end = start + _LENGTH.unpack_from(content, at + 1)[0]
    inner = content[start:end]
    if len(inner) != end - start:
        raise IndexError("cut short")
    if kind == b"A":  # the header of an array; its content follows
        dtype, _, shape = inner.decode().partition("(")
        start, end = end + 4, end + 4 + _LENGTH.unpack_from(content, end)[0]
        sizes = [int(n) for n in shape.rstrip(")").split(",") if n.strip()]
        return np.frombuffer(content[start:end], np.dtype(dtype)).reshape(sizes).copy(), end
    if kind in (b"e", b"c"):
        name = _parts(inner)[0][0]
        raise ValueError(f"decode: {name!r} is an enum or a dataclass, which cannot be rebuilt from bytes")
    if kind not in _DECODERS:
        raise ValueError(f"decode: not canonical bytes of an observation (kind {kind!r})")
    return _DECODERS[kind](inner), end


def _parts(inner: bytes) -> list[Any]:
    parts, at = [], 0
    while at < len(inner):
        part, at = _read(inner, at)
        parts.append(part)
    return parts


_DECODERS: dict[bytes, Any] = {
    b"n": lambda inner: None,
    b"b": lambda inner: inner == b"1",
    b"i": int,
    b"f": lambda inner: _DOUBLE.unpack(inner)[0],
    b"z": lambda inner: complex(_DOUBLE.unpack(inner[:8])[0], _DOUBLE.unpack(inner[8:])[0]),
    b"u": lambda inner: inner.decode(),
    b"y": bytes,
    b"t": lambda inner: tuple(_parts(inner)),
    b"d": lambda inner: dict(zip(_parts(inner)[::2], _parts(inner)[1::2], strict=True)),
    b"s": lambda inner: frozenset(_parts(inner)),
}
