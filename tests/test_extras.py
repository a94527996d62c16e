"""Packages outside the plain install: a missing one is an error of one line that names the command to install it."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import chunked_td
from chunked_td._loading import EXTRAS
from test_imports import import_without

ROOT = Path(__file__).parents[1]
EXTRA_PACKAGES = [package for packages in EXTRAS.values() for package in packages]
DISTRIBUTIONS = {"stable_baselines3": "stable-baselines3"}


def test_the_extras_are_those_of_the_package():
    """Each package that an error names is a requirement of the extra that it names, and all of those are known."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    plain = {re.split(r"[<>=\[]", text)[0] for text in project["dependencies"]}
    assert plain == {"numpy", "numba", "gymnasium"}
    assert set(EXTRAS) | {"cuda", "all"} == set(extras)
    for extra, packages in EXTRAS.items():
        required = {re.split(r"[<>=\[]", text)[0] for text in extras[extra]} - {"chunked-td"}
        assert required <= {DISTRIBUTIONS.get(package, package) for package in packages}, extra


CALLS = {
    "import chunked_td; chunked_td.NeuralModel": r"chunked_td.NeuralModel needs .*: pip install '\.\[jax\]' in a clone",
    "import chunked_td.integrations.sb3": r"needs stable_baselines3: pip install '\.\[sb3\]' in a clone",
    "from chunked_td import fixed_point; fixed_point(None, 0.5)": r"needs scipy: pip install '\.\[lab\]' in a clone",
}


@pytest.mark.parametrize("call", CALLS)
def test_a_missing_extra_is_named(call):
    done = run_without(EXTRA_PACKAGES, call)
    assert done.returncode != 0
    assert re.search(f"ModuleNotFoundError: .*{CALLS[call]}", done.stderr.splitlines()[-1]), done.stderr


def test_the_command_without_the_lab_says_so_in_one_line():
    done = run_without(EXTRA_PACKAGES, "from chunked_td.cli import main; main(['train', 'Taxi-v4'])")
    assert done.returncode == 1
    assert done.stderr == "error: this command needs tyro: pip install '.[lab]' in a clone\n"


def test_a_learner_trains_without_extras():
    code = (
        "import gymnasium as gym, chunked_td as ctd; env = gym.make('ChunkedTD/TMaze-v0'); "
        "ctd.ChunkedSarsa(env, step_size=0.1, discount=0.9, epsilon=0.1, seed=0).learn(env, episodes=2)"
    )
    done = run_without(EXTRA_PACKAGES, code, NUMBA_DISABLE_JIT="1")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("first", ["chunked_td", "gymnasium"])
def test_environments_are_registered_whichever_is_imported_first(first):
    second = {"chunked_td": "gymnasium", "gymnasium": "chunked_td"}[first]
    code = (
        f"import {first}, importlib.util; importlib.util.find_spec('gymnasium'); import {second}, sys, gymnasium; "
        "assert 'ChunkedTD/KeyToDoor-v0' in gymnasium.registry; "
        "assert not any('chunked_td' in type(finder).__module__ for finder in sys.meta_path)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def run_without(blocked, code, **environment):
    return import_without(blocked, [], code, environment)


def test_one_version():
    """The program's, the installed package's and the citation's."""
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    assert cited is not None
    assert cited[1] == chunked_td.__version__ == importlib.metadata.version("chunked-td")
