"""Returns of NumPy arrays: compiled loops in float64. Without Numba, a Python loop over steps.

The Torch backend runs the same loops on tensors in the CPU's memory, in the precision of the tensors.
"""

from __future__ import annotations

import functools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from chunked_td.returns import _formulas
from chunked_td.returns._arguments import Given, Kind, along, next_step

xp = np


def computing_dtype(dtype: Any) -> Any:
    """Precision of the computation."""
    return np.float64


@functools.cache
def _kernels() -> Any:
    """Loops of `_kernels`, each compiled at its first call; None without Numba."""
    try:
        from chunked_td._link import compiled
        from chunked_td.returns import _kernels
    except ImportError:
        return None
    loops = ("lambda_returns", "gae", "linear_recursion", "token_gae", "n_step_returns")
    return SimpleNamespace(**{name: compiled(getattr(_kernels, name)) for name in loops})


def convert(values: dict[str, Any], kinds: dict[str, Kind]) -> tuple[dict[str, np.ndarray], Any]:
    """Arguments as arrays of real numbers, at least in float32."""
    arrays = {name: to_array(name, value, kinds[name]) for name, value in values.items()}
    return {name: x.astype(np.float32) if x.dtype == np.float16 else x for name, x in arrays.items()}, np.float64


def to_array(name: str, value: Any, kind: Kind) -> np.ndarray:
    """One argument as an array of real numbers (bools for flags, integers for indices)."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name}: got a masked array, takes a plain one; pass the steps that exist as mask=")
    if value is None:
        instead = "; without truncation pass False" if name == "truncated" else ""
        raise TypeError(f"{name}: got None, takes {kind.words}{instead}")
    try:
        array = np.asarray(value)
    except ValueError as error:  # a ragged list
        raise ValueError(f"{name}: got {value!r}, takes an array ({error})") from None
    allowed = {Kind.INDEX: "iu", Kind.LABEL: "iu", Kind.BOOL: "b"}.get(kind, "biuf")
    if array.dtype.kind not in allowed:
        raise TypeError(f"{name}: got an array of {array.dtype}, takes {kind.words}")
    if kind is Kind.FLAG and array.dtype != np.bool_:
        check_values(name, array, kind)
        return array != 0
    return array


def check_values(name: str, array: np.ndarray, kind: Kind, read: np.ndarray | None = None) -> None:
    """Raise if a value is not of that kind; values of kind READ are checked only where `read` is true."""
    if kind is Kind.READ:
        wrong = ~np.isfinite(array) & (False if read is None else read)
    elif kind is Kind.UNIT:
        wrong = ~((array >= 0) & (array <= 1))
    elif kind is Kind.FLAG:
        wrong = ~((array == 0) | (array == 1))
    elif kind in (Kind.REAL, Kind.END, Kind.LARGEST):
        wrong = ~np.isfinite(array)
    elif kind is Kind.LABEL:
        return
    else:
        wrong = ~(np.isfinite(array) & (array > 0 if kind is Kind.ABOVE else array >= 0))
    if wrong.any():
        raise ValueError(f"{name}: got {np.broadcast_to(array, wrong.shape)[wrong][0]}, takes {kind.words}")


def check(given: Given) -> None:
    """Raise if a value of any argument is not of its kind; computed coefficients have no kind."""
    terminated = given.arrays.get("terminated")
    for name, array in given.arrays.items():
        if name in given.kinds:
            check_values(name, array, given.kinds[name], None if terminated is None else ~terminated)


def solve(given: Given, formula: _formulas.Formula, stop: bool) -> np.ndarray:
    """Solve the recursion of that formula.

    The fused loops read the arguments directly and count coefficients outside [0, 1]. NaN and infinity in any argument
    reach the first step of the result: a recursion multiplies by γλ, and zero times either is NaN. So it is enough to
    check that step, and to search for the wrong argument only after a failure.
    """
    kernels = _kernels()
    fused = {_formulas.GAE: "gae", _formulas.LAMBDA_RETURNS: "lambda_returns"}.get(formula)
    if kernels is not None and fused is not None:
        blocks = [_blocks(given, given.arrays[name], given.kinds[name]) for name in formula.names]
        out = np.empty_like(blocks[0])
        if getattr(kernels, fused)(*blocks, out) or not np.isfinite(out[:, 0]).all():
            check(given)
        return out.reshape(given.shape)
    check(given)
    arrays = [given.arrays[name] for name in formula.names]
    if formula.ahead is not None:
        place = formula.names.index(formula.ahead)
        arrays[place] = next_step(np, arrays[place], given.axis)
    b, a = (_blocks(given, array, full=True) for array in formula.coefficients(np, *arrays))
    last = tuple(1 if k == given.axis else length for k, length in enumerate(given.shape))
    start = np.zeros(()) if formula.start is None else along(given.arrays[formula.start], given.axis, -1, None)
    start = _blocks(given, np.broadcast_to(start, last))
    out = np.empty_like(b)
    if kernels is not None:
        kernels.linear_recursion(b, a, start, out)
        return out.reshape(given.shape)
    later = start[:, 0]
    for t in reversed(range(b.shape[1])):
        later = out[:, t] = b[:, t] + a[:, t] * later
    return out.reshape(given.shape)


def token_gae(given: Given) -> tuple[np.ndarray, np.ndarray] | None:
    """See `advantages.token_gae`; None without Numba, or if a value is not of its kind."""
    kernels = _kernels()
    if kernels is None:
        return None
    names = ("rewards", "values", "mask", "discount", "lambda_policy", "lambda_value")
    blocks = [_blocks(given, given.arrays[name], given.kinds[name]) for name in names]
    last = along(given.arrays["last_values"], given.axis, -1, None)
    outer, _, inner = blocks[0].shape
    shape = tuple(1 if k == given.axis else length for k, length in enumerate(given.shape))
    worth = np.repeat(np.broadcast_to(last, shape).reshape(outer, 1, inner).astype(given.dtype), 3, axis=1)
    worth[:, 2] = 0.0
    advantages, targets = np.empty_like(blocks[0]), np.empty_like(blocks[0])
    if kernels.token_gae(*blocks, worth, advantages, targets) or not np.isfinite(worth).all():
        return None
    return advantages.reshape(given.shape), targets.reshape(given.shape)


def n_step_returns(given: Given, n: int, stop: bool) -> np.ndarray:
    """See `multistep.n_step_bootstrapped_returns`."""
    check(given)
    r_t, discount_t, v_t, lambda_t = (_blocks(given, array, full=True) for array in given.arrays.values())
    kernels, n = _kernels(), min(n, given.shape[given.axis])
    if kernels is None:
        out = _formulas.windows(
            np, *_formulas.LAMBDA_RETURNS.coefficients(np, r_t, discount_t, v_t, lambda_t), v_t, n, 1
        )
    else:
        out = np.empty_like(r_t)
        kernels.n_step_returns(r_t, discount_t, v_t, lambda_t, n, out)
    return out.reshape(given.shape)


def pick(name: str, values: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """values[..., indices[...]]; `name` is the argument name of the indices."""
    check_places(name, indices, values.shape[-1])
    return np.take_along_axis(values, indices[..., None].astype(np.int64), axis=-1)[..., 0]


def check_places(name: str, indices: np.ndarray, size: int) -> None:
    """Raise if an index is outside 0..size − 1; NumPy would read −1 as the last one."""
    wrong = (indices < 0) | (indices >= size)
    if wrong.any():
        raise ValueError(f"{name}: got {indices[wrong][0]}, takes integers in 0..{size - 1}")


def take_along(array: np.ndarray, places: np.ndarray, axis: int) -> np.ndarray:
    """Entries of an array at these indices along an axis; the indices are real numbers."""
    return np.take_along_axis(array, places.astype(np.int64), axis)


def all_zero(array: np.ndarray) -> bool:
    """Whether all entries are 0."""
    return not array.any()


def stop_gradient(array: np.ndarray) -> np.ndarray:
    """The array itself: NumPy arrays have no gradient."""
    return array


def sample(lambda_t: np.ndarray, rng: Any) -> np.ndarray:
    """Whether a uniform number is at least λ, one number per entry."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng: got {rng!r}, takes a numpy.random.Generator for a NumPy array")
    return rng.random(lambda_t.shape) >= lambda_t


def _blocks(given: Given, array: np.ndarray, kind: Kind = Kind.REAL, full: bool = False) -> np.ndarray:
    """An argument as [outer or 1, T or 1, inner]: contiguous, writable, in the precision of the call.

    All arrays have the same memory layout, so each kernel is compiled once per precision.

    Args:
      full: also broadcast `outer` and T to their full lengths.
    """
    before, steps, inner = array.shape[: given.axis], array.shape[given.axis], given.shape[given.axis + 1 :]
    outer = before if all(length == 1 for length in before) else given.shape[: given.axis]
    shape = given.shape if full else (*outer, steps, *inner)
    dtype = np.bool_ if kind is Kind.FLAG else given.dtype
    if array.shape != shape:
        array = np.broadcast_to(array, shape)
    array = np.require(array, dtype, ["C_CONTIGUOUS", "WRITEABLE"])
    return array.reshape(math.prod(shape[: given.axis]), shape[given.axis], math.prod(inner))
