"""Digests of a user's code and settings, which detect that stored runs were made by other code.

A digest of a function covers its bytecode and every function, class and constant that it reaches by name, in its own
module and in the user's other modules. Installed packages are not covered; the version of this one is recorded.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import math
import re
import site
import sys
import sysconfig
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import joblib

SHORT = 100
"""Longest text of a setting that is written in full; a longer text is shortened and gets a digest."""


class CodeDigests:
    """Digests of the code that a function reaches.

    Attributes:
      code: {name: digest or short value} of every function, class and constant reached; versions first.
      modules: the user's own modules that the function reaches.
    """

    def __init__(self, function: Any = None):
        self.code: dict[str, Any] = {}
        self.modules: list[types.ModuleType] = []
        self._seen: dict[int, Any] = {}
        if function is not None:
            self.code["Python"] = f"{sys.version_info.major}.{sys.version_info.minor}"
            self.code["chunked_td"] = sys.modules["chunked_td"].__version__
            self._visit(label_of(function), function)

    def text(self, value: Any) -> Any:
        """A setting in the form of settings.json: a short plain value, or a text that ends with a digest.

        Raises:
          TypeError: if the setting has no value that can be compared.
        """
        if value is None or isinstance(value, bool | int | str):
            return value if len(str(value)) <= SHORT else shortened(str(value))
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            return shortened(f"[{', '.join(str(self.text(each)) for each in value)}]")
        if isinstance(value, Mapping):
            return shortened(f"{{{', '.join(f'{name!r}: {self.text(each)}' for name, each in value.items())}}}")
        inner, shown = CodeDigests(), label_of(value)
        inner._visit("", value)
        if not callable(value) or shown is None:
            shown = re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:SHORT].replace("\n", " ")
            inner.code["value"] = state(value)
        self._keep(inner.modules)
        return f"{shown} #{digest(inner.code)}" if inner.code else shown

    def _visit(self, label: str | None, value: Any) -> None:
        """Record a value that code reaches under a name."""
        value = unwrapped(value)
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, functools.partial):
            self._visit(label_of(value.func), value.func)
            self._constant(f"arguments of {label}", [value.args, value.keywords])
        elif isinstance(value, types.MethodType):
            self._visit(label_of(value.__func__), value.__func__)
            self._visit(label, value.__self__)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, type):
            self._class(value)
        elif not isinstance(value, types.ModuleType | types.BuiltinFunctionType):
            self._visit(None, type(value))
            if label:
                self._constant(label, value)

    def _function(self, function: types.FunctionType) -> None:
        if not self._is_own(function.__module__):
            return
        label, code = label_of(function) or "", function.__code__
        own = [code_digest(code, function.__doc__)]
        for default in [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]:
            own.append(str(self._safe(default)))
        self.code[label] = f"#{digest(own)}"
        names = sorted(names_in(code))
        for name in names:
            if name in function.__globals__:
                self._reach(f"{stem(function.__module__)}.{name}", function.__globals__[name], names)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                self._reach(f"{label}.{name}", cell.cell_contents, names)
            except ValueError:  # not assigned yet
                continue

    def _reach(self, label: str, value: Any, names: list[str]) -> None:
        """Record a value that code reaches; of a module, the attributes that the code may name."""
        if not isinstance(value, types.ModuleType):
            self._visit(label, value)
        elif self._is_own(value.__name__):
            for name in names:
                if name in vars(value):
                    self._visit(f"{stem(value.__name__)}.{name}", vars(value)[name])

    def _class(self, kind: type) -> None:
        if not self._is_own(kind.__module__):
            return
        for base in kind.__bases__:
            self._visit(None, base)
        constants = {}
        for name, value in vars(kind).items():
            inner = unwrapped(value)
            if isinstance(inner, types.FunctionType):
                self._visit(None, inner)
            elif not (name.startswith("__") or name.startswith("_abc") or hasattr(inner, "__get__")):
                constants[name] = str(self._safe(value))
        self.code[label_of(kind) or ""] = f"#{digest(constants)}"

    def _constant(self, label: str, value: Any) -> None:
        self.code[label] = self._safe(value)

    def _safe(self, value: Any) -> Any:
        """The text of a constant; its type if it has no value that can be compared."""
        try:
            return self.text(value)
        except TypeError:
            return f"a {type(value).__qualname__}"

    def _is_own(self, name: str | None) -> bool:
        own = is_own(name)
        if own and name in sys.modules:
            self._keep([sys.modules[name]])
        return own

    def _keep(self, modules: list[types.ModuleType]) -> None:
        self.modules += [module for module in modules if module not in self.modules]


def unwrapped(value: Any) -> Any:
    """The Python function in a decorated or compiled one."""
    for name in ("py_func", "__wrapped__", "__func__", "fget"):
        if isinstance(value, types.MethodType):
            break
        inner = inspect.getattr_static(value, name, None)
        if inner is not None and not isinstance(value, type):
            found = getattr(value, name)
            if callable(found):
                return unwrapped(found)
    return value


def label_of(value: Any) -> str | None:
    """The name of a function or class with the file that defines it, such as "maze.run"; None for other values."""
    value = unwrapped(value)
    if isinstance(value, functools.partial):
        return label_of(value.func)
    name, module = getattr(value, "__qualname__", None), getattr(value, "__module__", None)
    return None if name is None or module is None else f"{stem(module)}.{name}"


def stem(module: str | None) -> str:
    """Short name of a module; a script has the same name as on import."""
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    return Path(file).stem if module == "__main__" and file else (module or "").rpartition(".")[2]


@functools.cache
def installed() -> tuple[str, ...]:
    """Folders of installed packages and of Python itself."""
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return tuple({str(Path(path).resolve()) for path in [*paths, *site.getsitepackages(), site.getusersitepackages()]})


def is_own(name: str | None) -> bool:
    """Whether a module is the user's, not an installed package, Python's or this library's."""
    module = sys.modules.get(name or "")
    if module is None or (name or "").partition(".")[0] == "chunked_td":
        return False
    file = getattr(module, "__file__", None)
    if file is None:
        return name == "__main__"  # a notebook, or a prompt
    return not str(Path(file).resolve()).startswith(installed())


def names_in(code: types.CodeType) -> set[str]:
    """The names that code reads or may read, including those of nested functions."""
    nested = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return set(code.co_names).union(*map(names_in, nested))


def code_digest(code: types.CodeType, doc: str | None = None) -> str:
    """Digest of bytecode and its constants; file names, line numbers and the docstring are left out."""

    def parts(code: types.CodeType, doc: str | None) -> Iterator[Any]:
        yield code.co_code.hex()
        yield code.co_names
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield list(parts(constant, None))
            elif isinstance(constant, frozenset):
                yield sorted(map(repr, constant))
            elif doc is None or constant != doc:
                yield repr(constant)

    return digest(list(parts(code, doc)))


def state(value: Any) -> str:
    """Digest of an object's contents. Raises TypeError if they cannot be compared."""
    try:
        return str(joblib.hash(value))
    except Exception as error:
        fields = value._asdict() if hasattr(value, "_asdict") else getattr(value, "__dict__", None)
        if not fields:
            raise TypeError(f"{type(value).__qualname__} {error}".splitlines()[0]) from error
        return digest({name: str(CodeDigests().text(each)) for name, each in fields.items()})


def shortened(text: str) -> str:
    """A text, or its beginning and a digest if it is longer than `SHORT`."""
    return text if len(text) <= SHORT else f"{text[:SHORT]}… #{digest(text)}"


def digest(value: Any) -> str:
    """Short digest of plain values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
