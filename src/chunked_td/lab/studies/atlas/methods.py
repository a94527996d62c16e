"""The methods of the atlas: ways to assign credit, each with one setting; only the step size is tuned, alike for all.

A method is an `Arm` of the lab. Yours is a Python file with λ sources (classes that derive from `LambdaSource`, used
with their default settings), or with a module-level `METHODS`, a list of `Arm`:

    chunked-td atlas --lambda-source mine.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chunked_td._loading import load_file
from chunked_td.lab.errors import UsageError
from chunked_td.lab.study import Arm
from chunked_td.lambdas.base import MODEL, LambdaSource
from chunked_td.lambdas.names import FIXED as FIXED_GROUP
from chunked_td.lambdas.reading import read_sources

FIXED = (0.0, 0.4, 0.8, 0.9, 0.95, 0.99, 1.0)
"""The fixed λs, among them the best and the worst in hindsight, which scores refer to."""


def atlas_arm(
    id: str, label: str, group: str, lambda_source: Any, model: Any = None, learner: str = "expected_sarsa", **more: Any
) -> Arm:
    """A way to assign credit, as an arm of the lab; Expected-SARSA unless it says otherwise."""
    return Arm(id, label, learner, lambda_source, model, group=group, in_paper=False, **more)


def fixed_id(value: float) -> str:
    """Id of the method with this fixed λ."""
    return f"fixed-{value:g}"


FIXED_METHODS = tuple(
    atlas_arm(fixed_id(value), f"λ = {value:g}", FIXED_GROUP, value, quick=value in (0.0, 0.8, 0.95, 1.0))
    for value in FIXED
)


def builtin_methods() -> tuple[Arm, ...]:
    """Every method of this package."""
    from chunked_td.lab.studies.atlas.catalogue import METHODS, WRONG_MODELS

    return (*FIXED_METHODS, *METHODS, *WRONG_MODELS)


def methods_in(text: str | Path) -> tuple[Arm, ...]:
    """The methods in a Python file of yours: its METHODS, or its λ sources (`read_sources`)."""
    try:
        path = str(text).partition(".py:")[0]
        listed = getattr(load_file(path, "--lambda-source"), "METHODS", None) if path == str(text) else None
        if listed is None:
            return tuple(_of_source(source) for source in read_sources(str(text)))
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not all(isinstance(arm, Arm) for arm in listed):
        raise UsageError(f"--lambda-source {text}: METHODS must be a list of chunked_td.lab.study.Arm")
    return tuple(listed)


def _of_source(source: LambdaSource) -> Arm:
    """A λ source of the user's as a method."""
    return atlas_arm(source.id, source.label, source.group, source, "counts" if source.needs & MODEL else None)
