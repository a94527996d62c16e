"""Returns of NumPy arrays: compiled loops, in float64.

The Torch backend runs the same loops, in the precision of its tensors, on tensors that lie in the CPU's memory.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chunked_td.returns import _formulas, _kernels
from chunked_td.returns._arguments import Given, Kind


def convert(values: dict[str, Any], kinds: dict[str, Kind]) -> tuple[dict[str, np.ndarray], Any]:
    """Arguments as arrays of real numbers. Their values are checked after the computation, if it went wrong."""
    return {name: to_array(name, value, kinds[name]) for name, value in values.items()}, np.float64


def to_array(name: str, value: Any, kind: Kind) -> np.ndarray:
    """One argument as an array of real numbers (bools for flags, integers for indices)."""
    try:
        array = np.asarray(value)
    except ValueError as error:  # a ragged list
        raise ValueError(f"{name}: got {value!r}, takes an array ({error})") from None
    allowed = {Kind.INDEX: "iu", Kind.BOOL: "b"}.get(kind, "biuf")
    if array.dtype.kind not in allowed:
        raise TypeError(f"{name}: got an array of {array.dtype}, takes {kind.value}")
    if kind is Kind.FLAG and array.dtype != np.bool_:
        check_values(name, array, kind)
        return array != 0
    return array


def check_values(name: str, array: np.ndarray, kind: Kind, read: np.ndarray | None = None) -> None:
    """Raise if a value is not of that kind; READ is checked only where `read` says."""
    if kind is Kind.READ:
        wrong = ~np.isfinite(array) & (False if read is None else read)
    elif kind is Kind.UNIT:
        wrong = ~((array >= 0) & (array <= 1))
    elif kind is Kind.FLAG:
        wrong = ~((array == 0) | (array == 1))
    elif kind is Kind.REAL:
        wrong = ~np.isfinite(array)
    else:
        wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        raise ValueError(f"{name}: got {np.broadcast_to(array, wrong.shape)[wrong][0]}, takes {kind.value}")


def check_given(given: Given) -> None:
    """Raise if a value of any argument is not of its kind; coefficients made of arguments have none."""
    terminated = given.arrays.get("terminated")
    for name, array in given.arrays.items():
        if name in given.kinds:
            check_values(name, array, given.kinds[name], None if terminated is None else ~terminated)


def lambda_returns(given: Given, stop: bool) -> np.ndarray:
    """See `multistep.lambda_returns`."""
    return _run(given, _kernels.lambda_returns)


def gae(given: Given, stop: bool) -> np.ndarray:
    """See `advantages.gae`."""
    return _run(given, _kernels.gae)


def n_step_returns(given: Given, n: int, stop: bool) -> np.ndarray:
    """See `multistep.n_step_bootstrapped_returns`."""
    r_t, discount_t, v_t, lambda_t = (_blocks(given, array, full=True) for array in given.arrays.values())
    out = np.empty_like(r_t)
    _kernels.n_step_returns(r_t, discount_t, v_t, lambda_t, min(n, given.shape[given.axis]), out)
    return out.reshape(given.shape)


def retrace(given: Given, stop: bool) -> np.ndarray:
    """Targets; see `off_policy.retrace`."""
    r_t, discount_t, v_t, q_t, c_t = given.arrays.values()
    b, a = _formulas.off_policy(r_t, discount_t, v_t, q_t, c_t)
    return _linear(given, b, a, q_t)


def vtrace(given: Given, clip_rho: float, stop: bool) -> np.ndarray:
    """Errors; see `off_policy.vtrace`."""
    r_t, discount_t, v_t, v_tm1, rho_tm1, lambda_t = given.arrays.values()
    b, a = _formulas.vtrace(np, v_tm1, v_t, r_t, discount_t, rho_tm1, lambda_t, clip_rho)
    return _linear(given, b, a, np.zeros((1,) * len(given.shape)))


def pick(name: str, values: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """values[..., indices[...]]; `name` is that of the indices."""
    if (indices >= values.shape[-1]).any():
        raise ValueError(f"{name}: got {indices.max()}, takes integers in 0..{values.shape[-1] - 1}")
    return np.take_along_axis(values, indices[..., None].astype(np.int64), axis=-1)[..., 0]


def minimum(array: np.ndarray, limit: float) -> np.ndarray:
    """min(array, limit)."""
    return np.minimum(array, limit)


def stop_gradient(array: np.ndarray) -> np.ndarray:
    """NumPy arrays have no gradient."""
    return array


def sample(lambda_t: np.ndarray, rng: Any) -> np.ndarray:
    """Whether a uniform number is at least λ, one draw per entry."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng: got {rng!r}, takes a numpy.random.Generator for a NumPy array")
    return rng.random(lambda_t.shape) >= lambda_t


def keep_last(keep: np.ndarray, axis: int) -> np.ndarray:
    """`keep` with the last step set."""
    keep[(slice(None),) * axis + (-1,)] = True
    return keep


def _run(given: Given, kernel: Any) -> np.ndarray:
    """Call a kernel; if a coefficient or a result is not a number it should be, find the argument to blame.

    NaN and infinity in any argument reach the first step of the result, since a recursion multiplies by γλ, and zero
    times either is NaN. So only that step needs a look.
    """
    blocks = [_blocks(given, array, given.kinds[name]) for name, array in given.arrays.items()]
    out = np.empty_like(blocks[0])
    if kernel(*blocks, out) or not np.isfinite(out[:, 0]).all():
        check_given(given)
    return out.reshape(given.shape)


def _linear(given: Given, b: np.ndarray, a: np.ndarray, start: np.ndarray) -> np.ndarray:
    b, a, start = (_blocks(given, array, full=True) for array in (b, a, start))
    out = np.empty_like(b)
    _kernels.linear_recursion(b, a, np.ascontiguousarray(start[:, -1:]), out)
    return out.reshape(given.shape)


def _blocks(given: Given, array: np.ndarray, kind: Kind = Kind.REAL, full: bool = False) -> np.ndarray:
    """An argument as [outer or 1, T or 1, inner]: contiguous, writable, in the precision of the call.

    One kind of array only, so that each kernel is compiled once per precision.

    Args:
      full: give `outer` and T their full lengths too.
    """
    before, steps, inner = array.shape[: given.axis], array.shape[given.axis], given.shape[given.axis + 1 :]
    outer = before if all(length == 1 for length in before) else given.shape[: given.axis]
    shape = given.shape if full else (*outer, steps, *inner)
    dtype = np.bool_ if kind is Kind.FLAG else given.dtype
    if array.shape != shape:
        array = np.broadcast_to(array, shape)
    array = np.require(array, dtype, ["C_CONTIGUOUS", "WRITEABLE"])
    return array.reshape(math.prod(shape[: given.axis]), shape[given.axis], math.prod(inner))
