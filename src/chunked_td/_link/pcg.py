"""NumPy's PCG64 inside a kernel: the numbers of `Generator.random()`, bit for bit, from four words."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._link.link import slot

_MH, _ML, _LOW = np.uint64(0x2360ED051FC65DA4), np.uint64(0x4385DF649FCCF645), np.uint64(0xFFFFFFFF)
_S11, _S32, _S58, _S63, _S64 = map(np.uint64, (11, 32, 58, 63, 64))
_ONE, _ZERO = np.uint64(1), np.uint64(0)
_MASK, _FACTOR = (1 << 64) - 1, 0x2360ED051FC65DA44385DF649FCCF645
_UNIT = 1.0 / (1 << 53)


WORDS = 5
"""Number of words in a stream."""


class Stream(NamedTuple):
    """A stream of uniform numbers."""

    words: Annotated[np.ndarray, "uint64[word]"]  # state high, low, increment high, low; numbers drawn


class PlanningStream(NamedTuple):
    """The planner's stream, which is not moved to the stack with small arrays."""

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
        return np.float64(((x >> turn) | (x << ((_S64 - turn) & _S63))) >> _S11) * _UNIT


class Counted:
    """The same with a count of the numbers drawn, for code outside this package."""

    def take(rng: Any) -> Any:  # pyright: ignore[reportSelfClsParameterName]
        """The next number in [0, 1)."""
        rng.words[4] += _ONE
        return _take(rng)


_take = Pcg64.take


class PlainPcg64:
    """The same in plain Python, whose integers do not overflow."""

    def take(rng: Any) -> Any:  # pyright: ignore[reportSelfClsParameterName]
        """The next number in [0, 1)."""
        high, low, more_high, more_low = (int(word) for word in rng.words[:4])
        state = (((high << 64) | low) * _FACTOR + ((more_high << 64) | more_low)) & ((1 << 128) - 1)
        high, low = state >> 64, state & _MASK
        rng.words[0], rng.words[1] = high, low
        rng.words[4] += _ONE
        x, turn = high ^ low, high >> 58
        return ((((x >> turn) | (x << (64 - turn))) & _MASK) >> 11) * _UNIT


uniform: Any = slot("rng", "take", PlainPcg64.take)
"""uniform(rng): the next number in [0, 1) of a `Stream`."""
