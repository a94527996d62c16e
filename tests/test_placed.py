"""Arrays on the stack, of known width and at an address are the arrays they stand for; copied learners learn alone."""

from __future__ import annotations

import copy
import os

import numpy as np
import pytest

import chunked_td as ctd
from chunked_td.compiled import kernel, known
from chunked_td.placed import flag_rows, float_rows, floats, integers, local, narrow, places, short_integers


@kernel
def squares(scratch, size, table, out):
    mine = local(scratch, size)
    for i in range(mine.size):
        mine[i] = i * i
    wide = narrow(table, size)
    for i in range(wide.shape[0]):
        for j in range(wide.shape[1]):
            out[i] += mine[j] * wide[i, j]


@pytest.mark.parametrize("size", [3, known(3)])
def test_local_and_narrow_arrays_hold_what_is_written_and_lie_where_they_should(size):
    table, scratch, out = np.arange(12.0).reshape(4, 3), np.full(3, -1.0), np.zeros(4)
    squares(scratch, size, table, out)
    np.testing.assert_array_equal(out, table @ [0.0, 1.0, 4.0])
    on_stack = isinstance(size, tuple) and os.environ.get("NUMBA_DISABLE_JIT") != "1"
    np.testing.assert_array_equal(scratch, [-1.0, -1.0, -1.0] if on_stack else [0.0, 1.0, 4.0])


@kernel
def add_one(where):
    floats(where, 0)[1] += 1.0
    float_rows(where, 1)[1, 2] += 1.0
    integers(where, 2)[0] += 1
    short_integers(where, 3)[2] += 1
    flag_rows(where, 4)[1, 0] = True


def test_arrays_are_found_at_their_places():
    arrays = [np.zeros(2), np.zeros((2, 3)), np.zeros(1, np.int64), np.zeros(3, np.int32), np.zeros((2, 2), bool)]
    add_one(places(arrays))
    assert [int(a.sum()) for a in arrays] == [1] * 5
    assert arrays[0][1] == arrays[1][1, 2] == arrays[2][0] == arrays[3][2] == arrays[4][1, 0] == 1
    with pytest.raises(ValueError, match="C-ordered"):
        places([np.zeros((3, 4)).T])


def test_a_copy_of_a_learner_learns_for_itself():
    class Discrete:
        n, start = 5, 0

    class Env:
        observation_space = action_space = Discrete()

    agent = ctd.SarsaLambda(Env(), step_size=0.5)
    agent.start(0)
    agent.step(1.0, 1, False)
    twin, before = copy.deepcopy(agent), agent.tables.values.copy()
    twin.step(7.0, 2, False)
    np.testing.assert_array_equal(agent.tables.values, before)
    assert not np.array_equal(twin.tables.values, before)
