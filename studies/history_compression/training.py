"""Training of the levels: gradients within windows of items, from the bottom to the top.

A batch of sequences goes through the levels in order. A level reads its items in windows of `window` items. In each
window the state that enters is a constant, and the gradient of the loss Σ −ln P(item | past), over the items of all
sequences of the batch, is taken within the window only (truncated back-propagation through time).

    online   the parameters change after every window, by the mean gradient of its items; the next window uses the new
             ones, and what goes up was judged by the parameters that read it. With batches of one sequence and
             window = 1 that is one update per symbol.
    batch    the gradients of all windows are added up, and the parameters change once, by the mean over all items.

What goes up is judged by the parameters as they change within the batch. So the level above may be trained on another
stream than the one that the level, once trained, makes of the same sequences: online it lags behind by all windows that
follow. With `settled` the level reads the batch again after its updates, and what goes up is what it fails on then.

A window at least as long as the sequence makes this full back-propagation through time. An update is Adam's after
the gradient was scaled to a norm of at most 1. The level above then reads what went up. It runs for as many windows as
it has items: time and memory per symbol do not depend on how long the sequence is.

Many runs side by side are one program: everything here is written for one run and mapped over runs by `jax.vmap`.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from studies.history_compression.passing_up import THRESHOLD, goes_up, must_go_up, pass_up
from studies.history_compression.predictor import Predictor, Shape, log_probabilities


class Plan(NamedTuple):
    """Settings fixed at compile time.

    Attributes:
      shapes: one per level, lowest first.
      window: items per gradient.
      online: an update per window, or one per batch.
      unroll: steps per iteration of the compiled loops, for speed only.
      settled: whether what goes up is judged after the updates of a batch, rather than during them.
      threshold: the probability below which an item goes up in any case.
    """

    shapes: tuple[Shape, ...]
    window: int = 10
    online: bool = True
    unroll: int = 1
    settled: bool = False
    threshold: float = THRESHOLD


class Level(NamedTuple):
    """A predictor and the moments of its optimiser."""

    predictor: Predictor
    moments: Any


class SequenceReading(NamedTuple):
    """Reading of items by a level. Leading axes: sequence, item."""

    items: jax.Array  # int32[S, n, 1 + level]
    counts: jax.Array  # int32[S]
    states: jax.Array  # float32[S, n, hidden], from which each item is predicted
    logits: jax.Array  # float32[S, n, outputs]
    keep: jax.Array  # bool[S, n], what goes up


class TrainingOutcome(NamedTuple):
    """Cost of a batch on one level."""

    nats: jax.Array  # float32[], −ln P of all items, before the updates that they caused
    items: jax.Array  # int32[], how many were read
    kept: jax.Array  # int32[], how many went up


def optimiser() -> optax.GradientTransformation:
    """Adam without its step size, on gradients of norm at most 1."""
    return optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam())


def start_levels(plan: Plan, key: jax.Array) -> tuple[Level, ...]:
    """Fresh levels; level l depends on the key and on l only."""
    predictors = [Predictor(shape, key=jax.random.fold_in(key, shape.level)) for shape in plan.shapes]
    return tuple(Level(predictor, optimiser().init(predictor)) for predictor in predictors)  # type: ignore[arg-type]


def train_batch(
    plan: Plan, levels: tuple[Level, ...], items: jax.Array, counts: jax.Array, learning_rate: jax.Array
) -> tuple[tuple[Level, ...], tuple[TrainingOutcome, ...]]:
    """One batch of sequences through all levels: the levels after their updates, and what each of them did.

    Args:
      items: int32[S, n, 1], each sequence closed by `end`, then anything. counts: int32[S], lengths with `end`.
    """
    items = _whole_windows(items, plan.window)
    trained, outcomes = [], []
    for level in levels:
        level, keep, nats = train_level(plan, level, items, counts, learning_rate)
        if plan.settled and len(trained) < len(levels) - 1:
            keep = read_level(plan, level.predictor, items, counts).keep
        trained.append(level)
        outcomes.append(TrainingOutcome(nats, jnp.sum(counts), jnp.sum(keep, dtype=jnp.int32)))
        items, counts = jax.vmap(pass_up)(items, keep)
    return tuple(trained), tuple(outcomes)


def read_batch(plan: Plan, levels: tuple[Level, ...], items: jax.Array, counts: jax.Array) -> list[SequenceReading]:
    """Readings of a batch of sequences by every level, without training. Arguments as for `train_batch`."""
    items = _whole_windows(items, plan.window)
    readings = []
    for level in levels:
        reading = read_level(plan, level.predictor, items, counts)
        readings.append(reading)
        items, counts = jax.vmap(pass_up)(items, reading.keep)
    return readings


class _Place(NamedTuple):
    """Place of a level in its items: the next window, and the state and item before it."""

    window: jax.Array
    state: jax.Array
    previous: jax.Array


def train_level(
    plan: Plan,
    level: Level,
    items: jax.Array,
    counts: jax.Array,
    learning_rate: jax.Array,
) -> tuple[Level, jax.Array, jax.Array]:
    """One batch through one level: (the level after its updates, bool[S, n] what goes up, the sum of −ln P).

    Args:
      items: int32[S, n, 1 + level], n a multiple of the window. counts: int32[S].
    """

    shape, window = level.predictor.shape, plan.window

    def more(now: tuple[Any, ...]) -> jax.Array:
        return now[0].window * window < jnp.max(counts)

    def advance(now: tuple[Any, ...]) -> tuple[Any, ...]:
        place, level, total, marks, nats = now  # `total`: the gradient summed over windows, for the batch form
        at = place.window * window
        piece = _cut(items, at, window)
        position = at + jnp.arange(window)
        valid = position < counts[:, None]
        grad = jax.value_and_grad(window_loss, argnums=1, has_aux=True)
        (_, (state, keep, new_nats)), gradient = grad(plan, level.predictor, place, piece, valid)
        keep = valid & (keep | must_go_up(shape, position, counts[:, None]))
        marks = jax.lax.dynamic_update_slice_in_dim(marks, keep, at, 1)
        if plan.online:
            level = apply(level, gradient, jnp.sum(valid), learning_rate)
        else:
            total = jax.tree.map(jnp.add, total, gradient)
        return _Place(place.window + 1, state, piece[:, -1]), level, total, marks, nats + new_nats

    zero, nothing = jax.tree.map(jnp.zeros_like, level.predictor), jnp.zeros(items.shape[:2], bool)
    first = (_first_place(level.predictor, len(items)), level, zero, nothing, jnp.zeros(()))
    _, trained, gradient, keep, nats = jax.lax.while_loop(more, advance, first)
    return trained if plan.online else apply(level, gradient, jnp.sum(counts), learning_rate), keep, nats


def window_loss(
    plan: Plan,
    predictor: Predictor,
    place: _Place,
    items: jax.Array,
    valid: jax.Array,
) -> tuple[jax.Array, tuple[jax.Array, jax.Array, jax.Array]]:
    """The loss of one window, summed over its items that are `valid`: within their sequence. Others: `train_level`'s.

    Returns (loss, (state after the window, whether the level failed on each item, the sum of −ln P)).
    """
    read = jnp.concatenate([place.previous[:, None], items[:, :-1]], 1)
    states = predictor.unroll(place.state, read, plan.unroll)
    logits = predictor.logits(states)
    nats = -jnp.sum(jnp.where(valid, sum(log_probabilities(predictor.shape, logits, items)), 0.0))
    failed = goes_up(plan.threshold, predictor.shape, logits, items)
    return nats, (states[:, -1], failed, nats)


def apply(level: Level, gradient: Predictor, items: jax.Array, learning_rate: jax.Array) -> Level:
    """One update by a gradient summed over `items` items."""
    mean = jax.tree.map(lambda g: g / items, gradient)
    change, moments = optimiser().update(mean, level.moments)  # type: ignore[arg-type]
    predictor = jax.tree.map(lambda p, c: p - learning_rate * c, level.predictor, change)
    return Level(predictor, moments)


def read_level(plan: Plan, predictor: Predictor, items: jax.Array, counts: jax.Array) -> SequenceReading:
    """One batch through one level, without training. Arguments as for `train_level`."""

    def more(now: tuple[_Place, jax.Array]) -> jax.Array:
        return now[0].window * plan.window < jnp.max(counts)

    def advance(now: tuple[_Place, jax.Array]) -> tuple[_Place, jax.Array]:
        place, states = now
        at = place.window * plan.window
        piece = _cut(items, at, plan.window)
        read = jnp.concatenate([place.previous[:, None], piece[:, :-1]], 1)
        new = predictor.unroll(place.state, read, plan.unroll)
        states = jax.lax.dynamic_update_slice_in_dim(states, new, at, 1)
        return _Place(place.window + 1, new[:, -1], piece[:, -1]), states

    empty = jnp.zeros((*items.shape[:2], predictor.shape.hidden))
    states = jax.lax.while_loop(more, advance, (_first_place(predictor, len(items)), empty))[1]
    logits = predictor.logits(states)
    failed = goes_up(plan.threshold, predictor.shape, logits, items)
    position = jnp.arange(items.shape[1])
    keep = failed | must_go_up(predictor.shape, position, counts[:, None])
    return SequenceReading(items, counts, states, logits, keep & (position < counts[:, None]))


def _first_place(predictor: Predictor, batch: int) -> _Place:
    return _Place(jnp.zeros((), jnp.int32), predictor.initial_state(batch), predictor.initial_item(batch))


def _cut(x: jax.Array, at: jax.Array, width: int) -> jax.Array:
    """Items at..at+width−1 of all sequences."""
    return jax.lax.dynamic_slice_in_dim(x, at, width, 1)


def _whole_windows(items: jax.Array, window: int) -> jax.Array:
    """Items padded to a whole number of windows."""
    missing = -items.shape[1] % window
    return jnp.pad(items, ((0, 0), (0, missing), (0, 0)))


@functools.partial(jax.jit, static_argnums=0)
def train_runs(
    plan: Plan,
    levels: tuple[Level, ...],
    items: jax.Array,
    counts: jax.Array,
    learning_rate: jax.Array,
) -> tuple[tuple[Level, ...], tuple[TrainingOutcome, ...]]:
    """Several batches, int32[R, batches, S, n, 1], through the levels of R runs; outcomes are [R, batches]."""

    def one_run(levels: Any, items: jax.Array, counts: jax.Array, rate: jax.Array) -> Any:
        return jax.lax.scan(lambda now, batch: train_batch(plan, now, *batch, rate), levels, (items, counts))

    return map_runs(one_run, levels, items, counts, learning_rate)


def map_runs(function: Any, *arguments: Any) -> Any:
    """`jax.vmap` over runs, with the same bits for a run however many there are.

    A single run is computed twice: without a batch axis, XLA's products on a CPU round differently.
    """
    if jax.tree.leaves(arguments)[0].shape[0] > 1:
        return jax.vmap(function)(*arguments)
    pair = jax.tree.map(lambda array: jnp.concatenate([array, array]), arguments)
    return jax.tree.map(lambda array: array[:1], jax.vmap(function)(*pair))


def start_runs(plan: Plan, keys: jax.Array) -> tuple[Level, ...]:
    """Fresh levels of several runs, one per key; a run depends on its own key only."""
    return jax.vmap(lambda key: start_levels(plan, key))(keys)
