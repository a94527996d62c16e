"""The replay buffer draws what a ring filled one transition at a time would give."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chunked_td.models.neural import replay
from studies.accumulated_charge.network import network_config as charge_network
from studies.key_to_door.network import network_config as door_network


def naive_ring(numbers, capacity):
    """Contents, oldest first, of a ring after each of the numbers is stored."""
    ring, states = [None] * capacity, []
    for i, number in enumerate(numbers):
        ring[i % capacity] = number
        oldest = (i + 1) % capacity if i + 1 > capacity else 0
        order = [ring[(oldest + j) % capacity] for j in range(min(i + 1, capacity))]
        states.append(order)
    return states


@pytest.mark.parametrize(("capacity", "length"), [(20, 5), (18, 5), (3, 5), (7, 7), (1, 3)])
def test_draws_equal_those_of_a_ring_filled_step_by_step(capacity, length):
    """Transition number j is stored as the row (j,): whole episodes at once against the naive ring."""
    slots = replay.slots(capacity, length)
    buffer = jnp.zeros((slots, 1), jnp.int32)
    rings = naive_ring(range(1, 8 * length + 1), capacity)
    key = jax.random.key(3)
    for episode in range(8):
        first = episode * length
        rows = jnp.arange(first + 1, first + length + 1, dtype=jnp.int32)[:, None]
        buffer = replay.insert(buffer, rows, jnp.int32(first))
        for n in range(first + 1, first + length + 1):
            drawn = np.asarray(buffer[replay.draw(key, jnp.int32(n), 64, capacity, slots)])[:, 0]
            ring = rings[n - 1]
            age = jax.random.randint(jax.random.fold_in(key, n), (64,), 0, len(ring))
            assert drawn.tolist() == [ring[-1 - a] for a in np.asarray(age)]


def test_draws_are_uniform_over_the_window():
    """χ² over 40 transitions in the window; 0.1 % false alarms under a uniform draw, seed fixed."""
    draws = replay.draw(jax.random.key(0), jnp.int32(95), 40_000, 40, 60)
    numbers = (95 - 1 - np.asarray(draws)) % 60
    counts = np.bincount(numbers, minlength=60)
    assert counts[40:].sum() == 0
    assert np.sum((counts[:40] - 1000) ** 2 / 1000) < 72.06  # χ²(39), 0.999


def test_rows_survive_packing_in_the_smallest_type():
    config = charge_network()
    assert replay.row_dtype(config) == np.uint8
    assert replay.row_dtype(dataclasses.replace(config, nvec=(2, 300, 201))) == np.uint16
    assert replay.row_dtype(door_network()) == np.uint8
    states = np.array([[1, 0, 0], [1, 20, 1], [1, 200, 200]], np.uint8)
    actions = np.array([1, 0], np.uint8)
    rows = replay.pack(jnp.asarray(states), jnp.asarray(actions))
    before, action, after = replay.unpack(config, rows)
    np.testing.assert_array_equal(before, states[:-1])
    np.testing.assert_array_equal(action, actions)
    np.testing.assert_array_equal(after, states[1:])
