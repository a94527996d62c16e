"""Arrays of NamedTuples: declared once, made, checked, enlarged and laid side by side.

A NamedTuple for kernels declares its arrays where it declares its fields:

    class Trace(NamedTuple):
        rows: Annotated[np.ndarray, "int64[capacity] in [0, rows)"]
        weight: Annotated[np.ndarray, "float64[capacity, d]"]
        slot: Annotated[np.ndarray, "int32[rows], unsaved"]

`zeros` and `enlarged` make them; `check_layout` refuses another dtype, rank or order. What a file may hold follows from
the same text (`chunked_td.learners.schema`): bounds are numbers or dimensions, and "unsaved" is an array that is
written before it is read, or made from others.
"""

from __future__ import annotations

import functools
import re
import typing
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

_TEXT = re.compile(r"(\w+)\[([^]]*)\](?: in \[([^,]+), ([^])]+)([])]))?(, unsaved)?")


class Layout(NamedTuple):
    """A declared array: its dtype and the names of its dimensions, and what of it a file may hold."""

    dtype: np.dtype
    dims: tuple[str, ...]
    least: str = "-inf"
    most: str = "inf"
    closed: bool = False  # whether `most` itself is allowed
    saved: bool = True

    @classmethod
    def of(cls, text: str) -> Layout:
        """From text such as "float64[S, A]" or "int64[T] in [0, rows)"."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"arrays: a layout is such as 'float64[S, A]' or 'int64[T] in [0, rows)', got {text!r}")
        dims = tuple(dim.strip() for dim in found[2].split(","))
        return cls(np.dtype(found[1]), dims, found[3] or "-inf", found[4] or "inf", found[5] == "]", not found[6])


@functools.cache
def layouts(cls: type) -> dict[str, Layout]:
    """The declared arrays of a NamedTuple class."""
    declared = {}
    for name, hint in typing.get_type_hints(cls, include_extras=True).items():
        if typing.get_origin(hint) is typing.Annotated and isinstance(hint.__metadata__[0], str):
            declared[name] = Layout.of(hint.__metadata__[0])
    return declared


def check_layout(value: Any) -> Any:
    """Return the NamedTuple `value` if all its arrays, also those of tuples in it, are as declared."""
    for name, field in zip(value._fields, value, strict=True):
        if hasattr(field, "_fields"):
            check_layout(field)
        elif isinstance(field, np.ndarray):
            dtype, dims, *_ = layouts(type(value)).get(name) or (field.dtype, ("",) * field.ndim)
            if not field.flags.c_contiguous or field.dtype != dtype or field.ndim != len(dims):
                wanted = f"{type(value).__name__}.{name} must be a C-ordered {dtype}[{', '.join(dims)}]"
                raise TypeError(f"{wanted}, got {field.dtype}{list(field.shape)} with strides {field.strides}")
    return value


def zeros(cls: Any, sizes: Mapping[str, int], /, **given: Any) -> Any:
    """A NamedTuple of this class: zeros for the arrays that it declares, of these sizes, but for what is `given`."""
    declared = {name: layout for name, layout in layouts(cls).items() if name not in given}
    shapes = {name: [sizes[dim] if dim in sizes else int(dim) for dim in one.dims] for name, one in declared.items()}
    return cls(**{name: np.zeros(shape, declared[name].dtype) for name, shape in shapes.items()}, **given)


def enlarged(value: Any, /, **sizes: int) -> Any:
    """The NamedTuple `value` with other lengths of some dimensions; what its arrays hold stays, and zeros are added."""
    larger = {}
    for name, (dtype, dims, *_) in layouts(type(value)).items():
        if not sizes.keys().isdisjoint(dims):
            old = getattr(value, name)
            shape: Any = [sizes.get(dim, n) for dim, n in zip(dims, old.shape, strict=True)]
            larger[name] = np.zeros(shape, dtype)
            larger[name][tuple(map(slice, old.shape))] = old
    return value._replace(**larger)


def stacked(items: Any) -> Any:
    """One NamedTuple whose arrays hold those of all `items`, along a new first axis; other fields must be equal."""
    first = items[0]
    if isinstance(first, np.ndarray):
        return np.stack(items)
    if hasattr(first, "_fields"):
        return type(first)(*(stacked(fields) for fields in zip(*items, strict=True)))
    return first


def at(batch: Any, index: Any) -> Any:
    """Item `index` of a stacked NamedTuple: the same arrays, one axis less, as views. None has the item None."""
    if isinstance(batch, np.ndarray):
        return batch[index]
    if hasattr(batch, "_fields"):
        return type(batch)(*(at(field, index) for field in batch))
    return batch
