"""Inner kernels without machine code of their own: less than half the compile time of plain `njit`.

Numba optimises each function, with all that it calls, and compiles it to machine code. Here an inner kernel is only
lowered to LLVM IR. The entry links all of them, and is optimised and compiled once. The names that this needs are not
in Numba's public API: if one is missing, or `works` finds another behaviour, programs are compiled by plain `njit`.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
from llvmlite.binding import Linkage
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.typed_passes import NativeLowering, NopythonRewrites


class _Unlinked(JITCodeLibrary):
    """Code of an inner kernel: only its own function."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Close the library; functions that it calls stay in their own libraries."""
        self._raise_if_finalized()
        self._finalize_dynamic_globals()
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        self._ensure_finalized()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.external:
                function.linkage = Linkage.weak_odr  # linked even if no caller has been linked yet
        return self._final_module


class _Linked(JITCodeLibrary):
    """Code of an entry: linked with all inner kernels, then optimised once.

    Numba's first, cheaper pass is for reference counting, which kernels do not use.
    """

    def finalize(self) -> None:
        """Link the inner kernels and all kernels that they call, and compile to machine code."""
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
                function.linkage = Linkage.internal  # removed after inlining
        made = self._codegen._module_pass_manager()
        if isinstance(made, tuple):  # since Numba 0.62 (LLVM 20)
            manager, builder = made
            manager.run(self._final_module, builder)
        else:
            made.run(self._final_module)


@register_pass(mutates_CFG=False, analysis_only=False)
class _MakeKnown(LoweringPass):
    """Makes a lowered inner kernel known to its callers.

    Numba finds compiled functions by their entry point, which an inner kernel does not have. A builtin that is never
    called is used instead.
    """

    _name = "chunked_td_make_known"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> Any:
        lowered, key = state["cr"], [].append  # every such bound builtin is a different key
        state.targetctx.insert_user_function(key, lowered.fndesc, [state.library])
        state["cr"] = _LowerResult(lowered.fndesc, lowered.call_helper, cfunc=key, env=lowered.env)
        return True


class Entry(CompilerBase):
    """Compiles an entry."""

    library_class: Any = _Linked

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        library = self.library_class(self.state.targetctx.codegen(), "chunked_td")
        library.enable_object_caching()
        self.state.library = library

    def define_pipelines(self) -> list[Any]:
        """Numba's own passes, without the one that rewrites expressions of arrays, which allocate."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(kind, text) for kind, text in passes.passes if kind is not NopythonRewrites]
        passes.finalize()
        return [passes]


class Inner(Entry):
    """Lowers a kernel that only other kernels call."""

    library_class = _Unlinked

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        flags = self.state.flags
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True

    def define_pipelines(self) -> list[Any]:
        """Return the passes of `Entry` and the pass that makes the result known."""
        [passes] = super().define_pipelines()
        passes.add_pass_after(_MakeKnown, NativeLowering)
        passes.finalize()
        return [passes]


@functools.cache
def works() -> bool:
    """Whether this works with the installed Numba, tested on two small kernels."""
    options: Any = {"nogil": True, "error_model": "numpy", "forceinline": True}
    try:
        add = numba.njit(pipeline_class=Inner, **options)(lambda number: number + 1)
        call = numba.njit(pipeline_class=Entry, **options)(lambda number: 2 * add(number))
        return call(3) == 8
    except Exception:
        return False
