"""`HistoryCompressor`: fit, compress and decompress sequences of symbols (Sec. 2.2 and Figure 1).

What is kept of a sequence is what reaches the highest level: with two levels, what the lower one failed to predict,
each symbol with its time, and `end`. With the predictors at hand the sequence can be had back from that, symbol by
symbol.

Its description length is the number of bits that an ideal code takes for what was kept, if the highest level
predicts it:

    bits = symbol_bits + time_bits
    symbol_bits = Σᵢ −log₂ P(symbol of item i | items before i)
    time_bits   = Σᵢ −log₂ P(times of item i | items before i)

over all kept items i, `end` among them, with P from the predictor of the highest level: its cross-entropy on what
was kept, and on the positions at which it was kept. The predictors themselves are not counted. With one level
everything is kept, there are no times, and the description length is the cross-entropy of the sequence.

A decoder has to make exactly the predictions that the encoder made. Rounding differs between programs, and a prediction
between two nearly equal symbols can turn on it. So both run the same compiled program (`replay`): it walks through the
items one by one, and takes an item from its input if one is given, else from its own prediction. The
encoder gives all items, the decoder the kept ones. Arrays are padded to a power of two, from 16 on, and both
sides know the length, so the shapes are the same as well.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from studies.history_compression.passing_up import THRESHOLD, goes_up, must_go_up, put_back, take_up
from studies.history_compression.predictor import Predictor, Shape, log_probabilities, modes
from studies.history_compression.training import Level, Plan, start_runs, train_runs

END = "<end>"
"""The symbol that closes every sequence, in readings."""


@dataclass(frozen=True)
class LevelReading:
    """The items that one level read, and its predictions. One entry per item; the last item is `end`.

    Attributes:
      positions: of the items in the sequence, counted from 0; `end` is after the last symbol.
      symbols, predicted: the symbols, and the predicted ones; `END` for `end`.
      probabilities: of the items, times included.
      keep: which items go up to the next level, or would if there were one.
      states: the hidden states from which the items were predicted, float32[n, hidden].
    """

    positions: np.ndarray
    symbols: list[Any]
    predicted: list[Any]
    probabilities: np.ndarray
    keep: np.ndarray
    states: np.ndarray


@dataclass(frozen=True)
class Compressed:
    """The part of a sequence that is kept, and how well the levels predicted it.

    `items` alone is what `HistoryCompressor.decompress` needs: int32[k, levels], one row per kept item with the number
    of its symbol (`end` is the size of the alphabet) and its times, lowest level first.

    Attributes:
      positions, symbols: what was kept; `end` is left out.
      items: the same with `end` and as numbers.
      length: of the sequence.
      predictions: what the lowest level predicted at each position of the sequence.
      probabilities: the probability it gave to the symbol there.
      symbol_bits, time_bits: the two parts of the description length (see the module).
      readings: everything, level by level.
    """

    positions: np.ndarray
    symbols: list[Any]
    items: np.ndarray
    length: int
    predictions: list[Any]
    probabilities: np.ndarray
    symbol_bits: float
    time_bits: float
    readings: tuple[LevelReading, ...]

    @property
    def bits(self) -> float:
        """The description length: symbol_bits + time_bits."""
        return self.symbol_bits + self.time_bits


class HistoryCompressor:
    """Levels of recurrent predictors, each of which reads only what the one below failed to predict.

    Args:
      levels: how many; with one, nothing is dropped.
      hidden: units of the recurrent state of each level. cell: "gru" (gated) or "tanh" (plain).
      threshold: the probability below which an item goes up in any case (see `passing_up`).
      online: an update per window, or one per batch (see `training`).
      settled: train each level on what the level below fails to predict after its updates, which is what `compress`
        passes up; False for what it failed on while it learned, as the study has it (see `training`).
      learning_rate: of Adam.
      time_bits: binary digits of a time.
      alphabet: all symbols there can be, any hashable values; None takes those of the sequences of the first `fit`.
      seed: fixes the initial networks and the order of training.
    """

    def __init__(
        self,
        levels: int = 2,
        *,
        hidden: int = 32,
        cell: str = "gru",
        threshold: float = THRESHOLD,
        online: bool = True,
        settled: bool = True,
        learning_rate: float = 0.01,
        time_bits: int = 16,
        alphabet: Iterable[Hashable] | None = None,
        seed: int = 0,
    ) -> None:
        self.levels, self.hidden, self.cell, self.time_bits = levels, hidden, cell, time_bits
        self.threshold, self.online, self.settled = threshold, online, settled
        self.learning_rate, self.seed = learning_rate, seed
        self.alphabet: list[Any] | None = None
        self.batches_seen = 0
        if alphabet is not None:
            self._begin(alphabet)

    def _begin(self, alphabet: Iterable[Hashable]) -> None:
        """Number the symbols and make fresh networks."""
        symbols = list(dict.fromkeys(alphabet))
        self.alphabet, self._number = symbols, {symbol: i for i, symbol in enumerate(symbols)}
        every = range(self.levels)
        shapes = tuple(Shape(len(symbols), level, self.hidden, self.cell, self.time_bits) for level in every)
        self._plan = Plan(shapes, online=self.online, settled=self.settled, threshold=self.threshold)
        self._levels = start_runs(self._plan, jax.random.key(self.seed)[None])

    def fit(
        self,
        sequences: Iterable[Sequence[Hashable]],
        *,
        epochs: int = 1,
        batch_size: int = 1,
        shuffle: bool = True,
        anneal: bool = True,
    ) -> HistoryCompressor:
        """Train all levels; a further call resumes where the last one ended.

        Args:
          sequences: of any lengths. A string is a sequence of characters. Empty sequences are allowed: they teach that
            a sequence may end at once.
          epochs: how often each sequence is read.
          batch_size: sequences that are trained on together; the last batch of an epoch is filled with its first.
          shuffle: a new order in every epoch.
          anneal: let the learning rate fall over the epochs of this call, in a straight line, to a tenth: late updates
            then no longer undo what earlier ones taught.
        """
        sequences = [list(sequence) for sequence in sequences]
        if self.alphabet is None:
            self._begin(symbol for sequence in sequences for symbol in sequence)
        fit_together([self], [sequences], epochs=epochs, batch_size=batch_size, shuffle=shuffle, anneal=anneal)
        return self

    def compress(self, sequence: Sequence[Hashable]) -> Compressed:
        """Compress a sequence. Requires `fit` before, or an `alphabet`."""
        items = self.numbers(sequence)[:, None]
        levels = self._trained()
        length, positions = len(items) - 1, np.arange(len(items))
        replays, readings = [], []
        for number, level in enumerate(levels):
            said = replay(level.predictor, self.threshold, items, np.ones(len(items), bool))
            replays.append(said)
            readings.append(self._reading(said, positions))
            if number < self.levels - 1:
                items, positions = take_up(items, said.keep), positions[said.keep]
        top, lowest = replays[-1], readings[0]
        if not all(np.isfinite(said.log_symbol).all() and np.isfinite(said.log_times).all() for said in replays):
            raise ValueError(
                f"the compressor's predictions are not finite numbers: training diverged with learning_rate "
                f"{self.learning_rate!r}; train another with a smaller one"
            )
        return Compressed(
            positions=positions[:-1],
            symbols=readings[-1].symbols[:-1],
            items=items,
            length=length,
            predictions=lowest.predicted[:-1],
            probabilities=lowest.probabilities[:-1],
            symbol_bits=_bits(top.log_symbol),
            time_bits=_bits(top.log_times),
            readings=tuple(readings),
        )

    def decompress(self, compressed: Compressed | np.ndarray) -> list[Any]:
        """Return the sequence from the result of `compress`: a `Compressed`, or its `items`."""
        alphabet, levels = self._known(), self._trained()
        items = compressed.items if isinstance(compressed, Compressed) else np.asarray(compressed)
        for number in reversed(range(self.levels - 1)):
            below, given = put_back(items)
            items = replay(levels[number].predictor, self.threshold, below, given).items
        return [alphabet[number] for number in items[:-1, 0]]

    def numbers(self, sequence: Sequence[Hashable]) -> np.ndarray:
        """Symbols as numbers, closed by `end`: int32[n + 1]."""
        known = self._known()
        if unknown := [symbol for symbol in sequence if symbol not in self._number]:
            few = ", ".join(map(repr, known[:8])) + (", …" if len(known) > 8 else "")
            raise ValueError(f"sequence must have symbols of the alphabet, {few}, got {unknown[0]!r}")
        return np.array([*(self._number[symbol] for symbol in sequence), len(known)], np.int32)

    def _known(self) -> list[Any]:
        """The alphabet; raises if there is none yet."""
        if self.alphabet is None:
            raise ValueError(
                "alphabet must be set before this call, got None; call fit(sequences) or pass alphabet= first"
            )
        return self.alphabet

    def _trained(self) -> tuple[Level, ...]:
        return jax.tree.map(lambda array: array[0], self._levels)

    def _reading(self, said: Replayed, positions: np.ndarray) -> LevelReading:
        names = [*self._known(), END]
        return LevelReading(
            positions=positions,
            symbols=[names[number] for number in said.items[:, 0]],
            predicted=[names[number] for number in said.predicted[:, 0]],
            probabilities=np.exp(said.log_symbol + said.log_times),
            keep=said.keep,
            states=said.states,
        )


def fit_together(
    compressors: Sequence[HistoryCompressor],
    sequences: Sequence[Sequence[Sequence[Hashable]]],
    *,
    epochs: int,
    batch_size: int = 1,
    shuffle: bool = True,
    anneal: bool = True,
) -> None:
    """Fit compressors that differ in their seeds, each to as many sequences of its own, in one program.

    They must have one alphabet. Arguments as for `fit`.
    """
    first, count = compressors[0], len(compressors)
    whole = stacked([each.numbers(one) for each, own in zip(compressors, sequences, strict=True) for one in own])
    items, counts = (array.reshape(count, -1, *array.shape[1:]) for array in whole)
    orders = [np.random.default_rng([each.seed, each.batches_seen]) for each in compressors]
    levels = jax.tree.map(lambda *runs: jnp.concatenate(runs), *(each._levels for each in compressors))
    n = items.shape[1]
    for epoch in range(epochs):
        drawn = np.stack([order.permutation(n) if shuffle else np.arange(n) for order in orders])
        rows = np.stack([np.resize(order, (-(-n // batch_size), batch_size)) for order in drawn])
        fallen = 0.9 * epoch / max(epochs - 1, 1) if anneal else 0.0
        rates = jnp.full(count, first.learning_rate * (1.0 - fallen))
        run = np.arange(count)[:, None, None]
        levels, _ = train_runs(first._plan, levels, items[run, rows], counts[run, rows], rates)
        for each in compressors:
            each.batches_seen += rows.shape[1]
    for place, each in enumerate(compressors):
        each._levels = jax.tree.map(lambda array, place=place: array[place : place + 1], levels)


def stacked(numbered: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Sequences of different lengths in one array: int32[sequences, room, 1], and their lengths with `end`."""
    counts = np.array([len(sequence) for sequence in numbered], np.int32)
    items = np.zeros((len(numbered), 1 << int(counts.max() - 1).bit_length(), 1), np.int32)
    for row, sequence in zip(items, numbered, strict=True):
        row[: len(sequence), 0] = sequence
    return items, counts


def _bits(log_p: np.ndarray) -> float:
    """Σ −log₂ P from natural logarithms, in double precision."""
    return float(max(0.0, -np.sum(log_p, dtype=np.float64) / math.log(2.0)))


class Replayed(NamedTuple):
    """A level's predictions of n items."""

    items: np.ndarray  # int32[n, 1 + level], with dropped ones put back
    predicted: np.ndarray  # int32[n, 1 + level], the predictions
    log_symbol: np.ndarray  # float32[n], ln P of the symbol
    log_times: np.ndarray  # float32[n], ln P of the times
    keep: np.ndarray  # bool[n], what goes up
    states: np.ndarray  # float32[n, hidden], from which each item is predicted


def replay(predictor: Predictor, threshold: float, items: np.ndarray, given: np.ndarray) -> Replayed:
    """A level on one sequence, item by item.

    Args:
      items: int32[n, 1 + level], n ≥ 1; only those given are looked at. given: bool[n].
    """
    n = len(items)
    room = max(16, 1 << (n - 1).bit_length())
    padded = np.zeros((room, items.shape[1]), np.int32)
    padded[:n] = items
    known = np.zeros(room, bool)
    known[:n] = given
    walked = _walk(threshold, predictor, padded, known, np.int32(n))
    return Replayed(*(np.asarray(array)[:n] for array in walked))


@functools.partial(jax.jit, static_argnums=0)
def _walk(threshold: float, predictor: Predictor, items: jax.Array, given: jax.Array, count: jax.Array) -> Replayed:
    shape = predictor.shape

    def step(carry: Any, now: Any) -> Any:
        state, previous = carry
        item, is_given, position = now
        state = predictor.step(state, predictor.drive(previous))
        logits = predictor.logits(state)
        predicted = modes(shape, logits)
        item = jnp.where(is_given, item, predicted)
        keep = goes_up(threshold, shape, logits, item) | must_go_up(shape, position, count)
        said = Replayed(item, predicted, *log_probabilities(shape, logits, item), keep, state)  # type: ignore[arg-type]
        return (state, item), said

    first = (predictor.initial_state(1)[0], predictor.initial_item(1)[0])
    return jax.lax.scan(step, first, (items, given, jnp.arange(len(items))))[1]
