"""Linking: open names, and a cache that never runs stale code."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import types
from concurrent.futures import ThreadPoolExecutor

import numba.core.types as nb
import numpy as np
import pytest

from chunked_td._next.arrays import Packed, reader
from chunked_td._next.cache import kept_on_disk
from chunked_td._next.link import link, slot
from chunked_td._next.pcg import Draws, Pcg64, PlainPcg64, Words
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
    for compiled in (True, False):
        assert link(entry, {"part": Doubles}, SIGNATURE, compiled=compiled)(3) == 6.0
        assert link(entry, {"part": Shifts}, SIGNATURE, compiled=compiled)(3) == 3.5


def test_a_missing_kernel_names_the_part_and_the_name():
    with pytest.raises(ValueError, match=r"part Empty: there is no kernel 'weigh'"):
        link(entry, {"part": type("Empty", (), {})}, SIGNATURE)
    with pytest.raises(TypeError, match="open name"):
        weigh(1)


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
from chunked_td._next import link as room
from test_link import Doubles, entry
print(room.link(entry, {{"part": Doubles}}, (nb.int64,))(4))
"""


def in_a_process(tmp_path, **environment):
    text = SCRIPT.format(path=os.path.dirname(__file__))
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), **environment}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(text)], env=env, capture_output=True, text=True)
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


# ---- random numbers, and trees by address


def fill(words, out):
    stream = Words(words)
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


def test_a_tree_is_read_by_one_address():
    read = slot("arrays", "read")

    def total(address):
        words = read(address)
        return words.words[0] + words.words[1]

    tree = Words(np.array([3, 4, 0, 0, 0], np.uint64))
    packed = Packed(tree)
    if not COMPILED:
        return
    text, kernel = reader(tree)
    program = link(total, {}, SIGNATURE, names={"arrays.read": kernel}, form=text)
    assert program(packed.address) == 7
    tree.words[1] = 9
    assert program(packed.address) == 12
    with pytest.raises(TypeError, match="C-ordered"):
        Packed(Words(np.zeros((5, 2), np.uint64)[:, 0]))
