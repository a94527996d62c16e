"""Arrays by place: on the stack, of a width that is known, or at an address. For compiled code that counts cycles.

Other modules' kernels (`@kernel`) call these as functions, and each becomes a few instructions there. They are defined
for the compiler and not as kernels because memory on the stack belongs to the function that asks for it.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable
from numba.np.arrayobj import make_array, populate_array

from chunked_td.compiled import known_number


def local(array: Any, size: Any) -> Any:
    """Scratch memory like `array`, [size]; what stands in it at first is not defined.

    If `size` is `known`, compiled code gets an array of its own on the stack. Nothing else points there, so that its
    entries can be kept in registers. Otherwise it is `array` itself.
    """
    return array


def narrow(array: Any, width: Any) -> Any:
    """`array`, [n, width]; if `width` is `known`, compiled code multiplies and loops by a constant."""
    return array


@type_callable(local)
def _type_of_local(context):
    return lambda array, size: array if known_number(size) is None else types.Array(array.dtype, 1, "C")


@type_callable(narrow)
def _type_of_narrow(context):
    return lambda array, width: array


@lower_builtin(local, types.Array, types.Any)
def _make_local(context, builder, signature, arguments):
    number = known_number(signature.args[1])
    if number is None:
        return arguments[0]
    item = context.get_data_type(signature.return_type.dtype)
    memory = cgutils.alloca_once(builder, item, size=max(number, 1))
    return _array(context, builder, signature.return_type, memory, [number])


@lower_builtin(narrow, types.Array, types.Any)
def _make_narrow(context, builder, signature, arguments):
    kind, number = signature.return_type, known_number(signature.args[1])
    if number is None:
        return arguments[0]
    given: Any = make_array(kind)(context, builder, arguments[0])
    return _array(context, builder, kind, given.data, [builder.extract_value(given.shape, 0), number])


def _array(context, builder, kind, data, shape):
    """A C-ordered array at `data`; the entries of `shape` are numbers or values of the compiled program."""
    item = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    sizes = [context.get_constant(types.intp, n) if isinstance(n, int) else n for n in shape]
    strides = [context.get_constant(types.intp, item)]
    for size in sizes[:0:-1]:
        strides.insert(0, builder.mul(strides[0], size))
    array: Any = make_array(kind)(context, builder)
    width = context.get_constant(types.intp, item)
    populate_array(array, data=data, shape=sizes, strides=strides, itemsize=width, meminfo=None)
    return array._getvalue()


PLACE = 3
"""Numbers per array in a list of places: its address and its shape (1 where it has one axis)."""


def places(arrays: Any) -> np.ndarray:
    """Where C-ordered arrays of one or two axes lie, int64[PLACE · n]. Somebody has to keep them alive."""
    numbers = []
    for array in arrays:
        if not array.flags.c_contiguous:
            raise ValueError(f"arrays must be C-ordered, got strides {array.strides}")
        numbers += [array.ctypes.data, *array.shape, *(1,) * (2 - array.ndim)]
    return np.array(numbers, np.int64)


def floats(where: np.ndarray, index: int) -> np.ndarray:
    """Array `index` of a list of places, float64[n]."""
    return _read(where, index, np.float64, 1)


def float_rows(where: np.ndarray, index: int) -> np.ndarray:
    """The same for float64[n, m]."""
    return _read(where, index, np.float64, 2)


def integers(where: np.ndarray, index: int) -> np.ndarray:
    """The same for int64[n]."""
    return _read(where, index, np.int64, 1)


def short_integers(where: np.ndarray, index: int) -> np.ndarray:
    """The same for int32[n]."""
    return _read(where, index, np.int32, 1)


def flag_rows(where: np.ndarray, index: int) -> np.ndarray:
    """The same for bool[n, m]."""
    return _read(where, index, np.bool_, 2)


def _read(where: np.ndarray, index: int, dtype: Any, axes: int) -> np.ndarray:
    """Without compilation: the array at a place."""
    address, *shape = where[PLACE * index : PLACE * index + 1 + axes].tolist()
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory: Any = (ctypes.c_char * size).from_address(address)
    return np.ndarray(shape, dtype, memory)


def _define(function: Any, dtype: Any, axes: int) -> None:
    """Teach the compiler one of the functions above."""
    kind = types.Array(dtype, axes, "C")

    @type_callable(function)
    def typed(context):
        return lambda where, index: kind

    @lower_builtin(function, types.Array, types.Integer)
    def lowered(context, builder, signature, arguments):
        list_kind, index_kind = signature.args
        given: Any = make_array(list_kind)(context, builder, arguments[0])
        index = context.cast(builder, arguments[1], index_kind, types.intp)
        first = builder.mul(index, context.get_constant(types.intp, PLACE))
        numbers = [
            builder.load(builder.gep(given.data, [builder.add(first, context.get_constant(types.intp, k))]))
            for k in range(1 + axes)
        ]
        data = builder.inttoptr(numbers[0], context.get_data_type(dtype).as_pointer())
        return _array(context, builder, kind, data, numbers[1:])


for _function, _dtype, _axes in (
    (floats, types.float64, 1),
    (float_rows, types.float64, 2),
    (integers, types.int64, 1),
    (short_integers, types.int32, 1),
    (flag_rows, types.boolean, 2),
):
    _define(_function, _dtype, _axes)
