"""A tree of NamedTuples by one address.

Numba looks at every array of every argument on every call, which costs more than a step of learning. So Python passes
one number: the address of a table that says where the arrays of a tree lie (`Packed`). Kernels hand on a pointer to that
table, or to a part of it: `m.memory.delta_t` reads its entries (`Tree`). Numbers in the tree are those of the moment it
was packed; those that are `static` are known to the compiler.
"""

from __future__ import annotations

import functools
import hashlib
from collections import namedtuple
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numba.core import cgutils
from numba.core import types as nb
from numba.core.datamodel import models
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, register_model
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

from chunked_td._link.arrays import check_layout, layouts
from chunked_td._link.link import COMPILED

SMALL = 64
"""Arrays of up to so many numbers may lie on the stack, where the compiler keeps them in registers."""


class static(int):
    """A whole number that the compiler knows."""


# ---- in Python


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
    """A NamedTuple class of this name with these fields."""
    return namedtuple(name, fields)


# ---- types


class Field(NamedTuple):
    """A field of a tree: its type, where its numbers begin in the tree's table, and the number itself if static."""

    kind: Any
    place: int
    number: int = 0


class Tree(nb.Type):
    """Numba's type of a tree.

    Args:
      text: tells this type from others.
      fields: by name.
      lasting: whether the table is the one that Python wrote, and stays as it is.
    """

    def __init__(self, text: str, fields: Mapping[str, Field], lasting: bool) -> None:
        self.tree_fields, self.lasting = dict(fields), lasting
        super().__init__(name=f"Tree_{hashlib.sha256(text.encode()).hexdigest()[:16]}")


@register_model(Tree)
class _TreeModel(models.PrimitiveModel):
    """A tree is a pointer to its entries in the table."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, cgutils.intp_t.as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):
    key = Tree

    def generic_resolve(self, tree: Any, name: str) -> Any:
        """The type of a field; None if there is none."""
        field = tree.tree_fields.get(name)
        return None if field is None else field.kind


@lower_getattr_generic(Tree)
def _field(context: Any, builder: Any, tree: Any, table: Any, name: str) -> Any:
    """The value of a field."""
    kind, place, number = tree.tree_fields[name]

    def word(k: int, of: Any = None) -> Any:
        where = builder.gep(table, [context.get_constant(nb.intp, place + k)])
        loaded = builder.load(where if of is None else builder.bitcast(where, of.as_pointer()))
        if tree.lasting:
            loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    if isinstance(kind, Tree):
        return builder.gep(table, [context.get_constant(nb.intp, place)])
    if isinstance(kind, nb.Array):
        data = builder.inttoptr(word(0), context.get_data_type(kind.dtype).as_pointer())
        return _array(context, builder, kind, data, [word(k + 1) for k in range(kind.ndim)])
    if kind is nb.none:
        return context.get_dummy_value()
    if kind is nb.float64:
        return word(0, context.get_value_type(nb.float64))
    if kind is nb.boolean:
        return builder.icmp_signed("!=", word(0), context.get_constant(nb.intp, 0))
    return word(0) if number is None else context.get_constant(nb.int64, number)


def _array(context: Any, builder: Any, kind: Any, data: Any, shape: list[Any]) -> Any:
    """A C-ordered array at `data`."""
    item = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides = [context.get_constant(nb.intp, item)]
    for n in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], n))
    array: Any = make_array(kind)(context, builder)
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=strides[-1], meminfo=None)
    return array._getvalue()


def _type_of(value: Any, lasting: bool) -> tuple[Any, str]:
    """The type of a value, and its text."""
    if hasattr(value, "_fields"):
        fields, texts, place = {}, [], 0
        for name, one in zip(value._fields, value, strict=True):
            kind, text = _type_of(one, lasting)
            fields[name] = Field(kind, place, int(one) if isinstance(one, static) else None)  # type: ignore[arg-type]
            texts.append(f"{name}={text}")
            place += len(_numbers(one))
        text = f"{type(value).__name__}({', '.join(texts)})" + ("" if lasting else "*")
        return _tree_type(text, tuple(fields.items()), lasting), text
    if value is None:
        return nb.none, "None"
    if isinstance(value, np.ndarray):
        kind = nb.Array(from_dtype(value.dtype), value.ndim, "C")
        return kind, f"{value.dtype}[{value.ndim}]"
    if isinstance(value, static):
        return nb.int64, repr(int(value))
    if isinstance(value, (bool, np.bool_)):
        return nb.boolean, "bool"
    return (nb.int64, "int") if isinstance(value, (int, np.integer)) else (nb.float64, "float")


@functools.cache
def _tree_type(text: str, fields: tuple[tuple[str, Field], ...], lasting: bool) -> Tree:
    return Tree(text, dict(fields), lasting)


# ---- readers


def _named(made: Any, text: str) -> Any:
    """A function that the linker knows by its name, in which is a digest of its text."""
    made.__name__ = f"read_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    made.told_by_its_name = True
    return made


def reader(tree: Any) -> tuple[str, Any]:
    """The text of the types in a tree, and a kernel read(address): the tree."""
    kind, text = _type_of(tree, True)
    return text, _reader(kind, text)


@functools.cache
def _reader(kind: Tree, text: str) -> Any:
    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], cgutils.intp_t.as_pointer())

    return _named(intrinsic(lambda typingctx, address: (kind(nb.int64), build)), text)


def local_reader(tree: Any, sizes: Mapping[str, int]) -> tuple[str, Any]:
    """The same for a tree with its small arrays on the stack of the caller, all zero.

    Args:
      sizes: lengths of axes by name. An array with such axes alone lies on the stack, if it is one-dimensional and has
        at most `SMALL` numbers; of others the last axis is known to the compiler.
    """
    kind, text = _type_of(tree, False)
    words = tuple(_local_words(tree, sizes))
    return f"{text} {words}", _local_reader(kind, f"{text} {words}", words)


def _local_words(value: Any, sizes: Mapping[str, int], dims: tuple[str, ...] = ()) -> list[Any]:
    """For every entry of the table: None to copy it, a number, or the dtype and size of an array on the stack."""
    if isinstance(value, np.ndarray):
        known = [sizes.get(dim, -1) for dim in dims] or [-1] * value.ndim
        if value.ndim == 1 and 0 <= known[0] <= SMALL:
            return [(value.dtype.str, known[0]), known[0]]
        last = known[-1] if value.ndim and 0 <= known[-1] <= SMALL else None
        return [None] * value.ndim + [last] if value.ndim else [None]
    if not hasattr(value, "_fields"):
        return [None] * len(_numbers(value))
    declared = layouts(type(value)) if type(value).__module__ != "builtins" else {}
    found: list[Any] = []
    for name, one in zip(value._fields, value, strict=True):
        here = {} if name == "env" else sizes  # the dynamics' own arrays stay where they are
        found += _local_words(one, here, getattr(declared.get(name), "dims", ()))
    return found


@functools.cache
def _local_reader(kind: Tree, text: str, words: tuple[Any, ...]) -> Any:
    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        given = builder.inttoptr(args[0], cgutils.intp_t.as_pointer())
        table = cgutils.alloca_once(builder, cgutils.intp_t, size=max(len(words), 1))
        for k, what in enumerate(words):
            place = context.get_constant(nb.intp, k)
            if what is None:
                number = builder.load(builder.gep(given, [place]))
            elif isinstance(what, int):
                number = context.get_constant(nb.intp, what)
            else:
                dtype, size = np.dtype(what[0]), what[1]
                item = context.get_data_type(from_dtype(dtype))
                memory = cgutils.alloca_once(builder, item, size=max(size, 1))
                cgutils.memset(builder, memory, context.get_constant(nb.intp, size * dtype.itemsize), 0)
                number = builder.ptrtoint(memory, cgutils.intp_t)
            builder.store(number, builder.gep(table, [place]))
        return table

    made = intrinsic(lambda typingctx, address: (kind(nb.int64), build))
    return _named(made, text)


@functools.cache
def _word_at() -> Any:
    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], cgutils.intp_t.as_pointer()))

    return _named(intrinsic(lambda typingctx, address: (nb.int64(nb.int64), build)), "word")


word_at = _word_at()
"""word_at(address): the whole number that stands there."""
