"""Reading a sequence of items and putting dropped ones back: one program for both, so that both predict the same bits.

A decoder has to make exactly the predictions that the encoder made. Rounding differs between programs, and a
prediction between two nearly equal symbols can turn on it. So encoder and decoder run the same compiled program: it
walks through the items one by one, and takes an item from its input where one is given and from its own prediction
where none is. The encoder gives all items, the decoder those that were kept. Arrays are padded to a power of two,
from 16 on, and both sides know the length, so the shapes are the same as well."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chunked_td.compression.criteria import Criterion, goes_up, must_go_up
from chunked_td.compression.predictor import Predictor, log_probabilities, modes, perturbation


class Replayed(NamedTuple):
    """What a level says about each of n items."""

    items: np.ndarray  # int32[n, 1 + level], with dropped ones put back
    predicted: np.ndarray  # int32[n, 1 + level], the predictions
    log_symbol: np.ndarray  # float32[n], ln P of the symbol
    log_times: np.ndarray  # float32[n], ln P of the times
    keep: np.ndarray  # bool[n], what goes up
    states: np.ndarray  # float32[n, hidden], from which each item is predicted


def replay(
    predictor: Predictor, criterion: Criterion, items: np.ndarray, given: np.ndarray, key: jax.Array
) -> Replayed:
    """A level on one sequence, item by item.

    Args:
      items: int32[n, 1 + level], n ≥ 1; only those given are looked at. given: bool[n].
      key: for the criterion "sampled"; encoder and decoder need the same.
    """
    n = len(items)
    room = max(16, 1 << (n - 1).bit_length())
    padded = np.zeros((room, items.shape[1]), np.int32)
    padded[:n] = items
    known = np.zeros(room, bool)
    known[:n] = given
    walked = _walk(criterion, predictor, padded, known, np.int32(n), key)
    return Replayed(*(np.asarray(array)[:n] for array in walked))


@functools.partial(jax.jit, static_argnums=0)
def _walk(
    criterion: Criterion, predictor: Predictor, items: jax.Array, given: jax.Array, count: jax.Array, key: jax.Array
) -> Replayed:
    shape = predictor.shape

    def step(carry: Any, now: Any) -> Any:
        state, previous = carry
        item, is_given, position = now
        state = predictor.step(state, predictor.drive(previous))
        logits = predictor.logits(state)
        noise = perturbation(shape, jax.random.fold_in(key, position)) if criterion.kind == "sampled" else 0.0
        predicted = modes(shape, logits + noise)
        item = jnp.where(is_given, item, predicted)
        keep = goes_up(criterion, shape, logits, item, noise) | must_go_up(shape, position, count)
        said = Replayed(item, predicted, *log_probabilities(shape, logits, item), keep, state)  # type: ignore[arg-type]
        return (state, item), said

    first = (predictor.initial_state(1)[0], predictor.initial_item(1)[0])
    return jax.lax.scan(step, first, (items, given, jnp.arange(len(items))))[1]
