"""λ sources: one number per transition, or one per reward component, that sets how far a TD error propagates.

Each source is one file. It defines id, label, group, colour and formula (`names`), lists the queries that it requires
(`asks`), and has one function for one transition.
That function serves `agent.step`, the simulation and networks in lockstep, with counts, the true model or a network.

| file | content |
|---|---|
| `base` | `LambdaSource`, the queries by name, settings |
| `names` | id, label, group, colour and formula of a source |
| `reading` | a source from text: a number, an id, or your Python file |
| `step` | `Step`, one transition as input of a source, and the model queries that a source may call |
| `episode` | input of sources that learn: a complete episode, running means and variances |
| `plain` | the transition for sources in plain Python |
| `on_device` | the queries in JAX, for networks that train on a GPU |
| other files | one source each; every class in them that derives from `LambdaSource` is in `SOURCES` |

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
"""The same sources by class name, which saved learners store."""

__all__ = ["CLASSES", "SOURCES", "LambdaSource", "as_lambda_source"]


def __getattr__(name: str) -> Any:
    if name in CLASSES:
        return CLASSES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *CLASSES])
