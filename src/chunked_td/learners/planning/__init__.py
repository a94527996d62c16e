"""Planners: extra value updates from the learned model. One file each; `PLANNERS` finds every `Planner` by its name.

| file | content |
|---|---|
| `base` | `Planner`, and the planning state of a learner |
| `backups` | the backup that all planners share |
| `expected_error` | expected TD errors; not a planner, but it requires the same model |
| the others | one planner each |
"""

from __future__ import annotations

from chunked_td.lambdas.names import classes_in
from chunked_td.learners.planning.base import Planner

PLANNERS: dict[str, type[Planner]] = {cls.__name__: cls for cls in classes_in(__name__, __path__, Planner)}
"""Every planner of the package by name."""

__all__ = ["PLANNERS", "Planner"]
