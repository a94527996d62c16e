"""The problems of the atlas and of three scores: families of transition tables with dials.

A family is added in one file here: its `Family` objects are found. One outside the package is a Python file, which
`chunked-td atlas --families mine.py` reads. Those of `held_out` came after the first atlas; whoever designs a rule must
not have seen them.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from chunked_td._loading import load_file
from chunked_td.lab.errors import UsageError
from chunked_td.lab.studies.atlas.families import held_out as _held_out
from chunked_td.lab.studies.atlas.families.family import CHOICE, CONTROL, PREDICTION, Family


def _in_module(module: ModuleType) -> list[Family]:
    """The families that a module lists in FAMILIES, or defines."""
    listed = getattr(module, "FAMILIES", [thing for thing in vars(module).values() if isinstance(thing, Family)])
    return list(listed)


FIRST: dict[str, Family] = {
    family.id: family
    for entry in pkgutil.iter_modules(__path__)
    if entry.name not in ("family", "held_out")
    for family in _in_module(importlib.import_module(f"{__name__}.{entry.name}"))
}
"""The families of the first atlas by id."""

FAMILIES = {**FIRST, **{family.id: family for family in _held_out.FAMILIES}}
"""Every family by id; those in users' files are added."""

_OURS = frozenset(FAMILIES)


def families(held_out: bool) -> dict[str, Family]:
    """The families of one kind, by id; without those that the first atlas held out, and ran."""
    return {
        name: family
        for name, family in FAMILIES.items()
        if family.held_out == held_out and not (held_out and name in FIRST)
    }


def family_called(name: str) -> Family:
    """The family with this id."""
    if name not in FAMILIES:
        raise UsageError(f"--families: the runs hold the family {name!r}, which is not of this package; name its file")
    return FAMILIES[name]


def read_families(path: str) -> list[str]:
    """Add the families in a Python file of the user's; returns their ids."""
    try:
        found = _in_module(load_file(path, "--families"))
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not found or not all(isinstance(family, Family) for family in found):
        raise UsageError(f"--families: {path} must define chunked_td.lab.studies.atlas.families.Family objects")
    for family in found:
        if family.id in _OURS:
            raise UsageError(f"--families: {path}: the id {family.id!r} is taken; give the family another")
        FAMILIES[family.id] = family
    return [family.id for family in found]


__all__ = ["CHOICE", "CONTROL", "FAMILIES", "FIRST", "PREDICTION", "Family", "families", "family_called",
           "read_families"]  # fmt: skip
