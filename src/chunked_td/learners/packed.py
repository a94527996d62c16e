"""`advance` for a learner that takes one step per call: thirty arrays handed over by their addresses.

Numba looks at every array of every argument on every call, which costs more than the step itself. The addresses change
only when a table grows, so they are written down once and the tuples are put together again inside compiled code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chunked_td.compiled import Stream, kernel
from chunked_td.learners.recursion import Memory, Rule, Tables, advance
from chunked_td.models.counts import Counts
from chunked_td.placed import flag_rows, float_rows, floats, integers, places, short_integers
from chunked_td.policies import only_legal
from chunked_td.traces import Trace

EMPTY = -2
"""Returned instead of an action where the stream of random numbers has run out; nothing has changed then."""


class Packed:
    """A learner's tuples, and where their arrays lie.

    Attributes:
      where: int64, the places of all arrays.
      choices: int64[6], of the rule.
      numbers: float64[5], of the rule, then ε and α.
    """

    def __init__(self, rule: Rule, tables: Tables, trace: Trace, counts: Counts, memory: Memory, others: Any):
        self.tables, self.trace, self.counts, self.memory, self.others = tables, trace, counts, memory, others
        self.where = places([*tables, *trace, *counts, *memory, *others])
        chosen = (rule.bootstrap, rule.source, rule.mode, rule.policy, rule.replacing, rule.actions)
        self.choices = np.array(chosen, np.int64)
        self.numbers = np.array([rule.constant, rule.discount, rule.cutoff, 0.0, 0.0])

    def __reduce__(self) -> Any:
        """A copy has arrays of its own, which lie elsewhere: it starts with nothing written down."""
        return type(None), ()


# `advance_packed` reads arrays by number: a field more or less, here or there, and it would read the wrong memory.
assert [len(kind._fields) for kind in (Tables, Trace, Counts, Memory)] == [4, 4, 9, 10]


@kernel
def advance_packed(where, choices, numbers, s, a, s2, x2, legal, ended):
    """`advance` on a `Packed` learner; the reward of the transition stands in its place. May return EMPTY."""
    rng = Stream(floats(where, 27), integers(where, 28))
    if rng.position[0] >= rng.block.size:
        return EMPTY
    rule = Rule(
        choices[0], choices[1], choices[2], choices[3], numbers[0], numbers[1], numbers[2], choices[4] != 0, choices[5]
    )
    tables = Tables(float_rows(where, 0), flag_rows(where, 1), integers(where, 2), flag_rows(where, 3))
    trace = Trace(integers(where, 4), float_rows(where, 5), short_integers(where, 6), integers(where, 7))
    counts = Counts(
        integers(where, 8),
        integers(where, 9),
        integers(where, 10),
        integers(where, 11),
        integers(where, 12),
        integers(where, 13),
        integers(where, 14),
        integers(where, 15),
        floats(where, 16),
    )
    memory = Memory(
        floats(where, 17),
        floats(where, 18),
        floats(where, 19),
        floats(where, 20),
        floats(where, 21),
        integers(where, 22),
        integers(where, 23),
        float_rows(where, 24),
        float_rows(where, 25),
        integers(where, 26),
    )
    only = only_legal(legal)
    reward = floats(where, 29)
    epsilon, step_size = numbers[3], numbers[4]
    return advance(
        rule, tables, trace, counts, memory, rng, s, a, reward, s2, x2, legal, only, ended, epsilon, step_size
    )
