"""The sequences of the study: a first symbol, a middle of N − 1 symbols, and a last symbol that depends on the first.

The paper's example (Sec. 2.2) has two sequences, a i₁ … i_{N−1} 0 and b i₁ … i_{N−1} 1. The last symbol is N steps
after the first, and nothing in between tells which it will be. The <start> of the paper is what every predictor
reads before its first item. The tasks differ in their middle:

    known   a cycle of four symbols: predictable from the symbol before.
    noise   as known, but the five symbols in the very middle (all of them, if there are fewer) are coin tosses.

The stored runs have four more tasks and three variants of the compressor, which no claim is about and no table shows.
Their code is last in commit fed9616e; the alphabet and the number of random numbers per sequence are still those of all
of them, so that runs come out the same.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chunked_td._checks import check_choice

TASKS = ("known", "noise")
ALPHABET = 17
LABELS, FIRST, COINS, CYCLE = (0, 1), (2, 3), (9, 10), (11, 12, 13, 14)


class Task(NamedTuple):
    """A pair of sequences to draw from. Arrays, so that tasks can differ between runs of one program."""

    kinds: np.ndarray  # int32[2, room], one sequence per row, closed by `end`
    coins: np.ndarray  # bool[room], where a coin toss replaces the symbol
    n: np.ndarray  # int32[], N: the position of the last symbol


def make_task(name: str, n: int, room: int) -> Task:
    """The task of this name with N = n. Args: room: length of the arrays, at least n + 2."""
    check_choice("name", name, TASKS)
    if n < 2 or room < n + 2:
        raise ValueError(f"n must be at least 2 and room at least n + 2, got n={n}, room={room}")
    kinds = np.full((2, room), ALPHABET, np.int32)
    for kind, row in enumerate(kinds):
        row[: n + 1] = [FIRST[kind], *(CYCLE[j % 4] for j in range(n - 1)), LABELS[kind]]
    coins, length = np.zeros(room, bool), min(5, n - 1) if name == "noise" else 0
    begin = 1 + (n - 1 - length) // 2
    coins[begin : begin + length] = True
    return Task(kinds, coins, np.array(n, np.int32))


def draw(task: Task, key: jax.Array, batch: int) -> tuple[jax.Array, jax.Array]:
    """Training sequences of one run: (int32[batch, room, 1], int32[batch] lengths with `end`)."""
    uniform = jax.random.uniform(key, (batch, task.kinds.shape[-1] + 3))
    return _toss(task, (2 * uniform[:, 0]).astype(jnp.int32), uniform[:, 3:])


def pairs(task: Task, key: jax.Array, each: int) -> tuple[jax.Array, jax.Array]:
    """Test sequences of one run: `each` of either kind of the pair, in turns; as from `draw`."""
    return _toss(task, jnp.arange(2 * each) % 2, jax.random.uniform(key, (2 * each, task.kinds.shape[-1])))


def _toss(task: Task, kind: jax.Array, uniform: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sequences of these kinds, with their coins tossed by uniform numbers [S, room]."""
    sequences = jnp.where(task.coins, jnp.where(uniform < 0.5, *COINS), jnp.asarray(task.kinds)[kind])
    return sequences[..., None], jnp.full(len(kind), task.n + 2, jnp.int32)


def stack_tasks(tasks: list[Task]) -> Task:
    """One task per run."""
    return Task(*(np.stack(column) for column in zip(*tasks, strict=True)))
