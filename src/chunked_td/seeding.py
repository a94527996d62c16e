"""Randomness: from a seed to the streams of numbers that compiled loops read.

A NumPy `Generator` is an object that compiled code cannot afford to count references to, so kernels read a `Stream`
instead: a block of uniforms drawn ahead from the Generator. A block holds the numbers that single draws would have
given, in the same order. Who reads them, and in blocks of what size, never changes a result.

Run `s` draws its environment from `SeedSequence(s)`, exactly as `env.reset(seed=s)` does in Gymnasium, its policy from
the first child of that sequence, its model (sampled chunks, networks) from the second, and planning from the third.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._numba import dispatch, kernel


class SeedSequences(NamedTuple):
    """The sequences of one run."""

    environment: np.random.SeedSequence
    policy: np.random.SeedSequence
    model: np.random.SeedSequence
    planning: np.random.SeedSequence


def split_seed(seed: int) -> SeedSequences:
    """The sequences of the run with this seed."""
    root = np.random.SeedSequence(seed)
    return SeedSequences(root, *root.spawn(3))


def generator(sequence: np.random.SeedSequence) -> np.random.Generator:
    """NumPy's default Generator, from a sequence."""
    return np.random.Generator(np.random.PCG64(sequence))


def model_seed(seed: int) -> int:
    """The number that seeds the network of the run with this seed."""
    return int(split_seed(seed).model.generate_state(1)[0])


class Stream(NamedTuple):
    """Uniform numbers drawn ahead: `block[position[0]:]` are still unread."""

    block: Annotated[np.ndarray, "float64[n]"]
    position: Annotated[np.ndarray, "int64[one]"]


@kernel
def _take(rng):
    i = rng.position[0]
    rng.position[0] = i + 1
    return rng.block[i]


uniform: Any = dispatch("take", _take)
"""uniform(rng): take the next number in [0, 1) from a `Stream`."""


class GuardedStream(NamedTuple):
    """A `Stream` for code that is not ours: past the end of the block there are zeros, and `position` shows it."""

    block: Annotated[np.ndarray, "float64[n]"]
    position: Annotated[np.ndarray, "int64[one]"]

    @kernel
    def take(rng):
        """The next number."""
        i = rng.position[0]
        rng.position[0] = i + 1
        return rng.block[i] if i < rng.block.size else 0.0


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
        bits.state = check_random_state("draws", state)
        return cls(np.random.Generator(bits), size)


_STATES = {
    "PCG64": {"state": (1, 128), "inc": (1, 128)},
    "PCG64DXSM": {"state": (1, 128), "inc": (1, 128)},
    "SFC64": {"state": (4, 64)},
    "MT19937": {"key": (624, 32), "pos": (1, 32)},
    "Philox": {"counter": (4, 64), "key": (2, 64)},
}
"""NumPy's bit generators: of each entry of the state how many numbers it has, and of how many bits."""


def check_random_state(name: str, state: Any) -> dict[str, Any]:
    """Return the state of a bit generator if NumPy's own of that kind can hold it; NumPy itself does not look.

    Args:
      state: as `bit_generator.state` gives it, arrays as lists. States of other generators than NumPy's pass.
    """
    kind = state.get("bit_generator") if isinstance(state, dict) else None
    if not isinstance(kind, str):
        raise ValueError(f"{name} must be the state of a bit generator, got {state!r}")
    good = kind not in _STATES or (
        _has_bits(state.get("has_uint32", 0), 1, 1)
        and _has_bits(state.get("uinteger", 0), 1, 32)
        and _has_bits(state.get("buffer", [0] * 4), 4, 64)
        and _has_bits(state.get("buffer_pos", 0), 1, 3)
        and state.get("buffer_pos", 0) <= 4
        and isinstance(state.get("state"), dict)
        and all(_has_bits(state["state"].get(part), *wanted) for part, wanted in _STATES[kind].items())
        and state["state"].get("pos", 0) <= 624
    )
    if not good:
        raise ValueError(f"{name} must be a state that NumPy's {kind} can have")
    return state


def _has_bits(value: Any, count: int, bits: int) -> bool:
    """Whether a value is a whole number from 0 of so many bits, or a list of so many of them."""
    each = [value] if count == 1 else value
    return isinstance(each, list) and len(each) == count and all(type(n) is int and 0 <= n < 2**bits for n in each)
