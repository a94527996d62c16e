"""`kernel`: the decorator of every compiled loop.

A kernel has two compiled forms: as a subroutine of other kernels, which inline it, and for Python, with a wrapper and
machine code that is kept on disk. Both are made by the fast compiler (`fast`), or by plain `njit` where that does not
work with the Numba that is installed.
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar

import numba
from numba import types
from numba.core.compiler import Compiler
from numba.core.datamodel import models
from numba.core.errors import NumbaError
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
        except NumbaError as problem:  # which says much about Numba, and our own sentence somewhere in it
            _, found, text = str(problem).partition(OURS[0])
            if not found:
                raise
            raise ValueError(text.partition(OURS[1])[0]) from problem
        finally:
            if collecting:
                gc.enable()


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


def kernel(function: F) -> F:
    """Compile `function`: without allocation, without the interpreter lock, inlined into the kernels that call it.

    Args:
      function: plain loops on arrays, scalars and NamedTuples of those; results go into arrays passed in.
    """
    if DISABLED:
        function.is_kernel = True  # type: ignore[attr-defined]
        return function
    made: Any = Kernel(function)
    return made


def plain(function: F) -> F:
    """The Python function of a kernel, for calls that are done before it would be compiled."""
    return getattr(function, "py_func", function)


def is_kernel(function: Any) -> bool:
    """Whether `function` was made by `kernel`."""
    return isinstance(function, Kernel) or getattr(function, "is_kernel", False)
