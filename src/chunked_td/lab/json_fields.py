"""Typed reading of JSON values: every error names the key, what it takes and what came."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints


def read_json(kind: Any, value: Any, where: str, special: Mapping[Any, Callable[[Any], Any]] | None = None) -> Any:
    """A JSON value as a type; ValueError says what is wrong.

    Args:
      kind: str, bool, int, float, Any, `X | None`, `tuple[X, ...]`, `tuple[X, Y]`, `Mapping[str, X]`, or a dataclass,
        whose fields are read as its annotations say.
      where: what the value is, for errors.
      special: readers of other types.
    """
    if special and kind in special:
        return special[kind](value)
    if kind is Any:
        return value
    or_null = NoneType in get_args(kind)
    if or_null and value is None:
        return None
    kind = get_args(kind)[0] if or_null else kind
    if kind in _PLAIN:
        accepted, test = _PLAIN[kind]
        if not test(value):
            raise ValueError(f"{where} must be {accepted}{' or null' if or_null else ''}, got {_short(value)}")
        return value
    origin, inside = get_origin(kind), get_args(kind)
    if origin is tuple:
        several = inside[-1] is Ellipsis
        if not isinstance(value, list) or not (several or len(value) == len(inside)):
            raise ValueError(f"{where} must be a list{'' if several else f' of {len(inside)}'}, got {_short(value)}")
        kinds = inside[:1] * len(value) if several else inside
        return tuple(read_json(one, item, f"each of {where}", special) for one, item in zip(kinds, value, strict=True))
    if origin is Mapping:
        return {key: read_json(inside[1], item, f"{key} of {where}", special) for key, item in keyed(value, where)}
    hints = _hints(kind)
    values = dict(keyed(value, where, hints))
    return kind(**{name: read_json(hint, values[name], f"{name} of {where}", special) for name, hint in hints.items()})


def keyed(value: Any, where: str, keys: Collection[str] | None = None) -> list[tuple[str, Any]]:
    """The keys and values of a JSON object. Args: keys: those that it must have, and no others; None is any."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{where} must be a JSON object, got {_short(value)}")
    if keys is not None and set(value) != set(keys):
        raise ValueError(f"{where} must have the keys {sorted(keys)}, got {sorted(value)}")
    return list(value.items())


@cache
def _hints(kind: Any) -> dict[str, Any]:
    found = get_type_hints(kind)
    return {field.name: found[field.name] for field in fields(kind)}


def _is_whole(value: Any) -> bool:
    """Whether int64 can hold it."""
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _is_number(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def _is_text(value: Any) -> bool:
    """Whether it can be written to a file."""
    return isinstance(value, str) and value.encode("utf-8", "replace").decode() == value


_PLAIN: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    str: ("a text", _is_text),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a whole number", _is_whole),
    float: ("a number", _is_number),
}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
