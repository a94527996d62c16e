"""What users and their editors see: every public name is in the stub, loads, and is documented."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

import chunked_td as ctd
from chunked_td import lambdas


def test_every_name_of_the_stub_loads_from_where_it_says():
    for name, home in ctd._NAMES.items():
        thing = getattr(ctd, name)
        assert inspect.getmodule(sys.modules[home]) is not None
        assert thing is getattr(sys.modules[home], name)
    assert set(ctd._NAMES) <= set(dir(ctd))


def test_every_lambda_source_of_the_room_is_public():
    assert set(lambdas.CLASSES) <= set(ctd._NAMES)


@pytest.mark.parametrize("name", ctd.LEARNERS)
def test_learners_tell_their_arguments_and_methods(name):
    learner = getattr(ctd, name)
    assert learner.__doc__
    for method in ("act", "q_values", "values", "policy_probabilities", "start", "step", "learn", "save"):
        assert inspect.getdoc(getattr(learner, method)), method


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'chunked_td' has no attribute 'Sarsa'"):
        _ = ctd.Sarsa


def test_importing_the_package_loads_nothing_that_takes_long():
    script = "import sys, chunked_td; print(sorted({'numpy', 'gymnasium', 'numba', 'jax', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("room", ["analysis", "envs", "lambdas", "learners", "models", "returns"])
def test_each_room_shows_its_public_names(room):
    module = importlib.import_module(f"chunked_td.{room}")
    for name, home in ctd._NAMES.items():
        if home.startswith(module.__name__ + "."):
            assert name in dir(module)
            assert getattr(module, name) is getattr(ctd, name)


def test_no_class_name_is_used_twice():
    """One class name means one thing in the whole package (classes of single files, marked by an underscore, apart)."""
    import ast
    from collections import Counter
    from pathlib import Path

    package = Path(ctd.__file__).parent
    found = Counter(
        node.name
        for path in package.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in found.items() if count > 1] == []
