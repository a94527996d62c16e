"""Linear recursions on an NVIDIA GPU in one pass over memory, as a Pallas kernel.

An associative scan reads and writes its arrays in each round, and precomputed coefficients are written and read once
more. Here each number is read once. A program computes `COLUMNS` neighbouring columns, `PARTS` × `TURN` steps at a
time. Each thread follows one part of one column as if it began at 0; the parts are then joined. The numbers of the next
turn are requested before this turn is computed, so memory is never idle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas.triton import CompilerParams, load, store

COLUMNS, PARTS, TURN = 32, 4, 8


def one_pass(
    formula: Callable[..., tuple[jax.Array, jax.Array]],
    arrays: Sequence[jax.Array],
    start: jax.Array,
    ahead: int | None = None,
    *,
    columns: int = COLUMNS,
    parts: int = PARTS,
    turn: int = TURN,
    interpret: bool = False,
) -> jax.Array:
    """xₜ₋₁ = bₜ + aₜxₜ along the first axis, (bₜ, aₜ) = formula(arguments of step t); x_T = start.

    Args:
      arrays: arguments of the formula, [T, ...] each, or of size 1.
      start: [...]. ahead: index of the argument that is read at the next step; at the last step it is not used.
    """
    shape = jnp.broadcast_shapes(*(x.shape for x in arrays))
    steps, width = shape[0], start.size
    tables = [x.reshape(1, 1) if x.size == 1 else jnp.broadcast_to(x, shape).reshape(steps, width) for x in arrays]
    dtype = start.dtype

    def kernel(*refs: Any) -> None:
        *inputs, start, out = refs
        part = jax.lax.broadcasted_iota(jnp.int32, (parts, columns), 0)
        column = pl.program_id(0) * columns + jax.lax.broadcasted_iota(jnp.int32, (parts, columns), 1)
        nothing = [False if x.dtype == bool else 0 for x in tables]
        single = {k: x[0, 0] for k, x in enumerate(inputs) if tables[k].size == 1}

        def argument(k: int, row: jax.Array) -> jax.Array:
            if k in single:
                return single[k]
            row = row + (k == ahead)
            return load(inputs[k].at[row, column], mask=(row < steps) & (column < width), other=nothing[k])

        def read(first: Any, j: int) -> list[jax.Array]:
            row = first + part * turn + j
            return [argument(k, row) for k in range(len(inputs))]

        def advance(number: jax.Array, carry: tuple[jax.Array, list]) -> tuple[jax.Array, list]:
            x, rows = carry  # x at the first step after these parts, and the arguments of these parts
            first = (turns - 1 - number) * parts * turn
            rows_before: list[Any] = [None] * turn
            b, a = jnp.zeros((parts, columns), dtype), jnp.ones((parts, columns), dtype)
            local: list[Any] = [None] * turn
            for j in reversed(range(turn)):
                here = first + part * turn + j < steps  # steps after the last are x ↦ 0 + 1·x
                b_j, a_j = formula(*rows[j])
                b, a = jnp.where(here, b_j + a_j * b, b), jnp.where(here, a_j * a, a)
                local[j] = b, a
                rows_before[j] = read(jnp.maximum(first - parts * turn, 0), j)
            begin = jnp.zeros((parts, columns), dtype)
            for p in reversed(range(parts)):
                begin = jnp.where(part == p, x[None, :], begin)
                x = jnp.sum(jnp.where(part == p, b + a * x[None, :], 0), 0)
            for j in range(turn):
                row = first + part * turn + j
                found = local[j][0] + local[j][1] * begin
                store(out.at[row, column], found, mask=(row < steps) & (column < width))
            return x, rows_before

        turns = pl.cdiv(steps, parts * turn)
        one = pl.program_id(0) * columns + jax.lax.iota(jnp.int32, columns)
        x = load(start.at[one], mask=one < width, other=0)
        last = [read((turns - 1) * parts * turn, j) for j in range(turn)]
        jax.lax.fori_loop(0, turns, advance, (x, last))

    found = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((steps, width), dtype),
        grid=(pl.cdiv(width, columns),),
        compiler_params=None if interpret else CompilerParams(num_warps=max(1, parts * columns // 32), num_stages=1),
        interpret=interpret,
    )(*tables, start.reshape(-1))
    return found.reshape(shape)
