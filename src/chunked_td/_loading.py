"""Loading when needed: the names of packages on first use, and packages that only an extra brings."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from typing import Any

EXTRAS = {
    "jax": ("jax", "jaxlib", "equinox", "optax"),
    "lab": ("tyro", "polars", "matplotlib", "plotly", "jinja2", "rich", "filelock", "scipy"),
    "torch": ("torch",),
    "sb3": ("stable_baselines3",),
    "ray": ("ray",),
    "wandb": ("wandb",),
    "tensorboard": ("tensorboardX",),
    "jax-tasks": ("xminigrid",),
}
"""Packages that are not in the plain install, by the extra that brings them."""


def with_extra(what: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error of a missing package; if an extra brings the package, it says what to install for `what`."""
    package = (error.name or "").partition(".")[0]
    extra = next((name for name, packages in EXTRAS.items() if package in packages), None)
    if extra is None or "pip install" in str(error):
        return error
    return ModuleNotFoundError(f"{what} needs {package}: pip install 'chunked-td[{extra}]'", name=package)


def require(what: str, package: str) -> None:
    """Raise ModuleNotFoundError, saying what to install for `what`, if a package is missing."""
    if importlib.util.find_spec(package) is None:
        raise with_extra(what, ModuleNotFoundError(f"No module named {package!r}", name=package))


def lazy_names(
    package: str, more: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose public names load when they are first used.

    Args:
      more: the modules that define names besides those names of `chunked_td` that are defined in the package.
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
