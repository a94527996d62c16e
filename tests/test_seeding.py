"""Random streams for compiled code, and codes known by their type."""

from __future__ import annotations

import numpy as np
import pytest

from chunked_td._link import at, stacked, static
from chunked_td.seeding import Draws, split_seed, uniform


def generator(seed=3):
    return np.random.Generator(np.random.PCG64(seed))


def take(rng, out):
    for k in range(out.size):
        out[k] = uniform(rng)


def read(value):
    return value + 1


def taken(draws, count):
    out = np.empty(count)
    take(draws.reserve(count), out)
    return out.tolist()


def test_streams_of_a_run_differ_and_the_first_is_gymnasiums():
    first = [np.random.Generator(np.random.PCG64(sequence)).random() for sequence in split_seed(5)]
    assert len(set(first)) == len(first) == 4
    assert first[0] == np.random.default_rng(5).random()
    assert first[1:] == [np.random.default_rng(child).random() for child in np.random.SeedSequence(5).spawn(3)]


@pytest.mark.parametrize("size", [0, 1, 7, 256])
def test_blocks_of_any_size_give_the_numbers_of_single_draws(size):
    draws, single = Draws(generator(), size), generator()
    for count in (0, 1, 3, 8, 1, 300, 2, 0, 5):
        assert taken(draws, count) == [single.random() for _ in range(count)]


def test_sync_gives_the_generator_back_after_the_last_number_read():
    draws, single = Draws(generator(), 16), generator()
    for count in (3, 0, 20):
        taken(draws, count)
        single.random(count)
        assert draws.sync().normal() == single.normal()
        assert taken(draws, 2) == single.random(2).tolist()


def test_state_goes_on_where_it_was_written():
    draws = Draws(generator(), 16)
    taken(draws, 5)
    twin = Draws.from_state(draws.state(), size=3)
    assert taken(twin, 9) == taken(draws, 9)


@pytest.mark.parametrize("value", range(8))
def test_a_known_code_is_the_number(value):
    assert static(value) == value == value
    if value in (0, 7):
        assert read(static(value)) == read(value) == value + 1


def total_of(batch, index):
    stream = at(batch, index)
    total = 0.0
    for k in range(stream.block.size):
        total += stream.block[k]
    stream.position[0] += 1
    return total


def test_items_of_a_stack_are_views():
    streams = [Draws(generator(seed), 4).reserve(4) for seed in range(3)]
    batch = stacked(streams)
    assert batch.block.shape == (3, 4)
    for index, stream in enumerate(streams):
        assert total_of(batch, index) == pytest.approx(stream.block.sum())
        assert at(batch, index).block.tolist() == stream.block.tolist()
    assert batch.position[:, 0].tolist() == [1, 1, 1]
    assert [int(stream.position[0]) for stream in streams] == [0, 0, 0]
