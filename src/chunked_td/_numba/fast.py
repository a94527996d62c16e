"""The fast compiler: three times as fast as plain `njit`, by names that Numba does not promise to keep.

- A subroutine of another kernel is only lowered to LLVM's language. The outermost kernel links all of it, optimises it
  once and makes machine code of it once. Numba by itself does both for every function on the way, with wrappers.
- A NamedTuple of this package is passed from kernel to kernel as one value. Numba passes every number of every array in
  it as an argument of its own: most of the code that it writes packs and unpacks those.

Where a name is gone, or `works` finds another behaviour, `compiler` takes plain `njit` instead.
"""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite.binding import Linkage
from numba import types
from numba.core import ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.cpu import CPUContext
from numba.core.datamodel.packer import ArgPacker
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering, NopythonRewrites

from chunked_td._numba.options import OPTIONS

_WHOLE: set[str] = set()
"""Subroutines that take tuples as one value, by their names in LLVM's language."""


class _Unlinked(JITCodeLibrary):
    """Code of a subroutine: its own function alone. The outermost kernel links it."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout  # the outermost kernel optimises

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


class _AsOneValue:
    """The model of a tuple type, with the tuple as one argument."""

    def __init__(self, model: Any) -> None:
        self.get_argument_type = model.get_value_type

    def as_argument(self, builder: Any, value: Any) -> Any:
        return value

    from_argument = as_argument


class _Models:
    """Numba's models of types, with those of our NamedTuples replaced."""

    def __init__(self, models: Any) -> None:
        self.models = models

    def lookup(self, kind: Any) -> Any:
        model = self.models.lookup(kind)
        ours = isinstance(kind, types.BaseNamedTuple) and kind.instance_class.__module__.startswith("chunked_td.")  # type: ignore[attr-defined]
        return _AsOneValue(model) if ours else model


class _Context(CPUContext):
    """Numba's context in which our kernels call each other with whole tuples, and all else as Numba does.

    Numba copies a context to lower the function that it is for, and also to compile what it adds by itself: `owner` is
    the copy that lowers.
    """

    owner: Any = None
    flat = short = False

    def mangler(self, name: str, types: Any, *, abi_tags: Any = (), uid: Any = None) -> str:
        """A name in LLVM's language; that of a subroutine, by its number, without the types in every tuple."""
        return super().mangler(name, () if self.short and uid else types, abi_tags=abi_tags, uid=uid)

    def subtarget(self, **kws: Any) -> Any:
        made: Any = super().subtarget(**kws)
        made.owner = made if self.owner is self and "fndesc" in kws else None
        return made

    def get_arg_packer(self, fe_args: Any) -> Any:
        if self.owner is not self or self.flat:
            return super().get_arg_packer(fe_args)
        return ArgPacker(_Models(self.data_model_manager), fe_args)

    def call_internal_no_propagate(self, builder: Any, fndesc: Any, sig: Any, args: Any) -> Any:
        before, self.flat = self.flat, fndesc.mangled_name not in _WHOLE
        try:
            return super().call_internal_no_propagate(builder, fndesc, sig, args)
        finally:
            self.flat = before


class _Lower(Lower):
    """Numba's lowering, with variables that are assigned once, before any branch, as values.

    Numba keeps those that several blocks read in memory: most of what LLVM does is to take tuples apart that are stored
    there.
    """

    def _find_singly_assigned_variable(self) -> None:
        super()._find_singly_assigned_variable()
        assigned = {k: [x.target.name for x in block.find_insts(ir.Assign)] for k, block in self.blocks.items()}
        number = Counter(name for names in assigned.values() for name in names)
        self._singly_assigned_vars |= {name for name in assigned[min(assigned)] if number[name] == 1}


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    _name = "chunked_td_lowering"

    @property
    def lowering_class(self) -> Any:
        return _Lower


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
        _WHOLE.add(lowered.fndesc.mangled_name)
        state.targetctx.insert_user_function(key, lowered.fndesc, [state.library])
        state["cr"] = _LowerResult(lowered.fndesc, lowered.call_helper, cfunc=key, env=lowered.env)
        return True


class _Pipeline(CompilerBase):
    library_class: Any = _Linked

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.state.flags.no_cfunc_wrapper = True
        context: Any = self.state.targetctx
        context.__class__ = _Context
        context.owner, context.flat = context, False
        library = self.library_class(context.codegen(), "chunked_td")
        library.enable_object_caching()
        self.state.library = library

    def define_pipelines(self) -> list[Any]:
        """Numba's own passes, with our lowering."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (_Lowering if kind is NativeLowering else kind, text)
            for kind, text in passes.passes
            if kind is not NopythonRewrites  # of array expressions, which allocate
        ]
        passes.finalize()
        return [passes]


class Subroutine(_Pipeline):
    """Lowers a kernel that only other kernels call."""

    library_class = _Unlinked

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        flags = self.state.flags
        flags.no_compile = flags.no_cpython_wrapper = True
        self.state.targetctx.short = True

    def define_pipelines(self) -> list[Any]:
        """Numba's own passes, and the one that makes the result known."""
        [passes] = super().define_pipelines()
        passes.add_pass_after(_EnterSubroutine, _Lowering)
        passes.finalize()
        return [passes]


class FromPython(_Pipeline):
    """Compiles a kernel that Python calls."""


class _Probe(NamedTuple):
    numbers: Any
    factor: float


_Probe.__module__ = "chunked_td._numba.probe"  # passed as one value, as ours are


def _add(probe):
    probe.numbers[0] += probe.factor
    return probe.numbers.size


@functools.cache
def works() -> bool:
    """Whether this way of compiling works with the Numba that is installed: it is tried on two small kernels."""
    try:
        add = numba.njit(pipeline_class=Subroutine, **OPTIONS)(_add)
        call = numba.njit(pipeline_class=FromPython, **OPTIONS)(lambda probe: add(probe) + 1)
        numbers = np.zeros(2)
        if call(_Probe(numbers, 0.5)) == 3 and numbers[0] == 0.5:
            return True
        found = "the result is wrong"
    except Exception as problem:
        found = repr(problem)
    warnings.warn(
        f"kernels are compiled by plain njit, which takes about three times as long: Numba {numba.__version__} does "
        f"not take the faster way ({found})",
        RuntimeWarning,
        stacklevel=2,
    )
    return False
