"""Linking: open names, and a cache that never runs stale code."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import textwrap
import types
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, NamedTuple

import numba.core.types as nb
import numpy as np
import pytest

import chunked_td as ctd
from chunked_td._link import (
    Packed,
    Program,
    Stream,
    check_layout,
    compiled,
    is_kernel,
    kernel,
    link,
    natural,
    reader,
    slot,
    static,
)
from chunked_td._link import cache as cache_room
from chunked_td._link.cache import kept_on_disk
from chunked_td._link.pcg import Pcg64, PlainPcg64
from chunked_td._link.trees import local_reader
from chunked_td.seeding import Draws
from helpers.compilation import COMPILED

weigh, offset = slot("part", "weigh"), slot("part", "offset", 0.0)
take = slot("rng", "take")
SIGNATURE = (nb.int64,)


def entry(number):
    return weigh(number) + offset(number)


class Doubles:
    def weigh(number):
        return 2.0 * number


class Shifts:
    def weigh(number):
        return 1.0 * number

    def offset(number):
        return 0.5


def test_an_open_name_is_the_part_s_kernel_or_the_default():
    for way in (True, False):
        assert link(entry, {"part": Doubles}, SIGNATURE, compiled=way)(3) == 6.0
        assert link(entry, {"part": Shifts}, SIGNATURE, compiled=way)(3) == 3.5


def test_a_missing_kernel_names_the_part_and_the_name():
    with pytest.raises(ValueError, match=r"part Empty: there is no kernel 'weigh'"):
        link(entry, {"part": type("Empty", (), {})}, SIGNATURE)
    with pytest.raises(TypeError, match="open name"):
        weigh(1)
    assert offset(1) == 0.0  # in plain Python a default serves


def test_an_inner_part_has_a_scope_of_its_own():
    def outer(number):
        return weigh(number) + 10.0 * inner_weigh(number)

    class Inner:
        def inner_weigh(number):
            return weigh(number)

    inner_weigh = slot("inner", "inner_weigh")
    parts = {"part": Doubles, "inner": Inner}
    assert link(outer, parts, SIGNATURE)(1) == 22.0
    assert link(outer, parts, SIGNATURE, scopes={"inner": {"part": Shifts}})(1) == 12.0


def test_a_kernel_that_calls_itself_is_refused():
    def again(number):
        return again(number - 1)

    with pytest.raises(ValueError, match="calls itself"):
        link(again, {}, SIGNATURE)


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_an_error_names_the_line_of_the_kernel():
    class Wrong:
        def weigh(number):
            return number.size  # a number has none

    with pytest.raises(ValueError, match=r"test_link.py, line \d+: the kernel cannot be compiled at .*number.size"):
        link(entry, {"part": Wrong}, SIGNATURE)


# ---- edits: each value below is another program, in one process and on disk

EDITS = {
    "an int": ("FACTOR = 1", "FACTOR = 2"),
    "an int of NumPy's": ("FACTOR = np.int64(1)", "FACTOR = np.int64(2)"),
    "a float": ("FACTOR = 1.0", "FACTOR = 2.0"),
    "a truth value": ("FACTOR = True", "FACTOR = False"),
    "a tuple": ("FACTOR = (1, 2)[0]\nPAIR = (1, 2)", "FACTOR = 1\nPAIR = (1, 3)"),
    "an array": ("FACTOR = 1\nTABLE = np.array([1.0, 2.0])", "FACTOR = 1\nTABLE = np.array([1.0, 3.0])"),
    "a helper": ("def helper(n):\n    return n", "def helper(n):\n    return n + 1"),
    "a helper's helper": (
        "def deep(n):\n    return n\ndef helper(n):\n    return deep(n)",
        "def deep(n):\n    return n * 3\ndef helper(n):\n    return deep(n)",
    ),
    "a default": ("def helper(n, by=1.0):\n    return n * by", "def helper(n, by=2.0):\n    return n * by"),
}
KERNEL = """
import numpy as np
FACTOR, PAIR, TABLE = 1, (1, 2), np.array([1.0, 2.0])
def helper(n):
    return n
{edit}
class Part:
    def weigh(number):
        return helper(number) * FACTOR + PAIR[1] + TABLE[1]
"""


def part_of(edit, path):
    """A part as a user's file, or a cell of a notebook, has it."""
    space = {"__name__": "mine"}
    exec(compile(KERNEL.format(edit=edit), path, "exec"), space)
    return space["Part"], space


@pytest.mark.parametrize("name", list(EDITS))
@pytest.mark.parametrize("path", ["/nowhere/mine.py", "<ipython-input-1>"])
def test_an_edit_is_another_program(name, path):
    for edit in EDITS[name]:
        part, space = part_of(edit, path)
        want = space["helper"](5.0) * space["FACTOR"] + space["PAIR"][1] + space["TABLE"][1]
        assert link(entry, {"part": part}, SIGNATURE)(5) == want


def test_a_name_bound_anew_is_another_program():
    part, space = part_of("", "<stdin>")
    assert link(entry, {"part": part}, SIGNATURE)(1) == 5.0
    space["FACTOR"] = 7
    assert link(entry, {"part": part}, SIGNATURE)(1) == 11.0
    space["TABLE"][1] = 100.0
    assert link(entry, {"part": part}, SIGNATURE)(1) == 109.0


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_what_changes_in_place_is_another_program():
    table, part = np.array([2.0]), types.SimpleNamespace(weigh=lambda number: 3.0 * number)

    class Reads:
        def weigh(number):
            return table[0] * number

    class Given:
        weigh = part.weigh

    assert link(entry, {"part": Reads}, SIGNATURE)(5) == 10.0
    table[0] = 4.0
    assert link(entry, {"part": Reads}, SIGNATURE)(5) == 20.0
    assert link(entry, {"part": Given}, SIGNATURE)(5) == 15.0
    program = link(entry, {"part": Given}, SIGNATURE)
    assert link(entry, {"part": Given}, SIGNATURE) is program
    Given.weigh = lambda number: 7.0 * number
    assert link(entry, {"part": Given}, SIGNATURE)(5) == 35.0


def test_what_cannot_be_digested_is_not_kept(monkeypatch):
    settings = types.ModuleType("settings")
    settings.SCALE = 2.0
    monkeypatch.setitem(sys.modules, "settings", settings)

    class Foreign:
        def weigh(number):
            return number * settings.SCALE

    before = kept_on_disk("entry")
    assert link(entry, {"part": Foreign}, SIGNATURE)(2) == 4.0
    settings.SCALE = 3.0
    assert link(entry, {"part": Foreign}, SIGNATURE)(2) == 6.0
    assert kept_on_disk("entry") == before


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_eight_threads_link_different_programs_at_once():
    def made(k):
        space = {"K": k}
        exec("class Part:\n    def weigh(number):\n        return number * 100.0 + K", space)
        return link(entry, {"part": space["Part"]}, SIGNATURE)(3)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(made, range(8))) == [300.0 + k for k in range(8)]


SCRIPT = """
import sys
sys.path[:0] = [{path!r}, {path!r} + '/..']
import numba.core.types as nb
from chunked_td._link import link
from test_link import Doubles, entry
print(link(entry, {{"part": Doubles}}, (nb.int64,))(4))
"""


def in_a_process(tmp_path, first="", **environment):
    text = first + textwrap.dedent(SCRIPT.format(path=os.path.dirname(__file__)))
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), **environment}
    done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_damaged_and_unwritable_folders_only_cost_time(tmp_path):
    assert in_a_process(tmp_path) == 8.0
    kept = list((tmp_path / "cache").rglob("*.nbc"))
    assert kept
    for path in kept:
        path.write_bytes(path.read_bytes()[:-40] + b"0" * 40)
    assert in_a_process(tmp_path) == 8.0  # damaged
    for path in (tmp_path / "cache").rglob("*.nbi"):
        path.write_bytes(b"cut")
    assert in_a_process(tmp_path) == 8.0
    (tmp_path / "file").write_text("no folder")
    assert in_a_process(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "file" / "below")) == 8.0


FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, resource.RLIM_INFINITY))
"""


@pytest.mark.skipif(not COMPILED or sys.platform == "win32", reason="needs compiled code, and limits of Unix")
def test_a_full_disk_keeps_nothing_wrong(tmp_path):
    assert in_a_process(tmp_path, first=FULL) == 8.0
    assert in_a_process(tmp_path) == 8.0
    assert list((tmp_path / "cache").rglob("*.nbc"))


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_two_processes_link_at_once(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda _: in_a_process(tmp_path), range(2))) == [8.0, 8.0]
    assert in_a_process(tmp_path) == 8.0


WAITING = """
import chunked_td._link.cache, os, signal, threading
from numba.core import lowering
def interrupted(*arguments, **keywords):
    os.kill(os.getpid(), signal.SIGINT)
    return lower(*arguments, **keywords)
lower, lowering.Lower.lower = lowering.Lower.lower, interrupted
"""


@pytest.mark.skipif(not COMPILED or sys.platform == "win32", reason="needs compiled code, and signals of Unix")
def test_ctrl_c_while_compiling_keeps_nothing_wrong(tmp_path):
    with pytest.raises(AssertionError, match="KeyboardInterrupt"):
        in_a_process(tmp_path, first=WAITING)
    assert not list((tmp_path / "cache").rglob("*.nbc"))
    assert in_a_process(tmp_path) == 8.0


# ---- random numbers, and trees by address


def fill(words, out):
    stream = Stream(words)
    for k in range(out.size):
        out[k] = take(stream)


@pytest.mark.parametrize(("part", "compiled"), [(Pcg64, True), (PlainPcg64, False)])
def test_the_numbers_are_those_of_numpy(part, compiled):
    if not COMPILED and compiled:
        pytest.skip("whole numbers of NumPy's warn where they overflow")
    program = link(fill, {"rng": part}, compiled=compiled)
    for seed in range(20):
        draws, out = Draws.of(np.random.SeedSequence(seed)), np.zeros(100)
        program(draws.stream.words, out)
        want = np.random.default_rng(seed)
        np.testing.assert_array_equal(out, want.random(100))
        assert draws.state() == want.bit_generator.state
        p = np.array([0.2, 0.5, 0.3])
        assert draws.choice(3, p) == want.choice(3, p=p)
        assert draws.state() == want.bit_generator.state


class Leaf(NamedTuple):
    rows: Annotated[np.ndarray, "float64[n, m]"]
    short: Annotated[np.ndarray, "int16[k]"]
    flags: Annotated[np.ndarray, "bool[k]"]


class Root(NamedTuple):
    leaf: Leaf
    number: Any
    half: float
    yes: bool
    known: Any
    nothing: Any = None


def a_tree():
    leaf = Leaf(np.arange(6.0).reshape(2, 3), np.arange(3, dtype=np.int16), np.array([True, False, True]))
    return Root(leaf, 7, 0.5, True, static(4))


read, read_local = slot("arrays", "read"), slot("arrays", "read_local")


def sum_up(address):
    root = read(address)
    total = root.half + root.number + (100 if root.yes else 0) + 1000 * root.known
    for i in range(root.leaf.rows.shape[0]):
        for j in range(root.leaf.rows.shape[1]):
            total += root.leaf.rows[i, j] * (10 if root.leaf.flags[j] else 0)
    root.leaf.short[2] += 1
    return total + root.leaf.short[2]


def on_the_stack(address):
    kept, here = read(address), read_local(address)
    for k in range(here.leaf.short.size):
        here.leaf.short[k] += k + 10  # zero at first, and nobody else's
    return here.leaf.short[2] + kept.leaf.short[2] + here.leaf.rows[1, 2]


def test_a_tree_is_read_by_one_address():
    for left in (False, True):
        tree = a_tree()
        packed, program = Packed(tree, not left), Program(tree, {}, compiled=not left)
        assert program(sum_up, 0)(packed.address) == 0.5 + 7 + 100 + 4000 + 10 * (0 + 2 + 3 + 5) + 3
        assert tree.leaf.short[2] == 3


def pick(address, k):
    root = read(address)
    yes = 100 if root.nothing[1] else 0
    return root.number[k] + yes + root.nothing[2]


def test_a_tree_may_hold_tuples_of_numbers():
    """Such as the `nvec` of dynamics: one of one type is indexed, others are read."""
    for left in (False, True):
        tree = a_tree()._replace(number=(2, 4, 6), nothing=(1, True, 0.25))
        packed, program = Packed(tree, not left), Program(tree, {}, compiled=not left)
        assert [program(pick, 1)(packed.address, k) for k in range(3)] == [102.25, 104.25, 106.25]


@pytest.mark.skipif(not COMPILED, reason="there is no stack")
def test_small_arrays_lie_on_the_stack():
    tree = a_tree()
    packed, program = Packed(tree), Program(tree, {}, {"k": 3, "m": 3})
    assert program(on_the_stack, 0)(packed.address) == 12 + 2 + 5
    assert tree.leaf.short[2] == 2
    text, _ = local_reader(tree, {"k": 3, "m": 3})
    assert text != reader(tree)[0]


@pytest.mark.parametrize(
    ("field", "array"),
    [
        ("short", np.zeros(3, np.int64)),
        ("rows", np.zeros(6)),
        ("rows", np.zeros((3, 2)).T),
        ("rows", np.zeros((2, 2), ">f8")),
        ("flags", np.zeros(2, np.uint8)),
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
        for wrong in ((1, "text"), (1, (2, 3)), (np.zeros(2),)):
            with pytest.raises(TypeError, match="arrays, numbers, None and tuples of those, got"):
                Packed(a_tree()._replace(number=wrong))


# ---- kernels as Python has them


def _half(x):
    return x / 2.0


def test_a_kernel_in_a_class_is_static():
    class Plain:
        @kernel
        def twice(x):
            return 2.0 * x

        half = kernel(_half)

        @staticmethod
        @kernel
        def thrice(x):
            return 3.0 * x

    for owner in (Plain, Plain()):
        assert (owner.twice(2.0), owner.half(2.0), owner.thrice(2.0)) == (4.0, 1.0, 6.0)
        assert is_kernel(owner.twice)
        assert is_kernel(owner.thrice)


def picked(values, places, out):
    for k in range(places.size):
        out[k] = values[natural(places[k])]


def test_numbers_that_are_not_negative_index_as_others_do():
    values, places, out = np.arange(5.0) ** 2, np.array([4, 0, 2]), np.zeros(3)
    compiled(picked)(values, places, out)
    np.testing.assert_array_equal(out, values[places])


def run_script(folder, text, **environment):
    script = folder / "mine.py"
    script.write_text(textwrap.dedent(text).format(tests=os.path.dirname(__file__)))
    settings = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")} | environment
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=settings, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


INDEXING = """
    import sys
    import numpy as np
    sys.path.insert(0, {tests!r})
    from test_link import compiled, picked

    for place in (5, -6):
        try:
            compiled(picked)(np.zeros(5), np.array([place]), np.zeros(1))
        except IndexError:
            print("refused")
"""


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_programs_that_check_every_index_check_those_too(tmp_path):
    assert run_script(tmp_path, INDEXING, CHUNKED_TD_BOUNDSCHECK="1") == ["refused", "refused"]


class AtOnce:
    """A timer that does not wait."""

    def __init__(self, patience, function, arguments):
        self.call = lambda: function(*arguments)

    def start(self):
        self.call()

    def cancel(self):
        pass


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_long_compilations_are_announced(monkeypatch, capsys):
    monkeypatch.setattr(cache_room, "_watched", lambda: True)
    monkeypatch.setattr(cache_room.threading, "Timer", AtOnce)
    part, _ = part_of("FACTOR = 12345", "<announced>")
    link(entry, {"part": part}, SIGNATURE)
    assert cache_room.NOTICE._depth == 0
    shown = capsys.readouterr().err
    assert "compiling" in shown
    assert "compiled in" in shown


# ---- plain `njit` where Numba's private names have changed

LEARNING = """
    {broken}
    from chunked_td._link.link import inner
    from chunked_td.envs.dynamics import ChainAndSplit
    from chunked_td.simulation import simulate

    problem = ChainAndSplit.make(horizon=4, actions=2, width=3)
    runs = simulate(problem, learner="expected_sarsa", step_sizes=0.5, seeds=1, episodes=20, keep_values=True)
    print(inner is not None and inner.works(), runs.values.tobytes().hex())
"""


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_plain_njit_gives_the_same_values(tmp_path):
    broken = "import numba.core.codegen as room; del room.JITCodeLibrary"
    (quick, values), (plain, same) = (
        run_script(tmp_path, LEARNING.replace("{broken}", text), XDG_CACHE_HOME=str(tmp_path / str(k)))
        for k, text in enumerate(("", broken))
    )
    assert (quick, plain) == ("True", "False")
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
