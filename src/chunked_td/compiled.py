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

import functools
import hashlib
import os
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from numba import types
from numba.core import config as numba_config
from numba.extending import overload

F = TypeVar("F", bound=Callable[..., Any])

_BARE: Any = {"_nrt": False, "nogil": True, "error_model": "numpy", "forceinline": True}


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


_SETTINGS: Any = numba_config  # Numba sets its attributes when it is imported; type checkers do not see them
_CACHE_FOLDER = _SETTINGS.CACHE_DIR or _cache_folder()


def kernel(function: F) -> F:
    """Compile `function` without allocation, without the interpreter lock, cached on disk.

    Args:
      function: plain loops on arrays, scalars and NamedTuples of those; results go into arrays passed in.
    """
    previous = _SETTINGS.CACHE_DIR
    _SETTINGS.CACHE_DIR = _CACHE_FOLDER
    try:
        compiled: Any = numba.njit(cache=True, **_BARE)(function)
    finally:
        _SETTINGS.CACHE_DIR = previous
    return compiled


@functools.cache
def uncached(loop: Any) -> Any:
    """The same kernel, compiled anew in every process.

    For loops that hold code from outside the package, such as an environment of the user's own: the cache would not
    notice an edit there.
    """
    return numba.njit(**_BARE)(getattr(loop, "py_func", loop))


_CODES = tuple(namedtuple(f"_Code{number}", "value") for number in range(16))
globals().update({cls.__name__: cls for cls in _CODES})  # where the cache on disk looks for them


def known(value: int) -> Any:
    """A small number that compiled code knows by its type: branches on `code(known(k))` cost nothing.

    A kernel compiled for a known code holds only the branch taken; one compiled for a plain int serves all of
    them. Loops of billions of steps want the first, a learner that takes one step per call the second.
    """
    return _CODES[value](int(value))


def known_if_small(value: int) -> Any:
    """`known(value)` where there is a type for it, otherwise the number itself."""
    return known(value) if 0 <= value < len(_CODES) else int(value)


def known_number(kind: Any) -> int | None:
    """The number that a Numba type stands for, if it is that of a `known` one."""
    return _CODES.index(kind.instance_class) if isinstance(kind, types.BaseTuple) else None  # type: ignore[attr-defined]


def code(value: Any) -> Any:
    """The number behind a plain int or a `known` one."""
    return value[0] if isinstance(value, tuple) else value


@overload(code, jit_options=_BARE)
def _code(value):
    number = known_number(value)
    return (lambda value: value) if number is None else (lambda value: number)


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


def stacked(items: Any) -> Any:
    """One NamedTuple whose arrays hold those of all `items`, along a new first axis; numbers must be equal.

    None where the items are None.
    """
    first = items[0]
    if first is None:
        return None
    fields = [np.stack(f) if isinstance(f[0], np.ndarray) else f[0] for f in zip(*items, strict=True)]
    return type(first)(*fields)


def at(batch: Any, index: Any) -> Any:
    """Item `index` of a stacked NamedTuple: the same arrays, one axis less, as views. None has the item None."""
    if batch is None:
        return None
    return type(batch)(*(field[index] if isinstance(field, np.ndarray) else field for field in batch))


@overload(at, jit_options=_BARE)
def _at(batch, index):
    if isinstance(batch, types.NoneType):
        return lambda batch, index: None
    item = batch.instance_class
    fields = zip(batch.fields, batch.types, strict=True)
    picked = ", ".join(f"batch.{name}[index]" if isinstance(t, types.Array) else f"batch.{name}" for name, t in fields)
    space: dict[str, Any] = {"item": item}
    exec(f"def pick(batch, index): return item({picked})", space)  # one expression per field, known at compile time
    return space["pick"]


class Draws:
    """Keeps a `Stream` filled from a NumPy Generator (PCG64, NumPy's default).

    Args:
      generator: where the numbers come from. It runs ahead of what has been read; `sync` takes it back.
      size: how many numbers to hold.
    """

    def __init__(self, generator: np.random.Generator, size: int = 256):
        self.generator = generator
        self.stream = Stream(np.empty(size), np.full(1, size, dtype=np.int64))
        self._start: Any = None  # the Generator's state just before the block was drawn

    def reserve(self, count: int) -> Stream:
        """Make sure that at least `count` unread numbers are there, and return the stream."""
        block, position = self.stream
        if block.size - position[0] < count:
            self.sync()
            if count > block.size:
                self.stream = Stream(np.empty(2 * count), position)
            self._start = self.generator.bit_generator.state
            self.generator.random(out=self.stream.block)
            position[0] = 0
        return self.stream

    def sync(self) -> np.random.Generator:
        """Wind the Generator back to just after the last number read, and return it."""
        if self._start is not None:
            bits = self.generator.bit_generator
            bits.state = self._start
            bits.advance(int(self.stream.position[0]))  # type: ignore[attr-defined]
            self._start = None
            self.stream.position[0] = self.stream.block.size
        return self.generator

    def state(self) -> dict[str, Any]:
        """Everything needed to go on from here, as plain numbers and strings."""
        return self.sync().bit_generator.state  # type: ignore[return-value]

    @classmethod
    def from_state(cls, state: dict[str, Any], size: int = 256) -> Draws:
        """Rebuild from `state()`."""
        bits: Any = np.random.PCG64()
        bits.state = state
        return cls(np.random.Generator(bits), size)
