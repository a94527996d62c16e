"""Text tasks with one reward at the end: which tokens earned it is known to the task and hidden from the learner.

A sequence is a prompt and T generated tokens. The prompt is a length code and eight symbols. A generated position is

    forced    one token is right, the same in every sequence: the warm start makes it certain;
    decision  one of four answers; the right one depends on the prompt's symbol;
    free      any of sixteen tokens; it decides nothing.

The reward is the share of right decisions or, in `parity`, whether their number is even.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

VOCABULARY = 32
DECISIONS = 8
ANSWERS = 4
FIRST_SYMBOL, FIRST_FREE, FIRST_FORCED = 4, 8, 24
FREE_TOKENS, FORCED_TOKENS = 16, 8
PROMPT = 1 + DECISIONS
FORCED, DECISION, FREE = 0, 1, 2


@dataclass(frozen=True)
class TokenTask:
    """A task.

    Args:
      name: id. lengths: numbers of generated tokens, equally likely. free: how many of them are free.
      parity: reward 1 for an even number of right decisions, instead of their share.
      skill: probability of a right decision in the demonstrations of the warm start.
    """

    name: str
    lengths: tuple[int, ...] = (64,)
    free: int = 0
    parity: bool = False
    skill: float = 0.5


TASKS = {
    task.name: task
    for task in (
        TokenTask("forced"),
        TokenTask("random", lengths=(96,), free=40),
        TokenTask("parity", parity=True, skill=0.75),
        TokenTask("two-lengths", lengths=(32, 128)),
        TokenTask("skilled-parity", parity=True, skill=0.9),
    )
}


class TokenLayout(NamedTuple):
    """Kinds of the positions, for every length code; drawn once per seed. `right` maps a symbol to its answer."""

    lengths: jax.Array  # int32[codes]
    kinds: jax.Array  # int32[codes, T]
    numbers: jax.Array  # int32[codes, T]: number of the decision at a position, if it has one
    forced: jax.Array  # int32[T]
    right: jax.Array  # int32[ANSWERS]


class Prompts(NamedTuple):
    """Length codes int32[B] and symbols int32[B, DECISIONS]."""

    codes: jax.Array
    symbols: jax.Array


def make_layout(task: TokenTask, seed: int) -> TokenLayout:
    """The layout of a seed."""
    rng = np.random.default_rng(seed)
    longest = max(task.lengths)
    kinds = np.full((len(task.lengths), longest), FORCED)
    numbers = np.zeros_like(kinds)
    for code, length in enumerate(task.lengths):
        places = rng.permutation(length)
        decisions = np.sort(places[:DECISIONS])
        kinds[code, decisions] = DECISION
        numbers[code, decisions] = np.arange(DECISIONS)
        kinds[code, places[DECISIONS : DECISIONS + task.free]] = FREE
    forced = rng.integers(FIRST_FORCED, FIRST_FORCED + FORCED_TOKENS, longest)
    arrays = (task.lengths, kinds, numbers, forced, rng.permutation(ANSWERS))
    return TokenLayout(*(jnp.asarray(array, jnp.int32) for array in arrays))


def make_layouts(task: TokenTask, seeds: Sequence[int]) -> TokenLayout:
    """The layouts of several seeds, stacked."""
    return jax.tree.map(lambda *parts: jnp.stack(parts), *(make_layout(task, seed) for seed in seeds))


def draw_prompts(layout: TokenLayout, key: jax.Array, batch: int) -> Prompts:
    """Random prompts."""
    first, second = jax.random.split(key)
    codes = jax.random.randint(first, (batch,), 0, layout.lengths.shape[0])
    return Prompts(codes, jax.random.randint(second, (batch, DECISIONS), 0, ANSWERS))


def prompt_tokens(prompts: Prompts) -> jax.Array:
    """int32[B, PROMPT]."""
    return jnp.concatenate([FIRST_FORCED + prompts.codes[:, None], FIRST_SYMBOL + prompts.symbols], axis=1)


def mask_of(layout: TokenLayout, prompts: Prompts) -> jax.Array:
    """Generated tokens that count: bool[B, T]."""
    return jnp.arange(layout.kinds.shape[1]) < layout.lengths[prompts.codes][:, None]


def right_answers(layout: TokenLayout, prompts: Prompts) -> jax.Array:
    """The right token where a decision is made, int32[B, T]; without meaning elsewhere."""
    return jnp.take_along_axis(layout.right[prompts.symbols], layout.numbers[prompts.codes], axis=1)


def demonstrate(task: TokenTask, layout: TokenLayout, prompts: Prompts, key: jax.Array) -> jax.Array:
    """Tokens for the warm start: forced as it must be, free at random, decisions right with probability `skill`."""
    answers = right_answers(layout, prompts)
    keys = jax.random.split(key, 3)
    wrong = (answers + jax.random.randint(keys[0], answers.shape, 1, ANSWERS)) % ANSWERS
    decided = jnp.where(jax.random.uniform(keys[1], answers.shape) < task.skill, answers, wrong)
    free = jax.random.randint(keys[2], answers.shape, FIRST_FREE, FIRST_FREE + FREE_TOKENS)
    kinds = layout.kinds[prompts.codes]
    return jnp.where(kinds == DECISION, decided, jnp.where(kinds == FREE, free, layout.forced))


def rewards_of(task: TokenTask, layout: TokenLayout, prompts: Prompts, tokens: jax.Array) -> jax.Array:
    """The reward at the end of each sequence, float32[B]."""
    decided = (layout.kinds[prompts.codes] == DECISION) & (tokens == right_answers(layout, prompts))
    right = jnp.sum(decided, axis=1)
    return (1.0 - right % 2 if task.parity else right / DECISIONS).astype(jnp.float32)
