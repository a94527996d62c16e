"""The methods of the atlas: ways to assign credit, each with one setting; only the step size is tuned, alike for all.

A method of yours is a Python file with λ sources (classes that derive from `LambdaSource`, used with their default
settings), or with a module-level `METHODS`, a list of `Method`:

    chunked-td atlas --lambda-source mine.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chunked_td.lab.errors import UsageError
from chunked_td.lab.identity import check_id
from chunked_td.lambdas.base import MODEL, LambdaSource
from chunked_td.lambdas.names import FIXED as FIXED_GROUP
from chunked_td.lambdas.reading import load_file, read_sources

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


def methods_in(text: str | Path) -> tuple[Method, ...]:
    """The methods in a Python file of yours: its METHODS, or its λ sources (`read_sources`)."""
    try:
        path = str(text).partition(".py:")[0]
        listed = getattr(load_file(path, "--lambda-source"), "METHODS", None) if path == str(text) else None
        if listed is None:
            return tuple(_of_source(source) for source in read_sources(str(text)))
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not all(isinstance(method, Method) for method in listed):
        raise UsageError(f"--lambda-source {text}: METHODS must be a list of chunked_td.lab.atlas.Method")
    return tuple(listed)


def _of_source(source: LambdaSource) -> Method:
    """A λ source of the user's as a method."""
    return Method(source.id, source.label, source.group, source, "counts" if source.needs & MODEL else None)
