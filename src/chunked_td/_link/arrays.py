"""Arrays of NamedTuples: declared once, allocated, checked, enlarged and stacked.

A NamedTuple for kernels declares its arrays with its fields:

    class Trace(NamedTuple):
        rows: Annotated[np.ndarray, "int64[capacity] in [0, rows)"]
        weight: Annotated[np.ndarray, "float64[capacity, d]"]
        slot: Annotated[np.ndarray, "int32[rows], unsaved"]

`zeros` and `enlarged` allocate them. `check_layout` raises on another dtype, rank or order. The same text defines the
valid content of a saved file (`chunked_td.learners.schema`): bounds are numbers or dimensions, and "unsaved" marks an
array that is written before it is read, or derived from others.
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
    """Declared array: its dtype, the names of its dimensions, and its valid content in a saved file."""

    dtype: np.dtype
    dims: tuple[str, ...]
    least: str = "-inf"
    most: str = "inf"
    closed: bool = False  # whether `most` itself is allowed
    saved: bool = True

    @classmethod
    def of(cls, text: str) -> Layout:
        """Return the layout of a text such as "float64[S, A]" or "int64[T] in [0, rows)"."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"arrays must be declared like 'float64[S, A]' or 'int64[T] in [0, rows)', got {text!r}")
        dims = tuple(dim.strip() for dim in found[2].split(","))
        return cls(np.dtype(found[1]), dims, found[3] or "-inf", found[4] or "inf", found[5] == "]", not found[6])


@functools.cache
def layouts(cls: type) -> dict[str, Layout]:
    """Return the declared arrays of a NamedTuple class."""
    declared = {}
    for name, hint in typing.get_type_hints(cls, include_extras=True).items():
        if typing.get_origin(hint) is typing.Annotated and isinstance(hint.__metadata__[0], str):
            declared[name] = Layout.of(hint.__metadata__[0])
    return declared


def check_layout(value: Any) -> Any:
    """Return the NamedTuple `value`; raise TypeError if an array in it, or in its tuples, is not as declared."""
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
    """Return a NamedTuple of this class: its declared arrays as zeros of these sizes, other fields as `given`."""
    declared = {name: layout for name, layout in layouts(cls).items() if name not in given}
    shapes = {name: [sizes[dim] if dim in sizes else int(dim) for dim in one.dims] for name, one in declared.items()}
    return cls(**{name: np.zeros(shape, declared[name].dtype) for name, shape in shapes.items()}, **given)


def enlarged(value: Any, /, **sizes: int) -> Any:
    """Return the NamedTuple `value` with some dimensions enlarged; content is kept, new entries are zero."""
    larger = {}
    for name, (dtype, dims, *_) in layouts(type(value)).items():
        if not sizes.keys().isdisjoint(dims):
            old = getattr(value, name)
            shape: Any = [sizes.get(dim, n) for dim, n in zip(dims, old.shape, strict=True)]
            larger[name] = np.zeros(shape, dtype)
            larger[name][tuple(map(slice, old.shape))] = old
    return value._replace(**larger)


def stacked(items: Any) -> Any:
    """Stack the arrays of all `items` along a new first axis in one NamedTuple; other fields must be equal."""
    first = items[0]
    if isinstance(first, np.ndarray):
        return np.stack(items)
    if hasattr(first, "_fields"):
        return type(first)(*(stacked(fields) for fields in zip(*items, strict=True)))
    return first


def at(batch: Any, index: Any) -> Any:
    """Return item `index` of a stacked NamedTuple: views of the arrays without the first axis; None for None."""
    if isinstance(batch, np.ndarray):
        return batch[index]
    if hasattr(batch, "_fields"):
        return type(batch)(*(at(field, index) for field in batch))
    return batch
