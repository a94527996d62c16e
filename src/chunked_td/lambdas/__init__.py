"""λ sources: one number per transition (or one per reward component) that says how far credit jumps.

Each source is one file. It states id, label, group, colour and formula (`names`), names the questions that it asks
(`asks`), and has one function for one transition.
That function serves `agent.step`, the simulation and networks in lockstep, with counts, the true model or a network.

| file | what it holds |
|---|---|
| `base` | `LambdaSource`, the questions by name, settings |
| `names` | id, label, group, colour and formula of a source |
| `reading` | a source from text: a number, an id, or a Python file of yours |
| `step` | `Step`, a transition as a source sees it, and the questions that it may ask of the model |
| `episode` | for sources that learn: a whole episode; running means and variances |
| `plain` | the same for sources that are plain Python |
| `on_device` | the questions once more in JAX, for networks that train on a GPU |
| the others | one source each; every class in them that derives from `LambdaSource` is in `SOURCES` |

λ_t belongs to transition t, which *leaves* the state at time t: traces are multiplied by γλ_t before the row of time t
is marked, and Eq. 4 weighs bootstrap against return at time t with the same number.
"""

from __future__ import annotations

from typing import Any

from chunked_td.lambdas.base import LambdaSource, as_lambda_source
from chunked_td.lambdas.names import classes_in, group_order

_SKIPPED = ("on_device", "reading")  # on_device imports JAX
_FOUND = sorted(classes_in(__name__, __path__, LambdaSource, skip=_SKIPPED), key=group_order)

SOURCES: dict[str, type[LambdaSource]] = {cls.id: cls for cls in _FOUND}
"""Every λ source of the package by id."""

CLASSES: dict[str, type[LambdaSource]] = {cls.__name__: cls for cls in _FOUND}
"""All of them by the name of the class, as saved learners have it."""

__all__ = ["CLASSES", "SOURCES", "LambdaSource", "as_lambda_source"]


def __getattr__(name: str) -> Any:
    if name in CLASSES:
        return CLASSES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *CLASSES])
