"""The problems: families of small transition tables with a dial each.

| | families | |
|---|---|---|
| `DESIGN` | 12 | the rule was designed on them |
| `HELD_OUT` | 17 | written by someone who had seen no learner; nothing was designed on them |
| grid | 1 | of `studies/wrong_models`; no stored run of this one |

Yours is a Python file with `Family` objects: `python -m studies credit --families mine.py`.
"""

from __future__ import annotations

from typing import Any

from chunked_td._loading import load_file
from studies.credit.families import corridors, held_out, wandering
from studies.credit.families.family import Family

_FIRST = [each for module in (corridors, wandering) for each in vars(module).values() if isinstance(each, Family)]

DESIGN = {family.id: family for family in _FIRST if not family.held_out}
HELD_OUT = {family.id: family for family in held_out.FAMILIES}
FAMILIES: dict[str, Family] = {**DESIGN, **HELD_OUT, "grid": wandering.grid}
"""Every family by id; those in users' files are added."""
_OURS = frozenset(FAMILIES)


def family_called(name: str) -> Family:
    """The family with this id."""
    if name not in FAMILIES:
        raise ValueError(
            f"--families must name the file of family {name!r}, which occurs in the runs but not in this study"
        )
    return FAMILIES[name]


def middles(*names: str) -> list[tuple[str, Any]]:
    """(family, setting) of these families at the middle position of their dial."""
    return [(name, FAMILIES[name].settings[len(FAMILIES[name].settings) // 2]) for name in names]


def read_families(path: str) -> list[str]:
    """Add the families in a Python file of the user's; returns their ids."""
    module = load_file(path, "--families")
    found = getattr(module, "FAMILIES", [each for each in vars(module).values() if isinstance(each, Family)])
    if not found or not all(isinstance(family, Family) for family in found):
        raise ValueError(f"--families must be a file with studies.credit.families.Family objects, got {path}")
    for family in found:
        if family.id in _OURS:
            raise ValueError(f"--families: id {family.id!r} in {path} is taken; use another id for the family")
        FAMILIES[family.id] = family
    return [family.id for family in found]


__all__ = ["DESIGN", "FAMILIES", "HELD_OUT", "Family", "family_called", "middles", "read_families"]
