"""Reading of arguments: backend, shapes, time axis and masks.

**Masks** need no mechanism of their own. The arguments of a masked step are replaced by numbers with which the
recursion skips it (b = 0, a = 1). So the original numbers are not read and have no gradient.
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
"""A NumPy array, a JAX array or a Torch tensor; the results of a call have the type of its arguments."""

Masked: TypeAlias = Literal["pass", "stop"]
"""Whether rewards pass masked steps."""


class Kind(Enum):
    """Accepted values of an argument, described for error messages, and its replacement at masked steps."""

    REAL = "finite numbers", 0.0
    READ = "finite numbers where they are read", 0.0
    LARGEST = "at least one finite number among those of all actions, and neither NaN nor ∞", None
    END = "finite numbers", None
    UNIT = "numbers in [0, 1]", 1.0
    POSITIVE = "finite numbers ≥ 0", 1.0
    ABOVE = "finite numbers > 0", 1.0
    FLAG = "bools, or the numbers 0 and 1", False
    BOOL = "bools", False
    INDEX = "integers ≥ 0", 0
    LABEL = "integers", 0

    def __init__(self, words: str, neutral: float | None):
        self.words = words
        self.neutral = neutral


_NAMES = {
    Kind.READ: ("next_values", "logits"),
    Kind.END: ("last_values",),
    Kind.UNIT: ("discount_t", "discount", "lambda_", "lambda_t", "lambda_policy", "lambda_value", "pi_t"),
    Kind.POSITIVE: ("mu_t", "rho_tm1", "variance"),
    Kind.ABOVE: ("tau",),
    Kind.FLAG: ("terminated", "truncated", "mask"),
    Kind.BOOL: ("keep_t",),
    Kind.INDEX: ("a_tm1", "a_t", "actions", "lengths"),
    Kind.LABEL: ("segment_ids", "turn_ids"),
}
KINDS = {name: kind for kind, names in _NAMES.items() for name in names}
"""Kinds of the arguments of this package by name; all others are `Kind.REAL`."""


@dataclass(frozen=True)
class Given:
    """Arguments of one call, converted to one backend and one rank.

    Attributes:
      backend: the module of this package that computes with them.
      arrays: by name; each axis has the length of that of `shape`, or length 1.
      kinds: by name.
      shape: of the rewards and of the result.
      axis: axis of time, ≥ 0.
      dtype: of the result, as a dtype of the backend; arrays of 16 bits are already float32.
      mask: true for the steps that exist; None for all.
    """

    backend: ModuleType
    arrays: dict[str, Any]
    kinds: dict[str, Kind]
    shape: tuple[int, ...]
    axis: int
    dtype: Any
    mask: Array | None = None

    def with_arrays(self, **arrays: Array) -> Given:
        """A copy with other arrays."""
        return dataclasses.replace(self, arrays=arrays)

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
    """Convert the arguments of a call and check their shapes; the first argument determines the shape.

    Args:
      arguments: by name; a mask among them has no special meaning. kinds: of arguments that are not real numbers.
      extra_axes: names of arguments that have one more axis at the end, such as one entry per action.
      mask, masked, segment_ids: as in the docstring of the package.
      cut: an argument and its value with which the recursion passes nothing from the next step to this one.
      bootstraps: whether the recursion starts at a value, so that it must be cut after the last existing step.
    """
    if masked not in ("pass", "stop"):
        raise ValueError(f"masked: got {masked!r}, takes 'pass' or 'stop'")
    special = {"mask": mask, "segment_ids": _relabelled(segment_ids)}
    arguments = arguments | {name: value for name, value in special.items() if value is not None}
    backend = backend_of(arguments)
    kinds = {name: kinds.get(name, Kind.REAL) for name in arguments}
    arrays, dtype = backend.convert(arguments, kinds)
    reference = next(iter(arrays))
    shape = tuple(arrays[reference].shape)
    axis = _axis(reference, shape, time_axis)
    for name, array in arrays.items():
        if name not in extra_axes:
            arrays[name] = _fit(name, array, reference, shape, axis, kinds[name])
    chosen, ids = (backend.xp.broadcast_to(arrays.pop(x), shape) if special[x] is not None else None for x in special)
    given = Given(backend, arrays, kinds, shape, axis, dtype, chosen)
    return given if chosen is None and ids is None else _cut_off(given, ids, masked, cut, bootstraps, extra_axes)


def _relabelled(ids: Any) -> Any:
    """Segment ids as 0, 1, …: JAX has no 64-bit integers by default, and large ids would collide."""
    if ids is None or owner(ids) is not None:
        return ids
    from chunked_td.returns import _numpy

    array = _numpy.to_array("segment_ids", ids, Kind.LABEL)
    return _numpy.xp.unique(array, return_inverse=True)[1].reshape(array.shape)


def _cut_off(
    given: Given, ids: Array | None, masked: Masked, cut: tuple[str, float], bootstraps: bool, extra_axes: tuple
) -> Given:
    """Replace the numbers at masked steps; cut the recursion between segments and before masked steps that stop it."""
    xp, mask, arrays, axis = given.backend.xp, given.mask, dict(given.arrays), given.axis
    if mask is None:
        found = next_step(xp, ids, axis) != ids
    else:
        for name in arrays.keys() & {"rewards", "r_t"} if masked == "pass" else ():
            arrays[name] = _with_masked_rewards(given, name, ids)
        for name, array in arrays.items():
            wide, neutral = mask[..., None] if name in extra_axes else mask, given.kinds[name].neutral
            arrays[name] = array if neutral is None else xp.where(wide, array, neutral)
        if masked == "stop":
            found = ~next_step(xp, mask, axis)
            found = found if ids is None else found | (next_step(xp, ids, axis) != ids)
        elif ids is None and not bootstraps:
            return dataclasses.replace(given, arrays=arrays)
        else:
            found = mask & ends(given, ids, bootstraps)
    name, value = cut
    arrays[name] = xp.where(found, value, arrays[name])
    return dataclasses.replace(given, arrays=arrays)


def _with_masked_rewards(given: Given, name: str, ids: Array | None) -> Array:
    """Rewards, with each masked one added to that of the last unmasked step before it.

    A masked reward is dropped if it is not finite, or if no unmasked step of its segment is before it.
    """
    xp, mask, rewards = given.backend.xp, given.mask, given.arrays[name]
    assert mask is not None
    spilt = xp.where(mask | ~xp.isfinite(rewards), 0.0, rewards)
    if given.backend.all_zero(spilt):
        return rewards
    end = xp.zeros_like(along(spilt, given.axis, -1, None))
    same = xp.ones_like(mask) if ids is None else next_step(xp, ids, given.axis) == ids
    found = _carried(given, spilt, end, ~mask & same, stop=False)
    return xp.where(mask, rewards + xp.where(same, found, 0.0), 0.0)


def ends(given: Given, ids: Array | None, bootstraps: bool) -> Array:
    """Whether no step of the same segment follows; at the last step of a row, `bootstraps`."""
    xp, axis = given.backend.xp, given.axis
    steps = xp.cumsum(xp.ones_like(given.mask, dtype=given.backend.computing_dtype(given.dtype)), axis) - 1
    place = following(given, steps, -1.0)  # exact up to 2²⁴ steps
    if ids is None:
        return place < 0
    later = given.backend.take_along(ids, xp.where(place < 0, steps, place), axis)
    return (later != ids) | ((place < 0) & bootstraps)


def following(given: Given, array: Array, end: Array, stop: bool = True) -> Array:
    """Entries at the next unmasked step; `end` if there is none."""
    xp, axis = given.backend.xp, given.axis
    end = xp.zeros_like(along(array, axis, -1, None)) + end
    if given.mask is None:
        return xp.concatenate([along(array, axis, 1, None), end], axis=axis)
    return _carried(given, xp.where(given.mask, array, 0.0), end, given.mask == 0, stop)


def _carried(given: Given, array: Array, end: Array, through: Array, stop: bool) -> Array:
    """x of the next step, with x_t = array_t + x_{t+1} if `through` at step t, else array_t."""
    from chunked_td.returns._formulas import HOLD

    held = dataclasses.replace(given, arrays={"x": array, "through": through, "start": end}, kinds={})
    found = given.backend.solve(held, HOLD, stop)
    return given.backend.xp.concatenate([along(found, given.axis, 1, None), end], axis=given.axis)


def next_step(xp: Any, array: Array, axis: int) -> Array:
    """Entries one step later; the last step keeps its own."""
    if array.shape[axis] == 1:
        return array
    return xp.concatenate([along(array, axis, 1, None), along(array, axis, -1, None)], axis=axis)


def renamed(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator that accepts the old names of arguments with a warning."""

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
    """values[0..T−1] and values[1..T] of an array that is one step longer than the rewards."""
    rewards = read({"r_t": r_t}, time_axis)
    given = read({"values": values}, time_axis)
    expected = tuple(length + (k == rewards.axis) for k, length in enumerate(rewards.shape))
    if given.shape != expected:
        raise ValueError(f"values: got shape {given.shape}, takes {expected}, one step more than r_t")
    values = given.unmasked(given.arrays["values"])
    return along(values, given.axis, 0, -1), along(values, given.axis, 1, None)


def shaped(name: str, array: Array, shape: tuple[int, ...]) -> Array:
    """`array`; a ValueError if it does not have exactly that shape."""
    if tuple(array.shape) != shape:
        raise ValueError(f"{name}: got shape {tuple(array.shape)}, takes {shape}")
    return array


def along(array: Array, axis: int, start: int | None, stop: int | None) -> Array:
    """array[start:stop] along an axis."""
    return array[(slice(None),) * axis + (slice(start, stop),)]


def backend_of(arguments: dict[str, Any]) -> ModuleType:
    """Module for these arguments: that of the JAX arrays or Torch tensors among them, else NumPy's."""
    owners: dict[str, str] = {}
    for name, value in arguments.items():
        found = owner(value)
        if found is not None:
            owners.setdefault(found, name)
    if len(owners) > 1:
        raise TypeError(f"{owners['torch']}: got a Torch tensor, takes a JAX array as {owners['jax']}, or neither")
    return _module(next(iter(owners), "numpy"))


def _module(owner: str) -> ModuleType:
    """Backend module, imported on first use by statements that `torch.compile` can trace."""
    if owner == "torch":
        from chunked_td.returns import _torch

        return _torch
    if owner == "jax":
        from chunked_td.returns import _jax

        return _jax
    from chunked_td.returns import _numpy

    return _numpy


def owner(value: Any) -> str | None:
    """Library of an array, "torch" or "jax", or None; a library that is not imported has no arrays."""
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


def _one_more(name: str, got: tuple[int, ...], shape: tuple[int, ...], axis: int) -> str:
    """Hint for values that are one step longer than the rewards, as in CleanRL."""
    longer = len(got) == len(shape) and all(
        have == want + (k == axis) for k, (have, want) in enumerate(zip(got, shape, strict=True))
    )
    both = "; with the value after the last step appended, pass values=values[:-1] and next_values=values[1:]"
    return both if longer and name in ("values", "next_values") else ""


def _fit(name: str, array: Array, reference: str, shape: tuple[int, ...], axis: int, kind: Kind = Kind.REAL) -> Array:
    """`array` with as many axes as `shape`, by the rules in the docstring of the package."""
    got, rank = tuple(array.shape), len(shape)
    if kind is Kind.END:
        return _fit_end(name, array, shape, axis)
    if got == shape:
        return array
    if len(got) == 1 and rank > 1:
        wide = (1,) * axis + got + (1,) * (rank - axis - 1)
    else:
        wide = got + (1,) * (rank - len(got))
    if len(wide) > rank or any(have not in (1, want) for have, want in zip(wide, shape, strict=True)):
        steps = f"({shape[axis]},) with one entry per step (axis {axis}), " if rank > 1 else ""
        raise ValueError(
            f"{name}: got shape {got}, takes {shape} as {reference}, {steps}or one "
            f"number{_one_more(name, got, shape, axis)}"
        )
    return array if wide == got else array.reshape(wide)


def _fit_end(name: str, array: Array, shape: tuple[int, ...], axis: int) -> Array:
    """An argument with one entry per sequence: of length 1 along time, or one number.

    A single axis is an error: with as many sequences as steps it would be ambiguous.
    """
    got, wanted = tuple(array.shape), tuple(1 if k == axis else length for k, length in enumerate(shape))
    if not got:
        return array.reshape((1,) * len(shape))
    if len(got) != len(shape) or any(have not in (1, want) for have, want in zip(got, wanted, strict=True)):
        raise ValueError(f"{name}: got shape {got}, takes {wanted} with one entry per sequence, or one number")
    return array
