"""Linear recursions on an NVIDIA GPU in one pass over memory, as a Triton kernel for Torch. See `_pallas`."""

# Triton reads these functions itself and knows sums of tuples, no stars.
# ruff: noqa: RUF005
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports]  (an extra)
import triton  # pyright: ignore[reportMissingImports]  (comes with torch for GPUs)
import triton.language as tl  # pyright: ignore[reportMissingImports]

from chunked_td.returns import _formulas

if tuple(int(number) for number in triton.__version__.split(".")[:2]) < (3, 2):
    raise ImportError(f"the kernel takes tuples: it needs Triton 3.2 or later, this is {triton.__version__}")

NARROW, WIDE, TURN = (8, 16), (16, 8), 8
"""Columns and parts that a program of `one_pass` takes at a time, below `MANY` columns and above; steps per part."""
MANY = 4_096
ROWS, COLUMNWISE = ((64, 1, True), 1), ((32, 8, False), 8)
"""Parts of four tokens and columns that a program of `token_gae` takes at a time, whether it has one sequence; warps.

Both are the fastest of those in `benchmarks/returns_launch.txt`.
"""

_READY: dict[Any, Any] = {}


def _launch(
    kernel: Any,
    programs: int,
    warps: int,
    tensors: Sequence[Any],
    sizes: Sequence[int],
    given: Sequence[Any],
    options: Sequence[Any],
    kinds: Sequence[Any] = (),
) -> None:
    """Run `programs` of kernel(*given, *options), where `given` holds these tensors and sizes, of these kinds.

    Triton looks its program up at every call, which takes the host several times as long as the launch. It depends on
    the options, on sizes being 1 or multiples of 16, and on where tensors begin. So it is kept for tensors that begin
    at multiples of 16 bytes, as nearly all do.
    """
    device, places = tensors[0].device.index, 0
    for x in tensors:
        places |= x.data_ptr()
    if places % 16 or max(sizes) >= 2**31 or device != torch.cuda.current_device():
        with torch.cuda.device(device):
            kernel[(programs,)](*given, *options, num_warps=warps)
        return
    key = (kernel, device, warps, options, kinds, *(x if x == 1 else x % 16 == 0 for x in sizes))
    ready = _READY.get(key)
    if ready is None:
        _READY[key] = kernel[(programs,)](*given, *options, num_warps=warps)
    else:
        ready[(programs, 1, 1)](*given, *options)


@triton.jit
def _read(array, strides, row, column, inside):
    """The numbers of one step of every part, 0 outside; a number is that of every step."""
    if len(strides) == 2:
        return tl.load(array + row.to(tl.int64) * strides[0] + column.to(tl.int64) * strides[1], inside, 0)
    else:
        return array


@triton.jit
def linear(arrays, strides, row, column, inside, later):
    """b and a as they are."""
    return _read(arrays[0], strides[0], row, column, inside), _read(arrays[1], strides[1], row, column, inside)


@triton.jit
def lambda_returns(arrays, strides, row, column, inside, later):
    """As `_formulas.LAMBDA_RETURNS`."""
    reward = _read(arrays[0], strides[0], row, column, inside)
    discount = _read(arrays[1], strides[1], row, column, inside)
    value = _read(arrays[2], strides[2], row, column, inside)
    lambda_ = _read(arrays[3], strides[3], row, column, inside)
    return reward + discount * ((1 - lambda_) * value), discount * lambda_


@triton.jit
def gae(arrays, strides, row, column, inside, later):
    """As `_formulas.GAE`, with the λ of the next step."""
    reward = _read(arrays[0], strides[0], row, column, inside)
    value = _read(arrays[1], strides[1], row, column, inside)
    next_value = _read(arrays[2], strides[2], row, column, inside)
    terminated = _read(arrays[3], strides[3], row, column, inside) != 0
    truncated = _read(arrays[4], strides[4], row, column, inside) != 0
    discount = _read(arrays[5], strides[5], row, column, inside)
    lambda_ = _read(arrays[6], strides[6], row + 1, column, later)
    delta = reward + discount * tl.where(terminated, 0.0, next_value) - value
    return delta, tl.where(terminated | truncated, 0.0, discount * lambda_)


FUSED = {_formulas.LAMBDA_RETURNS: lambda_returns, _formulas.GAE: gae}


@triton.jit
def _turn(arrays, strides, row, column, steps, width, FORMULA: tl.constexpr, TURN: tl.constexpr):
    """Coefficients of `TURN` steps of every part, the last one first; steps after the last are x ↦ 0 + 1·x."""
    bs, slopes = (), ()
    for j in tl.static_range(TURN):
        at = row + (TURN - 1 - j)
        inside = (at >= 0) & (at < steps) & (column < width)
        b, a = FORMULA(arrays, strides, at, column, inside, inside & (at + 1 < steps))
        bs, slopes = bs + (b,), slopes + (tl.where(inside, a, 1.0),)
    return bs, slopes


@triton.jit
def _follow(
    arrays,
    strides,
    start,
    out,
    steps,
    width,
    FORMULA: tl.constexpr,
    COLUMNS: tl.constexpr,
    PARTS: tl.constexpr,
    TURN: tl.constexpr,
):
    """xₜ₋₁ = bₜ + aₜxₜ in `COLUMNS` columns, `PARTS` × `TURN` steps at a time.

    Threads are numbered along one axis, part by part, so that what they read needs no move between them.
    """
    thread = tl.arange(0, PARTS * COLUMNS)
    column = tl.program_id(0) * COLUMNS + thread % COLUMNS
    part = tl.arange(0, PARTS)[:, None]
    x = tl.zeros((PARTS * COLUMNS,), out.dtype.element_ty)
    if start is not None:
        x = tl.load(start + column, (thread < COLUMNS) & (column < width), 0.0)
    x = tl.sum(tl.reshape(x, (PARTS, COLUMNS)), 0)
    row = (steps - 1) // (PARTS * TURN) * (PARTS * TURN) + thread // COLUMNS * TURN
    bs, slopes = _turn(arrays, strides, row, column, steps, width, FORMULA, TURN)
    for _ in range(tl.cdiv(steps, PARTS * TURN)):
        # Asked for before they are needed.
        next_bs, next_slopes = _turn(arrays, strides, row - PARTS * TURN, column, steps, width, FORMULA, TURN)
        b, a = bs[0], slopes[0]
        found, products = (b,), (a,)
        for j in tl.static_range(1, TURN):
            b, a = bs[j] + slopes[j] * b, slopes[j] * a
            found, products = found + (b,), products + (a,)
        whole, slope = tl.reshape(b, (PARTS, COLUMNS)), tl.reshape(a, (PARTS, COLUMNS))
        begin = tl.zeros_like(whole)
        for k in tl.static_range(PARTS):
            here = part == PARTS - 1 - k
            begin = tl.where(here, x[None, :], begin)
            x = tl.sum(tl.where(here, whole + slope * x[None, :], 0.0), 0)
        begin = tl.reshape(begin, (PARTS * COLUMNS,))
        for j in tl.static_range(TURN):
            at = row + (TURN - 1 - j)
            place = at.to(tl.int64) * width + column
            tl.store(out + place, found[j] + products[j] * begin, (at < steps) & (column < width))
        bs, slopes = next_bs, next_slopes
        row -= PARTS * TURN


@triton.jit
def _then(later_b, later_a, later_d, later_c, b, a, d, c):
    """x ↦ b + a·x after x ↦ later_b + later_a·x, and the same for d + c·x."""
    return b + a * later_b, a * later_a, d + c * later_d, c * later_c


@triton.jit
def _add(later_x, later_a, x, a):
    """x + a·y after y ↦ later_x + later_a·y."""
    return x + a * later_x, a * later_a


@triton.jit
def _finite(x):
    """x, and 0 for NaN and infinities."""
    return tl.where((x == x) & (tl.abs(x) != float("inf")), x, 0.0)


@triton.jit
def _load(array, place, stride, inside, other, ROWS: tl.constexpr):
    """Four neighbouring tokens of every part: as they lie in memory, or the last one first."""
    if ROWS:
        return tl.load(array + place, inside, other)
    else:
        return (
            tl.load(array + place + 3 * stride, inside[0], other),
            tl.load(array + place + 2 * stride, inside[1], other),
            tl.load(array + place + stride, inside[2], other),
            tl.load(array + place, inside[3], other),
        )


@triton.jit
def _four(block, PARTS: tl.constexpr, ROWS: tl.constexpr):
    """What `_load` read, as four tensors [parts, columns], the last token first."""
    if ROWS:
        even, odd = tl.split(tl.reshape(block, (PARTS, 1, 2, 2)))
        first, third = tl.split(even)
        second, fourth = tl.split(odd)
        return fourth, third, second, first
    else:
        return block


@triton.jit
def _store(array, place, stride, inside, x, PARTS: tl.constexpr, ROWS: tl.constexpr):
    """The reverse of both."""
    if ROWS:
        tl.store(array + place, tl.reshape(tl.join(tl.join(x[3], x[1]), tl.join(x[2], x[0])), (PARTS * 4,)), inside)
    else:
        for j in tl.static_range(4):
            tl.store(array + place + (3 - j) * stride, x[j], inside[j])


@triton.jit
def _coefficients(array, number, place, stride, inside, TENSOR: tl.constexpr, PARTS: tl.constexpr, ROWS: tl.constexpr):
    """A number per token, or one for all."""
    if TENSOR:
        return _four(_load(array, place, stride, inside, 0.0, ROWS), PARTS, ROWS)
    else:
        return number, number, number, number


@triton.jit
def _places(
    start, stride, column_stride, steps, columns, PARTS: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr
):
    """Where the tokens of a turn lie, and which of them exist, as `_load` takes them."""
    if ROWS:
        row = start + tl.arange(0, PARTS * 4)
        place = row.to(tl.int64) + tl.program_id(0).to(tl.int64) * column_stride
        return place, (row >= 0) & (row < steps)
    else:
        row = start + tl.arange(0, PARTS)[:, None] * 4
        column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
        place = row.to(tl.int64) * stride + column.to(tl.int64) * column_stride
        there = (row >= 0) & (column < columns)
        return place, (
            there & (row + 3 < steps),
            there & (row + 2 < steps),
            there & (row + 1 < steps),
            there & (row < steps),
        )


@triton.jit
def _tokens(
    rewards,
    values,
    mask,
    policy,
    critic,
    discount,
    last,
    advantages,
    targets,
    one_policy,
    one_critic,
    one_discount,
    one_last,
    steps,
    columns,
    stride,
    column_stride,
    MASKED: tl.constexpr,
    POLICY: tl.constexpr,
    CRITIC: tl.constexpr,
    DISCOUNT: tl.constexpr,
    LAST: tl.constexpr,
    PARTS: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Gₜ = rₜ + γₜUₜ₊₁ with two λ, Uₜ = (1 − λₜ)vₜ + λₜGₜ, `PARTS` × 4 tokens of `COLUMNS` columns at a time.

    A thread has four neighbouring tokens. What they make of Uₜ₊₁ is a linear map; a scan joins those of all threads,
    each then reads the result of the thread after it and follows its own tokens. A masked token is the identity. Its
    reward belongs to the last token before it that counts: a sum that a scan of its own hands on, in the few batches
    that have such rewards. What the next turn needs is read before this one is computed.

    Args:
      ROWS: whether the tokens of a sequence are neighbours in memory; a program has one sequence then.
    """
    part = tl.arange(0, PARTS)[:, None]
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    zero = tl.zeros((PARTS, COLUMNS), tl.float32)
    after, at_end = tl.minimum(part + 1, PARTS - 1) + tl.zeros((PARTS, COLUMNS), tl.int32), part == PARTS - 1
    u = tl.zeros((1, COLUMNS), tl.float32) + one_last
    if LAST:
        u += tl.load(last + column, column < columns, 0.0)
    w, spilt = u, tl.zeros((1, COLUMNS), tl.float32)
    start = (tl.cdiv(steps, PARTS * 4) - 1) * (PARTS * 4)
    place, inside = _places(start, stride, column_stride, steps, columns, PARTS, COLUMNS, ROWS)
    next_r = _load(rewards, place, stride, inside, 0.0, ROWS)
    next_v = _load(values, place, stride, inside, 0.0, ROWS)
    next_m = _load(mask, place, stride, inside, 0, ROWS) if MASKED else next_r
    while start >= 0:
        rs, vs, ms = _four(next_r, PARTS, ROWS), _four(next_v, PARTS, ROWS), _four(next_m, PARTS, ROWS)
        gs = _coefficients(discount, one_discount, place, stride, inside, DISCOUNT, PARTS, ROWS)
        ps = _coefficients(policy, one_policy, place, stride, inside, POLICY, PARTS, ROWS)
        qs = _coefficients(critic, one_critic, place, stride, inside, CRITIC, PARTS, ROWS)
        here, there, row = place, inside, start + part * 4
        start -= PARTS * 4
        place, inside = _places(start, stride, column_stride, steps, columns, PARTS, COLUMNS, ROWS)
        next_r = _load(rewards, place, stride, inside, 0.0, ROWS)
        next_v = _load(values, place, stride, inside, 0.0, ROWS)
        next_m = _load(mask, place, stride, inside, 0, ROWS) if MASKED else next_r
        kept, paid = (), ()
        lost, c, d, s = zero, zero, zero + 1, zero
        for j in tl.static_range(4):
            keep = (row + (3 - j) < steps) & (column < columns)
            if MASKED:
                keep = keep & (ms[j] != 0)
                r = tl.where(keep, rs[j], _finite(rs[j]))
                lost += tl.where(keep, 0.0, tl.abs(r))
                c, d = tl.where(keep, 0.0, c + r), tl.where(keep, 0.0, d)
                paid = paid + (r,)
            else:
                paid = paid + (rs[j],)
            kept = kept + (keep,)
        if MASKED:
            if tl.max(lost) + tl.max(tl.abs(spilt)) > 0:
                c, d = tl.associative_scan((c, d), 0, _add, reverse=True)
                c += d * spilt
                s = tl.where(at_end, spilt, tl.gather(c, after, 0))
                spilt = tl.sum(tl.where(part == 0, c, 0.0), 0)[None, :]
        b, a, d, c, r = zero, zero + 1, zero, zero + 1, ()
        for j in tl.static_range(4):
            r = r + (paid[j] + s,)
            s = tl.where(kept[j], 0.0, s + paid[j])
            b = tl.where(kept[j], (1 - ps[j]) * vs[j] + ps[j] * (r[j] + gs[j] * b), b)
            d = tl.where(kept[j], (1 - qs[j]) * vs[j] + qs[j] * (r[j] + gs[j] * d), d)
            a, c = tl.where(kept[j], ps[j] * gs[j] * a, a), tl.where(kept[j], qs[j] * gs[j] * c, c)
        b, a, d, c = tl.associative_scan((b, a, d, c), 0, _then, reverse=True)
        b, d = b + a * u, d + c * w
        x, y = tl.where(at_end, u, tl.gather(b, after, 0)), tl.where(at_end, w, tl.gather(d, after, 0))
        u = tl.sum(tl.where(part == 0, b, 0.0), 0)[None, :]
        w = tl.sum(tl.where(part == 0, d, 0.0), 0)[None, :]
        found, aimed = (), ()
        for j in tl.static_range(4):
            g, h = r[j] + gs[j] * x, r[j] + gs[j] * y
            found, aimed = found + (tl.where(kept[j], g - vs[j], 0.0),), aimed + (tl.where(kept[j], h, 0.0),)
            x = tl.where(kept[j], (1 - ps[j]) * vs[j] + ps[j] * g, x)
            y = tl.where(kept[j], (1 - qs[j]) * vs[j] + qs[j] * h, y)
        _store(advantages, here, stride, there, found, PARTS, ROWS)
        _store(targets, here, stride, there, aimed, PARTS, ROWS)


def token_gae(
    rewards: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    lambda_policy: torch.Tensor | float,
    lambda_value: torch.Tensor | float,
    discount: torch.Tensor | float,
    last_values: torch.Tensor | float,
    axis: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tensors lie in memory as the rewards, [B, T] or [T, B] in float32, do; last_values[B] in one piece."""
    steps, columns = rewards.shape[axis], rewards.shape[1 - axis]
    stride, column_stride = rewards.stride(axis), rewards.stride(1 - axis)
    advantages, targets = torch.empty_like(rewards), torch.empty_like(rewards)
    block, warps = ROWS if stride == 1 else COLUMNWISE
    coefficients = (lambda_policy, lambda_value, discount, last_values)
    are_tensors = [isinstance(x, torch.Tensor) for x in coefficients]
    tensors = (
        rewards,
        values,
        rewards if mask is None else mask.view(torch.uint8),
        *(x if there else rewards for x, there in zip(coefficients, are_tensors, strict=True)),
        advantages,
        targets,
    )
    numbers = (0.0 if there else float(x) for x, there in zip(coefficients, are_tensors, strict=True))
    sizes = (steps, columns, stride, column_stride)
    if rewards.numel():
        options = (mask is not None, *are_tensors, *block)
        _launch(_tokens, -(-columns // block[1]), warps, tensors, sizes, (*tensors, *numbers, *sizes), options)
    return advantages, targets


def one_pass(
    formula: Any, arrays: Sequence[Any], start: torch.Tensor | None, axis: int, shape: Sequence[int]
) -> torch.Tensor:
    """xₜ₋₁ = bₜ + aₜxₜ along an axis, (bₜ, aₜ) by one of the formulas of this module; x_T = start, or 0.

    Args:
      arrays: the formula's arguments: tensors of the rank of `shape`, the first of that shape, or floats.
      start: of length 1 along the axis.
    """
    tables: list[Any] = [x if isinstance(x, float) else _table(x, axis, shape) for x in arrays]
    steps, width = tables[0].shape
    out = torch.empty((steps, width), dtype=arrays[0].dtype, device=arrays[0].device)
    end = None
    if start is not None:
        end = start.expand([1 if k == axis else length for k, length in enumerate(shape)]).reshape(-1).contiguous()
    if out.numel():
        strides = tuple((0,) if isinstance(x, float) else x.stride() for x in tables)
        views = tuple(x if isinstance(x, float) or x.dtype != torch.bool else x.view(torch.uint8) for x in tables)
        kinds = tuple(None if x is None or isinstance(x, float) else x.dtype for x in (out, end, *views))
        tensors = [x for x, kind in zip((out, end, *views), kinds, strict=True) if kind is not None]
        sizes = (steps, width, *(number for each in strides for number in each))
        columns, parts = NARROW if width < MANY else WIDE
        given, options = (views, strides, end, out, steps, width), (formula, columns, parts, TURN)
        _launch(_follow, -(-width // columns), columns * parts // 32, tensors, sizes, given, options, kinds)
    if len(shape) == 2:
        return out.T if axis else out
    others = [length for k, length in enumerate(shape) if k != axis]
    return torch.movedim(out.reshape([steps, *others]), 0, axis)


def _table(array: torch.Tensor, axis: int, shape: Sequence[int]) -> torch.Tensor:
    """[T, columns]; a view where there is at most one other axis, with strides of 0 where it is broadcast."""
    if len(shape) == 2 and array.shape == shape:
        return array.T if axis else array
    moved = torch.movedim(array.expand(*shape), axis, 0)
    return moved[:, None] if moved.ndim == 1 else moved if moved.ndim == 2 else moved.reshape(len(moved), -1)
