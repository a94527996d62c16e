"""Compiled code: one decorator, and random numbers that compiled loops can afford.

Every hot loop of the package is a `kernel`: a plain Python function on arrays and scalars, compiled by Numba.
Kernels never allocate. That lets us compile reference counting out, and with it the price of passing a
`NamedTuple` of arrays from one kernel to another (tens of nanoseconds per call otherwise).

Randomness follows from the same rule. A NumPy `Generator` is a counted object, so kernels read a `Stream`
instead: a block of uniforms drawn ahead from the Generator. A block holds the numbers that single draws would
have given, in the same order, so who reads them, and in blocks of what size, never changes a result.

Set `NUMBA_DISABLE_JIT=1` to run every kernel as ordinary Python.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])


def _source_hash() -> str:
    """Digest of every source file of the package that defines a kernel.

    Numba looks only at the file that defines a function when it decides whether its cache is fresh; a kernel
    that calls another file's kernel would keep the old machine code after an edit there.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        source = path.read_bytes()
        if b"@kernel" in source:
            digest.update(source)
    return digest.hexdigest()[:16]


def _cache_folder() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "chunked_td", "numba", _source_hash())


_CACHE_FOLDER = numba.config.CACHE_DIR or _cache_folder()  # pyright: ignore[reportAttributeAccessIssue]


def kernel(function: F) -> F:
    """Compile `function` without allocation, without the interpreter lock, cached on disk.

    Args:
      function: plain loops on arrays, scalars and NamedTuples of those; results go into arrays passed in.
    """
    previous = numba.config.CACHE_DIR  # pyright: ignore[reportAttributeAccessIssue]
    numba.config.CACHE_DIR = _CACHE_FOLDER  # pyright: ignore[reportAttributeAccessIssue]
    try:
        compiled = numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)(function)
    finally:
        numba.config.CACHE_DIR = previous  # pyright: ignore[reportAttributeAccessIssue]
    return compiled  # type: ignore[return-value]


class Stream(NamedTuple):
    """Uniform numbers drawn ahead: `block[position[0]:]` are still unread."""

    block: np.ndarray  # float64[n]
    position: np.ndarray  # int64[1]


@kernel
def uniform(rng):
    """Take the next number in [0, 1) from a `Stream`."""
    i = rng.position[0]
    rng.position[0] = i + 1
    return rng.block[i]


class Draws:
    """Keeps a `Stream` filled from a NumPy Generator.

    Args:
      generator: where the numbers come from. It runs ahead of what has been read, so leave it to this object.
      size: how many numbers to hold.
    """

    def __init__(self, generator: np.random.Generator, size: int = 256):
        self.generator = generator
        self.stream = Stream(np.empty(size), np.full(1, size, dtype=np.int64))

    def reserve(self, count: int) -> Stream:
        """Make sure that at least `count` unread numbers are there, and return the stream."""
        block, position = self.stream
        unread = block.size - position[0]
        if unread < count:
            if count > block.size:
                self.stream = Stream(np.empty(2 * count), np.zeros(1, dtype=np.int64))
            self.stream.block[:unread] = block[position[0] :].copy()
            self.generator.random(out=self.stream.block[unread:])
            self.stream.position[0] = 0
        return self.stream

    def state(self) -> dict[str, Any]:
        """Everything needed to go on from here, as plain values and arrays."""
        return {
            "generator": self.generator.bit_generator.state,
            "unread": self.stream.block[self.stream.position[0] :].copy(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], size: int = 256) -> Draws:
        """Rebuild from `state()`."""
        bit_generator = np.random.PCG64()
        bit_generator.state = state["generator"]
        unread = np.asarray(state["unread"], dtype=np.float64)
        draws = cls(np.random.Generator(bit_generator), max(size, unread.size))
        start = draws.stream.block.size - unread.size
        draws.stream.block[start:] = unread
        draws.stream.position[0] = start
        return draws
