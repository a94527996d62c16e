"""Random streams for compiled code, and codes known by their type."""

from __future__ import annotations

import numpy as np
import pytest

from chunked_td.compiled import Draws, code, kernel, known, uniform


def generator(seed=3):
    return np.random.Generator(np.random.PCG64(seed))


@kernel
def take(rng, out):
    for k in range(out.size):
        out[k] = uniform(rng)


@kernel
def read(value):
    return code(value) + 1


def taken(draws, count):
    out = np.empty(count)
    take(draws.reserve(count), out)
    return out.tolist()


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
    assert code(known(value)) == code(value) == value
    if value in (0, 7):
        assert read(known(value)) == read(value) == value + 1
