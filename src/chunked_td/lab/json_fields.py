"""Typed reading of JSON objects: every error names the key, what it takes and what came."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import Any, TypeVar

T = TypeVar("T")


class JsonObject:
    """A JSON object whose values are read one by one, each with a check.

    Args:
      where: what the object is, for errors.
      values: the parsed JSON.
      keys: the keys it must have, and no others; None does not check.
    """

    def __init__(self, where: str, values: Any, keys: Collection[str] | None = None):
        if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
            raise ValueError(f"{where} must be a JSON object, got {_short(values)}")
        if keys is not None and set(values) != set(keys):
            raise ValueError(f"{where} must have the keys {sorted(keys)}, got {sorted(values)}")
        self.where, self.values = where, values

    def get(self, key: str, accepted: str, test: Callable[[Any], bool]) -> Any:
        """The value of a key if it passes a test; otherwise a ValueError."""
        if key not in self.values:
            raise ValueError(f"{self.where} must have the key {key!r}, got {sorted(self.values)}")
        value = self.values[key]
        if not test(value):
            raise ValueError(f"{key} of {self.where} must be {accepted}, got {_short(value)}")
        return value

    def text(self, key: str) -> str:
        """A text."""
        return self.get(key, "a text", is_text)

    def flag(self, key: str) -> bool:
        """True or False."""
        return self.get(key, "true or false", lambda value: isinstance(value, bool))

    def whole(self, key: str, least: int | None = None) -> int:
        """A whole number, from `least`."""
        accepted = "a whole number" if least is None else f"a whole number from {least}"
        return self.get(key, accepted, lambda value: is_whole(value) and (least is None or value >= least))

    def number(self, key: str) -> float:
        """A number."""
        return self.get(key, "a number", is_number)

    def number_or_none(self, key: str) -> float | None:
        """A number or null."""
        return self.get(key, "a number or null", lambda value: value is None or is_number(value))

    def whole_or_none(self, key: str) -> int | None:
        """A whole number or null."""
        return self.get(key, "a whole number or null", lambda value: value is None or is_whole(value))

    def wholes(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers."""
        found = self.get(key, "a list of whole numbers", lambda v: isinstance(v, list) and all(map(is_whole, v)))
        return tuple(found)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        return tuple(self.get(key, "a list of texts", lambda v: isinstance(v, list) and all(map(is_text, v))))

    def items(self, key: str, read: Callable[[Any], T]) -> tuple[T, ...]:
        """A list, each item read by `read`."""
        return tuple(read(item) for item in self.get(key, "a list", lambda value: isinstance(value, list)))

    def object(self, key: str) -> Mapping[str, Any]:
        """A JSON object, as it is."""
        return self.get(key, "a JSON object", lambda value: isinstance(value, Mapping))


def read_fields(cls: type[T], where: str, values: Any, **special: Callable[[JsonObject], Any]) -> T:
    """A dataclass from a JSON object with its fields, each read as its annotation says.

    Args:
      where: what the object is, for errors.
      special: how fields with other annotations, or with bounds, are read.
    """
    read = JsonObject(where, values, [field.name for field in fields(cls)])  # type: ignore[arg-type]
    found = {
        field.name: special[field.name](read) if field.name in special else _READERS[str(field.type)](read, field.name)
        for field in fields(cls)  # type: ignore[arg-type]
    }
    return cls(**found)


_READERS: dict[str, Callable[[JsonObject, str], Any]] = {
    "str": JsonObject.text,
    "bool": JsonObject.flag,
    "int": JsonObject.whole,
    "int | None": JsonObject.whole_or_none,
    "float": JsonObject.number,
    "float | None": JsonObject.number_or_none,
    "tuple[int, ...]": JsonObject.wholes,
    "tuple[str, ...]": JsonObject.texts,
    "Mapping[str, Any]": JsonObject.object,
}
"""By the annotation of a field, as the source has it."""


def is_whole(value: Any) -> bool:
    """Whether a JSON value is a whole number that int64 can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def is_number(value: Any) -> bool:
    """Whether a JSON value is a finite number."""
    return is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def is_text(value: Any) -> bool:
    """Whether a JSON value is a text that can be written to a file."""
    return isinstance(value, str) and value.encode("utf-8", "replace").decode() == value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
