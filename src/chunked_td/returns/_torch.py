"""Returns of Torch tensors, on their device and in their precision.

Tensors on the CPU use the compiled loops of the NumPy backend, without a copy. Tensors on an NVIDIA GPU use the kernels
of `_triton`. On other devices, under `torch.compile`, and if a gradient is required, the linear recursion is solved by
doubling, in log₂(T) rounds of whole tensors. A Python loop over steps costs several calls per step, and the closed form
with cumulative products divides by zero if γλ = 0. Measurements: `benchmarks/RETURNS.md`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]  (an extra)

from chunked_td.returns import _formulas, _numpy
from chunked_td.returns._arguments import Given, Kind, along, next_step

xp = torch


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """Precision of the computation."""
    return torch.promote_types(dtype, torch.float32)


def convert(values: dict[str, Any], kinds: dict[str, Kind]) -> tuple[dict[str, torch.Tensor], torch.dtype]:
    """Arguments as tensors on the device of those among them, at least in float32; and the precision of the result."""
    tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
    dtype, device = _common(tensors)
    wide, arrays = computing_dtype(dtype), {}
    for name, value in values.items():
        kind = kinds[name]
        if isinstance(value, torch.Tensor):
            _check_dtype(name, value, kind)
            if kind is Kind.FLAG and value.dtype != torch.bool:
                _check_flags(name, value)
        elif type(value) in (int, float) and kind in (Kind.REAL, Kind.READ, Kind.END, Kind.UNIT):
            value = _number(name, value, kind, wide, device)
        elif isinstance(value, bool) and kind is Kind.FLAG:
            value = torch.full((), value, dtype=torch.bool, device=device)  # filled on the device, without a transfer
        else:
            host = _numpy.to_array(name, value, kind)
            if host.ndim == 0 or "mask" not in values:
                _numpy.check_values(name, host, kind)
            value = torch.as_tensor(host, device=device)
        if kind in (Kind.FLAG, Kind.BOOL):
            value = value != 0 if value.dtype != torch.bool else value
        elif kind not in (Kind.INDEX, Kind.LABEL) and value.dtype != wide:
            value = value.to(wide)
        arrays[name] = value.to(device) if value.ndim == 0 else value
    return arrays, dtype


def check(given: Given) -> None:
    """Raise if a value of any argument is not of its kind; no check on other devices or under `torch.compile`."""
    if torch.compiler.is_compiling() or any(x.device.type != "cpu" for x in given.arrays.values()):
        return
    host = {name: x.detach() for name, x in given.arrays.items()}
    host = {name: (x.double() if x.is_floating_point() else x).numpy() for name, x in host.items()}
    _numpy.check(given.with_arrays(**host))


def solve(given: Given, formula: _formulas.Formula, stop: bool) -> torch.Tensor:
    """Solve the recursion of that formula."""
    if _compiled_loops_fit(given, stop):
        return torch.from_numpy(_numpy.solve(_to_numpy(given), formula, stop))
    check(given)
    named = {name: x.detach() if stop else x for name, x in given.arrays.items()}
    arrays, axis = [named[name] for name in formula.names], given.axis
    start = None if formula.start is None else along(named[formula.start], axis, -1, None)
    kernels = _kernels(arrays)
    if kernels is not None and formula in kernels.FUSED:
        return kernels.one_pass(kernels.FUSED[formula], arrays, start, axis, given.shape)
    if formula.ahead is not None:
        place = formula.names.index(formula.ahead)
        arrays[place] = next_step(torch, arrays[place], axis)
    b, a = (torch.broadcast_to(x, given.shape) for x in formula.coefficients(torch, *arrays))
    if kernels is not None:
        return kernels.one_pass(kernels.linear, [b, a], start, axis, given.shape)
    return doubling_scan(b, a, start, axis)


def token_gae(given: Given) -> tuple[torch.Tensor, ...] | None:
    """See `advantages.token_gae`; None if the compiled loops cannot be used."""
    found = _numpy.token_gae(_to_numpy(given)) if _compiled_loops_fit(given, True) else None
    return None if found is None else tuple(torch.from_numpy(x).to(given.dtype) for x in found)


def token_gae_on_gpu(arguments: tuple[Any, ...], time_axis: int) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Result of one launch if every argument is a number or a tensor in the memory layout of the rewards; else None."""
    rewards, values, mask, *given, last_values = arguments
    coefficients = []
    for x in given:
        if isinstance(x, torch.Tensor) and x.ndim == 2 and x.shape != rewards.shape:
            x = torch.empty_like(rewards).copy_(x) if 1 in x.shape else None
        coefficients.append(x)
    kernels = _one_launch(rewards, (values,), (mask,) if mask is not None else (), coefficients, time_axis)
    if kernels is None:
        return None
    if isinstance(last_values, torch.Tensor):
        if last_values.numel() != rewards.shape[1 if time_axis == 0 else 0] or last_values.dtype != torch.float32:
            return None
        last_values = last_values.reshape(-1).contiguous()
    return kernels.token_gae(rewards, values, mask, *coefficients, last_values, 0 if time_axis == 0 else 1)


def gae_on_gpu(arguments: tuple[Any, ...], time_axis: int) -> torch.Tensor | None:
    """Result of one launch for `advantages.gae` if its arguments allow it; else None."""
    rewards, values, next_values, terminated, truncated, *coefficients = arguments
    truncated = terminated if truncated is False else truncated  # a step that is both counts as terminated
    kernels = _one_launch(rewards, (values, next_values), (terminated, truncated), coefficients, time_axis)
    if kernels is None:
        return None
    numbers = (x if isinstance(x, torch.Tensor) else float(x) for x in coefficients)
    arrays = (rewards, values, next_values, terminated, truncated, *numbers)
    return kernels.one_pass(kernels.gae, arrays, None, 0 if time_axis == 0 else 1, rewards.shape)


def _one_launch(
    reference: torch.Tensor, reals: Sequence[Any], flags: Sequence[Any], coefficients: Sequence[Any], time_axis: int
) -> ModuleType | None:
    """Module of kernels if tensors have the device and layout of `reference` and numbers are in [0, 1]; else None."""
    if reference.dtype != torch.float32 or reference.ndim != 2 or time_axis not in (-1, 0, 1):
        return None
    numbers = [x for x in coefficients if isinstance(x, int | float)]
    if not all(0.0 <= x <= 1.0 for x in numbers):
        return None
    shape, stride, device = reference.shape, reference.stride(), reference.device
    for kind, tensors in ((torch.float32, reals), (torch.float32, coefficients), (torch.bool, flags)):
        for x in tensors:
            if isinstance(x, torch.Tensor):
                if x.dtype != kind or x.shape != shape or x.stride() != stride or x.device != device:
                    return None
            elif tensors is not coefficients or not isinstance(x, int | float):
                return None
    return _kernels([reference])


def n_step_returns(given: Given, n: int, stop: bool) -> torch.Tensor:
    """See `multistep.n_step_bootstrapped_returns`."""
    if _compiled_loops_fit(given, stop):
        return torch.from_numpy(_numpy.n_step_returns(_to_numpy(given), n, stop))
    check(given)
    arrays = [torch.broadcast_to(x.detach() if stop else x, given.shape) for x in given.arrays.values()]
    b, a = _formulas.LAMBDA_RETURNS.coefficients(torch, *arrays)
    return _formulas.windows(torch, b, a, arrays[2], n, given.axis)


def _kernels(tensors: Sequence[torch.Tensor]) -> ModuleType | None:
    """Module of kernels if the tensors are on an NVIDIA GPU, need no gradient and are not traced; else None."""
    if torch.compiler.is_compiling() or not tensors[0].is_cuda or torch.version.hip is not None:
        return None
    if any(x.requires_grad for x in tensors):
        return None
    try:
        from chunked_td.returns import _triton
    except ImportError:  # most builds of Torch for GPUs include Triton, not all
        return None
    return _triton


def doubling_scan(b: torch.Tensor, a: torch.Tensor, start: torch.Tensor | None, axis: int) -> torch.Tensor:
    """xₜ₋₁ = bₜ + aₜxₜ along an axis; x_T = start, or 0.

    After k rounds b_t is the recursion from t over 2ᵏ steps, started at 0, and a_t the product of its coefficients.
    Each round composes two such segments. It uses products and sums only, so it is exact for a = 0.
    """
    steps = b.shape[axis]
    a = torch.broadcast_to(a, b.shape)
    if start is not None:
        end = along(b, axis, -1, None) + along(a, axis, -1, None) * start
        b = torch.cat([along(b, axis, 0, -1), end], dim=axis)
    reach = 1
    while reach < steps:
        left = along(a, axis, 0, steps - reach)
        b = torch.cat(
            [
                torch.addcmul(along(b, axis, 0, steps - reach), left, along(b, axis, reach, None)),
                along(b, axis, steps - reach, None),
            ],
            dim=axis,
        )
        # The coefficients of segments that reach the end are no longer needed.
        a = along(left, axis, 0, max(steps - 2 * reach, 0)) * along(a, axis, reach, steps - reach)
        reach *= 2
    return b


def pick(name: str, values: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """values[..., indices[...]]; `name` is the argument name of the indices."""
    if not torch.compiler.is_compiling() and indices.device.type == "cpu":
        _numpy.check_places(name, indices.numpy(), values.shape[-1])
    return torch.take_along_dim(values, indices[..., None].long(), dim=-1)[..., 0]


def take_along(array: torch.Tensor, places: torch.Tensor, axis: int) -> torch.Tensor:
    """Entries of an array at these indices along an axis; the indices are real numbers."""
    return torch.take_along_dim(array, places.long(), dim=axis)


def all_zero(array: torch.Tensor) -> bool:
    """Whether all entries are 0; False if the check would block."""
    return not torch.compiler.is_compiling() and array.device.type == "cpu" and not array.detach().any()


def stop_gradient(array: torch.Tensor) -> torch.Tensor:
    """The same numbers without gradients."""
    return array.detach()


def sample(lambda_t: torch.Tensor, generator: Any) -> torch.Tensor:
    """Whether a uniform number is at least λ, one number per entry."""
    if not isinstance(generator, torch.Generator):
        raise TypeError(f"rng: got {generator!r}, takes a torch.Generator for a Torch tensor")
    drawn = torch.rand(lambda_t.shape, generator=generator, dtype=lambda_t.dtype, device=lambda_t.device)
    return drawn >= lambda_t


def _common(tensors: dict[str, torch.Tensor]) -> tuple[torch.dtype, torch.device]:
    """Common precision of all floating tensors, and the device of those with an axis."""
    dtype, device, first = None, None, ""
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            dtype = tensor.dtype if dtype is None else torch.promote_types(dtype, tensor.dtype)
        if tensor.ndim and device is None:
            device, first = tensor.device, name
        elif tensor.ndim and tensor.device != device:
            raise ValueError(f"{name}: got a tensor on {tensor.device}, takes {device} as {first}")
    return dtype or torch.get_default_dtype(), device or next(iter(tensors.values())).device


def _number(name: str, value: float, kind: Kind, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A Python number as a tensor, checked without arrays, which `torch.compile` would add to its graph."""
    if not (0.0 <= value <= 1.0 if kind is Kind.UNIT else math.isfinite(value) or kind is Kind.READ):
        raise ValueError(f"{name}: got {value}, takes {kind.words}")
    return torch.full((), value, dtype=dtype, device=device)


def _check_flags(name: str, tensor: torch.Tensor) -> None:
    if not torch.compiler.is_compiling() and tensor.device.type == "cpu":
        _numpy.check_values(name, tensor.detach().to(torch.float64).numpy(), Kind.FLAG)


def _check_dtype(name: str, tensor: torch.Tensor, kind: Kind) -> None:
    if kind not in (Kind.INDEX, Kind.LABEL, Kind.BOOL) and (tensor.dtype == torch.bool or tensor.is_floating_point()):
        return
    is_bool, is_number = tensor.dtype == torch.bool, tensor.is_floating_point() or tensor.is_complex()
    unfit = (kind in (Kind.INDEX, Kind.LABEL) and (is_bool or is_number)) or (kind is Kind.BOOL and not is_bool)
    if unfit or tensor.is_complex():
        raise TypeError(f"{name}: got a tensor of {tensor.dtype}, takes {kind.words}")


def _compiled_loops_fit(given: Given, stop: bool) -> bool:
    """Whether the loops of the NumPy backend can be used: CPU memory, no tracing, no gradient."""
    if torch.compiler.is_compiling():
        return False
    if any(tensor.device.type != "cpu" for tensor in given.arrays.values()):
        return False
    return stop or not any(tensor.requires_grad for tensor in given.arrays.values())


def _to_numpy(given: Given) -> Given:
    arrays = {name: tensor.detach().numpy() for name, tensor in given.arrays.items()}
    dtype = np.float32 if computing_dtype(given.dtype) == torch.float32 else np.float64
    return dataclasses.replace(given, arrays=arrays, dtype=dtype)
