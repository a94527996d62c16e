"""`kernel`: the decorator of every compiled loop.

A kernel has two compiled forms: as a subroutine of other kernels, which inline it, and for Python, with a wrapper and
machine code that is kept on disk. Both are made by the fast compiler (`fast`), or by plain `njit` where that does not
work with the Numba that is installed.
"""

from __future__ import annotations

import functools
import gc
import linecache
import re
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numba
from numba import types
from numba.core.compiler import Compiler
from numba.core.datamodel import models
from numba.core.errors import NumbaError, UnsupportedBytecodeError
from numba.extending import register_model

from chunked_td._numba.caching import _CONFIG, NOTICE, caching_here, seal
from chunked_td._numba.options import OPTIONS

try:
    from chunked_td._numba import fast
except (ImportError, AttributeError):  # a name that Numba does not promise to keep is gone
    fast = None

F = TypeVar("F", bound=Callable[..., Any])

FORMS = "chunked_td._numba.forms"  # where stand-ins for classes from outside the package live
OURS = ("‹", "›")  # around a sentence of ours in an error that Numba passes on
_OURS_AND_NUMBAS = tuple(Path(module.__file__ or "").parent for module in (sys.modules["chunked_td"], numba))
DISABLED = bool(_CONFIG.DISABLE_JIT)


def is_fast() -> bool:
    """Whether kernels are compiled by the fast compiler."""
    return fast is not None and fast.works()


def _subroutine(*arguments: Any) -> Any:
    """The compiler of a kernel that only other kernels call."""
    return (fast.Subroutine if fast and is_fast() else Compiler)(*arguments)


class _FromPython:
    """The compiler of a kernel that Python calls: tells what takes long, and keeps errors of ours short."""

    def __init__(self, *arguments: Any) -> None:
        self.compiler = (fast.FromPython if fast and is_fast() else Compiler)(*arguments)

    def compile_extra(self, function: Any) -> Any:
        """Compile `function`. The many small objects that this leaves are not searched for garbage."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            with NOTICE.compiling(function.__name__):
                return self.compiler.compile_extra(function)
        except (NumbaError, UnsupportedBytecodeError) as problem:  # which say much about Numba
            text = sentence_in(str(problem))
            if not text:
                raise
            raise ValueError(text) from None
        finally:
            if collecting:
                gc.enable()


def sentence_in(text: str) -> str:
    """What an error of Numba says: a sentence of ours in it, or what is wrong with a line of a user's kernel."""
    _, found, ours = text.partition(OURS[0])
    if found:
        return ours.partition(OURS[1])[0]
    lines = [one.strip() for one in re.sub(r"\x1b\[\d+m", "", text).splitlines()]
    cause = next(one for one in lines if one and not one.startswith("Failed in nopython"))
    if cause.startswith("NRT required"):
        cause = "it makes a list, an array or text, and a kernel allocates nothing"
    if cause.endswith(":"):  # no implementation for arguments of these types
        cause += next((one.removeprefix(">>>") for one in lines if one.startswith(">>>")), "")
    cause = re.sub(r"_[0-9a-f]{16}(?=\()", "", cause)
    for name, line, other, there in re.findall(
        r'File "([^"]+)", line (\d+)|(?:at|from) (\S.*) \((\d+)\)', "\n".join(lines)
    ):
        path, number = Path(name or other).resolve(), int(line or there)
        if not any(path.is_relative_to(known) for known in _OURS_AND_NUMBAS):
            linecache.checkcache(str(path))
            shown = linecache.getline(str(path), number).strip()
            return f"{path.name}, line {number}: the kernel cannot be compiled at {shown!r}: {cause}"
    return f"a kernel cannot be compiled: {cause}" if cause.startswith("NameError") else ""


AS_SUBROUTINE: Any = {**OPTIONS, "pipeline_class": _subroutine}
FOR_PYTHON: Any = {**OPTIONS, "pipeline_class": _FromPython}


class KernelType(types.Dispatcher):
    """Numba's type of a kernel inside another one: a constant argument is compiled as any other of its kind.

    Numba by itself compiles `f(x, True)` apart from `f(x, flag)`. Inlining finds the constant anyway.
    """

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """The signature for these arguments, without what is known of their values."""
        kws = {name: types.unliteral(kind) for name, kind in kws.items()}
        return super().get_call_type(context, tuple(types.unliteral(kind) for kind in args), kws)


register_model(KernelType)(models.OpaqueModel)


class Kernel:
    """A compiled function. See the module's text for its two forms."""

    __qualname__: str

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self._subroutine: Any = numba.njit(**AS_SUBROUTINE)(function)
        self._made: dict[bool, Any] = {}
        self._is_ours = function.__module__.startswith("chunked_td.")
        self._lock = threading.Lock()

    def for_python(self, cached: bool = True) -> Any:
        """The form that Python calls; with `cached`, its machine code is kept on disk."""
        if cached not in self._made:
            with self._lock:
                if cached not in self._made:
                    self._made[cached] = compiled_for_python(self.py_func, cached)
        return self._made[cached]

    def __call__(self, *arguments: Any) -> Any:
        """Call it. Code of a kernel from outside is kept if its first argument's form changes with its source."""
        cached = self._is_ours or (bool(arguments) and type(arguments[0]).__module__ == FORMS)
        return self.for_python(cached)(*arguments)

    @property
    def _numba_type_(self) -> Any:
        """What Numba takes this for inside another kernel."""
        return KernelType(self._subroutine)

    def __reduce__(self) -> str:
        return self.__qualname__  # pickled by reference, as functions are

    def __repr__(self) -> str:
        return f"<kernel {self.__module__}.{self.__qualname__}>"


@functools.cache
def _leave_scipy_out() -> None:
    """Load what Numba loads before its first code, but for SciPy, in whose place it looks for a BLAS (0.4 s).

    No kernel does linear algebra. Code that does makes Numba look again.
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


def compiled_for_python(function: Callable[..., Any], cached: bool) -> Any:
    """A function that Python calls, compiled on first use."""
    _leave_scipy_out()
    if not cached:
        return numba.njit(**FOR_PYTHON)(function)
    with caching_here():
        compiled = numba.njit(cache=True, **FOR_PYTHON)(function)
    seal(compiled)
    return compiled


if TYPE_CHECKING:
    kernel = staticmethod  # in a class it is one; elsewhere a type checker takes a kernel for the function it was
else:

    def kernel(function):
        """Compile `function`: without allocation, without the interpreter lock, inlined into kernels that call it.

        In a class it is a static method.

        Args:
          function: plain loops on arrays, scalars and NamedTuples of those; results go into arrays passed in.
        """
        if not DISABLED:
            return Kernel(function)
        made = staticmethod(function)
        function.is_kernel = made.is_kernel = True
        return made


def plain(function: F) -> F:
    """The Python function of a kernel, for calls that are done before it would be compiled."""
    return getattr(function, "py_func", function)


def is_kernel(function: Any) -> bool:
    """Whether `function` was made by `kernel`."""
    return isinstance(function, Kernel) or getattr(function, "is_kernel", False)
