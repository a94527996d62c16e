"""The Numba room: layouts are checked, arrays on the stack and by address are the arrays they stand for."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import textwrap
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest

import chunked_td as ctd
from chunked_td._link import Packed, check_layout, kernel, natural, static
from helpers.compilation import COMPILED, AtOnce


class Sizes(NamedTuple):
    n: Any


class Scratch(NamedTuple):
    mine: Annotated[np.ndarray, "float64[n]"]
    table: Annotated[np.ndarray, "float64[m, n]"]
    kept: Annotated[np.ndarray, "float64[1]"]


def squares(scratch, sizes, out):
    here = on_stack(scratch, sizes)
    for i in range(here.mine.size):
        here.mine[i] = i * i
    for i in range(here.table.shape[0]):
        for j in range(here.table.shape[1]):
            out[i] += here.mine[j] * here.table[i, j]
    here.kept[0] = out[0]


@pytest.mark.parametrize("size", [3, static(3)])
def test_small_arrays_go_on_the_stack_if_their_size_is_static(size):
    table, out = np.arange(12.0).reshape(4, 3), np.zeros(4)
    scratch = Scratch(np.full(3, -1.0), table, np.zeros(1))
    squares(scratch, Sizes(size), out)
    np.testing.assert_array_equal(out, table @ [0.0, 1.0, 4.0])
    moved = isinstance(size, tuple) and COMPILED
    np.testing.assert_array_equal(scratch.mine, [-1.0, -1.0, -1.0] if moved else [0.0, 1.0, 4.0])
    assert scratch.kept[0] == out[0]


class Leaf(NamedTuple):
    floats: Annotated[np.ndarray, "float64[n]"]
    rows: Annotated[np.ndarray, "float64[n, m]"]
    whole: Annotated[np.ndarray, "int64[1]"]
    short: Annotated[np.ndarray, "int32[n]"]
    flags: Annotated[np.ndarray, "bool[n, m]"]


class Tree(NamedTuple):
    leaf: Leaf
    choice: Any
    rate: float
    number: int
    on: bool
    nothing: None


def a_tree():
    leaf = Leaf(np.zeros(2), np.zeros((2, 3)), np.zeros(1, np.int64), np.zeros(3, np.int32), np.zeros((2, 2), bool))
    return Tree(leaf, static(3), 0.25, 7, True, None)


def add_one(tree):
    leaf = tree.leaf
    leaf.floats[1] += tree.rate
    leaf.rows[1, 2] += tree.choice
    leaf.whole[0] += tree.number
    leaf.short[2] += 1
    leaf.flags[1, 0] = tree.on
    return leaf.rows.shape[1]


def test_a_tree_of_tuples_is_read_by_address():
    tree = a_tree()
    packed = Packed(tree)
    form = packed.form

    def call(addresses):
        return add_one(read(addresses, form))

    assert entry(call)(packed.addresses) == 3
    leaf = tree.leaf
    assert (leaf.floats[1], leaf.rows[1, 2], leaf.whole[0], leaf.short[2], leaf.flags[1, 0]) == (0.25, 3.0, 7, 1, True)
    assert [int(a.astype(bool).sum()) for a in leaf] == [1] * 5


@pytest.mark.parametrize(
    ("field", "array"),
    [
        ("short", np.zeros(3, np.int64)),
        ("floats", np.zeros(2, np.float32)),
        ("rows", np.zeros(6)),
        ("rows", np.zeros((3, 2)).T),
        ("floats", np.zeros(2, ">f8")),
        ("flags", np.zeros((2, 2), np.uint8)),
    ],
)
def test_another_dtype_rank_or_order_is_refused(field, array):
    tree = a_tree()
    wrong = tree._replace(leaf=tree.leaf._replace(**{field: array}))
    with pytest.raises(TypeError, match=rf"Leaf\.{field} must be a C-ordered .*, got"):
        check_layout(wrong)
    with pytest.raises(TypeError, match=rf"Leaf\.{field} must be"):
        Packed(wrong)


def test_what_no_kernel_can_read_is_refused():
    if COMPILED:
        with pytest.raises(TypeError, match="arrays, numbers, None and tuples of those, got 'text'"):
            Packed(a_tree()._replace(number="text"))


def run_script(folder, text, **environment):
    script = folder / "mine.py"
    script.write_text(textwrap.dedent(text))
    settings = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")} | environment
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=settings, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


OWN = """
    from dataclasses import dataclass
    import numpy as np
    import chunked_td as ctd
    from chunked_td._numba import kernel
    from chunked_td.envs.dynamics import ChainAndSplit
    from chunked_td.simulation import Run

    @dataclass(frozen=True)
    class Mine(ctd.LambdaSource):
        scale: float = 1.0

        @staticmethod
        @kernel
        def lambda_t(source, step, i):
            return FACTOR * source.scale

    run = Run(ChainAndSplit.make(horizon=4, actions=2, width=3), learner="sarsa", lambda_source=Mine(), model=None,
              view="offline", step_size=0.5, discount=1.0, epsilons=np.full(20, 0.5), seed=1)
    run.play_to(20)
    print(run.values.sum(), sum(run.loop.stats.cache_hits.values()))
"""


@pytest.mark.skipif(not COMPILED, reason="nothing is kept on disk without compilation")
def test_code_for_classes_from_outside_is_kept_until_their_source_changes(tmp_path):
    first, hits = run_script(tmp_path, OWN.replace("FACTOR", "0.5"))
    assert hits == "0"
    assert run_script(tmp_path, OWN.replace("FACTOR", "0.5")) == [first, "1"]
    changed, hits = run_script(tmp_path, OWN.replace("FACTOR", "0.0"))
    assert hits == "0"
    assert changed != first
    assert run_script(tmp_path, OWN.replace("FACTOR", "0.5")) == [first, "1"]


def double(x):
    return 2.0 * x + 1.0


def _half(x):
    return x / 2.0


def test_a_kernel_in_a_class_is_static():
    from chunked_td._numba import is_kernel

    class Plain:
        @kernel
        def twice(x):
            return 2.0 * x

        half = _half

        @staticmethod
        @kernel
        def thrice(x):
            return 3.0 * x

    for owner in (Plain, Plain()):
        assert (owner.twice(2.0), owner.half(2.0), owner.thrice(2.0)) == (4.0, 1.0, 6.0)
        assert is_kernel(owner.twice)
    assert is_kernel(_half)


@pytest.mark.skipif(not COMPILED, reason="nothing is kept on disk without compilation")
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_damaged_code_on_disk_is_compiled_again(suffix, tmp_path, monkeypatch):
    from chunked_td._numba import caching
    from chunked_td._numba.compiler import compiled_for_python

    monkeypatch.setattr(caching, "cache_folder", lambda: str(tmp_path))

    def result_and_hits():
        made = compiled_for_python(double, cached=True)
        return made(20.5), sum(made.stats.cache_hits.values())

    assert [result_and_hits() for _ in range(2)] == [(42.0, 0), (42.0, 1)]
    (victim,) = tmp_path.rglob(f"*.{suffix}")
    whole, rng = victim.read_bytes(), np.random.default_rng(0)
    flipped = [bytearray(whole) for _ in range(10)]
    for content in flipped:
        content[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
    for content in (b"", b"junk", whole[: len(whole) // 2], whole[:-1], *flipped):
        victim.write_bytes(content)
        assert result_and_hits() == (42.0, 0)
        assert result_and_hits() == (42.0, 1)  # and mended


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_long_compilations_are_announced(monkeypatch, capsys):
    from chunked_td._numba import caching

    monkeypatch.setattr(caching, "_watched", lambda: True)
    monkeypatch.setattr(caching.threading, "Timer", AtOnce)
    before = caching.NOTICE._depth
    kernel(lambda x: x + 1).for_python(cached=False)(2)
    assert caching.NOTICE._depth == before == 0
    shown = capsys.readouterr().err
    assert "compiling" in shown
    assert "compiled in" in shown


def picked(values, places, out):
    for k in range(places.size):
        out[k] = values[natural(places[k])]


def test_numbers_that_are_not_negative_index_as_others_do():
    values, places, out = np.arange(5.0) ** 2, np.array([4, 0, 2]), np.zeros(3)
    picked(values, places, out)
    np.testing.assert_array_equal(out, values[places])


INDEXING = """
    import sys
    import numpy as np
    sys.path.insert(0, {tests!r})
    from test_numba_room import picked

    for place in (5, -6):
        try:
            picked(np.zeros(5), np.array([place]), np.zeros(1))
        except IndexError:
            print("refused")
"""


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_kernels_that_check_every_index_check_those_too(tmp_path):
    text = INDEXING.format(tests=os.path.dirname(__file__))
    assert run_script(tmp_path, text, CHUNKED_TD_BOUNDSCHECK="1") == ["refused", "refused"]


BROKEN = {
    "a name is gone": "import numba.core.codegen as room; del room.JITCodeLibrary",
    "a name means something else": "import chunked_td._numba.fast as room; room._LowerResult = dict",
}
"""What a later Numba might do to the fast compiler."""

KERNELS = """
    import sys, warnings
    {broken}
    warnings.simplefilter("ignore")
    sys.path.insert(0, {tests!r})
    from chunked_td._numba.compiler import is_fast
    import test_numba_room as room
    import numpy as np

    room.test_a_tree_of_tuples_is_read_by_address()
    room.test_small_arrays_go_on_the_stack_if_their_size_is_static(room.static(3))
    print(is_fast())
"""

LEARNING = """
    import warnings
    {broken}
    warnings.simplefilter("ignore")
    from chunked_td.envs.dynamics import ChainAndSplit
    from chunked_td.simulation import simulate
    from chunked_td._numba.compiler import is_fast

    problem = ChainAndSplit.make(horizon=4, actions=2, width=3)
    runs = simulate(problem, learner="expected_sarsa", step_sizes=0.5, seeds=1, episodes=20, keep_values=True)
    print(is_fast(), runs.values.tobytes().hex())
"""


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
@pytest.mark.parametrize("broken", BROKEN)
def test_plain_njit_takes_over_where_numba_has_changed(broken, tmp_path):
    text = KERNELS.format(broken=BROKEN[broken], tests=os.path.dirname(__file__))
    assert run_script(tmp_path, text) == ["False"]


@pytest.mark.long
@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_plain_njit_gives_the_same_values(tmp_path):
    (fast, values), (plain, same) = (
        run_script(tmp_path, LEARNING.format(broken=broken), XDG_CACHE_HOME=str(tmp_path / str(k)))
        for k, broken in enumerate(("", BROKEN["a name is gone"]))
    )
    assert (fast, plain) == ("True", "False")
    assert values == same


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
