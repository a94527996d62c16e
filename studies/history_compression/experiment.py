"""The compiled part of the study: many runs of one arm, trained and checked in blocks.

A run is a seed, a task and a step size; the runs of an arm share the shapes of their networks and are one program. A
block is a number of updates, each on a fresh batch of sequences, and a check at its end. The check computes for every
level that the last symbol of a test sequence reached:

    q = P(right) / (P(right) + P(wrong)),

with the two last symbols of the pair as right and wrong. A system's q is that of the highest level that the symbol
reached. The question is put to single networks and to hierarchies in the same way.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from studies.history_compression.predictor import log_probabilities
from studies.history_compression.tasks import LABELS, Task, draw, pairs
from studies.history_compression.training import (
    Level,
    Plan,
    SequenceReading,
    map_runs,
    read_batch,
    start_levels,
    train_batch,
)


class Block(NamedTuple):
    """Sizes of a block between two checks."""

    updates: int  # batches
    batch: int  # sequences per batch
    tests: int  # test sequences of either kind


class ExperimentRuns(NamedTuple):
    """Settings that differ between the runs of an arm. Arrays lead with the run."""

    tasks: Task
    learning_rates: Any  # float32[R]
    seeds: Any  # int32[R]


class Check(NamedTuple):
    """Result of a check; arrays [R], or [R, checks] when collected."""

    q: Any  # the least q of all test sequences
    q_lowest: Any  # the same of level 0 alone
    bits: Any  # mean description length of a test sequence, `Compressed.bits`
    received: Any  # mean number of items that the top level received, `end` included


def check(plan: Plan, levels: tuple[Level, ...], task: Task, tests: int, key: jax.Array) -> Check:
    """Check of the levels of one run on the last symbols."""
    items, counts = pairs(task, key, tests)
    readings = read_batch(plan, levels, items, counts)
    qs = label_shares(readings, task)
    top, shape = readings[-1], plan.shapes[-1]
    valid = jnp.arange(top.items.shape[1]) < top.counts[:, None]
    nats = -jnp.where(valid, sum(log_probabilities(shape, top.logits, top.items)), 0.0)
    bits = jnp.sum(nats) / (jnp.log(2.0) * 2 * tests)
    return Check(jnp.min(qs[-1]), jnp.min(qs[0]), bits, jnp.mean(top.counts))


def label_shares(readings: list[SequenceReading], task: Task) -> list[jax.Array]:
    """q of every test sequence at the highest level it reached, among the levels up to each: a list of float32[S]."""
    sequences = jnp.arange(readings[0].items.shape[0])
    right = jnp.asarray(LABELS)[sequences % 2]
    wrong = jnp.asarray(LABELS)[1 - sequences % 2]
    place, here = jnp.full(len(sequences), task.n), jnp.ones(len(sequences), bool)
    shares, latest = [], jnp.zeros(len(sequences))
    for reading in readings:
        logits = reading.logits[sequences, place]
        q = jax.nn.sigmoid(logits[sequences, right] - logits[sequences, wrong])
        latest = jnp.where(here, q, latest)
        shares.append(latest)
        here &= reading.keep[sequences, place]
        place = jnp.maximum(jnp.cumsum(reading.keep, 1)[sequences, place] - 1, 0)
    return shares


@functools.partial(jax.jit, static_argnums=0)
def start(plan: Plan, seeds: jax.Array) -> tuple[Level, ...]:
    """Fresh levels of all runs; a run's part depends on its own seed only."""
    return jax.vmap(lambda seed: start_levels(plan, jax.random.key(seed)))(seeds)


@functools.partial(jax.jit, static_argnums=(0, 1))
def run_block(
    plan: Plan, block: Block, levels: tuple[Level, ...], runs: ExperimentRuns, first: jax.Array
) -> tuple[tuple[Level, ...], Check]:
    """Updates `first`, … of all runs, and the check after them; sequences depend on the update and the seed only."""

    def one_run(levels: Any, task: Task, rate: jax.Array, seed: jax.Array) -> Any:
        key = jax.random.fold_in(jax.random.key(seed), 1_000)

        def update(levels: Any, number: jax.Array) -> Any:
            now = jax.random.fold_in(key, number)
            items, counts = draw(task, now, block.batch)
            return train_batch(plan, levels, items, counts, rate)[0], None

        levels, _ = jax.lax.scan(update, levels, first + jnp.arange(block.updates))
        return levels, check(plan, levels, task, block.tests, jax.random.fold_in(key, -1 - first))

    return map_runs(one_run, levels, runs.tasks, runs.learning_rates, runs.seeds)


def run_arm(plan: Plan, block: Block, runs: ExperimentRuns, blocks: int, passes: Any) -> Check:
    """Checks, with arrays [R, checks], until all runs have passed by `passes`(q [R, checks]), or the end."""
    levels, found = start(plan, runs.seeds), []
    for number in range(blocks):
        levels, result = run_block(plan, block, levels, runs, jnp.asarray(number * block.updates, jnp.int32))
        found.append(jax.tree.map(np.asarray, result))
        if passes(np.stack([c.q for c in found], 1)).all():
            break
    return Check(*(np.stack(column, 1) for column in zip(*found, strict=True)))
