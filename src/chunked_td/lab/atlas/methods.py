"""The methods of the atlas: ways to assign credit, each with one setting; only the step size is tuned, alike for all.

A method of yours is a Python file with λ sources (classes that derive from `LambdaSource`, used with their default
settings), or with a module-level `METHODS`, a list of `Method`:

    chunked-td atlas --method mine.py
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chunked_td.lab.errors import UsageError
from chunked_td.lab.identity import check_id

FIXED_GROUP = "fixed λ"
FIXED = (0.0, 0.4, 0.8, 0.9, 0.95, 0.99, 1.0)
"""The fixed λs, among them the best and the worst in hindsight, which scores refer to."""


@dataclass(frozen=True)
class Method:
    """A way to assign credit.

    Args:
      id: stable short name. label: for tables.
      group: heading under which it is listed.
      lambda_source: a number, the name of a class in `chunked_td.lambdas`, or an object of one.
      model: what the λ source asks: None, "counts", "oracle", or a model that is wrong on purpose.
      learner: bootstrap: "expected_sarsa", "sarsa" or "q_learning".
      options: further arguments of `simulate`, e.g. {"view": "true_online"}.
      text: one sentence.
      exponents: its step sizes, where it needs no others; those of the profile by default.
      families: of problems on which it runs; all by default.
      on_controls: whether it runs on controls, too.
      quick: whether the quick profile has it.
    """

    id: str
    label: str
    group: str
    lambda_source: Any
    model: Any = None
    learner: str = "expected_sarsa"
    options: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    exponents: tuple[int, ...] | None = None
    families: tuple[str, ...] | None = None
    on_controls: bool = True
    quick: bool = True

    def __post_init__(self):
        check_id("id of a method", self.id)


def fixed_id(value: float) -> str:
    """Id of the method with this fixed λ."""
    return f"fixed-{value:g}"


FIXED_METHODS = tuple(
    Method(fixed_id(value), f"λ = {value:g}", FIXED_GROUP, value, quick=value in (0.0, 0.8, 0.95, 1.0))
    for value in FIXED
)


def builtin_methods() -> tuple[Method, ...]:
    """Every method of this package."""
    from chunked_td.lab.atlas.catalogue import METHODS, WRONG_FAMILIES, WRONG_MODELS

    wrong = [replace(method, families=WRONG_FAMILIES, on_controls=False) for method in WRONG_MODELS]
    return (*FIXED_METHODS, *METHODS, *wrong)


def methods_in(path: str | Path) -> tuple[Method, ...]:
    """The methods in a Python file of yours."""
    from chunked_td.lambdas.base import LambdaSource

    file = Path(path)
    if not file.is_file():
        raise UsageError(f"--method must be a Python file, got {str(path)!r}, which is not there")
    name = f"chunked_td_user_methods_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"--method must be a Python file, got {str(path)!r}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"--method {path} does not import: {type(error).__name__}: {error}") from error
    listed = getattr(module, "METHODS", None)
    if listed is not None:
        if not all(isinstance(method, Method) for method in listed):
            raise UsageError(f"--method {path}: METHODS must be a list of chunked_td.lab.atlas.Method")
        return tuple(listed)
    found = [
        thing
        for thing in vars(module).values()
        if isinstance(thing, type) and issubclass(thing, LambdaSource) and thing.__module__ == name
    ]
    if not found:
        raise UsageError(
            f"--method {path} must define METHODS or a class that derives from LambdaSource; it has neither"
        )
    return tuple(_from_source(path, cls) for cls in found)


def _from_source(path: str | Path, cls: type) -> Method:
    from chunked_td.lambdas.base import MODEL

    try:
        source = cls()
    except TypeError as error:
        raise UsageError(f"--method {path}: {cls.__name__} needs settings ({error}); give METHODS instead") from None
    if not source.is_compiled:
        raise UsageError(f"--method {path}: lambda_t of {cls.__name__} must be a kernel (@chunked_td.kernel)")
    model = "counts" if source.needs & MODEL else None
    return Method(cls.__name__.lower(), cls.__name__, "yours", source, model)
