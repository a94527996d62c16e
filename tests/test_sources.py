"""CodeDigests of users' code: what changes a result is noticed, and nothing else is."""

from __future__ import annotations

import functools
import importlib
import sys

import numpy as np
import pytest

import chunked_td as ctd
from chunked_td._sources import CodeDigests

HELPERS = """
LIMIT = 3
TABLE = [1.0, 2.0]

def limited(x):
    return min(x, LIMIT)
"""
CODE = """
from dataclasses import dataclass
import functools
import numpy as np
import helper_file
from chunked_td import kernel

SCALE = 2.0
ARRAY = np.arange(3.0)
KINDS = frozenset({"a", "b"})

@dataclass
class Room:
    width: int = 3

    def area(self):
        return self.width * 2

    @staticmethod
    def twice(x):
        return x * 2

class Inner(Room):
    depth = 4

@kernel
def compiled(x):
    return x + 1

@functools.cache
def kept(x):
    return x + 5

def make(y):
    def inner(x):
        return x + y
    return inner

plus = make(10)

def run(step_size, seed, size=7):
    \"\"\"A run.\"\"\"
    # with a comment
    def nested(x):
        return x * SCALE
    if "a" in KINDS:
        pass
    room = Inner(size)
    return {"x": nested(seed) + ARRAY[0] + helper_file.limited(room.area()) + compiled(1) + kept(1) + plus(2)}
"""


@pytest.fixture
def code(tmp_path, monkeypatch):
    """A function that returns the digests of these files' `run`."""
    monkeypatch.syspath_prepend(tmp_path)

    def digests(source=CODE, helpers=HELPERS):
        for name, text in (("own_file", source), ("helper_file", helpers)):
            sys.modules.pop(name, None)
            (tmp_path / f"{name}.py").write_text(text)
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        try:
            importlib.invalidate_caches()
            return CodeDigests(importlib.import_module("own_file").run)
        finally:
            sys.dont_write_bytecode = before

    yield digests
    for name in ("own_file", "helper_file"):
        sys.modules.pop(name, None)


def changed(one, other):
    return {name for name in {**one.code, **other.code} if one.code.get(name) != other.code.get(name)}


EDITS = [
    ("SCALE = 2.0", "SCALE = 2.5", {"own_file.SCALE"}),
    ("np.arange(3.0)", "np.arange(1.0, 4.0)", {"own_file.ARRAY"}),
    ('{"a", "b"}', '{"a", "c"}', {"own_file.KINDS"}),
    ("self.width * 2", "self.width * 3", {"own_file.Room.area"}),
    ("x * 2", "x * 3", {"own_file.Room.twice"}),
    ("width: int = 3", "width: int = 4", {"own_file.Room", "own_file.Room.__init__"}),
    ("depth = 4", "depth = 5", {"own_file.Inner"}),
    ("return x + 1", "return x + 2", {"own_file.compiled"}),
    ("return x + 5", "return x + 6", {"own_file.kept"}),
    ("return x + y", "return x - y", {"own_file.make.<locals>.inner"}),
    ("make(10)", "make(11)", {"own_file.make.<locals>.inner.y"}),
    ("size=7", "size=8", {"own_file.run"}),
    ("x * SCALE", "x / SCALE", {"own_file.run"}),
    ("LIMIT = 3", "LIMIT = 4", {"helper_file.LIMIT"}),
    ("min(x, LIMIT)", "max(x, LIMIT)", {"helper_file.limited"}),
]


@pytest.mark.parametrize(("old", "new", "names"), EDITS)
def test_an_edit_is_noticed_by_name(code, old, new, names):
    before = code()
    assert (CODE + HELPERS).count(old) >= 1
    assert changed(before, code(CODE.replace(old, new), HELPERS.replace(old, new))) == names


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# with a comment", "# with another one\n"),
        ('"""A run."""', '"""One run."""'),
        ("SCALE = 2.0", "SCALE = 2.0  # twice\nUNUSED = 3"),
        ("TABLE = [1.0, 2.0]", "TABLE = [1.0, 3.0]"),
    ],
)
def test_what_changes_nothing_is_not_noticed(code, old, new):
    before = code()
    assert not changed(before, code(CODE.replace(old, new), HELPERS.replace(old, new)))


def test_the_users_modules_are_listed_and_installed_ones_are_not(code):
    names = {module.__name__ for module in code().modules}
    assert names == {"own_file", "helper_file"}


class OwnLambda(ctd.LambdaSource):
    def __init__(self, scale):
        self.scale = scale

    def __repr__(self):
        return "OwnLambda()"


def test_settings_are_short_texts_that_differ_where_values_do():
    text = CodeDigests().text
    assert text(0.5) == 0.5
    assert text(None) is None
    assert text(float("nan")) == "nan"
    assert text((1, 2.5)) == "[1, 2.5]"
    assert text({"a": [1]}) == "{'a': [1]}"
    assert text("x" * 1000).startswith("x" * 100 + "… #")
    assert text(np.arange(3)) == text(np.arange(3)) != text(np.arange(1, 4))
    assert text(np.float32(1)) != text(np.float64(1))
    assert text(ctd.ForwardLambda()).startswith("ForwardLambda(")
    assert text(OwnLambda(1.0)) == text(OwnLambda(1.0)) != text(OwnLambda(2.0))
    assert text(test_an_edit_is_noticed_by_name).startswith("test_sources.test_an_edit_is_noticed_by_name #")
    assert text(functools.partial(max, 1)) != text(functools.partial(max, 2))


def test_local_classes_and_functions_count_by_their_code():
    def made(scale):
        class Local:
            def size(self):
                return scale

        found = Local()
        found.inner = lambda x: x + scale  # type: ignore[attr-defined]
        return found

    text = CodeDigests().text
    assert text(made(1)) == text(made(1)) != text(made(2))


def test_what_has_no_value_is_refused():
    with pytest.raises(TypeError, match="generator"):
        CodeDigests().text(x for x in ())
    with pytest.raises(ValueError, match="settings of arm 'a' must have values that can be compared: generator"):
        ctd.sweep(lambda step_size, seed, x: {}, {"a": {"x": (x for x in ())}}, [1.0], [0], out="unused", quiet=True)
