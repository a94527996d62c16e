"""The arrays of a NamedTuple: declared, checked, and handed to compiled code in other ways than by value.

A NamedTuple for kernels declares its arrays where it declares its fields:

    class Trace(NamedTuple):
        rows: Annotated[np.ndarray, "int64[capacity]"]
        weight: Annotated[np.ndarray, "float64[capacity, d]"]

From these declarations everything else is generated:

- `zeros` and `enlarged` make the arrays; `check_layout` refuses another dtype, rank or order;
- `on_stack` puts the small arrays of a tuple on the stack of a kernel, where the compiler keeps them in registers;
- `Packed` and `read` pass a whole tree of tuples by the addresses of its arrays. Numba looks at every array of every
  argument on every call, which costs more than a step of learning; the addresses change only when a table grows;
- `stacked` and `at` lay the tuples of many runs side by side.
"""

from __future__ import annotations

import functools
import itertools
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.imputils import lower_constant
from numba.extending import intrinsic, lower_builtin, overload, register_model, type_callable
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

from chunked_td._numba.compiler import AS_SUBROUTINE, DISABLED, compiled_for_python
from chunked_td._numba.static import _CODES, static_number


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


# ---- on the stack


def on_stack(item: Any, sizes: Any) -> Any:
    """`item` with its small arrays on the stack, and its other arrays of a width that the compiler knows.

    An array declared as [A] goes on the stack if `sizes` has a `static` number called A; what stands in it at first is
    not defined. An array declared as [n, A] stays where it is, and loops over its last axis have a fixed length. The
    same holds for tuples in the tuple. Without compilation, and where sizes are plain numbers, it is `item` itself.
    """
    return item


# Defined for the compiler and not as a kernel: memory on the stack belongs to the function that asks for it.
@type_callable(on_stack)
def _type_on_stack(context):
    return lambda item, sizes: item


@lower_builtin(on_stack, types.Any, types.Any)
def _make_on_stack(context, builder, signature, arguments):
    return _on_stack(context, builder, signature.args[0], signature.args[1], arguments[0])


def _is_tuple(kind: Any) -> bool:
    """Whether a Numba type is that of a NamedTuple, and not of a `static` number."""
    return isinstance(kind, types.BaseNamedTuple) and kind.instance_class not in _CODES  # type: ignore[attr-defined]


def _on_stack(context: Any, builder: Any, item: Any, sizes: Any, value: Any) -> Any:
    """The tuple `value` of type `item` with its arrays moved to the stack or narrowed to a known width."""
    if not _is_tuple(item):
        return value
    known = {name: static_number(kind) for name, kind in zip(sizes.fields, sizes.types, strict=True)}
    declared, parts = layouts(item.instance_class), []
    for k, (name, kind) in enumerate(zip(item.fields, item.types, strict=True)):
        part = builder.extract_value(value, k)
        size = known.get(declared[name].dims[-1]) if name in declared else None
        if size is None:
            part = _on_stack(context, builder, kind, sizes, part)
        elif kind.ndim == 1:
            memory = cgutils.alloca_once(builder, context.get_data_type(kind.dtype), size=max(size, 1))
            part = _array(context, builder, kind, memory, [size])
        else:
            given: Any = make_array(kind)(context, builder, part)
            part = _array(context, builder, kind, given.data, [builder.extract_value(given.shape, 0), size])
        parts.append(part)
    return context.make_tuple(builder, item, parts)


def _array(context, builder, kind, data, shape):
    """A C-ordered array at `data`; the entries of `shape` are numbers or values of the compiled program."""
    item = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    sizes = [context.get_constant(types.intp, n) if isinstance(n, int) else n for n in shape]
    strides = [context.get_constant(types.intp, item)]
    for size in sizes[:0:-1]:
        strides.insert(0, builder.mul(strides[0], size))
    array: Any = make_array(kind)(context, builder)
    populate_array(array, data=data, shape=sizes, strides=strides, itemsize=strides[-1], meminfo=None)
    return array._getvalue()


# ---- by address


@dataclass(frozen=True)
class Form:
    """The types in a tree of NamedTuples, as nested tuples of classes and names. Known to compiled code by its type."""

    structure: Any

    @property
    def _numba_type_(self) -> FormType:
        return FormType(self.structure)


class FormType(types.Opaque):
    """Numba's type of a `Form`."""

    def __init__(self, structure: Any) -> None:
        self.structure = structure
        super().__init__(name=f"Form{structure}")


register_model(FormType)(models.OpaqueModel)


@lower_constant(FormType)
def _constant_form(context, builder, kind, value):
    return context.get_dummy_value()


class Packed:
    """A tree of NamedTuples by the addresses of its arrays; numbers in it are those of the moment.

    Attributes:
      value: the tree; it keeps the arrays alive.
      form: the types in it. addresses: int64, what `read` reads; without compilation, this object.
      entries: what the owner compiled for this form.
    """

    entries: Any = None

    def __init__(self, value: Any) -> None:
        self.value = check_layout(value)
        self.form = Form(_structure(value))
        self.addresses: Any = self if DISABLED else np.array(_numbers(value), np.int64)

    def __reduce__(self) -> Any:
        """A copy has arrays of its own, which lie elsewhere: it starts with nothing written down."""
        return type(None), ()


def entry(function: Callable[..., Any], cached: bool = True) -> Any:
    """Compile a function that Python calls with a `Packed`'s `addresses`. Its `Form` may be a variable around it."""
    return function if DISABLED else compiled_for_python(function, cached)


def _structure(value: Any) -> Any:
    if value is None:
        return "none"
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.ndim)
    if hasattr(value, "_fields"):
        return ("tuple", type(value), *(_structure(field) for field in value))
    return type(value).__name__


def _numbers(value: Any) -> list[int]:
    """Of every array its address and shape, of every number its bits."""
    if value is None or type(value) in _CODES:
        return []
    if isinstance(value, np.ndarray):
        return [value.ctypes.data, *value.shape]
    if hasattr(value, "_fields"):
        return [number for field in value for number in _numbers(field)]
    if isinstance(value, float):
        return [int(np.float64(value).view(np.int64))]
    if isinstance(value, (bool, int)):
        return [int(value)]
    raise TypeError(f"a tuple for compiled code holds arrays, numbers, None and tuples of those, got {value!r}")


_SCALARS = {"bool": types.boolean, "int": types.int64, "float": types.float64, "none": types.none}


def _type_of(structure: Any) -> Any:
    if isinstance(structure, str):
        return _SCALARS[structure]
    if structure[0] == "array":
        return types.Array(from_dtype(np.dtype(structure[1])), structure[2], "C")
    if structure[1] in _CODES:
        return types.BaseTuple.from_types((types.int64,), structure[1])
    return types.BaseTuple.from_types(tuple(_type_of(part) for part in structure[2:]), structure[1])


@intrinsic
def _read_compiled(typingctx, addresses, form):
    def build(context, builder, signature, arguments):
        given: Any = make_array(signature.args[0])(context, builder, arguments[0])
        places = (builder.gep(given.data, [context.get_constant(types.intp, k)]) for k in itertools.count())
        return _rebuild(context, builder, form.structure, lambda: builder.load(next(places)))

    return _type_of(form.structure)(addresses, form), build


read: Any = (lambda addresses, form: addresses.value) if DISABLED else _read_compiled
"""read(addresses, form): the tree of a `Packed`, put together from its `addresses`."""


def _rebuild(context, builder, structure, load):
    """The value of a structure in the compiled program; `load` gives the next number."""
    kind = _type_of(structure)
    if structure == "none":
        return context.get_dummy_value()
    if structure == "float":
        return builder.bitcast(load(), context.get_value_type(types.float64))
    if structure == "bool":
        return builder.icmp_signed("!=", load(), context.get_constant(types.int64, 0))
    if structure == "int":
        return load()
    if structure[0] == "array":
        data = builder.inttoptr(load(), context.get_data_type(kind.dtype).as_pointer())
        return _array(context, builder, kind, data, [load() for _ in range(structure[2])])
    if structure[1] in _CODES:
        return context.make_tuple(builder, kind, [context.get_constant(types.int64, _CODES.index(structure[1]))])
    parts = [_rebuild(context, builder, part, load) for part in structure[2:]]
    return context.make_tuple(builder, kind, parts)


# ---- side by side


def stacked(items: Any) -> Any:
    """One NamedTuple whose arrays hold those of all `items`, along a new first axis; other fields must be equal."""
    first = items[0]
    if isinstance(first, np.ndarray):
        return np.stack(items)
    if hasattr(first, "_fields") and type(first) not in _CODES:
        return type(first)(*(stacked(fields) for fields in zip(*items, strict=True)))
    return first


def at(batch: Any, index: Any) -> Any:
    """Item `index` of a stacked NamedTuple: the same arrays, one axis less, as views. None has the item None."""
    if isinstance(batch, np.ndarray):
        return batch[index]
    if hasattr(batch, "_fields") and type(batch) not in _CODES:
        return type(batch)(*(at(field, index) for field in batch))
    return batch


@overload(at, jit_options=AS_SUBROUTINE)
def _at(batch, index):
    if not _is_tuple(batch):
        return lambda batch, index: batch
    picked = [
        f"batch.{name}[index]" if isinstance(kind, types.Array) else f"at(batch.{name}, index)"
        for name, kind in zip(batch.fields, batch.types, strict=True)  # type: ignore[attr-defined]
    ]
    space: dict[str, Any] = {"item": batch.instance_class, "at": at}  # type: ignore[attr-defined]
    exec(f"def pick(batch, index): return item({', '.join(picked)})", space)
    return space["pick"]
