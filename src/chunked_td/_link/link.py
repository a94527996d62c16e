"""Linker: kernels with open names become one compiled program.

A kernel is a plain Python function of arrays, numbers and NamedTuples of those; it allocates nothing. Functions that
depend on the chosen parts are called by an open name:

    chance = slot("model", "chance")          # P̂(x'|x,a) of the sampled next state, from the model

`link(entry, {"model": ForwardCounts})` copies the entry and all functions that it reaches, with every open name bound
to the kernel of that name in the part with that role, and compiles the copies: inner ones are inlined, and the entry is
stored on disk under a digest of everything that was linked. An edit of a kernel, a helper, a nested function or a
constant that one of them names therefore gives another program. A program that refers to a value without a digest
(another compiler's function, an object) is not stored.

`compiled=False` binds the same names and returns Python functions, for breakpoints and tests. So does
NUMBA_DISABLE_JIT=1.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import functools
import gc
import hashlib
import itertools
import linecache
import os
import re
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import llvmlite
import numba
import numpy as np
from numba.core import types as nb
from numba.core.compiler import Compiler
from numba.core.errors import NumbaError, TypingError, UnsupportedBytecodeError
from numba.extending import lower_builtin, type_callable

from chunked_td._link.cache import CONFIG, NOTICE, caching_here, seal

try:
    from chunked_td._link import inner
except (ImportError, AttributeError):  # a private name of Numba is missing
    inner: Any = None

BOUNDSCHECK = os.environ.get("CHUNKED_TD_BOUNDSCHECK") == "1"
"""Whether programs check every index, and raise IndexError; slow, for tests."""

COMPILED = not CONFIG.DISABLE_JIT
OPTIONS: Any = {"nogil": True, "error_model": "numpy", "boundscheck": BOUNDSCHECK, "_nrt": False}
"""No interpreter lock, division as NumPy does it, no reference counting: kernels allocate nothing."""
try:
    numba.njit(**OPTIONS)(lambda: None)
except Exception:  # not in Numba's public API
    del OPTIONS["_nrt"]
_INNER: Any = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_OWN = [Path(__file__).with_name(name) for name in ("link.py", "inner.py", "trees.py")]
_VERSIONS = (
    f"{sys.version_info[:2]} {np.__version__} {numba.__version__} {llvmlite.__version__} {OPTIONS} "
    f"{hashlib.sha256(b''.join(path.read_bytes() for path in sorted(_OWN))).hexdigest()}"
)
"""Versions that every program depends on; our files cover the compiler and the functions known by name."""
_LOCK = threading.RLock()
"""Held while a program is linked and compiled: all threads share Numba's compiler and its settings."""

REQUIRED: Any = object()
"""Default of a slot without a default."""


class Slot:
    """Open name: the kernel `name` of the part with this role.

    Args:
      role, name: role of the part, name of the kernel.
      default: kernel to use if there is no such part or the part has no such kernel; or the number, truth value or
        None that such a kernel would return. Without a default, linking raises ValueError.
      missing: text of that error.
    """

    def __init__(self, role: str, name: str, default: Any = REQUIRED, missing: str = "") -> None:
        self.role, self.name, self.default, self.missing = role, name, default, missing

    def __call__(self, *arguments: Any) -> Any:
        """Call the default in plain Python. Without a default a slot works only in a linked program."""
        if self.default is REQUIRED:
            raise TypeError(f"{self!r} is an open name without a default; link() the kernel that calls it")
        return self.default(*arguments) if callable(self.default) else self.default

    def __repr__(self) -> str:
        return f"slot({self.role!r}, {self.name!r})"

    def bound(self, parts: Mapping[str, Any]) -> Any:
        """Return the kernel or value of the name, given the parts by role."""
        part = parts.get(self.role)
        found = getattr(part, self.name, None)
        if found is None:
            found = self.default
        if found is REQUIRED:
            owner = f"{self.role} {getattr(part, '__name__', part)}" if part is not None else f"no {self.role}"
            raise ValueError(self.missing or f"{owner}: there is no kernel {self.name!r}")
        return found


slot = Slot

if TYPE_CHECKING:
    kernel = staticmethod  # type checkers read a kernel as the function that it is
else:

    def kernel(function):
        """Mark a function as a kernel. In a class it is a static method."""
        function.is_kernel = True
        return staticmethod(function)


def plain(value: Any) -> Any:
    """Return the Python function of a kernel."""
    while isinstance(value, staticmethod):
        value = value.__func__
    return value


def number(value: Any) -> Any:
    """Return `value`, the result of a λ source; compilation fails with an error if it is not a number."""
    return value


@type_callable(number)
def _type_of_number(context: Any) -> Any:
    def typed(value: Any) -> Any:
        kind = nb.unliteral(value)
        if not isinstance(kind, nb.Number | nb.Boolean):
            raise TypingError(f"{_OURS[0]}lambda_t must return a number, got {kind}{_OURS[1]}")
        return kind

    return typed


@lower_builtin(number, nb.Any)
def _make_number(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return context.cast(builder, arguments[0], signature.args[0], signature.return_type)


_OURS = ("‹", "›")
"""Marks around our sentence in an error that Numba passes on."""


def is_kernel(value: Any) -> bool:
    """Whether a value was marked by `kernel`."""
    return getattr(plain(value), "is_kernel", False)


def natural(number: Any) -> Any:
    """Return `number`, which is not negative: compiled code does not check for an index from the end."""
    return number


@type_callable(natural)
def _type_of_natural(context: Any) -> Any:
    return lambda number: number


@lower_builtin(natural, nb.Any)
def _make_natural(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    if not BOUNDSCHECK:
        builder.assume(builder.icmp_signed(">=", arguments[0], arguments[0].type(0)))
    return arguments[0]


# ---- linking


@functools.cache
def _constant(value: Any) -> Callable[..., Any]:
    """Return a kernel that returns a fixed number, truth value or None for all arguments."""
    return types.FunctionType((lambda *arguments: value).__code__, {}, "constant", None, (types.CellType(value),))


@functools.cache
def _globals_of(function: types.CodeType) -> tuple[str, ...]:
    """Return the global names that a function and its nested functions read."""
    found = {one.argval: None for one in dis.get_instructions(function) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for const in function.co_consts:
        if isinstance(const, types.CodeType):
            found |= dict.fromkeys(_globals_of(const))
    return tuple(found)


@functools.cache
def _code_digest(function: types.CodeType) -> bytes:
    """Return a digest of a function's code, without the values of its names."""
    each = function.co_consts
    consts = [_code_digest(c) if isinstance(c, types.CodeType) else (type(c).__name__, repr(c)) for c in each]
    shape = function.co_argcount, function.co_kwonlyargcount, function.co_flags, function.co_varnames
    told = function.co_code, consts, function.co_names, shape, function.co_freevars
    return hashlib.sha256(repr(told).encode()).digest()


def _is_numbas(value: Any) -> bool:
    """Whether Numba can type a function without linking: one of NumPy's or Numba's, or one that we typed."""
    home = (getattr(value, "__module__", "") or "").partition(".")[0]
    return home in ("numba", "numpy", "math", "builtins") or value in (natural, number)


class _Linked(NamedTuple):
    """The copy of a function, with its open names bound."""

    function: Any
    digest: bytes | None  # of code and names; None if a name has no digest


class _Linker:
    """Copies functions with their open names bound. Equal copies are made, and compiled, once per process."""

    def __init__(self, parts: Mapping[str, Any], scopes: Mapping[str, Mapping[str, Any]], compiled: bool) -> None:
        self.parts, self.scopes, self.compiled = parts, scopes, compiled
        self.made: dict[Any, _Linked | None] = {}
        self.seen: list[tuple[Any, Any, str, Any]] = []  # lookups and their values
        self.lasting = True  # whether those values cannot change in place

    def look(self, how: Any, owner: Any, name: str) -> Any:
        """Return and record how(owner, name); `_GONE` if there is no such value."""
        value = how(owner, name, _GONE)
        self.seen.append((how, owner, name, value))
        return value

    def linked(self, function: Any, scope: str = "", inner: bool = True) -> _Linked:
        """Return the copy of a function in a scope."""
        key = function, scope
        if key not in self.made:
            self.made[key] = None
            self.made[key] = self._copied(function, scope, inner)
        found = self.made[key]
        if found is None:
            raise ValueError(f"kernel {function.__name__} calls itself; use a loop instead")
        return found

    def _copied(self, function: Any, scope: str, inner: bool) -> _Linked:
        body, space = self.look(getattr, function, "__code__"), {"__builtins__": builtins, "__name__": __name__}
        digests = [_code_digest(body), _digest_of(self.look(getattr, function, "__defaults__"))]
        for name in _globals_of(body):
            if (value := self.look(dict.get, function.__globals__, name)) is not _GONE:
                space[name], digest = self.meaning(value, scope)
                digests.append(digest)
        cells = function.__closure__ or ()
        captured = [self.meaning(self.look(getattr, cell, "cell_contents"), scope) for cell in cells]
        digests += [digest for _, digest in captured]
        whole = None
        if None not in digests:
            whole = hashlib.sha256(f"{function.__name__}{inner}{self.compiled}".encode() + b"".join(digests)).digest()  # type: ignore[arg-type]
        if whole is not None and whole in _COPIES:
            return _COPIES[whole]
        bound = tuple(types.CellType(value) for value, _ in captured)
        copy: Any = types.FunctionType(body, space, function.__name__, function.__defaults__, bound)
        copy.__module__ = __name__  # Numba imports a function's module again when it reads code from disk
        if self.compiled and inner:
            copy = numba.njit(**OPTIONS, **getattr(function, "options", _INNER))(copy)
        made = _Linked(copy, whole)
        if whole is not None and inner:
            _COPIES[whole] = made
        return made

    def meaning(self, value: Any, scope: str) -> tuple[Any, bytes | None]:
        """Return the value of a global or captured name in the program, and its digest."""
        if isinstance(value, Slot):
            value, scope = self.bound(value, scope)
        value = plain(value)
        if isinstance(value, types.FunctionType) and not _is_numbas(value):
            return self.linked(value, scope)
        self.lasting &= not _holds_array(value)
        return value, _digest_of(value)

    def bound(self, open_name: Slot, scope: str) -> tuple[Any, str]:
        """Return the kernel of an open name, and the scope in which to link it."""
        parts = {**self.parts, **self.scopes.get(scope, {})}
        self.look(getattr, parts.get(open_name.role), open_name.name)
        found = plain(open_name.bound(parts))
        inner = open_name.role if open_name.role in self.scopes else scope
        return (found, inner) if callable(found) else (_constant(found), inner)


_COPIES: dict[bytes, _Linked] = {}
"""Inner functions of this process by their digest."""
_GONE = object()
"""A value that does not exist."""


def _holds_array(value: Any) -> bool:
    """Whether a value is an array, whose entries may change, or a tuple with one."""
    return isinstance(value, np.ndarray) or (isinstance(value, tuple) and any(map(_holds_array, value)))


def _digest_of(value: Any) -> bytes | None:
    """Return a digest of a value that kernels name; None if there is none."""
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        each = [_digest_of(one) for one in value]
        return None if None in each else hashlib.sha256(b"(" + b"".join(each)).digest()  # type: ignore[arg-type]
    if isinstance(value, np.ndarray):
        text = f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes()
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        text = f"{type(value).__name__} {value!r}".encode()
    elif isinstance(value, type):
        text = f"{value.__module__}.{value.__qualname__}{getattr(value, '_fields', '')}".encode()
    elif _is_told_by_name(value):
        text = f"{getattr(value, '__module__', '')}.{getattr(value, '__name__', value)}".encode()
    else:
        return None
    return hashlib.sha256(text).digest()


def _is_told_by_name(value: Any) -> bool:
    """Whether a name and the versions of Numba and this package determine the value."""
    if isinstance(value, types.ModuleType):
        return value.__name__ in ("math", "numpy")
    return (
        value in (natural, number)
        or hasattr(value, "told_by_its_name")
        or (_is_numbas(value) and not hasattr(value, "py_func"))
    )


def _pipeline(name: str) -> Callable[..., Any]:
    """Return the compiler of entries or inner kernels; it is chosen at the first compilation."""
    return lambda *arguments: (getattr(inner, name) if inner and inner.works() else Compiler)(*arguments)


_INNER["pipeline_class"] = _pipeline("Inner")
_ENTRY: Any = {"pipeline_class": _pipeline("Entry")}


def link(
    entry: Callable[..., Any],
    parts: Mapping[str, Any],
    signature: Any = None,
    *,
    names: Mapping[str, Any] | None = None,
    form: str = "",
    scopes: Mapping[str, Mapping[str, Any]] | None = None,
    compiled: bool = True,
) -> Any:
    """Return the program of an entry.

    Args:
      entry: a function, linked with all functions that it calls.
      parts: by role, the objects whose kernels open names are bound to.
      signature: Numba's types of the arguments. None: compile for the types of each call.
      names: kernels of single open names, by "role.name", such as the reader of a tree.
      form: further text in the digest: the types that the reader returns.
      scopes: by role, other parts for use inside the kernels of that part.
      compiled: False returns Python functions.
    """
    compiled = compiled and COMPILED
    each = (
        tuple((one or {}).items()) for one in (parts, names, {k: tuple(v.items()) for k, v in (scopes or {}).items()})
    )
    asked = entry, signature, form, compiled, *each
    if (known := _found(asked)) is not None:
        return known
    given = dict(parts)
    for name, one in (names or {}).items():
        role, _, kernel_name = name.partition(".")
        given[role] = types.SimpleNamespace(**{**vars(given.get(role, types.SimpleNamespace())), kernel_name: one})
    entry = plain(entry.bound(given) if isinstance(entry, Slot) else entry)
    with _LOCK:
        linker = _Linker(given, scopes or {}, compiled)
        linked = linker.linked(entry, inner=False)
        if not compiled:
            return linked.function
        if linked.digest is None:
            return _compiled(linked.function, f"unkept{next(_UNKEPT)}", signature, False)
        text = f"{_VERSIONS} {form} {signature}".encode()
        key = hashlib.sha256(linked.digest + text).hexdigest()[:24]
        if key not in _PROGRAMS:
            _PROGRAMS[key] = _compiled(linked.function, key, signature, True)
        if linker.lasting:
            with contextlib.suppress(TypeError):  # a part that has no hash
                _KNOWN[asked] = linker.seen, _PROGRAMS[key]
        return _PROGRAMS[key]


def _found(asked: Any) -> Any:
    """Return the program of earlier equal arguments of `link`, if it was linked from the same objects."""
    try:
        seen, program = _KNOWN.get(asked, ((), None))
    except TypeError:
        return None
    return program if all(how(owner, name, _GONE) is value for how, owner, name, value in seen) else None


def compiled(function: Callable[..., Any], **parts: Any) -> Any:
    """Return a function for calls from Python, compiled for the types of each call.

    Args:
      parts: by role, the objects whose kernels its open names are bound to.
    """
    return _for_python(plain(function), tuple(sorted(parts.items())))


@functools.cache
def _for_python(function: Any, parts: tuple[tuple[str, Any], ...]) -> Any:
    return link(function, dict(parts))


_UNKEPT = itertools.count()
_PROGRAMS: dict[str, Any] = {}
"""Programs of this process by their digest."""
_KNOWN: dict[Any, Any] = {}
"""Arguments of `link` → its lookups and the program: linking again takes a tenth of the time."""


def _compiled(function: Any, key: str, signature: Any, kept: bool) -> Any:
    """Compile an entry; its code is stored on disk under its digest."""
    _leave_scipy_out()
    name, kept = function.__name__, kept and Path(function.__code__.co_filename).is_file()
    function.__name__ = function.__qualname__ = f"{name}_{key}"
    collecting = gc.isenabled()
    gc.disable()  # compilation leaves many small objects that need no search for garbage
    try:
        with NOTICE.compiling(name), caching_here():
            program = numba.njit(cache=kept, **OPTIONS, **_ENTRY)(function)
            if kept:
                seal(program)
            if signature is not None:
                program.compile(signature)
                program.disable_compile()
            return program
    except (NumbaError, UnsupportedBytecodeError) as problem:
        raise ValueError(sentence_in(str(problem))) from None
    finally:
        if collecting:
            gc.enable()


@functools.cache
def _leave_scipy_out() -> None:
    """Load Numba's first imports without SciPy, which it loads to find a BLAS (0.4 s).

    No kernel does linear algebra. For code that does, Numba looks for it again.
    """
    from numba.np import linalg

    look: Any = getattr(linalg, "ensure_blas", None)
    if look is None or "numba.np.arraymath" in sys.modules or find_spec("scipy") is None:
        return
    linalg.ensure_blas = lambda: None
    try:
        from numba.np import arraymath
    finally:
        linalg.ensure_blas = look
    arraymath.ensure_blas = look  # pyright: ignore[reportPrivateImportUsage]


# ---- errors

_OURS_AND_NUMBAS = (Path(__file__).parent.parent, Path(numba.__file__ or "").parent)


def sentence_in(text: str) -> str:
    """Return an error of Numba as one sentence: the line of the user's kernel, and the cause."""
    _, found, ours = text.partition(_OURS[0])
    if found:
        return ours.partition(_OURS[1])[0]
    lines = [one.strip() for one in re.sub(r"\x1b\[\d+m", "", text).splitlines()]
    cause = next((one for one in lines if one and not one.startswith("Failed in nopython")), "it has no type")
    if "NRT required" in text:
        cause = "it creates a list, an array or text, and a kernel allocates nothing"
    if cause.endswith(":"):  # no implementation for arguments of these types
        cause += next((one.removeprefix(">>>") for one in lines if one.startswith(">>>")), "")
    cause = re.sub(r"_[0-9a-f]{16}\b", "", cause)
    for path, at in _places(lines):
        if not any(path.is_relative_to(known) for known in _OURS_AND_NUMBAS):
            linecache.checkcache(str(path))
            shown = linecache.getline(str(path), at).strip()
            return f"{path.name}, line {at}: the kernel cannot be compiled at {shown!r}: {cause}"
    return f"a kernel cannot be compiled: {cause}"


def _places(lines: list[str]) -> Iterator[tuple[Path, int]]:
    """Yield the files and lines that an error of Numba names."""
    for name, line, other, there in re.findall(
        r'File "([^"]+)", line (\d+)|(?:at|from) (\S.*) \((\d+)\)', "\n".join(lines)
    ):
        yield Path(name or other).resolve(), int(line or there)
