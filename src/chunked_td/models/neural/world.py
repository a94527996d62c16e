"""World models of many runs, trained together: one compiled call per episode.

The runs of an arm (seeds × step sizes) have networks of one shape and episodes of one length T, so they advance in
lockstep. One program trains all networks on the latest episode of each run, step by step, and returns each run's λ for
every step. It computes exactly the online loop, for transition n = 1, 2, …:

    store transition n;
    if n is a multiple of train_every and n > batch_size: one training step on a batch of stored transitions;
    λₙ = probability of transition n under the current parameters.

Optimisations:
  - an episode is inserted into the replay buffer at once, so all its batches are sampled and gathered before the loop;
  - parameters change only every train_every transitions, so one forward pass computes the λs of such a block, beside
    that of the next training step, which uses the same parameters;
  - the loop returns only the logits of those rows; probabilities and diagnostics are computed after it, for all steps.

A run whose loss is not finite is frozen and marked in `broken_at`; its λ is 0 from that episode on. The other runs are
not affected.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike

from chunked_td._checks import check_choice
from chunked_td.models.neural import replay
from chunked_td.models.neural.diagnostics import Diagnostics, Tally, add_episode, means, no_tally
from chunked_td.models.neural.networks import (
    CategoricalNetwork,
    NetworkConfig,
    features,
    mean_cross_entropy,
    optimiser,
    outcomes,
)
from chunked_td.seeding import model_seed

PRECISIONS = ("float32", "tf32x3", "tf32")

GPU_OPTIONS = {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"}
"""Compiler options with which independent kernels run concurrently. A training step has about 35 kernels, most of them
too small to fill a GPU."""


def matmul_precision(name: str) -> Any:
    """JAX's name for a precision of matrix products; a CPU always computes in float32."""
    if name == "float32" or jax.default_backend() == "cpu":
        return jax.lax.Precision.HIGHEST
    return jax.lax.Precision.DEFAULT if name == "tf32" else jax.lax.DotAlgorithmPreset.TF32_TF32_F32_X3


class WorldState(NamedTuple):
    """State that training changes. The first axis of arrays is the run, except for the two counters."""

    networks: CategoricalNetwork
    moments: Any
    buffer: jax.Array  # int[B, slots, width]
    keys: jax.Array  # sampling keys [B]
    n: jax.Array  # int32[], transitions stored by each run
    broken_at: jax.Array  # int32[B], the transition at which the loss was not finite; 0 for none
    tally: Tally


class WorldProgram(NamedTuple):
    """Constants of a compiled program."""

    config: NetworkConfig
    episode_length: int
    reading: Any  # a Reading of chunked_td.lambdas.on_device
    precision: str
    staged: bool


def _start(config: NetworkConfig, episode_length: int, width: int, seeds: jax.Array) -> WorldState:
    """New networks and empty buffers; a run's part depends only on its own seed. `width`: λs per step."""
    runs = seeds.shape[0]
    keys = jax.vmap(lambda seed: jax.random.split(jax.random.key(seed)))(seeds)
    networks = eqx.filter_vmap(lambda key: CategoricalNetwork(config, key=key))(keys[:, 0])
    shape = (runs, replay.slots(config.capacity, episode_length), replay.row_width(config))
    moments = optimiser(config).init(eqx.filter(networks, eqx.is_array))
    buffer, broken_at = jnp.zeros(shape, replay.row_dtype(config)), jnp.zeros(runs, jnp.int32)
    return WorldState(networks, moments, buffer, keys[:, 1], jnp.zeros((), jnp.int32), broken_at, no_tally(runs, width))


def loss_and_reads(
    network: CategoricalNetwork, x: jax.Array, outcome: jax.Array, reads: jax.Array, precision: Any
) -> tuple[jax.Array, jax.Array]:
    """Training loss of a batch, and the logits of further rows [r, inputs] under the same parameters."""
    logits, read = network(x, precision=precision), network(reads, precision=precision)
    return mean_cross_entropy(network.config, logits, outcome), jax.lax.stop_gradient(read)


def _choose(keep: jax.Array, new: Any, old: Any) -> Any:
    """Per run, the new arrays if `keep`, else the old."""

    def pick(a: jax.Array, b: jax.Array) -> jax.Array:
        if a.ndim == 0:  # Adam's count, the same for all runs
            return a
        return jnp.where(keep.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, new, old)


def adam_change(config: NetworkConfig, moments: Any) -> Any:
    """Adam's step from the moments after their update."""
    count, mean, square = (optax.tree_utils.tree_get(moments, name) for name in ("count", "mu", "nu"))
    first, second = 1 - 0.9 ** count.astype(jnp.float32), 1 - 0.999 ** count.astype(jnp.float32)

    def change(m: jax.Array, v: jax.Array) -> jax.Array:
        return -config.learning_rate * (m / first) / (jnp.sqrt(v / second) + 1e-8)

    return jax.tree.map(change, mean, square)


def training_step(program: WorldProgram, carry: Any, xs: Any) -> tuple[Any, jax.Array]:
    """One training step of all runs, and logits of further rows with the parameters before it."""
    networks, moments, broken_at, loss_sum, updates = carry
    n, x, outcome, reads = xs
    precision = matmul_precision(program.precision)
    both = jax.value_and_grad(loss_and_reads, has_aux=True)
    (loss, read), gradient = jax.vmap(lambda *a: both(*a, precision))(networks, x, outcome, reads)
    due = n > program.config.batch_size
    finite = jnp.isfinite(loss) & jnp.all(jnp.isfinite(gradient.layers[0].bias), axis=1)
    broken_at = jnp.where(due & ~finite & (broken_at == 0), n, broken_at)
    keep = due & (broken_at == 0)
    change, new_moments = optimiser(program.config).update(gradient, moments, networks)
    moments = jax.tree.map(
        lambda a, b: jnp.where(due, a, b) if a.ndim == 0 else a, _choose(keep, new_moments, moments), moments
    )
    if program.staged:
        moments = jax.lax.optimization_barrier(moments)
        change = adam_change(program.config, moments)
    networks = _choose(keep, eqx.apply_updates(networks, change), networks)
    loss_sum = loss_sum + jnp.where(keep, loss, 0.0)
    return (networks, moments, broken_at, loss_sum, updates + keep), read


def _batches(program: WorldProgram, state: WorldState, buffer: jax.Array, ns: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Inputs float32[U, B, batch, ·] and outcomes int32[U, B, batch, c] of the training steps at transitions ns."""
    config = program.config

    def rows_of(key: jax.Array, rows: jax.Array) -> jax.Array:
        size = (config.batch_size, config.capacity, rows.shape[0])
        return rows[jax.vmap(lambda n: replay.draw(key, n, *size))(ns)]

    rows = jax.vmap(rows_of, out_axes=1)(state.keys, buffer)
    before, action, after = replay.unpack(config, rows)
    return features(config, before, action), outcomes(config, before, after)


def _read_inputs(program: WorldProgram, rows: jax.Array) -> jax.Array:
    """Inputs float32[T, B, r, ·] whose logits give the λ of each step: the action taken, or every action."""
    before, action, _ = replay.unpack(program.config, rows.swapaxes(0, 1))
    every = action[..., None]
    if not program.reading.only_taken:
        every = jnp.broadcast_to(
            jnp.arange(program.config.actions, dtype=rows.dtype), (*action.shape, program.config.actions)
        )
    states = jnp.broadcast_to(before[:, :, None], (*every.shape, before.shape[-1]))
    return features(program.config, states, every)


def _blocks(program: WorldProgram, reads: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Group reads by the training step that follows them.

    Transition n is read after the training step at n. So the reads of k·(j−1)..k·j−1 precede the step at transition
    k·j, and the last transition is read after the loop. This episode has no transition 0 (its λ belongs to the episode
    before); a copy of the first keeps the blocks equal. [T, B, r, ·] → ([T/k, B, k·r, ·], [B, r, ·]).
    """
    k = program.config.train_every
    shifted = jnp.concatenate([reads[:1], reads[:-1]])
    blocks = shifted.reshape(-1, k, *reads.shape[1:]).swapaxes(1, 2)
    return blocks.reshape(*blocks.shape[:2], -1, reads.shape[-1]), reads[-1]


def _unblock(program: WorldProgram, blocks: jax.Array, last: jax.Array, r: int) -> jax.Array:
    """Undo `_blocks`: logits [T/k, B, k·r, ·] and [B, r, ·] to [B, T, r, ·]."""
    per_step = blocks.reshape(*blocks.shape[:2], program.config.train_every, r, -1)
    series = per_step.swapaxes(0, 1).reshape(blocks.shape[1], program.episode_length, r, -1)
    return jnp.concatenate([series[:, 1:], last[:, None]], axis=1)


def _episode(program: WorldProgram, state: WorldState, states, actions, policy, noisy) -> tuple[WorldState, jax.Array]:
    """Train on one episode of every run; λ of each step. Shapes as for `World.episode`."""
    config, k = program.config, program.config.train_every
    rows = jax.vmap(replay.pack)(states, actions)
    buffer = jax.vmap(replay.insert, in_axes=(0, 0, None))(state.buffer, rows, state.n)
    ns = state.n + k * (1 + jnp.arange(program.episode_length // k, dtype=jnp.int32))
    x, outcome = _batches(program, state, buffer, ns)
    blocks, last = _blocks(program, _read_inputs(program, rows))
    networks, static = eqx.partition(state.networks, eqx.is_array)
    carry = (networks, state.moments, state.broken_at, state.tally.loss, state.tally.updates)

    def body(carry: Any, xs: Any) -> tuple[Any, jax.Array]:
        (nets, *rest), read = training_step(program, (eqx.combine(carry[0], static), *carry[1:]), xs)
        return (eqx.filter(nets, eqx.is_array), *rest), read

    carry, read = jax.lax.scan(body, carry, (ns, x, outcome, blocks))
    networks, moments, broken_at, loss, updates = carry
    networks = eqx.combine(networks, static)
    forward = functools.partial(CategoricalNetwork.__call__, precision=matmul_precision(program.precision))
    rows_per_step = 1 if program.reading.only_taken else config.actions
    logits = _unblock(program, read, jax.vmap(forward)(networks, last), rows_per_step)

    before, action, after = replay.unpack(config, rows)
    seen = outcomes(config, before, after)
    lambdas = program.reading(config, logits, seen, policy)
    whole = broken_at.reshape(-1, *(1,) * (lambdas.ndim - 1)) == 0
    lambdas = jnp.where(whole, lambdas, 0.0)
    tally = state.tally._replace(loss=loss, updates=updates)
    # The diagnostics use the action that was taken.
    places = action[..., None, None].astype(jnp.int32)
    taken = (logits if program.reading.only_taken else jnp.take_along_axis(logits, places, axis=2))[:, :, 0]
    tally = add_episode(config, tally, lambdas, taken, seen, noisy)
    n = state.n + program.episode_length
    return WorldState(networks, moments, buffer, state.keys, n, broken_at, tally), lambdas


# Compiled once per program and number of runs, and shared by all worlds.
_start_program = jax.jit(_start, static_argnums=(0, 1, 2))
_episode_program = jax.jit(_episode, static_argnums=0, donate_argnums=1)
_compiled_ahead: dict[Any, Any] = {}


def _compiled(program: Any) -> Any:
    """Compile a lowered program, on a GPU with `GPU_OPTIONS` if this version of the compiler accepts them."""
    if jax.default_backend() != "gpu":
        return program.compile()
    try:
        return program.compile(compiler_options=GPU_OPTIONS)
    except jax.errors.JaxRuntimeError as error:
        if "No such compile option" not in str(error):
            raise
        return program.compile()


def _whole(name: str, given: ArrayLike, shape: tuple[int, ...], limit: Any) -> np.ndarray:
    """Check an array of whole numbers of this shape, each at least 0 and below its limit."""
    values = np.asarray(given)
    if values.shape != shape:
        raise ValueError(f"{name} must have the shape {shape}, got {values.shape}")
    if values.min() < 0 or not (values < np.asarray(limit, np.min_scalar_type(np.max(limit)))).all():
        raise ValueError(f"{name} must have values in 0..{np.asarray(limit) - 1}, got {values.min()} to {values.max()}")
    return values


class World:
    """World models of a batch of runs.

    Args:
      config: the network and its training.
      seeds: the runs' seeds; runs with the same seed have the same initial network and the same batches.
      episode_length: T, the number of transitions of every episode; a multiple of config.train_every.
      reading: the numbers to compute from the logits of every step, a `chunked_td.lambdas.on_device.Reading`.
      precision: of the matrix products on a GPU: "float32", "tf32x3" or "tf32". A CPU always uses float32.
      staged: update Adam's moments first and then the parameters, instead of both in one pass. Default: on a CPU, for
        networks that fit into its cache with both moments (10 % faster; 10 % slower for larger ones).
    """

    def __init__(
        self,
        config: NetworkConfig,
        seeds: Sequence[int],
        episode_length: int,
        *,
        reading: Any,
        precision: str = "float32",
        staged: bool | None = None,
    ) -> None:
        check_choice("precision", precision, PRECISIONS)
        if episode_length < 1 or episode_length % config.train_every:
            raise ValueError(
                f"episode_length must be a positive multiple of train_every = {config.train_every}, got "
                f"{episode_length}"
            )
        if staged is None:
            staged = jax.default_backend() == "cpu" and 12 * config.parameters < 1 << 20
        self.program = WorldProgram(config, int(episode_length), reading, precision, bool(staged))
        self.runs = len(seeds)
        numbers = jnp.asarray(np.array([model_seed(seed) for seed in seeds], np.uint32))
        self.state: WorldState = _start_program(config, int(episode_length), reading.width(config), numbers)
        self._compiled: Any = functools.partial(_episode_program, self.program)
        self._no_policy = jnp.zeros((self.runs, episode_length, config.actions))
        self._noisy = jnp.zeros((self.runs, episode_length), bool)

    def mark_noisy(self, noisy: ArrayLike) -> None:
        """Set the steps that count as noisy in the diagnostics: bool[T] or bool[B, T]. Default: none."""
        shape = (self.runs, self.program.episode_length)
        self._noisy = jnp.asarray(np.broadcast_to(np.asarray(noisy, bool), shape))

    def episode(self, states: ArrayLike, actions: ArrayLike, policy: ArrayLike | None = None) -> jax.Array:
        """Train every run on its episode and compute its λs. The call is asynchronous: only reading the result blocks.

        Args:
          states: int[B, T+1, c], of times 0..T.
          actions: int[B, T], of times 0..T−1.
          policy: float[B, T, actions], π(a|xₜ) for t in 0..T−1; not needed if the reading uses only the action taken.
        Returns:
          result of the reading for transition t in 0..T−1: float32[B, T], or float32[B, T, width].
        """
        arguments = self._arguments(states, actions, policy)
        self.state, lambdas = self._compiled(self.state, *arguments)
        return lambdas

    def compile(self) -> float:
        """Compile the episode's program before its first use; return the seconds that it took."""
        start = time.perf_counter()
        shape = (self.runs, self.program.episode_length)
        states = np.zeros((shape[0], shape[1] + 1, len(self.program.config.nvec)), np.int64)
        arguments = self._arguments(states, np.zeros(shape, np.int64), self._no_policy)
        key = (self.program, self.runs, *self.state.n.devices())
        if key not in _compiled_ahead:
            _compiled_ahead[key] = _compiled(_episode_program.lower(self.program, self.state, *arguments))
        self._compiled = _compiled_ahead[key]
        return time.perf_counter() - start

    def _arguments(self, states: ArrayLike, actions: ArrayLike, policy: ArrayLike | None) -> tuple[Any, ...]:
        """Check the arrays and convert them to the dtypes of the program."""
        config, shape = self.program.config, (self.runs, self.program.episode_length)
        dtype = replay.row_dtype(config)
        states = _whole("states", states, (shape[0], shape[1] + 1, len(config.nvec)), np.array(config.nvec))
        actions = _whole("actions", actions, shape, config.actions)
        if policy is None and not self.program.reading.only_taken:
            raise ValueError(f"policy must be float{[*shape, config.actions]} for {self.program.reading}, got None")
        mixed = self._no_policy if policy is None else np.asarray(policy, np.float32)
        if mixed.shape != (*shape, config.actions):
            raise ValueError(f"policy must have the shape {(*shape, config.actions)}, got {mixed.shape}")
        return states.astype(dtype), actions.astype(dtype), mixed, self._noisy

    @property
    def broken_at(self) -> np.ndarray:
        """int[B]: transition at which a run was frozen because its loss was not finite; 0 for none."""
        return np.asarray(self.state.broken_at)

    def diagnostics(self) -> Diagnostics:
        """Means since the previous call; starts the next interval."""
        result = means(self.state.tally)
        self.state = self.state._replace(tally=no_tally(self.runs, self.state.tally.lambdas.shape[-1]))
        return result
