"""Gradients and updates against the same written out in NumPy; many runs side by side against single ones."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import by_hand
from studies.history_compression import training
from studies.history_compression.predictor import CELLS, Predictor, Shape
from studies.history_compression.training import (
    Level,
    Plan,
    _Place,
    optimiser,
    start_runs,
    train_runs,
)

read_batch, train_batch, train_level = (
    jax.jit(f, static_argnums=0) for f in (training.read_batch, training.train_batch, training.train_level)
)
window_gradient = jax.jit(jax.value_and_grad(training.window_loss, argnums=1, has_aux=True), static_argnums=0)

ALPHABET, BITS, HIDDEN, WINDOW = 4, 3, 5, 4
UPPER = [(0, 2), (3, 0), (1, 7), (2, 5), (2, 0), (0, 1), (4, 3)]
LOWER = [(0,), (3,), (1,), (2,), (2,), (0,), (4,)]


def make_predictor(cell, level):
    return Predictor(Shape(ALPHABET, level, HIDDEN, cell, BITS), key=jax.random.key(3))


def make_level(predictor):
    return Level(predictor, optimiser().init(predictor))


def padded(sequences, room=8):
    items = np.zeros((len(sequences), room, len(sequences[0][0])), np.int32)
    for row, sequence in zip(items, sequences, strict=True):
        row[: len(sequence)] = sequence
    return jnp.asarray(items), jnp.asarray([len(s) for s in sequences], jnp.int32)


def assert_close(predictor, expected, tolerance=2e-5):
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(predictor, name), value, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize(("cell", "level"), list(itertools.product(CELLS, (0, 1))))
def test_gradient_of_a_window(cell, level):
    predictor = make_predictor(cell, level)
    sequence = (UPPER if level else LOWER)[:WINDOW]
    state = np.linspace(-0.5, 0.5, HIDDEN)
    previous = (2, 6)[: 1 + level]
    p = by_hand.parameters_of(predictor)
    loss, nats, grads, last, _ = by_hand.window(p, cell, ALPHABET, BITS, state, previous, sequence)
    plan = Plan((predictor.shape,), WINDOW)
    place = _Place(jnp.zeros((), jnp.int32), jnp.asarray(state, jnp.float32)[None], jnp.asarray([previous], jnp.int32))
    valid = jnp.ones((1, WINDOW), bool)
    (ours, (after, _, cost)), ours_grads = window_gradient(
        plan, predictor, place, jnp.asarray([sequence], jnp.int32), valid
    )
    np.testing.assert_allclose([ours, cost], [loss, nats], rtol=1e-5)
    np.testing.assert_allclose(after[0], last, rtol=1e-4, atol=1e-6)
    assert_close(ours_grads, grads)


@pytest.mark.parametrize(("cell", "level"), list(itertools.product(CELLS, (0, 1))))
def test_an_online_sequence_has_one_update_per_window(cell, level):
    predictor, sequence = make_predictor(cell, level), UPPER if level else LOWER
    plan = Plan((predictor.shape,), WINDOW, online=True)
    items, counts = padded([sequence])
    trained, _, nats = train_level(plan, make_level(predictor), items, counts, jnp.asarray(0.01))
    p = by_hand.parameters_of(predictor)
    expected = by_hand.online(p, cell, ALPHABET, BITS, sequence, WINDOW, 0.01)
    np.testing.assert_allclose(nats, expected, rtol=1e-5)
    assert_close(trained.predictor, p, 1e-4)


@pytest.mark.parametrize("cell", CELLS)
def test_a_batch_of_unequal_lengths_has_one_update(cell):
    predictor, sequences = make_predictor(cell, 0), [LOWER, LOWER[3:], LOWER[-1:]]
    plan = Plan((predictor.shape,), WINDOW, online=False)
    items, counts = padded(sequences)
    trained, _, _ = train_level(plan, make_level(predictor), items, counts, jnp.asarray(0.01))
    p = by_hand.parameters_of(predictor)
    by_hand.batch(p, cell, ALPHABET, BITS, sequences, WINDOW, 0.01)
    assert_close(trained.predictor, p, 1e-4)


def test_a_window_as_long_as_the_sequence_is_full_backpropagation():
    predictor = make_predictor("gru", 0)
    items, counts = padded([LOWER])
    after = {}
    for window in (2, 8):
        plan = Plan((predictor.shape,), window, online=False)
        after[window] = train_level(plan, make_level(predictor), items, counts, jnp.asarray(0.01))[0]
    p = by_hand.parameters_of(predictor)
    by_hand.batch(p, "gru", ALPHABET, BITS, [LOWER], len(LOWER), 0.01)
    assert_close(after[8].predictor, p, 1e-4)
    assert np.abs(after[2].predictor.recurrent - after[8].predictor.recurrent).max() > 1e-4


def two_levels(online=True, cell="gru"):
    shapes = tuple(Shape(ALPHABET, level, HIDDEN, cell, BITS) for level in (0, 1))
    return Plan(shapes, WINDOW, online, threshold=0.3)


MIXED = [LOWER, [(2,)] * 7 + LOWER[-1:], LOWER[2:]]


def half_trained(plan):
    """Levels that predict some of what they read."""
    levels = start_runs(plan, jax.random.key(1)[None])
    items, counts = (jnp.tile(x[None, None], (1, 40, *(1,) * x.ndim)) for x in padded(MIXED))
    return jax.tree.map(lambda x: x[0], train_runs(plan, levels, items, counts, jnp.full(1, 0.01))[0])


def batches_of(seeds, count=6):
    """Random sequences of unequal lengths, per run."""
    items, counts = [], []
    for seed in seeds:
        generator = np.random.default_rng(seed)
        lengths = generator.integers(1, 8, (count, 2))
        symbols = generator.integers(0, ALPHABET, (count, 2, 8, 1))
        at = np.arange(8)[:, None]
        items.append(np.where(at == lengths[..., None, None] - 1, ALPHABET, symbols))
        counts.append(lengths)
    return jnp.asarray(np.array(items), jnp.int32), jnp.asarray(np.array(counts), jnp.int32)


def trained_runs(plan, seeds):
    keys = jax.vmap(jax.random.key)(jnp.asarray(seeds))
    items, counts = batches_of(seeds)
    return train_runs(plan, start_runs(plan, keys), items, counts, jnp.full(len(seeds), 0.01))


@pytest.mark.parametrize(
    "plan",
    [pytest.param(two_levels(), marks=pytest.mark.long), two_levels(False, "tanh")],
    ids=["online-gru", "batch-tanh"],
)
def test_a_run_is_the_same_bit_by_bit_alone_and_beside_others(plan, compiled_as_used):
    together = trained_runs(plan, [5, 6, 7])
    again = trained_runs(plan, [5, 6, 7])
    jax.tree.map(np.testing.assert_array_equal, together, again)
    for place, seed in enumerate((5, 6, 7)):
        alone = trained_runs(plan, [seed])
        jax.tree.map(lambda a, b, at=place: np.testing.assert_array_equal(a[0], b[at]), alone, together)


def test_levels_see_what_the_level_below_failed_to_predict():
    plan = two_levels()
    levels = half_trained(plan)
    items, counts = padded(MIXED)
    _, outcomes = train_batch(plan, levels, items, counts, jnp.asarray(0.01))
    assert outcomes[0].items == sum(map(len, MIXED))
    assert outcomes[1].items == outcomes[0].kept
    assert len(MIXED) <= outcomes[1].items < outcomes[0].items


def test_what_goes_up_settled_is_what_the_trained_level_fails_on():
    """The level above is trained on the stream that the level makes once its updates are done; else it need not be."""
    plan = two_levels()
    levels = jax.tree.map(lambda x: x[0], start_runs(plan, jax.random.key(1)[None]))
    items, counts = padded(MIXED)
    kept = {}
    for settled in (False, True):
        now = plan._replace(settled=settled)
        trained, outcomes = train_batch(now, levels, items, counts, jnp.asarray(0.1))
        made = read_batch(now, trained, items, counts)[0].keep.sum()
        kept[settled] = int(outcomes[1].items), int(made)
    assert kept[True][0] == kept[True][1]
    assert kept[False][0] != kept[False][1]
