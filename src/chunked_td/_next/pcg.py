"""NumPy's PCG64 inside a kernel: the numbers of `Generator.random()`, bit for bit, from four words.

Run `s` draws its environment from `SeedSequence(s)`, exactly as `env.reset(seed=s)` does in Gymnasium, its policy from
the first child of that sequence, its model (sampled chunks, networks) from the second, and planning from the third.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td.seeding import check_random_state

_MH, _ML, _LOW = np.uint64(0x2360ED051FC65DA4), np.uint64(0x4385DF649FCCF645), np.uint64(0xFFFFFFFF)
_S11, _S32, _S58, _S63, _S64 = map(np.uint64, (11, 32, 58, 63, 64))
_ONE, _ZERO = np.uint64(1), np.uint64(0)
_MASK, _FACTOR = (1 << 64) - 1, 0x2360ED051FC65DA44385DF649FCCF645
UNIT = 1.0 / (1 << 53)


class Words(NamedTuple):
    """A stream of uniform numbers."""

    words: Annotated[np.ndarray, "uint64[word]"]  # state high, low, increment high, low; how many were drawn


class PlanWords(NamedTuple):
    """The planner's stream, which stays where it is when a run moves small arrays to the stack."""

    words: np.ndarray


def high_product(a, b):
    """The upper 64 bits of a · b."""
    al, ah, bl, bh = a & _LOW, a >> _S32, b & _LOW, b >> _S32
    middle = ((al * bl) >> _S32) + ((al * bh) & _LOW) + ((ah * bl) & _LOW)
    return ah * bh + ((al * bh) >> _S32) + ((ah * bl) >> _S32) + (middle >> _S32)


class Pcg64:
    """The part with role "rng"."""

    def take(rng: Any) -> Any:  # pyright: ignore[reportSelfClsParameterName]
        """The next number in [0, 1)."""
        w = rng.words
        low = w[1] * _ML + w[3]
        carry = _ONE if low < w[3] else _ZERO
        high = high_product(w[1], _ML) + w[0] * _ML + w[1] * _MH + w[2] + carry
        w[0], w[1] = high, low
        x, turn = high ^ low, high >> _S58
        return np.float64(((x >> turn) | (x << ((_S64 - turn) & _S63))) >> _S11) * UNIT


class Counted:
    """The same for code that is not ours: how many numbers were drawn is counted."""

    def take(rng: Any) -> Any:  # pyright: ignore[reportSelfClsParameterName]
        """The next number in [0, 1)."""
        rng.words[4] += _ONE
        return _take(rng)


_take = Pcg64.take


class PlainPcg64:
    """The same in plain Python, whose whole numbers do not overflow."""

    def take(rng: Any) -> Any:  # pyright: ignore[reportSelfClsParameterName]
        """The next number in [0, 1)."""
        high, low, more_high, more_low = (int(word) for word in rng.words[:4])
        state = (((high << 64) | low) * _FACTOR + ((more_high << 64) | more_low)) & ((1 << 128) - 1)
        high, low = state >> 64, state & _MASK
        rng.words[0], rng.words[1] = high, low
        rng.words[4] += _ONE
        x, turn = high ^ low, high >> 58
        return ((((x >> turn) | (x << (64 - turn))) & _MASK) >> 11) * UNIT


class Draws:
    """A stream that kernels draw from, and Python too.

    Args:
      state: of a `PCG64` bit generator.
    """

    def __init__(self, state: dict[str, Any]) -> None:
        self.stream = Words(np.zeros(5, np.uint64))
        self._set(check_random_state("draws", state))

    @classmethod
    def of(cls, sequence: np.random.SeedSequence) -> Draws:
        """The stream of a sequence."""
        return cls(np.random.PCG64(sequence).state)  # type: ignore[arg-type]

    @classmethod
    def from_state(cls, state: dict[str, Any], size: int = 0) -> Draws:
        """Rebuild from `state()`."""
        return cls(state)

    def state(self) -> dict[str, Any]:
        """Everything needed to go on from here, as plain numbers and strings."""
        high, low, more_high, more_low = (int(word) for word in self.stream.words[:4])
        inner = {"state": (high << 64) | low, "inc": (more_high << 64) | more_low}
        return {"bit_generator": "PCG64", "state": inner, "has_uint32": 0, "uinteger": 0}

    def _set(self, state: dict[str, Any]) -> None:
        inner = state["state"]
        parts = inner["state"] >> 64, inner["state"] & _MASK, inner["inc"] >> 64, inner["inc"] & _MASK
        self.stream.words[:4] = parts

    def choice(self, n: int, p: np.ndarray) -> int:
        """A number below n, with these probabilities, as NumPy's `Generator.choice` draws it."""
        bits: Any = np.random.PCG64()
        bits.state = self.state()
        chosen = int(np.random.Generator(bits).choice(n, p=p))
        self._set(bits.state)
        return chosen

    def sync(self) -> Draws:
        """Itself, which stands where it was drawn from last."""
        return self

    def reserve(self, count: int) -> Words:
        """The stream; there are always numbers left."""
        return self.stream
