"""Names of λ sources: id, label, group, colour and formula, defined once, in the class of the source.

`compare`, the studies, the commands, reports and deep learners derive their lists from them. A class may omit any of
them: the id then follows from its name, the colour from the id, the formula from its docstring.
"""

from __future__ import annotations

import colorsys
import hashlib
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar

from chunked_td._checks import check_text

FIXED, CHUNKED, OTHER, OWN = "fixed λ", "chunked", "other λ", "yours"
"""Groups of sources."""

OLD_IDS = {
    "meta": "meta-gradient",
    "meta_gradient": "meta-gradient",
    "value-kernel": "value",
    "lambda-greedy": "greedy",
    "realised": "forward",
}
"""Ids of earlier versions that occur in stored files."""

_STATED = ("id", "label", "group", "color", "formula", "means")

T = TypeVar("T")


def current_id(text: str) -> str:
    """Return the id of a source from an id, an id of an earlier version, a class name, or the text of an object."""
    name = re.split(r"[(@]", text)[0]
    return _id_of_class(name) if name[:1].isupper() else OLD_IDS.get(name, name)


def _id_of_class(name: str) -> str:
    """MetaGradientLambda → meta-gradient."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name.removeprefix("Deep").removesuffix("Lambda") or name)
    return words.strip("_").lower()


class Named:
    """Base of listed λ sources.

    Attributes:
      id: short name, the same in every command and file. label: in tables and figures. group: heading in lists.
      color: "#rrggbb". formula: one line; by default the indented lines of the docstring.
      means: λ in plain words; by default the first line of the docstring.
      by_default: whether `compare` and the quick study include it by default.
      like: the source that this one adapts; attributes that the class omits are those of that source.
    """

    id: ClassVar[str]
    label: ClassVar[str]
    group: ClassVar[str]
    color: ClassVar[str]
    formula: ClassVar[str]
    means: ClassVar[str]
    by_default: ClassVar[bool] = True
    like: ClassVar[type[Named] | None] = None

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Derive the attributes that the class omits. None is inherited, so no two sources share a name."""
        super().__init_subclass__(**arguments)
        stated = vars(cls)
        for attribute in ("id", "label", "group", "formula", "means"):
            check_text(f"{attribute} of {cls.__name__}", stated.get(attribute, ""))
        name, like = stated.get("id", _id_of_class(cls.__name__)), stated.get("like")
        doc = stated.get("__doc__") or ""
        first = doc.strip().partition("\n")[0].rstrip(".")
        derived = (name, cls.__name__, OWN, color_of(name), _formula_in(doc), first)
        for attribute, value in zip(_STATED, derived, strict=True):
            if attribute not in stated:
                setattr(cls, attribute, value if like is None else getattr(like, attribute))
        if not isinstance(cls.color, str) or not re.fullmatch("#[0-9a-fA-F]{6}", cls.color):
            raise ValueError(f"color of {cls.__name__} must be '#rrggbb', got {cls.color!r}")


def color_of(name: str) -> str:
    """Return a dark colour that depends on the name alone."""
    hue = int.from_bytes(hashlib.sha256(name.encode()).digest()[:2], "big") / 2**16
    return "#" + "".join(f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(hue, 0.4, 0.6))


def _formula_in(doc: str | None) -> str:
    """The indented lines of a docstring before its list of arguments, as one line."""
    lines = re.split(r"(?m)^(?:Args|Attributes):", inspect.cleandoc(doc or ""))[0].splitlines()
    indented = [line for line in lines if line.startswith(" ")]  # empty if the formula is the last part
    formula = indented or [line for line in lines[1:] if "λ" in line and "=" in line]
    return "; ".join(" ".join(line.split()) for line in formula)


def group_order(cls: type[Named]) -> tuple[int, str]:
    """Return a sort key: group, then id."""
    order = (FIXED, CHUNKED, OTHER)
    return order.index(cls.group) if cls.group in order else len(order), cls.id


def classes_in(package: str, path: Iterable[str], base: type[T], skip: tuple[str, ...] = ()) -> list[type[T]]:
    """The classes derived from `base` in the modules of a package."""
    found = []
    for module in pkgutil.iter_modules(path, f"{package}."):
        if module.name.rpartition(".")[2] not in skip:
            found += classes_of(importlib.import_module(module.name), base)
    return found


def classes_of(module: Any, base: type[T]) -> list[type[T]]:
    """The classes derived from `base` that a module defines."""
    things = [thing for thing in vars(module).values() if isinstance(thing, type) and issubclass(thing, base)]
    return [cls for cls in things if cls is not base and cls.__module__ == module.__name__]
