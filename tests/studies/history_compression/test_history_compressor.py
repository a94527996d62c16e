"""The compressor's public face: lossless, with the description length that it documents, and clear about bad input."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import by_hand
from studies.history_compression.compressor import HistoryCompressor
from studies.history_compression.passing_up import goes_up, must_go_up, pass_up, put_back, take_up
from studies.history_compression.predictor import Shape, log_probabilities, modes

ALPHABET = "abc01"
PAIR = ["a" + "bc" * 5 + "0", "b" + "bc" * 5 + "1"]


@pytest.fixture(scope="module")
def trained():
    """A compressor of three levels, trained a little."""
    compressor = HistoryCompressor(3, hidden=6, cell="tanh", alphabet=ALPHABET, time_bits=3)
    return compressor.fit(PAIR, epochs=60, batch_size=2)


@given(sequence=st.text(ALPHABET, max_size=30))
@settings(max_examples=40)
def test_decompress_gives_the_sequence_back(trained, sequence):
    kept = trained.compress(sequence)
    assert trained.decompress(kept) == list(sequence)
    assert trained.decompress(kept.items) == list(sequence)
    assert [sequence[p] for p in kept.positions] == kept.symbols


def test_something_is_dropped_at_every_level_below_the_top(trained):
    readings = trained.compress(PAIR[0]).readings
    assert len(readings) == 3
    assert len(readings[0].symbols) == len(PAIR[0]) + 1
    assert len(readings[2].symbols) <= len(readings[1].symbols) < len(readings[0].symbols)
    for lower, upper in itertools.pairwise(readings):
        np.testing.assert_array_equal(lower.positions[lower.keep], upper.positions)


@pytest.mark.usefixtures("trained")  # whose program it runs
def test_each_of_three_levels_reads_less_and_the_top_knows_the_answer():
    compressor = HistoryCompressor(3, hidden=6, cell="tanh", alphabet=ALPHABET, time_bits=3, seed=2)
    compressor.fit(PAIR, epochs=400, batch_size=2)
    answers = []
    for sequence in PAIR:
        kept = compressor.compress(sequence)
        assert [len(level.symbols) for level in kept.readings] == [13, 4, 3]
        assert kept.symbols == [sequence[0], sequence[-1]]
        answers.append([level.predicted[-2] for level in kept.readings])
        assert compressor.decompress(kept) == list(sequence)
    assert [level[2] for level in answers] == ["0", "1"]
    assert [level[0] for level in answers] != ["0", "1"]


def test_times_that_do_not_fit_their_digits_go_up(trained):
    """With 3 digits at most 7 items can be dropped in a row."""
    kept = trained.compress("a" + "bc" * 20 + "0")
    assert trained.decompress(kept) == list("a" + "bc" * 20 + "0")
    assert kept.items[:, 1:].max() <= 7


def test_description_length_is_the_cross_entropy_of_what_was_kept_and_of_its_times(trained):
    """The top level's code for the kept items, written out in NumPy from its parameters."""
    for sequence in (*PAIR, "", "cab10cab", "c"):
        kept = trained.compress(sequence)
        p = by_hand.parameters_of(trained._trained()[-1].predictor)
        items = [tuple(map(int, row)) for row in kept.items]
        symbol_bits, time_bits, _ = by_hand.code_lengths(p, "tanh", len(ALPHABET), 3, items)
        np.testing.assert_allclose(kept.symbol_bits, symbol_bits, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(kept.time_bits, time_bits, rtol=1e-4, atol=1e-5)
        assert kept.bits == kept.symbol_bits + kept.time_bits


def test_a_broken_model_has_no_description_length():
    compressor = HistoryCompressor(hidden=4, alphabet="ab")
    compressor._levels = jax.tree.map(lambda array: array * np.nan, compressor._levels)
    with pytest.raises(ValueError, match=r"predictions are not finite .* learning_rate 0\.01"):
        compressor.compress("abba")


def test_with_one_level_everything_is_kept_and_the_bits_are_the_cross_entropy():
    compressor = HistoryCompressor(1, hidden=4, alphabet="ab")
    kept = compressor.compress("abba")
    assert kept.positions.tolist() == [0, 1, 2, 3]
    assert kept.time_bits == 0
    np.testing.assert_allclose(kept.bits, -np.log2(kept.readings[0].probabilities).sum(), rtol=1e-5)
    np.testing.assert_array_equal(kept.probabilities, kept.readings[0].probabilities[:-1])


def test_predictions_of_the_lowest_level_are_its_most_probable_symbols(trained):
    kept = trained.compress(PAIR[1])
    p = by_hand.parameters_of(trained._trained()[0].predictor)
    items = [(ALPHABET.index(symbol),) for symbol in PAIR[1]] + [(5,)]
    *_, guesses = by_hand.code_lengths(p, "tanh", 5, 3, items)
    assert kept.predictions == [[*ALPHABET, "<end>"][symbol] for (symbol,) in guesses[:-1]]
    failed = np.array([guess != item for guess, item in zip(guesses, items, strict=True)])
    failed |= kept.readings[0].probabilities < 0.75
    failed[7::8] = True  # a time of eight would not fit three digits
    failed[-1] = True  # the end
    np.testing.assert_array_equal(kept.readings[0].keep, failed)


def test_a_solved_pair_costs_one_bit():
    """Two equally likely sequences, known by heart: the first symbol is one bit, everything after it is certain."""
    pair = ["a" + "pqrs" * 10 + "0", "b" + "pqrs" * 10 + "1"]
    compressor = HistoryCompressor(hidden=16, seed=1).fit(pair, epochs=300)
    for sequence in pair:
        kept = compressor.compress(sequence)
        assert kept.symbols == [sequence[0], sequence[-1]]
        assert kept.positions.tolist() == [0, 41]
        assert 0.8 < kept.bits < 1.3


class TestPassingUp:
    SHAPE = Shape(alphabet=2, level=1, time_bits=2)
    # Probabilities 0.7, 0.2, 0.1 for the symbols; the digits are surely 1 and 0, so the time is 1.
    LOGITS = np.array([*np.log([0.7, 0.2, 0.1]), 50.0, -50.0], np.float32)

    def failed(self, threshold, item):
        return bool(goes_up(threshold, self.SHAPE, jnp.asarray(self.LOGITS), jnp.asarray(item)))

    def test_probability_of_an_item_is_that_of_its_symbol_times_that_of_its_digits(self):
        symbol, times = log_probabilities(self.SHAPE, jnp.asarray(self.LOGITS), jnp.asarray([1, 1]))
        np.testing.assert_allclose([symbol, times], [np.log(0.2), 0.0], atol=1e-6)
        assert log_probabilities(self.SHAPE, jnp.asarray(self.LOGITS), jnp.asarray([1, 2]))[1] < -99
        np.testing.assert_array_equal(modes(self.SHAPE, jnp.asarray(self.LOGITS)), [0, 1])

    def test_what_was_predicted_stays(self):
        assert not self.failed(0.05, [0, 1])
        assert self.failed(0.05, [1, 1])
        assert self.failed(0.05, [0, 2])  # the right symbol at the wrong time

    @pytest.mark.parametrize(("threshold", "goes"), [(0.6, False), (0.75, True)])
    def test_threshold(self, threshold, goes):
        assert self.failed(threshold, [0, 1]) is goes

    def test_the_last_item_and_too_long_times_always_go_up(self):
        must = must_go_up(self.SHAPE, jnp.arange(10), jnp.asarray(10))
        assert np.flatnonzero(must).tolist() == [3, 7, 9]

    @given(keep=st.lists(st.booleans(), max_size=12))
    @settings(max_examples=30)
    def test_passing_up_and_putting_back(self, keep):
        keep = np.array([*keep, True] + [False] * (12 - len(keep)))
        items = np.arange(26, dtype=np.int32).reshape(13, 2)
        above, count = pass_up(jnp.asarray(items), jnp.asarray(keep))
        np.testing.assert_array_equal(above[: int(count)], take_up(items, keep))
        below, kept = put_back(take_up(items, keep))
        np.testing.assert_array_equal(kept, keep[: len(kept)])
        np.testing.assert_array_equal(below[kept], items[keep])


class TestInput:
    def test_empty_sequences_and_single_symbols(self):
        compressor = HistoryCompressor(hidden=4).fit(["", "x", ""], epochs=2)
        for sequence in ("", "x"):
            kept = compressor.compress(sequence)
            assert kept.length == len(sequence)
            assert len(kept.predictions) == len(kept.probabilities) == len(sequence)
            assert compressor.decompress(kept) == list(sequence)

    def test_unequal_lengths_and_symbols_of_any_type(self):
        sequences = [[1, None, ("x", 2)], [None], [("x", 2)] * 9]
        compressor = HistoryCompressor(hidden=4).fit(sequences, batch_size=2)
        assert [compressor.decompress(compressor.compress(s)) for s in sequences] == sequences

    def test_unknown_symbols(self):
        compressor = HistoryCompressor(hidden=4, alphabet="ab")
        for use in (compressor.compress, lambda sequence: compressor.fit(["a", sequence])):
            with pytest.raises(ValueError, match=r"sequence must have symbols of the alphabet, 'a', 'b', got 'z'"):
                use("az")

    def test_before_there_is_an_alphabet(self):
        with pytest.raises(ValueError, match="alphabet must be set before"):
            HistoryCompressor().compress("a")


def test_the_same_seed_gives_the_same_bits():
    made = [HistoryCompressor(hidden=4, seed=seed).fit(PAIR, epochs=3) for seed in (7, 7, 8)]
    bits = [compressor.compress(PAIR[0]).bits for compressor in made]
    assert bits[0] == bits[1] != bits[2]
