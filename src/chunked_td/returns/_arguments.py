"""Reading arguments: which backend they belong to, whether their shapes fit, along which axis time runs, and masks.

**Masks** are no second mechanism. The arguments of a masked step are replaced by numbers with which the recursion
passes it by (b = 0, a = 1), so nothing that stood there is read, and no gradient comes from there.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

Array: TypeAlias = Any
"""A NumPy array, a JAX array or a Torch tensor; the results of a call are of the kind of its arguments."""

Masked: TypeAlias = Literal["pass", "stop"]
"""Whether credit passes masked steps."""


class Kind(Enum):
    """What an argument may hold, in words for error messages, and what stands for it at masked steps."""

    REAL = "finite numbers", 0.0
    READ = "finite numbers where they are read", 0.0
    END = "finite numbers", None
    UNIT = "numbers in [0, 1]", 1.0
    POSITIVE = "finite numbers ≥ 0", 1.0
    ABOVE = "finite numbers > 0", 1.0
    FLAG = "bools, or the numbers 0 and 1", False
    BOOL = "bools", False
    INDEX = "integers ≥ 0", 0

    def __init__(self, words: str, neutral: float | None):
        self.words = words
        self.neutral = neutral


_NAMES = {
    Kind.READ: ("next_values", "logits"),
    Kind.END: ("last_values",),
    Kind.UNIT: ("discount_t", "discount", "lambda_", "lambda_t", "lambda_policy", "lambda_value", "pi_t"),
    Kind.POSITIVE: ("mu_t", "rho_tm1", "variance"),
    Kind.ABOVE: ("tau",),
    Kind.FLAG: ("terminated", "truncated", "mask", "mask_", "is_there"),
    Kind.BOOL: ("keep_t",),
    Kind.INDEX: ("a_tm1", "a_t", "actions", "lengths", "segment_ids"),
}
KINDS = {name: kind for kind, names in _NAMES.items() for name in names}
"""What each argument of this package may hold, by its name; those that are not here are `Kind.REAL`."""


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
      mask: which steps there are; all if None.
    """

    backend: ModuleType
    arrays: dict[str, Any]
    kinds: dict[str, Kind]
    shape: tuple[int, ...]
    axis: int
    dtype: Any
    mask: Array | None = None

    def with_arrays(self, **arrays: Array) -> Given:
        """The same call with other arrays."""
        return dataclasses.replace(self, arrays=arrays)

    def widened(self, name: str) -> Array:
        """An array in the precision to compute in."""
        array, dtype = self.arrays[name], self.backend.full(self.dtype)
        return array.to(dtype) if hasattr(array, "to") else array.astype(dtype, copy=False)

    def unmasked(self, result: Array) -> Array:
        """A result in its precision, with 0 at masked steps."""
        if self.mask is not None:
            result = self.backend.xp.where(self.mask, result, 0.0)
        return result.to(self.dtype) if hasattr(result, "to") else result.astype(self.dtype, copy=False)


def read(
    arguments: dict[str, Any],
    time_axis: int,
    *,
    kinds: dict[str, Kind] = KINDS,
    extra_axes: tuple[str, ...] = (),
    mask: Any = None,
    masked: Masked = "pass",
    segment_ids: Any = None,
    cut: tuple[str, float] = ("lambda_", 0.0),
    bootstraps: bool = False,
) -> Given:
    """Convert and fit the arguments of a call; the first one fixes the shape.

    Args:
      arguments: by name. kinds: of those that are not real numbers.
      extra_axes: names of arguments that have one more axis at the end, such as one entry per action.
      mask, masked, segment_ids: as in the docstring of the package.
      cut: which argument says, and with which number, that nothing passes from the next step to this one.
      bootstraps: whether the recursion starts at a value, so that the last step there is must be cut off.
    """
    if masked not in ("pass", "stop"):
        raise ValueError(f"masked: got {masked!r}, takes 'pass' or 'stop'")
    special = {"mask": mask, "segment_ids": segment_ids}
    arguments = arguments | {name: value for name, value in special.items() if value is not None}
    backend = backend_of(arguments)
    kinds = {name: kinds.get(name, Kind.REAL) for name in arguments}
    arrays, dtype = backend.convert(arguments, kinds)
    reference = next(iter(arrays))
    shape = tuple(arrays[reference].shape)
    axis = _axis(reference, shape, time_axis)
    for name, array in arrays.items():
        if name not in extra_axes:
            arrays[name] = _fit(name, array, reference, shape, axis)
    chosen, ids = (
        backend.xp.broadcast_to(arrays.pop(name), shape) if name in arrays else None for name in ("mask", "segment_ids")
    )
    given = Given(backend, arrays, kinds, shape, axis, dtype, chosen)
    return given if chosen is None and ids is None else _cut_off(given, ids, masked, cut, bootstraps, extra_axes)


def _cut_off(
    given: Given, ids: Array | None, masked: Masked, cut: tuple[str, float], bootstraps: bool, extra_axes: tuple
) -> Given:
    """Replace what stands at masked steps; cut between segments, and where credit may not go on."""
    xp, mask, arrays, axis = given.backend.xp, given.mask, dict(given.arrays), given.axis
    if mask is None:
        found = next_step(xp, ids, axis) != ids
    else:
        for name, array in arrays.items():
            wide, neutral = mask[..., None] if name in extra_axes else mask, given.kinds[name].neutral
            arrays[name] = array if neutral is None else xp.where(wide, array, neutral)
        if masked == "stop":
            found = ~next_step(xp, mask, axis)
            found = found if ids is None else found | (next_step(xp, ids, axis) != ids)
        elif ids is None and not bootstraps:
            return dataclasses.replace(given, arrays=arrays)
        else:
            ids = xp.zeros_like(mask, dtype=given.backend.full(given.dtype)) if ids is None else ids
            found = mask & (following(given, ids, -0.5) != ids)  # -0.5 is no id
    name, value = cut
    arrays[name] = xp.where(found, value, arrays[name])
    return dataclasses.replace(given, arrays=arrays)


def following(given: Given, array: Array, end: Array, stop: bool = True) -> Array:
    """The entry at the next step that is not masked, at least in float32; `end` where there is none."""
    from chunked_td.returns._formulas import HOLD

    backend, xp, axis, mask = given.backend, given.backend.xp, given.axis, given.mask
    full = backend.full(given.dtype)
    end = xp.zeros_like(along(array, axis, -1, None), dtype=full) + end
    if mask is not None:
        array = xp.where(mask, array, xp.zeros_like(array, dtype=full))
        held = given.with_arrays(x=array, masked=~mask, start=end)
        array = backend.solve(dataclasses.replace(held, dtype=full, kinds={}), HOLD, stop)
    return xp.concatenate([along(array, axis, 1, None), end], axis=axis)


def next_step(xp: Any, array: Array, axis: int) -> Array:
    """The entries one step later; at the last step its own again."""
    if array.shape[axis] == 1:
        return array
    return xp.concatenate([along(array, axis, 1, None), along(array, axis, -1, None)], axis=axis)


def renamed(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Take the old names of arguments too, with a warning."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*arguments: P.args, **settings: P.kwargs) -> R:
            for old, new in names.items():
                if old in settings:
                    warnings.warn(f"{old}: the argument is called {new} now", DeprecationWarning, stacklevel=2)
                    settings[new] = settings.pop(old)
            return function(*arguments, **settings)

        return call

    return decorate


def now_and_later(r_t: Array, values: Array, time_axis: int) -> tuple[Array, Array]:
    """values[0..T−1] and values[1..T] of an array with one step more than the rewards."""
    rewards = read({"r_t": r_t}, time_axis)
    given = read({"values": values}, time_axis)
    expected = tuple(length + (k == rewards.axis) for k, length in enumerate(rewards.shape))
    if given.shape != expected:
        raise ValueError(f"values: got shape {given.shape}, takes {expected}, one step more than r_t")
    values = given.arrays["values"]
    return along(values, given.axis, 0, -1), along(values, given.axis, 1, None)


def shaped(name: str, array: Array, shape: tuple[int, ...]) -> Array:
    """`array`, which must have exactly that shape."""
    if tuple(array.shape) != shape:
        raise ValueError(f"{name}: got shape {tuple(array.shape)}, takes {shape}")
    return array


def along(array: Array, axis: int, start: int | None, stop: int | None) -> Array:
    """array[start:stop] along an axis."""
    return array[(slice(None),) * axis + (slice(start, stop),)]


def backend_of(arguments: dict[str, Any]) -> ModuleType:
    """The module for these arguments: that of the JAX arrays or Torch tensors among them, otherwise NumPy's."""
    owners: dict[str, str] = {}
    for name, value in arguments.items():
        found = owner(value)
        if found is not None:
            owners.setdefault(found, name)
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


def owner(value: Any) -> str | None:
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
    if got == shape:
        return array
    if len(got) == 1 and rank > 1:
        wide = (1,) * axis + got + (1,) * (rank - axis - 1)
    else:
        wide = got + (1,) * (rank - len(got))
    if len(wide) > rank or any(have not in (1, want) for have, want in zip(wide, shape, strict=True)):
        steps = f"({shape[axis]},) with one entry per step (axis {axis}), " if rank > 1 else ""
        raise ValueError(f"{name}: got shape {got}, takes {shape} as {reference}, {steps}or one number")
    return array if wide == got else array.reshape(wide)
