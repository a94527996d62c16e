"""Reading arguments: which backend they belong to, whether their shapes fit, and along which axis time runs."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import Any, TypeAlias

Array: TypeAlias = Any
"""A NumPy array, a JAX array or a Torch tensor; the results of a call are of the kind of its arguments."""


class Kind(Enum):
    """What an argument may hold, in words for error messages."""

    REAL = "finite numbers"
    READ = "finite numbers where they are read"
    UNIT = "numbers in [0, 1]"
    POSITIVE = "finite numbers ≥ 0"
    FLAG = "bools, or the numbers 0 and 1"
    BOOL = "bools"
    INDEX = "integers ≥ 0"


@dataclass(frozen=True)
class Given:
    """The arguments of one call, converted to one backend and brought to one rank.

    Attributes:
      backend: the module of this package that computes with them.
      arrays: by name; each axis is as long as that of `shape`, or has length 1.
      kinds: by name.
      shape: that of the rewards and of the result.
      axis: which axis is time, ≥ 0.
      dtype: that of the result, in the backend's terms.
    """

    backend: ModuleType
    arrays: dict[str, Any]
    kinds: dict[str, Kind]
    shape: tuple[int, ...]
    axis: int
    dtype: Any


def read(
    arguments: dict[str, tuple[Any, Kind]],
    time_axis: int,
    *,
    check: Iterable[str] = (),
    extra_axes: tuple[str, ...] = (),
) -> Given:
    """Convert and fit the arguments of a call; the first one fixes the shape.

    Args:
      check: names of arguments whose values no kernel will check on the way.
      extra_axes: names of arguments that have one more axis at the end, such as one entry per action.
    """
    backend = _backend(arguments)
    kinds = {name: kind for name, (_, kind) in arguments.items()}
    arrays, dtype = backend.convert({name: value for name, (value, _) in arguments.items()}, kinds)
    for name in check:
        backend.check_values(name, arrays[name], kinds[name])
    reference = next(iter(arrays))
    shape = tuple(arrays[reference].shape)
    axis = _axis(reference, shape, time_axis)
    fitted = {
        name: array if name in extra_axes else _fit(name, array, reference, shape, axis)
        for name, array in arrays.items()
    }
    return Given(backend, fitted, kinds, shape, axis, dtype)


def shaped(name: str, array: Array, shape: tuple[int, ...]) -> Array:
    """`array`, which must have exactly that shape."""
    if tuple(array.shape) != shape:
        raise ValueError(f"{name}: got shape {tuple(array.shape)}, takes {shape}")
    return array


def along(array: Array, axis: int, start: int | None, stop: int | None) -> Array:
    """array[start:stop] along an axis."""
    return array[(slice(None),) * axis + (slice(start, stop),)]


def _backend(arguments: dict[str, tuple[Any, Kind]]) -> ModuleType:
    """The module for these arguments: that of the JAX arrays or Torch tensors among them, otherwise NumPy's."""
    owners: dict[str, str] = {}
    for name, (value, _) in arguments.items():
        owner = _owner(value)
        if owner is not None:
            owners.setdefault(owner, name)
    if len(owners) > 1:
        raise TypeError(f"{owners['torch']}: got a Torch tensor, takes a JAX array as {owners['jax']}, or neither")
    return _module(next(iter(owners), "numpy"))


def _module(owner: str) -> ModuleType:
    """Import statements, which `torch.compile` can follow; a backend loads when it is first needed."""
    if owner == "torch":
        from chunked_td.returns import _torch

        return _torch
    if owner == "jax":
        from chunked_td.returns import _jax

        return _jax
    from chunked_td.returns import _numpy

    return _numpy


def _owner(value: Any) -> str | None:
    """ "torch" or "jax"; a library that has not been imported has no arrays either."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None and isinstance(value, torch.Tensor):
        return "torch"
    if jax is not None and isinstance(value, jax.Array):
        return "jax"
    return None


def _axis(name: str, shape: tuple[int, ...], time_axis: int) -> int:
    if isinstance(time_axis, bool) or not isinstance(time_axis, int):
        raise TypeError(f"time_axis: got {time_axis!r}, takes an integer")
    if not shape:
        raise ValueError(f"{name}: got shape (), takes an array with a time axis")
    if not -len(shape) <= time_axis < len(shape):
        raise ValueError(f"time_axis: got {time_axis}, takes an axis of {name}, whose shape is {shape}")
    axis = time_axis % len(shape)
    if shape[axis] == 0:
        raise ValueError(f"{name}: got shape {shape}, takes at least one step along axis {axis}")
    return axis


def _fit(name: str, array: Array, reference: str, shape: tuple[int, ...], axis: int) -> Array:
    """`array` with as many axes as `shape`, by the rules in the docstring of the package."""
    got, rank = tuple(array.shape), len(shape)
    if len(got) == 1 and rank > 1:
        wide = (1,) * axis + got + (1,) * (rank - axis - 1)
    else:
        wide = got + (1,) * (rank - len(got))
    if len(wide) > rank or any(have not in (1, want) for have, want in zip(wide, shape, strict=True)):
        steps = f"({shape[axis]},) with one entry per step (axis {axis}), " if rank > 1 else ""
        raise ValueError(f"{name}: got shape {got}, takes {shape} as {reference}, {steps}or one number")
    return array if wide == got else array.reshape(wide)
