"""The linear recursion on an NVIDIA GPU in one pass over memory, as a Triton kernel for Torch. See `_pallas`."""

from __future__ import annotations

import torch  # pyright: ignore[reportMissingImports]  (an extra)
import triton  # pyright: ignore[reportMissingImports]  (comes with torch for GPUs)
import triton.language as tl  # pyright: ignore[reportMissingImports]

TURN = 32
COLUMNS = 32


@triton.jit
def _compose(later_b, later_a, earlier_b, earlier_a):
    return earlier_b + earlier_a * later_b, earlier_a * later_a


@triton.jit
def _follow(b, a, start, out, steps, width, TURN: tl.constexpr, COLUMNS: tl.constexpr):
    """xₜ₋₁ = bₜ + aₜxₜ in `COLUMNS` columns of tables [steps, width], `TURN` steps at a time."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    turn = tl.arange(0, TURN)
    x = tl.load(start + column, column < width, 0.0)
    first = (steps - 1) // TURN * TURN
    while first >= 0:
        row = first + turn
        here = (row < steps)[:, None] & (column < width)[None, :]
        at = row.to(tl.int64)[:, None] * width + column[None, :]
        # Steps after the last are read as x ↦ 0 + 1·x.
        from_zero, slope = tl.associative_scan(
            (tl.load(b + at, here, 0.0), tl.load(a + at, here, 1.0)), 0, _compose, reverse=True
        )
        found = from_zero + slope * x[None, :]
        tl.store(out + at, found, here)
        x = tl.sum(tl.where(turn[:, None] == 0, found, 0.0), 0)
        first -= TURN


def one_pass_scan(b: torch.Tensor, a: torch.Tensor, start: torch.Tensor | None, axis: int) -> torch.Tensor:
    """xₜ₋₁ = bₜ + aₜxₜ along an axis; x_T = start, or 0."""
    a = torch.broadcast_to(a, b.shape)
    b, a = (torch.movedim(x, axis, 0).contiguous() for x in (b, a))
    end = torch.zeros_like(b[0]) if start is None else torch.movedim(start.broadcast_to(_last(b, axis)), axis, 0)
    out, width = torch.empty_like(b), b[0].numel()
    if out.numel():
        columns = min(COLUMNS, triton.next_power_of_2(width))
        with torch.cuda.device(b.device):
            _follow[(triton.cdiv(width, columns),)](  # pyright: ignore[reportIndexIssue]
                b, a, end.contiguous(), out, b.shape[0], width, TURN, columns, num_warps=1
            )
    return torch.movedim(out, 0, axis)


def _last(b: torch.Tensor, axis: int) -> list[int]:
    """The shape of one step of a table whose time comes first, with time at `axis`."""
    shape = list(b.shape[1:])
    shape.insert(axis, 1)
    return shape
