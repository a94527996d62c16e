"""λ sources: one number per transition (or one per reward component) that says how far credit jumps.

Each source is one file. It states its formula, says what it needs (`Needs`), and has one function for one transition.
That function serves `agent.step`, the simulation and networks in lockstep, with counts, the true model or a network.

| file | what it holds |
|---|---|
| `base` | `LambdaSource`, `Needs`, settings |
| `step` | `Step`, a transition as a source sees it, and the questions that it may ask of the model |
| `episode`, `moments` | for sources that learn: a whole episode; running means and variances |
| `plain` | the same for sources that are plain Python |
| `on_device` | the questions once more in JAX, for networks that train on a GPU |
| the others | one source each; every class in them that derives from `LambdaSource` is found by its name |

λ_t belongs to transition t, which *leaves* the state at time t: traces are multiplied by γλ_t before the row of time t
is marked, and Eq. 4 weighs bootstrap against return at time t with the same number.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from chunked_td.lambdas.base import LambdaSource, Needs, as_lambda_source

_MACHINERY = ("base", "step", "episode", "moments", "plain", "on_device")


def _find() -> dict[str, type[LambdaSource]]:
    found = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        if module.name.rpartition(".")[2] not in _MACHINERY:
            for name, thing in vars(importlib.import_module(module.name)).items():
                if isinstance(thing, type) and issubclass(thing, LambdaSource) and thing.__module__ == module.name:
                    found[name] = thing
    return found


SOURCES: dict[str, type[LambdaSource]] = _find()
"""Every λ source of the package by name."""

__all__ = ["SOURCES", "LambdaSource", "Needs", "as_lambda_source"]


def __getattr__(name: str) -> Any:
    if name in SOURCES:
        return SOURCES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *SOURCES])
