"""Linking: kernels with open names become compiled programs, which Python calls with one address.

| file | content |
|---|---|
| `link` | `slot`, `kernel`, `link`: compiled copies of kernels with their open names bound |
| `cache` | compiled programs on disk, and the notice shown during compilation |
| `arrays` | the arrays of NamedTuples: declared, allocated, enlarged, stacked |
| `trees` | access to a tree of NamedTuples by one address |
| `pcg` | NumPy's PCG64 inside a kernel |
| `program` | the entries for one combination of parts and types |

Kernels are plain Python functions of arrays, numbers and NamedTuples of those; they never allocate. Set
`NUMBA_DISABLE_JIT=1` to run them in Python, `CHUNKED_TD_BOUNDSCHECK=1` to compile programs that check every index.
"""

# ruff: noqa: F401 (public names of the package `_link`)
from chunked_td._link.arrays import Layout, at, check_layout, enlarged, layouts, stacked, zeros
from chunked_td._link.link import COMPILED, REQUIRED, compiled, is_kernel, kernel, link, natural, number, plain, slot
from chunked_td._link.pcg import WORDS, Counted, PlanningStream, Stream, uniform
from chunked_td._link.program import Program
from chunked_td._link.trees import Packed, reader, static, tuple_class, word_at
