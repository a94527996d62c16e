"""Planners: what a learner makes of its model besides λ. One file each; every `Planner` in them is found by its name.

| file | what it holds |
|---|---|
| `base` | `Planner`, the model's part of a learner, and the backup that all planners share |
| `smoothed_reward` | the reward of the TD error read off the model; not a planner, but it needs the same model |
| the others | one planner each |
"""

from __future__ import annotations

import importlib
import pkgutil

from chunked_td.learners.planning.base import Planner


def _find() -> dict[str, type[Planner]]:
    found = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        for name, thing in vars(importlib.import_module(module.name)).items():
            if isinstance(thing, type) and issubclass(thing, Planner) and thing.__module__ == module.name:
                found[name] = thing
    return {name: thing for name, thing in found.items() if thing is not Planner}


PLANNERS: dict[str, type[Planner]] = _find()
"""Every planner of the package by name."""

__all__ = ["PLANNERS", "Planner"]
