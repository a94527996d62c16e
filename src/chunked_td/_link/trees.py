"""Access to a tree of NamedTuples by one address.

Numba unpacks every array of every argument on every call, which costs more than a learning step. So Python passes one
number: the address of a table with the addresses of the arrays in a tree (`Packed`). Kernels pass on a pointer to that
table, or to a part of it: `m.memory.delta_t` reads its entries (`Tree`). Numbers in the tree are copied at packing;
`static` ones are constants for the compiler.
"""

from __future__ import annotations

import functools
import hashlib
from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba.core import cgutils
from numba.core import types as nb
from numba.core.datamodel import models
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, register_model
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

from chunked_td._link.arrays import Layout, check_layout, layouts
from chunked_td._link.link import COMPILED

SMALL = 64
"""Maximum size of an array on the stack, where the compiler can keep it in registers."""


class static(int):
    """An integer that is a constant for the compiler."""


# ---- in Python


def _numbers(value: Any) -> list[int]:
    """Return address and shape of every array, and the bits of every number."""
    if value is None or isinstance(value, static):
        return []
    if isinstance(value, np.ndarray):
        return [value.ctypes.data, *value.shape]
    if hasattr(value, "_fields") or (type(value) is tuple and all(_is_number(one) for one in value)):
        return [number for field in value for number in _numbers(field)]
    if isinstance(value, (float, np.floating)):
        return [int(np.float64(value).view(np.int64))]
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return [int(value)]
    raise TypeError(f"a tuple for compiled code must hold arrays, numbers, None and tuples of those, got {value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.generic)) and not isinstance(value, static)


_TREES: dict[int, Any] = {}
"""Trees by number, for programs in plain Python."""


class Packed:
    """A tree with the address of its table; it keeps the arrays alive.

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
    """Reader for programs in plain Python."""
    return _TREES[address]


@functools.cache
def tuple_class(name: str, fields: tuple[str, ...]) -> Any:
    """Return a NamedTuple class of this name with these fields."""
    made: Any = namedtuple(name, fields)  # type: ignore[misc]
    made.__reduce__ = lambda self: (_made, (name, fields, tuple(self)))  # the class is not an attribute of a module
    return made


def _made(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return tuple_class(name, fields)(*values)


# ---- types


class Field(NamedTuple):
    """Field of a tree: its type, its offset in the tree's table, and its compile-time constants."""

    kind: Any
    place: int
    known: Any  # a number or None; for an array its shape, −1 for lengths that are read


class Tree(nb.Type):
    """Numba's type of a tree.

    Args:
      text: identifies this type.
      fields: by name.
      lasting: whether the table is the one that Python wrote, which is constant.
    """

    def __init__(self, text: str, fields: Mapping[str, Field], lasting: bool) -> None:
        self.tree_fields, self.lasting = dict(fields), lasting
        super().__init__(name=f"{text.partition('(')[0]}_{hashlib.sha256(text.encode()).hexdigest()[:16]}")


@register_model(Tree)
class _TreeModel(models.PrimitiveModel):
    """A tree is a pointer to its entries in the table."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, cgutils.intp_t.as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):
    key = Tree

    def generic_resolve(self, tree: Any, name: str) -> Any:
        """Return the type of a field; None if there is none."""
        field = tree.tree_fields.get(name)
        return None if field is None else field.kind


@lower_getattr_generic(Tree)
def _field(context: Any, builder: Any, tree: Any, table: Any, name: str) -> Any:
    """Return the value of a field."""
    kind, place, known = tree.tree_fields[name]

    def word(k: int, of: Any = None) -> Any:
        where = builder.gep(table, [context.get_constant(nb.intp, place + k)])
        loaded = builder.load(where if of is None else builder.bitcast(where, of.as_pointer()))
        if tree.lasting:
            loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    if isinstance(kind, Tree):
        return builder.gep(table, [context.get_constant(nb.intp, place)])
    if isinstance(kind, nb.Array):
        data = word(0, context.get_data_type(kind.dtype).as_pointer())
        lengths: list[int] = list(known)
        shape = [word(k + 1) if n < 0 else context.get_constant(nb.intp, n) for k, n in enumerate(lengths)]
        return _array(context, builder, kind, data, shape)
    if kind is nb.none:
        return context.get_dummy_value()
    if known is not None:
        return context.get_constant(nb.int64, known)

    def number(k: int, kind: Any) -> Any:
        if kind is nb.float64:
            return word(k, context.get_value_type(nb.float64))
        return word(k) if kind is nb.int64 else builder.icmp_signed("!=", word(k), context.get_constant(nb.intp, 0))

    if isinstance(kind, nb.BaseTuple):
        each: Any = kind
        return context.make_tuple(builder, kind, [number(k, one) for k, one in enumerate(each.types)])
    return number(0, kind)


def _array(context: Any, builder: Any, kind: Any, data: Any, shape: list[Any]) -> Any:
    """A C-ordered array at `data`."""
    item = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides = [context.get_constant(nb.intp, item)]
    for n in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], n))
    array: Any = make_array(kind)(context, builder)
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=strides[-1], meminfo=None)
    return array._getvalue()


def _text(tree: Any, sizes: Mapping[str, int] | None) -> str:
    """Return a text that determines the type of a tree. With `sizes` the tree is on the stack."""
    texts, declared = [], _declared(type(tree))
    for name, value in zip(tree._fields, tree, strict=True):
        if isinstance(value, np.ndarray):
            known = _known_shape(value, declared.get(name), sizes)
            texts.append(f"{name}={value.dtype.str}{list(known)}")
        elif hasattr(value, "_fields"):
            texts.append(f"{name}={_text(value, _sizes_inside(name, sizes))}")
        else:
            texts.append(f"{name}={int(value) if isinstance(value, static) else _type_of(value)}")
    return f"{type(tree).__name__}({', '.join(texts)})" + ("" if sizes is None else "*")


def _tree_of(tree: Any, sizes: Mapping[str, int] | None) -> Tree:
    """The type of a tree."""
    fields, place, declared = {}, 0, _declared(type(tree))
    for name, value in zip(tree._fields, tree, strict=True):
        known: Any = None
        if hasattr(value, "_fields"):
            kind: Any = _tree_of(value, _sizes_inside(name, sizes))
        elif isinstance(value, np.ndarray):
            kind = nb.Array(from_dtype(value.dtype), value.ndim, "C")
            known = _known_shape(value, declared.get(name), sizes)
        elif isinstance(value, static):
            kind, known = nb.int64, int(value)
        else:
            kind = _type_of(value)
        fields[name] = Field(kind, place, known)
        place += len(_numbers(value))
    return Tree(_text(tree, sizes), fields, sizes is None)


def _declared(cls: type) -> Mapping[str, Layout]:
    """Return the declared arrays of a tree's class; a class made here declares none."""
    return layouts(cls) if cls.__module__ != "builtins" else {}


def _sizes_inside(name: str, sizes: Mapping[str, int] | None) -> Mapping[str, int] | None:
    """Return the lengths known in a field; arrays of the dynamics are not moved."""
    return {} if name == "env" and sizes is not None else sizes


def _type_of(value: Any) -> Any:
    """Return the type of a number, a tuple of numbers, or None."""
    if isinstance(value, tuple):
        return nb.BaseTuple.from_types(tuple(map(_type_of, value)))
    if value is None:
        return nb.none
    if isinstance(value, (bool, np.bool_)):
        return nb.boolean
    return nb.int64 if isinstance(value, (int, np.integer)) else nb.float64


def _known_shape(value: np.ndarray, layout: Layout | None, sizes: Mapping[str, int] | None) -> tuple[int, ...]:
    """Return an array's lengths, −1 if unknown to the compiler: it knows all on the stack, else the last."""
    if not sizes or not value.ndim or layout is None:
        return (-1,) * value.ndim
    last = sizes.get(layout.dims[-1], -1)
    return (-1,) * (value.ndim - 1) + ((last,) if 0 <= last <= SMALL else (-1,))


# ---- readers


def _named(made: Any, text: str) -> Any:
    """Return the function under a name with a digest of its text, by which the linker identifies it."""
    made.__name__ = f"read_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    made.told_by_its_name = True
    return made


_READERS: dict[str, Any] = {}
"""Readers by the text of the types that they read."""


def reader(tree: Any) -> tuple[str, Any]:
    """Return the text of the types in a tree, and a kernel read(address) that returns the tree."""
    text = _text(tree, None)
    if text not in _READERS:
        _READERS[text] = _reader(_tree_of(tree, None), text)
    return text, _READERS[text]


def _reader(kind: Tree, text: str) -> Any:
    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], cgutils.intp_t.as_pointer())

    return _named(intrinsic(lambda typingctx, address: (kind(nb.int64), build)), text)


def local_reader(tree: Any, sizes: Mapping[str, int]) -> tuple[str, Any]:
    """Return the same for a tree with its small arrays on the caller's stack, all zero.

    Args:
      sizes: lengths of axes by name. A one-dimensional array with such an axis and at most `SMALL` numbers is on the
        stack; for other arrays the compiler knows the length of the last axis.
    """
    text = _text(tree, sizes)
    if text not in _READERS:
        _READERS[text] = _local_reader(_tree_of(tree, sizes), text, _local_words(tree, sizes))
    return text, _READERS[text]


def _local_words(tree: Any, sizes: Mapping[str, int]) -> list[Any]:
    """Return for each table entry "number" or "pointer" to copy it, or dtype and size of an array on the stack."""
    declared, found = _declared(type(tree)), list[Any]()
    for name, value in zip(tree._fields, tree, strict=True):
        if isinstance(value, np.ndarray):
            shape = _known_shape(value, declared.get(name), sizes)
            found.append((value.dtype.str, shape[0]) if len(shape) == 1 and shape[0] >= 0 else "pointer")
            found += ["number"] * value.ndim
        elif hasattr(value, "_fields"):
            found += _local_words(value, _sizes_inside(name, sizes) or {})
        else:
            found += ["number"] * len(_numbers(value))
    return found


def _local_reader(kind: Tree, text: str, words: Sequence[Any]) -> Any:
    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        given = builder.inttoptr(args[0], cgutils.intp_t.as_pointer())
        table = cgutils.alloca_once(builder, cgutils.intp_t, size=max(len(words), 1))
        for k, what in enumerate(words):
            place, kept = context.get_constant(nb.intp, k), cgutils.intp_t
            if isinstance(what, tuple):
                dtype, size = np.dtype(what[0]), what[1]
                item = context.get_data_type(from_dtype(dtype))
                number = cgutils.alloca_once(builder, item, size=max(size, 1))
                cgutils.memset(builder, number, context.get_constant(nb.intp, size * dtype.itemsize), 0)
                kept = number.type
            else:
                kept = cgutils.voidptr_t if what == "pointer" else cgutils.intp_t
                number = builder.load(builder.bitcast(builder.gep(given, [place]), kept.as_pointer()))
            builder.store(number, builder.bitcast(builder.gep(table, [place]), kept.as_pointer()))
        return table

    made = intrinsic(lambda typingctx, address: (kind(nb.int64), build))
    return _named(made, text)


@functools.cache
def _word_at() -> Any:
    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], cgutils.intp_t.as_pointer()))

    return _named(intrinsic(lambda typingctx, address: (nb.int64(nb.int64), build)), "word")


word_at = _word_at()
"""word_at(address): the integer at that address."""
