"""Random streams for kernels: the numbers of NumPy's generators, from a state that can be kept."""

from __future__ import annotations

import numpy as np
import pytest

from chunked_td._link import at, compiled, stacked
from chunked_td._link.pcg import Pcg64, PlainPcg64
from chunked_td.seeding import Draws, split_seed, uniform
from helpers.compilation import COMPILED


def draws_of(seed=3):
    return Draws.of(np.random.SeedSequence(seed))


def generator(seed=3):
    return np.random.Generator(np.random.PCG64(seed))


def take(rng, out):
    for k in range(out.size):
        out[k] = uniform(rng)


KERNELS = {"plain": take, "linked": compiled(take, rng=Pcg64 if COMPILED else PlainPcg64)}
"""Called from Python a kernel runs as plain Python; linked it is compiled."""


def taken(stream, count, kernel="plain"):
    out = np.empty(count)
    KERNELS[kernel](stream, out)
    return out.tolist()


def test_streams_of_a_run_differ_and_the_first_is_gymnasiums():
    first = [np.random.Generator(np.random.PCG64(sequence)).random() for sequence in split_seed(5)]
    assert len(set(first)) == len(first) == 4
    assert first[0] == np.random.default_rng(5).random()
    assert first[1:] == [np.random.default_rng(child).random() for child in np.random.SeedSequence(5).spawn(3)]


@pytest.mark.parametrize("kernel", KERNELS)
def test_takes_of_any_size_give_the_numbers_of_single_draws(kernel):
    draws, single = draws_of(), generator()
    for count in (0, 1, 3, 8, 1, 300, 2, 0, 5):
        assert taken(draws.stream, count, kernel) == [single.random() for _ in range(count)]


@pytest.mark.parametrize("kernel", KERNELS)
def test_numpy_goes_on_after_the_last_number_that_was_taken_and_back(kernel):
    draws, single = draws_of(), generator()
    for count in (3, 0, 20):
        taken(draws.stream, count, kernel)
        single.random(count)
        numpys = generator()
        numpys.bit_generator.state = draws.state()
        assert numpys.normal() == single.normal()
        draws.set_state(numpys.bit_generator.state)
        assert taken(draws.stream, 2, kernel) == single.random(2).tolist()


def test_state_goes_on_where_it_was_written():
    draws = draws_of()
    taken(draws.stream, 5)
    twin = Draws(draws.state())
    assert taken(twin.stream, 9) == taken(draws.stream, 9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_items_of_a_stack_are_views(kernel):
    streams = [draws_of(seed).stream for seed in range(3)]
    first = [stream.words.tolist() for stream in streams]
    batch = stacked(streams)
    assert batch.words.shape == (3, 5)
    for index in range(3):
        assert taken(at(batch, index), 4, kernel) == generator(index).random(4).tolist()
        assert taken(at(batch, index), 2, kernel) == generator(index).random(6)[4:].tolist()
        assert batch.words[index].tolist() != first[index]
    assert [stream.words.tolist() for stream in streams] == first
