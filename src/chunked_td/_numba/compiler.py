"""`kernel`: the decorator of every compiled loop.

A kernel has two compiled forms.

- As a subroutine of another kernel it is only lowered to LLVM's language. The outermost kernel links all of it,
  optimises it once and makes machine code of it once. (Numba by itself does both for every function on the way, with
  wrappers for Python: three times the work.)
- Called from Python, it is compiled with a wrapper, and the machine code is kept on disk.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from llvmlite.binding import Linkage
from numba import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.datamodel import models
from numba.core.errors import NumbaError
from numba.core.typed_passes import NativeLowering
from numba.extending import register_model

from chunked_td._numba.caching import _CONFIG, BOUNDSCHECK, NOTICE, caching_here

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS: Any = {"_nrt": False, "nogil": True, "error_model": "numpy", "forceinline": True, "boundscheck": BOUNDSCHECK}
"""No reference counting, no interpreter lock, division as NumPy does it, everything inlined."""

FORMS = "chunked_td._numba.forms"
"""Where stand-ins for classes from outside the package live."""

OURS = ("‹", "›")
"""Marks around a sentence of ours in an error that Numba passes on."""

DISABLED = bool(_CONFIG.DISABLE_JIT)


class _Unlinked(JITCodeLibrary):
    """Code of a subroutine: its own function alone. The outermost kernel links it."""

    def finalize(self) -> None:
        """Close the library; what it calls stays in libraries of its own."""
        self._raise_if_finalized()
        self._finalize_dynamic_globals()
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        self._ensure_finalized()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.external:
                function.linkage = Linkage.weak_odr  # linked whether or not a caller has been linked yet
        return self._final_module


class _Linked(JITCodeLibrary):
    """Code of an outermost kernel: linked with all subroutines, then one pass of optimisation over everything.

    Numba's first, cheaper pass serves reference counting, which kernels do without.
    """

    def finalize(self) -> None:
        """Link the subroutines, and those that they call, and make machine code."""
        found: dict[Any, None] = {}
        todo = list(self._linking_libraries)
        while todo:
            library = todo.pop()
            if library not in found:
                found[library] = None
                todo += library._linking_libraries if isinstance(library, _Unlinked) else []
        self._linking_libraries = list(found)
        super().finalize()

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if function.linkage == Linkage.weak_odr:
                function.linkage = Linkage.internal  # gone once it is inlined everywhere
        made = self._codegen._module_pass_manager()
        if isinstance(made, tuple):  # since Numba 0.62 (LLVM 20)
            manager, builder = made
            manager.run(self._final_module, builder)
        else:
            made.run(self._final_module)


@register_pass(mutates_CFG=False, analysis_only=False)
class _EnterSubroutine(LoweringPass):
    """Makes a lowered subroutine known to its callers.

    Numba finds compiled functions by their entry point, which a subroutine does not have: a builtin that is never
    called stands in for it.
    """

    _name = "chunked_td_enter_subroutine"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> Any:
        lowered, key = state["cr"], [].append  # every such bound builtin is a different key
        state.targetctx.insert_user_function(key, lowered.fndesc, [state.library])
        state["cr"] = _LowerResult(lowered.fndesc, lowered.call_helper, cfunc=key, env=lowered.env)
        return True


class _Pipeline(CompilerBase):
    library_class: Any = _Linked

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.state.flags.no_cfunc_wrapper = True
        library = self.library_class(self.state.targetctx.codegen(), "chunked_td")
        library.enable_object_caching()
        self.state.library = library

    def define_pipelines(self) -> list[Any]:
        """Numba's own passes."""
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]


class _FromPython(_Pipeline):
    """Compiles a kernel that Python calls."""

    def compile_extra(self, func: Any) -> Any:
        """Compile `func`, with a message on the screen if that takes long."""
        with NOTICE.compiling(func.__name__):
            try:
                return super().compile_extra(func)
            except NumbaError as problem:  # which says much about Numba, and our own sentence somewhere in it
                _, found, text = str(problem).partition(OURS[0])
                if not found:
                    raise
                raise ValueError(text.partition(OURS[1])[0]) from problem


class Subroutine(_Pipeline):
    """Lowers a kernel that only other kernels call."""

    library_class = _Unlinked

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        flags = self.state.flags
        flags.no_compile = flags.no_cpython_wrapper = True

    def define_pipelines(self) -> list[Any]:
        """Numba's own passes, and the one that makes the result known."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_EnterSubroutine, NativeLowering)
        passes.finalize()
        return [passes]


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
        self._subroutine: Any = numba.njit(pipeline_class=Subroutine, **OPTIONS)(function)
        self._made: dict[bool, Any] = {}
        self._is_ours = function.__module__.startswith("chunked_td.")
        self._lock = threading.Lock()

    def for_python(self, cached: bool = True) -> Any:
        """The form that Python calls; with `cached`, its machine code is kept on disk."""
        made = self._made.get(cached)
        if made is None:
            with self._lock:
                made = self._made.get(cached)
                if made is None:
                    made = self._made[cached] = compiled_for_python(self.py_func, cached)
        return made

    def __call__(self, *arguments: Any) -> Any:
        return self.for_python(self._may_be_kept(arguments))(*arguments)

    def _may_be_kept(self, arguments: tuple[Any, ...]) -> bool:
        """Whether the code for these arguments may be kept on disk.

        That of a kernel from outside the package may if its first argument has a form that changes with its source
        (`chunked_td._numba.forms`).
        """
        return self._is_ours or (bool(arguments) and type(arguments[0]).__module__ == FORMS)

    @property
    def _numba_type_(self) -> Any:
        """What Numba takes this for inside another kernel."""
        return KernelType(self._subroutine)

    def __reduce__(self) -> str:
        return self.__qualname__  # pickled by reference, as functions are

    def __repr__(self) -> str:
        return f"<kernel {self.__module__}.{self.__qualname__}>"


def compiled_for_python(function: Callable[..., Any], cached: bool) -> Any:
    """A function that Python calls, compiled on first use."""
    if not cached:
        return numba.njit(pipeline_class=_FromPython, **OPTIONS)(function)
    with caching_here():
        return numba.njit(cache=True, pipeline_class=_FromPython, **OPTIONS)(function)


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


def is_kernel(function: Any) -> bool:
    """Whether `function` was made by `kernel`."""
    return isinstance(function, Kernel) or getattr(function, "is_kernel", False)
