"""Planners: what a learner makes of its model besides λ. One file each; every `Planner` in them is found by its name.

| file | what it holds |
|---|---|
| `base` | `Planner`, the model's part of a learner, and the backup that all planners share |
| `expected_error` | TD errors that the model expects; not a planner, but it needs the same model |
| the others | one planner each |
"""

from __future__ import annotations

from chunked_td.lambdas.names import classes_in
from chunked_td.learners.planning.base import Planner

PLANNERS: dict[str, type[Planner]] = {cls.__name__: cls for cls in classes_in(__name__, __path__, Planner)}
"""Every planner of the package by name."""

__all__ = ["PLANNERS", "Planner"]
