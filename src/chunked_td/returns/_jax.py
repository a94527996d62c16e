"""Returns of JAX arrays: pure functions of arrays, for `jit`, `vmap`, `scan` and `grad`.

On the CPU the linear recursion is a serial scan; an associative scan takes 3 to 8 times as long there
(`benchmarks/RETURNS.md`). On other devices it is an associative scan in log₂(T) rounds. On a GPU, where each step costs
a launch, the serial scan takes 45 to 625 times as long. On an NVIDIA GPU, with many columns and without a gradient, the
kernel of `_pallas` passes over memory once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from chunked_td.returns import _formulas, _numpy
from chunked_td.returns._arguments import Given, Kind, along, next_step

UNROLL = 1
"""Steps of the serial scan per iteration of XLA's loop."""
WIDE = 1024
"""Least number of columns for the kernel on an NVIDIA GPU; with fewer, neither method is always faster."""

Formula: TypeAlias = Callable[..., tuple[jax.Array, jax.Array]]
"""Function from the arguments of steps to their coefficients (b, a)."""

xp = jnp


def computing_dtype(dtype: Any) -> Any:
    """Precision of the computation."""
    return jnp.promote_types(dtype, jnp.float32)


def convert(values: dict[str, Any], kinds: dict[str, Kind]) -> tuple[dict[str, jax.Array], Any]:
    """Arguments as JAX arrays, at least in float32; and the precision of the result, that of the JAX arrays given."""
    floating = [x.dtype for x in values.values() if isinstance(x, jax.Array) and _is_floating(x)]
    dtype = jnp.result_type(*floating) if floating else jnp.result_type(float)
    arrays = {}
    for name, value in values.items():
        kind = kinds[name]
        host = _on_host(name, value, kind)
        unmasked = not isinstance(value, jax.Array) and (host is None or host.ndim == 0 or "mask" not in values)
        if host is not None and (unmasked or kind is Kind.FLAG):
            _numpy.check_values(name, host, kind)
        array = jnp.asarray(value if isinstance(value, jax.Array) else host)
        if kind in (Kind.FLAG, Kind.BOOL):
            array = array.astype(bool)
        elif kind not in (Kind.INDEX, Kind.LABEL):
            array = array.astype(computing_dtype(dtype))
        arrays[name] = array
    return arrays, dtype


def check(given: Given) -> None:
    """Raise if a value of any argument is not of its kind, if the check does not block."""
    hosts = {name: _on_host(name, x, given.kinds[name]) for name, x in given.arrays.items() if name in given.kinds}
    if given.arrays.keys() & {"terminated"} and hosts["terminated"] is None:
        hosts.pop("next_values")  # the steps at which they are read are unknown here
    _numpy.check(given.with_arrays(**{name: x for name, x in hosts.items() if x is not None}))


def solve(given: Given, formula: _formulas.Formula, stop: bool) -> jax.Array:
    """Solve the recursion of that formula."""
    check(given)
    arrays = [given.arrays[name] for name in formula.names]
    start = None if formula.start is None else along(given.arrays[formula.start], given.axis, -1, None)
    found = _solve(start, *arrays, formula=formula, axis=given.axis, stop=stop)
    found = jnp.broadcast_to(found, given.shape)
    return lax.stop_gradient(found) if stop else found


@functools.partial(jax.jit, static_argnames=("formula", "axis", "stop"))
def _solve(start, *arrays, formula, axis, stop):
    coefficients = functools.partial(formula.coefficients, jnp)
    ahead = None if formula.ahead is None else formula.names.index(formula.ahead)
    return linear_recursion(coefficients, arrays, start, axis, stop, ahead)


def token_gae(given: Given) -> tuple[jax.Array, jax.Array] | None:
    """See `advantages.token_gae`; None on devices other than a CPU, or if a value is not of its kind."""
    if jax.default_backend() != "cpu":
        return None
    names = ("last_values", "rewards", "values", "mask", "discount", "lambda_policy", "lambda_value")
    *found, fine = _token_gae(*(given.arrays[name] for name in names), axis=given.axis, shape=given.shape)
    if not isinstance(fine, Tracer) and not fine:
        return None
    advantages, targets = (lax.stop_gradient(x.astype(given.dtype)) for x in found)
    return advantages, targets


@functools.partial(jax.jit, static_argnames=("axis", "shape"))
def _token_gae(last, *arrays, axis, shape):
    rows = [jnp.moveaxis(x, axis, 0) if jnp.ndim(x) else x[None] for x in arrays]
    of_steps = [k for k, x in enumerate(rows) if x.shape[0] == shape[axis]]

    def step(carry, of_step):
        (worth, spilt), row = carry, [x[0] for x in rows]
        for k, x in zip(of_steps, of_step, strict=True):
            row[k] = x
        reward, value, there, discount, *lambdas = row
        returns = [reward + spilt + discount * each for each in worth]
        worth = [
            jnp.where(there, (1 - lambda_) * value + lambda_ * target, each)
            for lambda_, target, each in zip(lambdas, returns, worth, strict=True)
        ]
        spilt = jnp.where(there, 0.0, spilt + jnp.where(jnp.isfinite(reward), reward, 0.0))
        return (worth, spilt), (jnp.where(there, returns[0] - value, 0.0), jnp.where(there, returns[1], 0.0))

    last = jnp.moveaxis(last, axis, 0)[-1]
    width = shape[:axis] + shape[axis + 1 :]
    start = [jnp.broadcast_to(last, width).astype(rows[0].dtype)] * 2
    _, found = lax.scan(step, (start, jnp.zeros_like(start[0])), [rows[k] for k in of_steps], reverse=True)
    reals = [jnp.isfinite(x) for x in arrays[:2]]
    shares = [(x >= 0) & (x <= 1) for x in arrays[3:]]
    fine = jnp.isfinite(last).all() & (functools.reduce(jnp.logical_and, reals + shares) | ~arrays[2]).all()
    return *(jnp.moveaxis(x, 0, axis) for x in found), fine


def n_step_returns(given: Given, n: int, stop: bool) -> jax.Array:
    """See `multistep.n_step_bootstrapped_returns`."""
    check(given)
    targets = _n_step_returns(*given.arrays.values(), n=n, axis=given.axis)
    return lax.stop_gradient(targets) if stop else targets


@functools.partial(jax.jit, static_argnames=("n", "axis"))
def _n_step_returns(r_t, discount_t, v_t, lambda_t, *, n, axis):
    arrays = [jnp.broadcast_to(x, r_t.shape) for x in (r_t, discount_t, v_t, lambda_t)]
    return _formulas.windows(jnp, *_formulas.LAMBDA_RETURNS.coefficients(jnp, *arrays), arrays[2], n, axis)


def linear_recursion(
    formula: Formula,
    arrays: Sequence[Any],
    start: jax.Array | None,
    axis: int,
    stop: bool,
    ahead: int | None = None,
) -> jax.Array:
    """xₜ₋₁ = bₜ + aₜxₜ along an axis, with (bₜ, aₜ) = formula(arguments of step t).

    Args:
      arrays: the formula's arguments, all of one rank, or numbers.
      start: x_T, of length 1 along the axis; 0 if None.
      stop: without gradients. ahead: index of the argument that is read at the next step.
    """
    if axis != 0 and jax.default_backend() == "cpu":  # move two arrays, not all of them
        b, a = (jnp.moveaxis(x, axis, 0) for x in _coefficients(formula, arrays, axis, ahead))
        end = None if start is None else jnp.moveaxis(start, axis, 0)
        return jnp.moveaxis(linear_recursion(lambda *row: row, (b, a), end, 0, stop), 0, axis)
    rank = max(jnp.ndim(x) for x in arrays)
    arrays = [jnp.moveaxis(x, axis, 0) if jnp.ndim(x) else jnp.reshape(x, (1,) * rank) for x in arrays]
    shape, dtype = jnp.broadcast_shapes(*(x.shape for x in arrays)), jnp.result_type(arrays[0])
    start = jnp.zeros((), dtype) if start is None else jnp.moveaxis(start, axis, 0)
    start = jnp.broadcast_to(start, (1, *shape[1:]))[0]

    def run(scan: Callable[..., jax.Array], start: jax.Array, *arrays: jax.Array) -> jax.Array:
        return scan(*_coefficients(formula, arrays, 0, ahead), start)

    ways: dict[str, Any] = {
        "cpu": functools.partial(run, serial_scan),
        "default": functools.partial(run, associative_scan),
    }
    if stop and start.size >= WIDE and jax.default_backend() == "gpu":
        try:
            from chunked_td.returns._pallas import one_pass
        except ImportError:  # an older JAX
            pass
        else:
            start, *arrays = (lax.stop_gradient(x) for x in (start, *arrays))
            ways["cuda"] = lambda start, *arrays: one_pass(formula, arrays, start, ahead)
    return jnp.moveaxis(lax.platform_dependent(start, *arrays, **ways), 0, axis)


def _coefficients(formula: Formula, arrays: Sequence[Any], axis: int, ahead: int | None) -> tuple[jax.Array, jax.Array]:
    """b and a of all steps, with full shapes."""
    shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in arrays))
    b, a = formula(*(next_step(jnp, x, axis) if k == ahead else x for k, x in enumerate(arrays)))
    return jnp.broadcast_to(b, shape), jnp.broadcast_to(a, shape)


def serial_scan(b: jax.Array, a: jax.Array, start: jax.Array, unroll: int = UNROLL) -> jax.Array:
    """Recursion along the first axis, step by step."""

    def step(x, coefficients):
        x = coefficients[0] + coefficients[1] * x
        return x, x

    return lax.scan(step, start, (b, a), reverse=True, unroll=min(unroll, b.shape[0]))[1]


def associative_scan(b: jax.Array, a: jax.Array, start: jax.Array) -> jax.Array:
    """Recursion along the first axis, in log₂(T) rounds."""

    def compose(later, earlier):
        return earlier[0] + earlier[1] * later[0], earlier[1] * later[1]

    b, a = lax.associative_scan(compose, (b, a), reverse=True)
    return b + a * start


def pick(name: str, values: jax.Array, indices: jax.Array) -> jax.Array:
    """values[..., indices[...]]; `name` is the argument name of the indices. Unchecked wrong indices give NaN."""
    host = _on_host(name, indices, Kind.INDEX)
    if host is not None:
        _numpy.check_places(name, host, values.shape[-1])
    places = jnp.where(indices < 0, values.shape[-1], indices)  # a negative one would count from the end
    return jnp.take_along_axis(values, places[..., None], axis=-1)[..., 0]


def take_along(array: jax.Array, places: jax.Array, axis: int) -> jax.Array:
    """Entries of an array at these indices along an axis; the indices are real numbers."""
    return jnp.take_along_axis(array, places.astype(jnp.int32), axis)


def all_zero(array: jax.Array) -> bool:
    """Whether all entries are 0; False if the check would block."""
    host = _on_host("rewards", array, Kind.READ)
    return host is not None and not host.any()


def stop_gradient(array: jax.Array) -> jax.Array:
    """The same numbers without gradients."""
    return lax.stop_gradient(array)


def sample(lambda_t: jax.Array, key: Any) -> jax.Array:
    """Whether a uniform number is at least λ, one number per entry."""
    if not isinstance(key, jax.Array):
        raise TypeError(f"rng: got {key!r}, takes a key (jax.random.key) for a JAX array")
    return jax.random.uniform(key, lambda_t.shape, lambda_t.dtype) >= lambda_t


def _is_floating(array: jax.Array) -> bool:
    return jnp.issubdtype(array.dtype, jnp.floating)


def _on_host(name: str, value: Any, kind: Kind) -> np.ndarray | None:
    """The argument as a NumPy array; None if that would block, as under `jit` or on a GPU."""
    if not isinstance(value, jax.Array):
        return _numpy.to_array(name, value, kind)
    accepted = {Kind.INDEX: jnp.integer, Kind.LABEL: jnp.integer, Kind.BOOL: jnp.bool_}.get(kind)
    if jnp.issubdtype(value.dtype, jnp.complexfloating) or (accepted and not jnp.issubdtype(value.dtype, accepted)):
        raise TypeError(f"{name}: got an array of {value.dtype}, takes {kind.words}")
    if isinstance(value, Tracer) or any(device.platform != "cpu" for device in value.devices()):
        return None
    return np.asarray(value.astype(jnp.float32) if _is_floating(value) and value.dtype.itemsize < 4 else value)
