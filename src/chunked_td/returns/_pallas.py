"""The linear recursion on an NVIDIA GPU in one pass over memory, as a Pallas kernel.

An associative scan reads and writes the arrays in each of its rounds. Here each column is followed step by step by one
thread: neighbouring columns lie side by side in memory, and the numbers of `TURN` steps are asked for before the first
is used, so that memory is kept busy while the recursion itself waits for nothing else.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

TURN = 32
"""Steps whose numbers are read at once."""
COLUMNS = 64
"""Columns of one program; two for each thread of a warp."""


def one_pass_scan(
    b: jax.Array, a: jax.Array, start: jax.Array, *, columns: int = COLUMNS, turn: int = TURN, interpret: bool = False
) -> jax.Array:
    """xₜ₋₁ = bₜ + aₜxₜ along the first axis; x_T = start."""
    shape, steps = b.shape, b.shape[0]
    b, a, start = b.reshape(steps, -1), a.reshape(steps, -1), start.reshape(-1)
    width = b.shape[1]
    columns = min(columns, pl.next_power_of_2(max(width, 1)))
    extra = -width % columns
    if extra:
        b, a, start = (jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, extra)]) for x in (b, a, start))
    table = pl.BlockSpec((steps, columns), lambda k: (0, k))
    found = pl.pallas_call(
        functools.partial(_follow, steps=steps, turn=min(turn, steps)),
        out_shape=jax.ShapeDtypeStruct(b.shape, b.dtype),
        grid=((width + extra) // columns,),
        in_specs=[table, table, pl.BlockSpec((columns,), lambda k: (k,))],
        out_specs=table,
        compiler_params=None if interpret else triton.CompilerParams(num_warps=max(1, columns // 64), num_stages=1),
        interpret=interpret,
    )(b, a, start)
    return found[:, :width].reshape(shape)


def _follow(b: Any, a: Any, start: Any, out: Any, *, steps: int, turn: int) -> None:
    """The recursion in the columns of one program."""

    def some(x: jax.Array, first: Any, number: int) -> jax.Array:
        rows = [(b[first + k, :], a[first + k, :]) for k in range(number)]
        for k in reversed(range(number)):
            x = rows[k][0] + rows[k][1] * x
            out[first + k, :] = x
        return x

    turns, rest = divmod(steps, turn)
    x = some(start[:], turns * turn, rest) if rest else start[:]
    jax.lax.fori_loop(0, turns, lambda k, x: some(x, (turns - 1 - k) * turn, turn), x)
