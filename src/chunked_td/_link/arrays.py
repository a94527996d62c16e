"""Arrays of NamedTuples: declared once, made, checked, enlarged, laid side by side, and read by one address.

A NamedTuple for kernels declares its arrays where it declares its fields:

    class Trace(NamedTuple):
        rows: Annotated[np.ndarray, "int64[capacity]"]
        weight: Annotated[np.ndarray, "float64[capacity, d]"]

`zeros` and `enlarged` make them; `check_layout` refuses another dtype, rank or order.

Numba looks at every array of every argument on every call, which costs more than a step of learning. So Python passes
one number: the address of a table that says where the arrays of a tree lie (`Packed`), and a kernel made for the types
in the tree puts it together again from there (`reader`). Numbers in the tree are those of the moment it was packed;
those that are `static` are known to the compiler.
"""

from __future__ import annotations

import functools
import typing
from collections import namedtuple
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numba.core import cgutils
from numba.core import types as nb
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

from chunked_td._link.link import COMPILED

# ---- declared arrays


class Layout(NamedTuple):
    """A declared array: its dtype and the names of its dimensions."""

    dtype: np.dtype
    dims: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Layout:
        """From text such as "float64[S, A]"."""
        dtype, _, dims = text.rstrip("]").partition("[")
        return cls(np.dtype(dtype), tuple(dim.strip() for dim in dims.split(",")))


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
            dtype, dims = layouts(type(value)).get(name) or (field.dtype, ("",) * field.ndim)
            if not field.flags.c_contiguous or field.dtype != dtype or field.ndim != len(dims):
                wanted = f"{type(value).__name__}.{name} must be a C-ordered {dtype}[{', '.join(dims)}]"
                raise TypeError(f"{wanted}, got {field.dtype}{list(field.shape)} with strides {field.strides}")
    return value


def zeros(cls: Any, sizes: Mapping[str, int], /, **given: Any) -> Any:
    """A NamedTuple of this class: zeros for the arrays that it declares, of these sizes, but for what is `given`."""
    declared = {name: layout for name, layout in layouts(cls).items() if name not in given}
    shapes = {name: [sizes[dim] if dim in sizes else int(dim) for dim in dims] for name, (_, dims) in declared.items()}
    return cls(**{name: np.zeros(shape, declared[name].dtype) for name, shape in shapes.items()}, **given)


def enlarged(value: Any, /, **sizes: int) -> Any:
    """The NamedTuple `value` with other lengths of some dimensions; what its arrays hold stays, and zeros are added."""
    larger = {}
    for name, (dtype, dims) in layouts(type(value)).items():
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


# ---- by address

SMALL = 64
"""Arrays of up to so many numbers may lie on the stack, where the compiler keeps them in registers."""


class static(int):
    """A whole number that the compiler knows."""


def _told(made: Any) -> Any:
    made.told_by_its_name = True
    return made


@functools.cache
def array_at(dtype: np.dtype, known: tuple[int, ...]) -> Any:
    """A kernel of an address: the array of this type whose address and shape stand there.

    Args:
      known: the shape; −1 for axes whose length is read.
    """
    kind = nb.Array(from_dtype(dtype), len(known), "C")

    def build(context, builder, sig, args):
        table = builder.inttoptr(args[0], cgutils.intp_t.as_pointer())

        def word(k):
            return builder.load(builder.gep(table, [context.get_constant(nb.intp, k)]))

        shape = [word(k + 1) if n < 0 else context.get_constant(nb.intp, n) for k, n in enumerate(known)]
        data = builder.inttoptr(word(0), context.get_data_type(kind.dtype).as_pointer())
        return _array(context, builder, kind, data, shape)

    return _told(intrinsic(lambda typingctx, address: (kind(nb.int64), build)))


@functools.cache
def on_stack(dtype: np.dtype, size: int) -> Any:
    """A kernel of nothing: zeros on the stack of its caller."""
    kind = nb.Array(from_dtype(dtype), 1, "C")

    def build(context, builder, sig, args):
        count = context.get_constant(nb.intp, size)
        data = cgutils.alloca_once(builder, context.get_data_type(kind.dtype), size=max(size, 1))
        cgutils.memset(builder, data, context.get_constant(nb.intp, size * dtype.itemsize), 0)
        return _array(context, builder, kind, data, [count])

    return _told(intrinsic(lambda typingctx: (kind(), build)))


def _array(context, builder, kind, data, shape):
    """A C-ordered array at `data`."""
    item = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides = [context.get_constant(nb.intp, item)]
    for n in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], n))
    array: Any = make_array(kind)(context, builder)
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=strides[-1], meminfo=None)
    return array._getvalue()


@_told
@intrinsic
def word_at(typingctx, address):
    """The whole number at an address."""

    def build(context, builder, sig, args):
        return builder.load(builder.inttoptr(args[0], cgutils.intp_t.as_pointer()))

    return nb.int64(nb.int64), build


@_told
@intrinsic
def real_at(typingctx, address):
    """The float64 at an address."""

    def build(context, builder, sig, args):
        return builder.load(builder.inttoptr(args[0], context.get_data_type(nb.float64).as_pointer()))

    return nb.float64(nb.int64), build


def _numbers(value: Any) -> list[int]:
    """Of every array its address and shape, of every number its bits."""
    if value is None or isinstance(value, static):
        return []
    if isinstance(value, np.ndarray):
        return [value.ctypes.data, *value.shape]
    if hasattr(value, "_fields"):
        return [number for field in value for number in _numbers(field)]
    if isinstance(value, (float, np.floating)):
        return [int(np.float64(value).view(np.int64))]
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return [int(value)]
    raise TypeError(f"a tuple for compiled code holds arrays, numbers, None and tuples of those, got {value!r}")


_TREES: dict[int, Any] = {}
"""Trees by number, for programs that are left in Python."""


class Packed:
    """A tree by the address of a table; it keeps the arrays alive.

    Attributes:
      step: a program that the owner calls often.
    """

    step: Any = None

    def __init__(self, tree: Any, compiled: bool = True) -> None:
        self.tree = check_layout(tree)
        if compiled and COMPILED:
            self.table = np.array(_numbers(tree), np.int64)
            self.address = self.table.ctypes.data
        else:
            self.address = id(self)
            _TREES[self.address] = tree

    def __del__(self) -> None:
        _TREES.pop(self.__dict__.get("address", 0), None)


def read_plain(address: int) -> Any:
    """The reader of programs that are left in Python."""
    return _TREES[address]


@functools.cache
def tuple_class(name: str, fields: tuple[str, ...]) -> Any:
    """What compiled code knows a NamedTuple by: its name and fields, whoever made it."""
    return namedtuple(name, fields)


class _Text:
    """The text of a reader, and the names in it."""

    def __init__(self, sizes: Mapping[str, int], local: bool) -> None:
        self.sizes, self.local, self.place = sizes, local, 0
        self.space: dict[str, Any] = {"__name__": __name__, "word_at": word_at, "real_at": real_at}
        self.classes: dict[Any, str] = {}

    def of(self, value: Any, dims: tuple[str, ...] = ()) -> str:
        """An expression for a value of the tree; `dims` are the declared names of an array's axes."""
        if value is None or isinstance(value, static):
            return "None" if value is None else repr(int(value))
        if hasattr(value, "_fields"):
            declared = layouts(type(value)) if type(value).__module__ != "builtins" else {}
            fields = [self._field(name, one, declared) for name, one in zip(value._fields, value, strict=True)]
            return f"{self._class_of(value)}({', '.join(fields)})"
        here, self.place = f"address + {8 * self.place}", self.place + len(_numbers(value))
        if isinstance(value, np.ndarray):
            return self._array(value, dims, here)
        if isinstance(value, (bool, np.bool_)):
            return f"word_at({here}) != 0"
        return f"word_at({here})" if isinstance(value, (int, np.integer)) else f"real_at({here})"

    def _field(self, name: str, value: Any, declared: Mapping[str, Any]) -> str:
        """A field of a tuple; the dynamics' own arrays stay where they are."""
        before, self.local = self.local, self.local and name != "env"
        try:
            return self.of(value, getattr(declared.get(name), "dims", ()))
        finally:
            self.local = before

    def _class_of(self, value: Any) -> str:
        made = tuple_class(type(value).__name__, value._fields)
        name = self.classes.setdefault(made, f"{made.__name__}_{len(self.classes)}")
        self.space[name] = made
        return name

    def _array(self, value: np.ndarray, dims: tuple[str, ...], here: str) -> str:
        known = [self.sizes.get(dim, -1) for dim in dims] or [-1] * value.ndim
        if self.local and value.ndim == 1 and 0 <= known[0] <= SMALL:
            name = f"stack_{value.dtype.name}_{value.size}"
            self.space[name] = on_stack(value.dtype, value.size)
            return f"{name}()"
        known = [n if k == value.ndim - 1 and n <= SMALL else -1 for k, n in enumerate(known)] if self.local else known
        shape = tuple(known) if self.local else (-1,) * value.ndim
        name = f"{value.dtype.name}_{'_'.join('n' if n < 0 else str(n) for n in shape)}"
        self.space[name] = array_at(value.dtype, shape)
        return f"{name}({here})"


def reader(tree: Any, sizes: Mapping[str, int] | None = None, *, local: bool = False) -> tuple[str, Any]:
    """The text of the types in a tree, and a kernel read(address): the tree again.

    Args:
      sizes: lengths of axes by name that the compiler is to know.
      local: arrays of these lengths are new ones on the stack instead, all zero; of larger ones the last axis is known.
    """
    text = _Text(sizes or {}, local)
    body = text.of(tree)
    exec(f"def read(address):\n    return {body}", text.space)
    read = text.space["read"]
    read.options = {"inline": "always"}  # memory on the stack belongs to the function that asks for it
    return body, read
