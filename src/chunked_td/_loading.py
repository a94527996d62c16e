"""Deferred imports: public names on first use, optional packages (extras), and users' files."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

EXTRAS = {
    "jax": ("jax", "jaxlib", "equinox", "optax"),
    "lab": ("tyro", "polars", "matplotlib", "rich", "scipy", "joblib"),
    "torch": ("torch",),
    "sb3": ("stable_baselines3",),
    "ray": ("ray",),
}
"""Packages that are not in the plain install, by the extra that installs them."""


def with_extra(what: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error of a missing package; if an extra installs it, the message names the command that `what` needs."""
    package = (error.name or "").partition(".")[0]
    extra = next((name for name, packages in EXTRAS.items() if package in packages), None)
    if extra is None or "pip install" in str(error):
        return error
    return ModuleNotFoundError(f"{what} needs {package}: pip install '.[{extra}]' in a clone", name=package)


def require(what: str, package: str) -> None:
    """Raise ModuleNotFoundError with the command that installs a missing package for `what`."""
    if importlib.util.find_spec(package) is None:
        raise with_extra(what, ModuleNotFoundError(f"No module named {package!r}", name=package))


def stub_names(package_file: str) -> dict[str, str]:
    """{name: module} of the names that the stub of a package, `__init__.pyi`, imports."""
    stub = ast.parse(Path(package_file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom) and node.module]
    return {alias.name: node.module for node in imports for alias in node.names if node.module}


def lazy_names(
    package: str, more: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose public names load on first use.

    Args:
      more: {name: module} of names that are public in this package and not in `chunked_td`.
    """
    public: dict[str, str] = sys.modules["chunked_td"]._NAMES
    homes = {name: home for name, home in public.items() if home.startswith(package)} | dict(more or {})

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(importlib.import_module(homes[name]), name)
        except ModuleNotFoundError as error:
            raise with_extra(f"{package}.{name}", error) from None

    return load, lambda: sorted({*homes, *getattr(sys.modules[package], "__all__", ())})


USER_MODULES = "chunked_td_own_"
"""Prefix of the names of modules loaded from users' files."""


def module_name(path: Path) -> str:
    """Name of the module for a user's file or folder, different for each path."""
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    return f"{USER_MODULES}{re.sub(r'[^A-Za-z0-9]', '_', path.resolve().stem)}_{digest}"


def real_file(path: str | Path, argument: str) -> Path:
    """A path without symbolic links; ValueError if they form a loop."""
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError) as problem:  # Python 3.13 raises the former
        raise ValueError(f"{argument} must be a file, got {str(path)!r}, a loop of symbolic links") from problem


def load_file(path: str | Path, argument: str) -> Any:
    """Load a user's Python file as a module; it runs again only after a change. Errors name the argument."""
    file = real_file(path, argument)
    if not file.is_file():
        raise ValueError(f"{argument} must be a Python file, got {str(path)!r}, which does not exist")
    name, content = module_name(file), (str(file), file.read_bytes())
    if name in sys.modules and vars(sys.modules[name]).get("_loaded_from") == content:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    module._loaded_from = content
    sys.modules[name] = module  # dataclasses and pickling look a class's module up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(f"{argument}: cannot import {path}: {type(error).__name__}: {error}") from error
    return module
