"""The Numba room: the only place that touches Numba's options or internals.

| file | what it holds |
|---|---|
| `compiler` | `kernel`, the decorator of every compiled loop |
| `fast` | a compiler that is faster than plain `njit`; left out where the Numba installed does not take it |
| `options` | what every kernel is compiled with |
| `caching` | where compiled code is kept on disk, and the message on the screen while code is being compiled |
| `forms` | types that kernels are compiled for: stand-ins for classes that live outside the package |
| `static` | numbers that the compiler knows by their type, and functions that are chosen by the type of an argument |
| `layouts` | the arrays of a NamedTuple: their declared types, checked; on the stack; by address; stacked |

Every hot loop of the package is a `kernel`: a plain Python function on arrays, scalars and NamedTuples of those.
Kernels never allocate memory. Therefore they are compiled without reference counting, which would cost tens of
nanoseconds whenever one kernel passes a NamedTuple of arrays to another.

Set `NUMBA_DISABLE_JIT=1` to run every kernel as ordinary Python, `CHUNKED_TD_BOUNDSCHECK=1` to compile kernels that
check every index.
"""

# ruff: noqa: F401 (this is the room's front door: names are imported from here)
from chunked_td._numba.compiler import is_kernel, kernel, plain
from chunked_td._numba.forms import form, form_of, formed, is_cacheable
from chunked_td._numba.layouts import (
    Form,
    Layout,
    Packed,
    at,
    check_layout,
    enlarged,
    entry,
    layouts,
    on_stack,
    read,
    stacked,
    zeros,
)
from chunked_td._numba.static import REQUIRED, code, dispatch, natural, static, static_if_small
