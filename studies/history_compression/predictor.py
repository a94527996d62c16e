"""One level of the hierarchy: a recurrent network that predicts its next item (Figure 1, one row).

An item of level l is a tuple of integers

    y = (symbol, g¹, …, gˡ),

where gᵏ is the number of items of level k − 1 that were dropped since the previous item of level k: the time that
went by, counted in steps of the level below. Level 0 reads the sequence itself, so its items are symbols alone.

Symbols are numbered 0..alphabet−1. Two more exist: `end`, which closes every sequence, and `start`, which is only
ever read, before the first item (the <start> of the paper).

A time g goes in and out as its binary digits. The digits are a unique representation of the time, any time below
2^time_bits can be predicted exactly, and the probability of an item is a product,

    P(y | past) = P(symbol | past) · Πₖ Π_d P(digit d of gᵏ | past),

a softmax for the symbol and a Bernoulli variable for each digit, independent given the state.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from studies.networks.networks import gated_step

CELLS = ("tanh", "gru")
HIGHEST = jax.lax.Precision.HIGHEST


class Shape(NamedTuple):
    """Sizes of a predictor.

    Attributes:
      alphabet: how many symbols there are, `end` and `start` not counted.
      level: 0 for the lowest; an item of level l has l times.
      hidden: units of the recurrent state.
      cell: "tanh" (plain) or "gru" (gated).
      time_bits: binary digits of a time.
    """

    alphabet: int
    level: int = 0
    hidden: int = 32
    cell: str = "gru"
    time_bits: int = 16

    @property
    def end(self) -> int:
        """The symbol that closes every sequence."""
        return self.alphabet

    @property
    def start(self) -> int:
        """The symbol that is read before the first item."""
        return self.alphabet + 1

    @property
    def outputs(self) -> int:
        """Logits: one per symbol and for `end`, one per digit of every time."""
        return self.alphabet + 1 + self.level * self.time_bits

    @property
    def parameters(self) -> int:
        """Number of learned parameters."""
        gates = 3 if self.cell == "gru" else 1
        inputs = self.alphabet + 2 + self.level * self.time_bits + self.hidden + 1
        return gates * self.hidden * inputs + (self.hidden + 1) * self.outputs


class Predictor(eqx.Module):
    """A recurrent network with one hidden layer. It reads an item, then predicts the next.

    With x the item read, as a one-hot symbol and the digits of its times, the plain cell is

        h' = tanh(W x + U h + b),

    and the gated one (a GRU; rows of W, U and b for r, z and n)

        r = σ(W_r x + U_r h + b_r),   z = σ(W_z x + U_z h + b_z),
        n = tanh(W_n x + b_n + r ⊙ U_n h),   h' = z ⊙ h + (1 − z) ⊙ n.

    The logits are V h' + c. All weights and biases are uniform on ±1/√hidden. The state before `start` is zero.
    """

    symbol_in: jax.Array  # [alphabet + 2, gates · hidden], the columns of W for symbols
    time_in: jax.Array  # [level · time_bits, gates · hidden], those for digits
    recurrent: jax.Array  # [hidden, gates · hidden], U
    bias: jax.Array  # [gates · hidden], b
    out: jax.Array  # [hidden, outputs], V
    out_bias: jax.Array  # [outputs], c
    shape: Shape = eqx.field(static=True)

    def __init__(self, shape: Shape, *, key: jax.Array) -> None:
        width = shape.hidden * (3 if shape.cell == "gru" else 1)
        # One draw for all arrays: each draw more takes the compiler seconds when it is mapped over runs.
        bound = shape.hidden**-0.5
        numbers = jax.random.uniform(key, (shape.parameters,), minval=-bound, maxval=bound)
        taken = 0

        def take(*size: int) -> jax.Array:
            nonlocal taken
            taken += math.prod(size)
            return numbers[taken - math.prod(size) : taken].reshape(size)

        self.symbol_in = take(shape.alphabet + 2, width)
        self.time_in = take(shape.level * shape.time_bits, width)
        self.recurrent = take(shape.hidden, width)
        self.bias = take(width)
        self.out = take(shape.hidden, shape.outputs)
        self.out_bias = take(shape.outputs)
        self.shape = shape

    def drive(self, read: jax.Array) -> jax.Array:
        """W x + b for items int32[..., 1 + level].

        The symbol goes in by a product with a one-hot vector: the gradient of a look-up is not reproducible on GPUs.
        """
        symbols = jax.nn.one_hot(read[..., 0], self.shape.alphabet + 2)
        drive = jnp.matmul(symbols, self.symbol_in, precision=HIGHEST) + self.bias
        if self.shape.level:
            drive += jnp.matmul(digits(self.shape, read[..., 1:]), self.time_in, precision=HIGHEST)
        return drive

    def step(self, state: jax.Array, drive: jax.Array) -> jax.Array:
        """The next state [..., hidden] from the state and what was read."""
        pushed = jnp.matmul(state, self.recurrent, precision=HIGHEST)
        if self.shape.cell == "tanh":
            return jnp.tanh(drive + pushed)
        return gated_step(state, drive, pushed)

    def unroll(self, state: jax.Array, read: jax.Array, unroll: int = 1) -> jax.Array:
        """States float32[batch, n, hidden] after each of the items read, int32[batch, n, 1 + level]."""

        def advance(state: jax.Array, drive: jax.Array) -> tuple[jax.Array, jax.Array]:
            state = self.step(state, drive)
            return state, state

        drives = jnp.swapaxes(self.drive(read), 0, 1)
        return jnp.swapaxes(jax.lax.scan(advance, state, drives, unroll=unroll)[1], 0, 1)

    def logits(self, states: jax.Array) -> jax.Array:
        """Logits [..., outputs] of the next item."""
        return jnp.matmul(states, self.out, precision=HIGHEST) + self.out_bias

    def initial_state(self, batch: int) -> jax.Array:
        """The state before anything was read: zeros [batch, hidden]."""
        return jnp.zeros((batch, self.shape.hidden))

    def initial_item(self, batch: int) -> jax.Array:
        """`start`, with all times zero: int32[batch, 1 + level]."""
        return jnp.zeros((batch, 1 + self.shape.level), jnp.int32).at[:, 0].set(self.shape.start)


def digits(shape: Shape, times: jax.Array) -> jax.Array:
    """Binary digits of times, lowest first: int32[..., level] to float32[..., level · time_bits]."""
    found = (times[..., None] >> jnp.arange(shape.time_bits)) & 1
    return found.reshape(*times.shape[:-1], -1).astype(jnp.float32)


def log_probabilities(shape: Shape, logits: jax.Array, items: jax.Array) -> tuple[jax.Array, jax.Array]:
    """ln P of an item's symbol, and of its times (0 at level 0): float32[...] each."""
    symbols, times = logits[..., : shape.alphabet + 1], logits[..., shape.alphabet + 1 :]
    hit = items[..., :1] == jnp.arange(shape.alphabet + 1)
    symbol = jnp.sum(jnp.where(hit, symbols, 0.0), -1) - jax.nn.logsumexp(symbols, -1)
    signs = 2 * digits(shape, items[..., 1:]) - 1
    return symbol, jnp.sum(jax.nn.log_sigmoid(signs * times), -1)


def modes(shape: Shape, logits: jax.Array) -> jax.Array:
    """The most probable items: int32[..., 1 + level]. The lowest symbol wins a tie, and a digit in doubt is 0."""
    symbol = jnp.argmax(logits[..., : shape.alphabet + 1], -1).astype(jnp.int32)
    on = (logits[..., shape.alphabet + 1 :] > 0).astype(jnp.int32)
    on = on.reshape(*on.shape[:-1], shape.level, shape.time_bits)
    times = jnp.sum(on << jnp.arange(shape.time_bits, dtype=jnp.int32), -1)
    return jnp.concatenate([symbol[..., None], times], -1)
