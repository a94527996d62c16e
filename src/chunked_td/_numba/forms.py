"""Types that kernels are compiled for.

Kernels know environments, models and λ sources by the class of a NamedTuple. Compiled code is kept on disk under the
names of those classes. That is right for classes of this package, whose sources name the folder. A class from outside
gets a stand-in here, whose name ends in a digest of the files that define its kernels: after an edit it has another
name, so that old machine code is not used for it.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
import re
import threading
from collections import namedtuple
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td._numba.compiler import DISABLED, is_kernel

_PACKAGE = __name__.partition(".")[0] + "."
_CLASS_NAME = re.compile(r"[A-Z]\w*")
_LIBRARIES = ("chunked_td", "numpy", "math", "numba")  # of which the version of Numba's cache, or ours, keeps account
_NO_SOURCE = "_unsaved"
_unsaved = itertools.count()
_LOCK = threading.Lock()
_PLACEHOLDERS: list[Any] = []


def formed(value: Any) -> Any:
    """What kernels are given for the NamedTuple `value`: itself, or a stand-in for a class from outside the package."""
    if DISABLED or type(value).__module__.startswith(_PACKAGE):
        return value
    return form(type(value), type(value)._fields)(*value)


def form(cls: type, fields: Sequence[str]) -> Any:
    """A NamedTuple class with these fields and the static kernels of `cls`."""
    with _LOCK:
        return _form(cls, tuple(fields))


@functools.cache
def _form(cls: type, fields: tuple[str, ...]) -> Any:
    name = cls.__name__
    if not cls.__module__.startswith(_PACKAGE):
        digest = _digest(cls)
        name = f"{name}{_NO_SOURCE}{next(_unsaved)}" if digest is None else f"{name}_{digest}"
    known = globals().get(name)
    if known not in _PLACEHOLDERS and getattr(known, "_fields", fields) != fields:
        name = f"{name}_{'_'.join(fields)}"  # the same class with other settings that are numbers
    made: Any = namedtuple(name, fields)  # type: ignore[misc]
    for attribute in dir(cls):
        if is_kernel(getattr(cls, attribute, None)):
            setattr(made, attribute, staticmethod(getattr(cls, attribute)) if DISABLED else getattr(cls, attribute))
    made.__module__, made.__doc__ = __name__, cls.__doc__
    globals()[name] = made  # where the cache on disk looks for it
    return made


def form_of(settings: Any, arrays: Mapping[str, Any]) -> Any:
    """What kernels see of an object with `settings()`: a NamedTuple of the numbers among them and of some arrays."""
    numbers = {name: _plain(value) for name, value in settings.settings().items() if isinstance(value, Real)}
    return form(type(settings), (*numbers, *arrays))(*numbers.values(), *arrays.values())


def _plain(value: Any) -> bool | int | float:
    """A number of NumPy's or Python's as one of Python's."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    return int(value) if isinstance(value, Integral) else float(value)


def is_cacheable(*values: Any) -> bool:
    """Whether code compiled for these may be kept on disk: the sources of their classes could be read."""
    return not any(_NO_SOURCE in type(value).__name__ for value in values)


def _digest(cls: type) -> str | None:
    """Digest of all that the kernels of `cls` are made of; None if one of them has no file.

    That is the files that define them, the kernels and modules that they name, and the values of the numbers that they
    name, wherever those come from.
    """
    todo = [getattr(cls, name) for name in dir(cls) if is_kernel(getattr(cls, name, None))]
    digest = hashlib.sha256(f"{cls.__module__}.{cls.__qualname__}".encode())
    seen: set[int] = set()
    files: set[str] = set()
    while todo:
        function = inspect.unwrap(todo.pop())
        if id(function) in seen or function.__module__.startswith(_PACKAGE):
            continue
        seen.add(id(function))
        file = inspect.getsourcefile(function)
        if file is None or not Path(file).is_file():
            return None
        files.add(file)
        for name, thing in _named_by(function):
            if is_kernel(thing):
                todo.append(thing)
            elif inspect.ismodule(thing) and not thing.__name__.startswith(_LIBRARIES):
                files.add(getattr(thing, "__file__", None) or "")
            elif isinstance(thing, (int, float, str, tuple)):
                digest.update(f"{name}={thing!r};".encode())
    for file in sorted(files - {""}):
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()[:16]


def _named_by(function: Any) -> list[tuple[str, Any]]:
    """The globals and the variables around it that a function names."""
    found = [(name, function.__globals__[name]) for name in function.__code__.co_names if name in function.__globals__]
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return found + [(name, cell.cell_contents) for name, cell in cells]


def __getattr__(name: str) -> Any:
    """A placeholder for a form that the index of the cache on disk names and that this process has not made (yet)."""
    if _CLASS_NAME.fullmatch(name):
        placeholder = globals()[name] = namedtuple(name, ())  # type: ignore[misc]
        placeholder.__module__ = __name__
        _PLACEHOLDERS.append(placeholder)
        return placeholder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
