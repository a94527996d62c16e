"""The problems of the atlas: families of transition tables with dials."""

from __future__ import annotations

from chunked_td.lab.atlas.problems import corridors, wandering
from chunked_td.lab.atlas.problems.family import CHOICE, CONTROL, PREDICTION, Family

FAMILIES: dict[str, Family] = {family.id: family for family in (*corridors.FAMILIES, *wandering.FAMILIES)}
"""Every family by its id."""

__all__ = ["CHOICE", "CONTROL", "FAMILIES", "PREDICTION", "Family"]
