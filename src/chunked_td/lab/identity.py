"""Names under which stored results know code, independent of where that code is now.

The settings of a stored batch name functions and classes by address, "package.module:Name", and the hash of the
settings names the file. These addresses are the ones the code had when results were first stored. They never change;
when code moves, three rules keep them:

  * `STORED_MODULES` maps the stored name of a module to its present one. Move a module, add a line.
  * Anything defined in a folder of `chunked_td.lab.studies` has the folder in its name, not the file, and the folder's
    first parent, `chunked_td.lab.experiments`.
  * A schedule is written as the class `Exploration` of the first version was (`schedule_text`).

Code outside the package is known by its name and a hash of its source, so that an edit makes a new batch.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chunked_td.learners.schedule import Schedule

STORED_MODULES = {
    **{
        f"chunked_td.envs.dynamics.{name}": f"chunked_td.envs.{name}.dynamics"
        for name in ("accumulated_charge", "blackjack", "chain_and_split", "key_to_door", "skewed_split", "t_maze")
    },
    "chunked_td.envs.dynamics.protocol": "chunked_td.envs.protocol",
    "chunked_td.envs.dynamics.table": "chunked_td.envs.table",
    "chunked_td.lab.protocols": "chunked_td.lab.study",
    "chunked_td.simulate": "chunked_td.simulation.simulate",
}
"""{stored name of a module: where it is now}."""

_NOW_TO_STORED = {now: stored for stored, now in STORED_MODULES.items()}
_FOLDER = re.compile(r"chunked_td\.lab\.studies(\.\w+)(\.\w+)*")


def resolve(reference: Any) -> Any:
    """The object behind an address, stored or present; anything that is not a string is returned as it is."""
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(STORED_MODULES.get(module, module)), name)


def identity(thing: Any) -> str:
    """A text that changes when the meaning of `thing` does: stored address, number, repr, or name and source hash."""
    if isinstance(thing, str):
        module, colon, name = thing.partition(":")
        return f"{stored_module(module)}:{name}" if colon else thing
    if isinstance(thing, (int, float)):
        return repr(float(thing))
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        ours = is_ours(type(thing)) or type(thing).__module__ == "builtins"
        return repr(thing) if ours else f"{thing!r}{source_hash(type(thing))}"
    if is_ours(thing):
        return f"{stored_module(thing.__module__)}:{thing.__qualname__}"
    return f"{thing.__qualname__}{source_hash(thing)}"


def stored_module(module: str) -> str:
    """The stored name of a module, given its present one."""
    folder = _FOLDER.fullmatch(module)
    return _NOW_TO_STORED.get(module) or (f"chunked_td.lab.experiments{folder[1]}" if folder else module)


def is_ours(thing: Any) -> bool:
    """Whether a function or class is part of this package."""
    return thing.__module__.startswith("chunked_td.")


def source_hash(thing: Any) -> str:
    """ "@" and the beginning of a hash of the source of a function or class; "" where there is no source."""
    try:
        source = inspect.getsource(thing)
    except (OSError, TypeError):
        return ""
    return f"@{hashlib.sha256(source.encode()).hexdigest()[:16]}"


def schedule_parts(schedule: Schedule) -> dict[str, float | int] | None:
    """The schedule as {"first", "last", "hold", "anneal"}, or None if it has another shape.

    It is `first` for `hold` episodes, then goes in a straight line to `last` over `anneal` episodes, then stays there.
    """
    points, first, last = schedule.points, schedule.points[0][1], schedule.points[-1][1]
    hold = anneal = 0
    if len(points) == 2 and points[0][0] == 0:
        hold, anneal = (points[1][0], 0) if schedule.hold else (0, points[1][0])
    elif len(points) == 3 and points[0][0] == 0 and points[1][1] == first and not schedule.hold:
        hold, anneal = points[1][0], points[2][0] - points[1][0]
    elif len(points) > 1:
        return None
    return {"first": first, "last": last, "hold": hold, "anneal": anneal}


def schedule_text(schedule: Schedule) -> str:
    """The schedule as stored settings write it."""
    parts = schedule_parts(schedule)
    if parts is None:
        return repr(schedule)
    return f"Exploration({', '.join(f'{name}={value!r}' for name, value in parts.items())})"


def check_id(what: str, value: Any) -> str:
    """Return an id that is safe in file names, on the command line and in HTML; otherwise raise ValueError."""
    if isinstance(value, str) and value[:1].isalnum() and all(c.isalnum() or c in "-._" for c in value):
        if len(value.encode()) <= 100:
            return value
    raise ValueError(
        f"{what} must be made of letters, digits, '-', '.' and '_', begin with a letter or digit and have at most 100 "
        f"bytes, got {value!r}"
    )
