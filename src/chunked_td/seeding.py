"""Random numbers: seeds, and the streams that kernels draw from.

A kernel draws from a `Stream`, the state of NumPy's PCG64 in an array: `uniform(rng)` returns the numbers of
`Generator.random()`, bit for bit.

The environment of run `s` draws from `SeedSequence(s)`, as `env.reset(seed=s)` does in Gymnasium. Its policy draws from
the first child of that sequence, its model (sampled chunks, networks) from the second, and planning from the third.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chunked_td._link import Stream, uniform

__all__ = ["Draws", "SeedSequences", "Stream", "split_seed", "uniform"]

_WORD = (1 << 64) - 1


class SeedSequences(NamedTuple):
    """Seed sequences of one run."""

    environment: np.random.SeedSequence
    policy: np.random.SeedSequence
    model: np.random.SeedSequence
    planning: np.random.SeedSequence


def split_seed(seed: int) -> SeedSequences:
    """Seed sequences of the run with this seed."""
    root = np.random.SeedSequence(seed)
    return SeedSequences(root, *root.spawn(3))


def model_seed(seed: int) -> int:
    """Seed of the network of the run with this seed."""
    return int(split_seed(seed).model.generate_state(1)[0])


class Draws:
    """A stream of random numbers for kernels and for Python.

    Args:
      state: of a `PCG64` bit generator.
    """

    def __init__(self, state: dict[str, Any]) -> None:
        self.stream = Stream(np.zeros(5, np.uint64))
        self.set_state(state)

    @classmethod
    def of(cls, sequence: np.random.SeedSequence) -> Draws:
        """The stream of a sequence."""
        return cls(np.random.PCG64(sequence).state)  # type: ignore[arg-type]

    def state(self) -> dict[str, Any]:
        """Generator state as plain numbers and strings."""
        return state_of_words(self.stream.words)

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a `state()`."""
        set_words(self.stream.words, check_random_state("draws", state))

    def choice(self, n: int, p: np.ndarray) -> int:
        """Sample from 0..n − 1 with probabilities p, as NumPy's `Generator.choice` does."""
        bits: Any = np.random.PCG64()
        bits.state = self.state()
        chosen = int(np.random.Generator(bits).choice(n, p=p))
        self.set_state(bits.state)
        return chosen


def state_of_words(words: np.ndarray) -> dict[str, Any]:
    """State of NumPy's PCG64 in a `Stream`."""
    high, low, more_high, more_low = (int(word) for word in words[:4])
    inner = {"state": (high << 64) | low, "inc": (more_high << 64) | more_low}
    return {"bit_generator": "PCG64", "state": inner, "has_uint32": 0, "uinteger": 0}


def set_words(words: np.ndarray, state: dict[str, Any]) -> None:
    """Set a `Stream` to a state of NumPy's PCG64."""
    if state["bit_generator"] != "PCG64":
        raise ValueError(f"random numbers must be those of a PCG64, got {state['bit_generator']}")
    inner = state["state"]
    words[:4] = inner["state"] >> 64, inner["state"] & _WORD, inner["inc"] >> 64, inner["inc"] & _WORD


_STATES = {
    "PCG64": {"state": (1, 128), "inc": (1, 128)},
    "PCG64DXSM": {"state": (1, 128), "inc": (1, 128)},
    "SFC64": {"state": (4, 64)},
    "MT19937": {"key": (624, 32), "pos": (1, 32)},
    "Philox": {"counter": (4, 64), "key": (2, 64)},
}
"""NumPy's bit generators: the count and the bits of the numbers in each entry of the state."""


def check_random_state(name: str, state: Any) -> dict[str, Any]:
    """Return the state of a bit generator if it is valid for NumPy's own of that kind; NumPy does not check it.

    Args:
      state: `bit_generator.state` with arrays as lists. States of generators outside NumPy are not checked.
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
        raise ValueError(f"{name} must be a valid state of NumPy's {kind}")
    return state


def _has_bits(value: Any, count: int, bits: int) -> bool:
    """Whether a value is an unsigned integer of `bits` bits, or a list of `count` of them."""
    each = [value] if count == 1 else value
    return isinstance(each, list) and len(each) == count and all(type(n) is int and 0 <= n < 2**bits for n in each)
