"""The sequences of the study: a first symbol, a middle of N − 1 symbols, and a last symbol that depends on the first.

The paper's example (Sec. 2.2) has two sequences, a i₁ … i_{N−1} 0 and b i₁ … i_{N−1} 1. The last symbol is N steps
after the first, and nothing in between tells which it will be. The <start> of the paper is what every predictor
reads before its first item. The tasks differ in their middle:

    known        a cycle of four symbols: predictable from the symbol before.
    distinct     N − 1 different symbols, as the paper writes it. Here the symbol before the last also says *when* the
                 last comes, so only its identity is uncertain. The alphabet grows with N.
    noise        as known, but the five symbols in the very middle (all of them, if there are fewer) are coin tosses.
    half-noise   as known, but half of the middle is coin tosses: a stretch that no predictor can compress.
    distractors  as known, and two of three sequences are of four other kinds: another first symbol, another order of
                 the cycle, and a last symbol that is the same for all four.
    learned      a cycle of eight symbols over an alphabet of two, each predictable from the three before it: the lower
                 level needs a memory of its own before anything can be dropped.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chunked_td._checks import check_choice

TASKS = ("known", "distinct", "noise", "half-noise", "distractors", "learned")

LABELS = (0, 1)
_FIRST = (2, 3)
_OTHER_FIRST = (4, 5, 6, 7)
_OTHER_LAST = 8
_COINS = (9, 10)
_CYCLE = (11, 12, 13, 14)
_BINARY = (15, 16)
_DISTINCT = 17  # the first of as many symbols as the middle has

# Every three neighbours of this cycle are different from every other three (a de Bruijn cycle).
_DE_BRUIJN = (0, 0, 0, 1, 0, 1, 1, 1)
_OTHER_ORDERS = ((3, 2, 1, 0), (0, 2, 1, 3), (1, 0, 2, 3), (2, 0, 3, 1))
_KINDS = 6


class Task(NamedTuple):
    """Sequences to draw from. Arrays, so that tasks can differ between runs of one program.

    The first two kinds are the pair that is tested; the others are distractors, drawn in two of three sequences.
    """

    kinds: np.ndarray  # int32[6, room], one sequence per row, closed by `end`
    coins: np.ndarray  # bool[room], where a coin toss replaces the symbol
    distracts: np.ndarray  # float32[], the probability of a distractor
    n: np.ndarray  # int32[], N: the position of the last symbol


def alphabet_of(name: str, n: int) -> int:
    """How many symbols the task uses, numbered from 0."""
    return _DISTINCT + n - 1 if name == "distinct" else _DISTINCT


def symbol_names(name: str, n: int) -> list[str]:
    """One name per symbol, for drawings."""
    names = ["0", "1", "a", "b", "d₁", "d₂", "d₃", "d₄", "e", "♣", "♦", "p", "q", "r", "s", "·", "+"]
    return names + [f"i{j}" for j in range(1, alphabet_of(name, n) - _DISTINCT + 1)]


def make_task(name: str, n: int, room: int, alphabet: int) -> Task:
    """The task of this name with N = n.

    Args:
      room: length of the arrays, at least n + 2. alphabet: the number that `end` has.
    """
    check_choice("name", name, TASKS)
    least = alphabet_of(name, n)
    if n < 2 or room < n + 2 or alphabet < least:
        wanted = f"n, room and alphabet must be from 2, from n + 2 and from {least}"
        raise ValueError(f"{wanted}, got {n}, {room} and {alphabet}")
    kinds = np.full((_KINDS, room), alphabet, np.int32)
    for kind in range(_KINDS):
        first, middle, last = _parts(name, kind, n)
        kinds[kind, : n + 1] = [first, *middle, last]
    coins = np.zeros(room, bool)
    length = {"noise": min(5, n - 1), "half-noise": n // 2}.get(name, 0)
    begin = 1 + (n - 1 - length) // 2
    coins[begin : begin + length] = True
    return Task(kinds, coins, np.array(2 / 3 if name == "distractors" else 0.0, np.float32), np.array(n, np.int32))


def _parts(name: str, kind: int, n: int) -> tuple[int, list[int], int]:
    """First symbol, middle and last symbol of one kind of sequence."""
    steps = range(n - 1)
    if kind >= 2:
        order = _OTHER_ORDERS[kind - 2]
        return _OTHER_FIRST[kind - 2], [_CYCLE[order[j % 4]] for j in steps], _OTHER_LAST
    if name == "distinct":
        middle = [_DISTINCT + j for j in steps]
    elif name == "learned":
        middle = [_BINARY[_DE_BRUIJN[j % 8]] for j in steps]
    else:
        middle = [_CYCLE[j % 4] for j in steps]
    return _FIRST[kind], middle, LABELS[kind]


def draw(task: Task, key: jax.Array, batch: int) -> tuple[jax.Array, jax.Array]:
    """Training sequences of one run: (int32[batch, room, 1], int32[batch] lengths with `end`)."""
    uniform = jax.random.uniform(key, (batch, task.kinds.shape[-1] + 3))
    pair = (2 * uniform[:, 0]).astype(jnp.int32)
    other = 2 + ((_KINDS - 2) * uniform[:, 1]).astype(jnp.int32)
    kind = jnp.where(uniform[:, 2] < task.distracts, other, pair)
    return _toss(task, kind, uniform[:, 3:])


def pairs(task: Task, key: jax.Array, each: int) -> tuple[jax.Array, jax.Array]:
    """Test sequences of one run: `each` of either kind of the pair, in turns; as from `draw`."""
    return _toss(task, jnp.arange(2 * each) % 2, jax.random.uniform(key, (2 * each, task.kinds.shape[-1])))


def _toss(task: Task, kind: jax.Array, uniform: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sequences of these kinds, with their coins tossed by uniform numbers [S, room]."""
    sequences = jnp.asarray(task.kinds)[kind]
    coins = jnp.where(uniform < 0.5, *_COINS)
    sequences = jnp.where(task.coins, coins, sequences)
    return sequences[..., None], jnp.full(len(kind), task.n + 2, jnp.int32)


def stack_tasks(tasks: list[Task]) -> Task:
    """One task per run."""
    return Task(*(np.stack(column) for column in zip(*tasks, strict=True)))
