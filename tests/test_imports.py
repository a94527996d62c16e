"""The core stands alone: it imports on a host that has little more than NumPy and Numba."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import chunked_td

PACKAGE = Path(chunked_td.__file__).parent
COMFORTS = [
    "gymnasium",
    "polars",
    "tyro",
    "rich",
    "matplotlib",
    "torch",
    "ray",
    "pandas",
    "pyarrow",
    "joblib",
]
NUMERICS = ["jax", "equinox", "optax", "scipy"]
OUTER_ROOMS = ("__main__", "cli", "comparison", "sweeps", "_sources")
# Loaded by those who have the library.
OPTIONAL = (
    "chunked_td.returns._torch",
    "chunked_td.returns._triton",
    "chunked_td.integrations.",
)
FACES = ("gym", "jax", "face", "kept_percepts", "tasks", "jax_task", "spaces", "foreign")
"""Files of `envs` that are for Gymnasium or JAX."""

SCRIPT = """
import importlib, sys
blocked = set({blocked!r})
class Without:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in blocked else self.finder.find_spec(name, path, target)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
for name in {modules!r}:
    importlib.import_module(name)
{code}
"""


def core_modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[0] in OUTER_ROOMS or (parts[0] == "envs" and parts[-1] in FACES):
            continue
        name = ".".join(["chunked_td", *(part for part in parts if part != "__init__")])
        if not name.startswith(OPTIONAL):
            yield name


def needs_jax(module):
    """Networks, what is built on them and the returns of JAX arrays are the only modules that may load JAX."""
    rooms = ("chunked_td.models.neural.",)
    files = ("chunked_td.returns._jax", "chunked_td.returns._pallas", "chunked_td.lambdas.on_device")
    return module.startswith(rooms) or module in files


def import_without(blocked, modules, code="", environment=None):
    """Import modules, then run some code, in a process that cannot find some packages."""
    script = SCRIPT.format(blocked=blocked, modules=modules, code=code)
    variables = os.environ | (environment or {})
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=variables)


def test_the_core_imports_with_numpy_and_numba_alone():
    modules = [name for name in core_modules() if not needs_jax(name)]
    assert "chunked_td.returns" in modules
    assert {"chunked_td._link.link", "chunked_td.simulation.networks"} <= set(modules)
    done = import_without(COMFORTS + NUMERICS, modules)
    assert done.returncode == 0, done.stderr


def test_the_networks_need_jax_and_no_comforts():
    modules = [name for name in core_modules() if needs_jax(name)]
    assert "chunked_td.models.neural.networks" in modules
    done = import_without(COMFORTS, modules)
    assert done.returncode == 0, done.stderr


def test_what_is_taken_away_is_missed():
    done = import_without(["numba"], ["chunked_td.traces"])
    assert done.returncode != 0
    assert "No module named 'numba'" in done.stderr
