"""The network's inputs: does Chunked SARSA differ between the two signs if its network reads no charge as a number?

    python -m studies.accumulated_charge.inputs --seeds 0 1 2 --out DIR    # a minute per seed and kind of input, a core

Three kinds of input, else the network of App. A.2:

    scaled           every component divided by its maximum: the paper's
    one-hot          every component one-hot: no input is ordered by charge or time
    time-one-hot     time one-hot; first action and charge divided by their maximum

The first 1,000 episodes act at random, and rewards are no part of what the network predicts. So one network serves
both signs, all twelve step sizes and both forms of λ (the probability of the sampled state, and its mean), and these
1,000 episodes are those of the experiment. The network is then frozen; the experiment trains it further. From there
ε is 0.1. Freezing makes the comparison cheap enough for a CPU. Whether it matters is a separate claim: with the
paper's inputs the signs must differ as they did with networks trained to the end.

Scores are the regretful choices of 2,000 episodes, as in `signs`: 550 is the best possible, 1,450 the worst. Those of
10,000 are stored as well.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from chunked_td.envs.dynamics import AccumulatedCharge
from studies.accumulated_charge.network import network_config

if TYPE_CHECKING:
    from chunked_td.models.neural.networks import NetworkConfig

KINDS = {"scaled": (False, False, False), "one-hot": (True, True, True), "time-one-hot": (False, False, True)}
"""Whether each of (first action, charge, time) is one-hot."""
READINGS = ("", "-expected")
EXPLORED, EPISODES, HORIZON, STRETCH = 1_000, 10_000, 200, 100
STEP_SIZES = [0.1 * 2.0**j for j in (3, 2, 1, 0, -1, -2, -3, -4, -6, -8, -10, -12)]
RECORD = (1_000, 2_000, 10_000)
CHARGE, TIME = 1, 2

# ---- networks with other inputs


@functools.cache
def network_type() -> Any:
    """`NetworkConfig` with a choice of one-hot inputs; a function, because the study is read without JAX."""
    from chunked_td.models.neural.networks import NetworkConfig

    @dataclass(frozen=True)
    class InputConfig(NetworkConfig):
        one_hot: tuple[bool, ...] = ()

        @property
        def sizes(self) -> list[int]:
            """Numbers per layer, from the input to the output."""
            width = sum(n if one_hot else 1 for n, one_hot in zip(self.nvec, self.one_hot, strict=True))
            return [width + self.actions, *self.hidden, self.outputs]

    return InputConfig


def config_of(kind: str, **sizes: Any) -> NetworkConfig:
    """The network of the experiment with inputs of a kind. Args: sizes: of `network.network_config`."""
    plain = network_config(**sizes)
    return network_type()(**{name: getattr(plain, name) for name in plain.__dataclass_fields__}, one_hot=KINDS[kind])


def inputs(config: Any, state: Any, action: Any) -> Any:
    """float32[..., width] from int[..., c] and int[...]."""
    import jax.numpy as jnp

    parts = []
    for i, (n, one_hot) in enumerate(zip((*config.nvec, config.actions), (*config.one_hot, True), strict=True)):
        each = (action if i == len(config.nvec) else state[..., i])[..., None]
        parts.append(each == jnp.arange(n) if one_hot else each / np.float32(max(n - 1, 1)))
    return jnp.concatenate([part.astype(jnp.float32) for part in parts], axis=-1)


class Networks(NamedTuple):
    """The networks of some seeds in training. Arrays lead with the seed, except the counter."""

    networks: Any
    moments: Any
    buffer: Any  # int[B, slots, width]
    keys: Any
    n: Any  # int32[], transitions so far


def start(config: Any, seeds: Sequence[int]) -> Networks:
    """Fresh networks: those of the experiment where the inputs are."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from chunked_td.models.neural import replay
    from chunked_td.models.neural.networks import CategoricalNetwork, optimiser
    from chunked_td.seeding import model_seed

    numbers = jnp.asarray(np.array([model_seed(seed) for seed in seeds], np.uint32))
    keys = jax.vmap(lambda seed: jax.random.split(jax.random.key(seed)))(numbers)
    networks = eqx.filter_vmap(lambda key: CategoricalNetwork(config, key=key))(keys[:, 0])
    shape = (len(seeds), replay.slots(config.capacity, HORIZON), replay.row_width(config))
    moments = optimiser(config).init(eqx.filter(networks, eqx.is_array))
    return Networks(networks, moments, jnp.zeros(shape, np.uint8), keys[:, 1], jnp.zeros((), jnp.int32))


@functools.cache
def episode_program(config: Any) -> Any:
    """A compiled function: train on an episode of every seed, and read the λs of its steps, [2, B, T].

    Training steps come every `train_every` transitions, and a step's λ is read with the parameters of then.
    """
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from chunked_td.lambdas.on_device import Reading
    from chunked_td.models.neural import replay
    from chunked_td.models.neural.networks import mean_cross_entropy, optimiser, outcomes

    k, slots = config.train_every, replay.slots(config.capacity, HORIZON)
    readings = Reading(), Reading(expected=True)

    def read(networks: Any, rows: Any) -> Any:
        before, action, after = replay.unpack(config, rows)
        logits = jax.vmap(lambda network, x: network(x))(networks, inputs(config, before, action))
        seen = outcomes(config, before, after)
        taken = logits[..., None, :]  # of the action taken, so that no policy is read
        return jnp.stack([reading(config, taken, seen, jnp.ones(1)) for reading in readings])

    def loss(network: Any, rows: Any) -> Any:
        before, action, after = replay.unpack(config, rows)
        return mean_cross_entropy(config, network(inputs(config, before, action)), outcomes(config, before, after))

    def train(carry: Any, xs: Any) -> Any:
        (arrays, moments), (n, batch, rows) = carry, xs
        networks = eqx.combine(arrays, static)
        gradient = eqx.filter(jax.vmap(eqx.filter_grad(loss))(networks, batch), eqx.is_array)
        change, new = optimiser(config).update(gradient, moments, arrays)
        due = n > config.batch_size
        arrays, moments = jax.tree.map(
            lambda a, b: jnp.where(due, a, b), (eqx.apply_updates(arrays, change), new), (arrays, moments)
        )
        return (arrays, moments), read(eqx.combine(arrays, static), rows)

    # Until the training step at transition 4 the λs of transitions 1 to 3 are those of the parameters before.
    static: Any = None

    @functools.partial(jax.jit, donate_argnums=0)
    def episode(state: Networks, states: Any, actions: Any) -> Any:
        nonlocal static
        rows = jax.vmap(replay.pack)(states, actions)
        buffer = jax.vmap(replay.insert, in_axes=(0, 0, None))(state.buffer, rows, state.n)
        ns = state.n + k * (1 + jnp.arange(HORIZON // k, dtype=jnp.int32))
        draw = jax.vmap(lambda key, n: replay.draw(key, n, config.batch_size, config.capacity, slots), (None, 0))
        batches = jax.vmap(lambda key, all_rows: all_rows[draw(key, ns)], out_axes=1)(state.keys, buffer)
        arrays, static = eqx.partition(state.networks, eqx.is_array)
        first = read(state.networks, rows[:, : k - 1])
        blocks = jnp.concatenate([rows[:, k - 1 :], rows[:, : k - 1]], axis=1)  # the last block's tail is not used
        blocks = blocks.reshape(len(rows), HORIZON // k, k, -1).swapaxes(0, 1)
        (arrays, moments), found = jax.lax.scan(train, (arrays, state.moments), (ns, batches, blocks))
        found = jnp.moveaxis(found, 0, 2).reshape(2, len(rows), HORIZON)
        lambdas = jnp.concatenate([first, found], axis=2)[:, :, :HORIZON]
        after = Networks(eqx.combine(arrays, static), moments, buffer, state.keys, state.n + HORIZON)
        return after, lambdas

    return episode


def tables_of(config: Any, networks: Any, b: int) -> tuple[np.ndarray, np.ndarray]:
    """λ of a frozen network: float32[2, 201, 201, 21] by state and added charge, and [2, 201, 201].

    The action is 0, the only one after the first step; the first action does not change and time increases by one.
    """
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    network = jax.tree.map(lambda leaf: leaf[b] if eqx.is_array(leaf) else leaf, networks)
    heads = [head.outcomes for head in config.heads]
    if len(set(heads)) != 1:
        raise ValueError(f"heads must have one number of outcomes, got {heads}")

    @jax.jit
    def of(states: Any) -> Any:
        logits = network(inputs(config, states, jnp.zeros(len(states), jnp.int32)))
        chances = jax.nn.softmax(logits.reshape(len(states), len(heads), heads[0]), -1)
        realised = chances[:, 0, :1] * chances[:, CHARGE] * chances[:, TIME, 1:2]
        return realised, jnp.prod(jnp.sum(chances**2, -1), -1)

    first, charge, time_ = (np.arange(n) for n in config.nvec)
    grid = np.stack(np.meshgrid(first, charge, time_, indexing="ij"), -1).reshape(-1, 3)
    found = [tuple(map(np.asarray, of(part))) for part in np.array_split(grid, 18)]
    realised, expected = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return realised.reshape(*config.nvec, -1), expected.reshape(config.nvec)


# ---- runs


def fleet(mirrored: bool, seeds: Sequence[int], episodes: int) -> Any:
    """Chunked SARSA with every step size, seed by seed; λ is told after every episode."""
    from chunked_td.lambdas import ForwardLambda
    from chunked_td.simulation.lockstep import LockstepRuns

    problem = AccumulatedCharge.make(horizon=HORIZON, points=10, success=0.5, bonus=0.1, mirrored=mirrored)
    return LockstepRuns(
        problem,
        learner="sarsa",
        lambda_source=ForwardLambda(),
        discount=1.0,
        epsilons=np.where(np.arange(episodes) < EXPLORED, 1.0, 0.1),
        seeds=[seed for seed in seeds for _ in STEP_SIZES],
        step_sizes=STEP_SIZES * len(seeds),
        threads=1,
    )


def by_charge(charges: np.ndarray, lambdas: np.ndarray, means: np.ndarray, quiet: np.ndarray) -> tuple[float, ...]:
    """Mean λ of quiet steps above and below the usual charge, then of charging steps above and below.

    Args:
      charges, lambdas: float[episodes, T] of one seed. means: float[T], the usual charge. quiet: bool[T].
    """
    away = charges - means
    found = [lambdas[:, steps][side[:, steps]] for steps in (quiet, ~quiet) for side in (away > 0, away < 0)]
    return tuple(float(each.mean()) if each.size else float("nan") for each in found)


def explore(kind: str, seeds: Sequence[int], fleets: Sequence[Sequence[Any]]) -> tuple[Any, pl.DataFrame]:
    """Train networks on the first episodes, and learn from them. Args: fleets: of every reading, both signs."""
    first, config, episodes = fleets[0][0], config_of(kind), EXPLORED
    state, program = start(config, seeds), episode_program(config)
    quiet = ~np.asarray(first.envs.charging, bool)[:: len(STEP_SIZES), :HORIZON]
    charges, rows = np.zeros((episodes, len(seeds), HORIZON)), []
    stretch = np.zeros((2, STRETCH, len(seeds), HORIZON))
    for each in (one for signs in fleets for one in signs):
        each.roll_out()
    for k in range(episodes):
        states, actions = (np.asarray(each[:: len(STEP_SIZES)]) for each in (first.states, first.actions))
        state, lambdas = program(state, states.astype(np.uint8), actions.astype(np.uint8))
        lambdas = np.asarray(lambdas)
        charges[k], stretch[:, k % STRETCH] = states[:, :HORIZON, CHARGE], lambdas
        if not all(np.array_equal(one.states, first.states) for signs in fleets for one in signs):
            raise AssertionError("runs that act at random must see the same states")
        for reading, signs in enumerate(fleets):
            for one in signs:
                one.learn(np.repeat(lambdas[reading], len(STEP_SIZES), axis=0), roll_on=k + 1 < episodes)
        if (k + 1) % STRETCH == 0:
            now = slice(k + 1 - STRETCH, k + 1)
            for b, seed in enumerate(seeds):
                usual = charges[: k + 1, b].mean(axis=0)
                for reading, name in enumerate(READINGS):
                    found = by_charge(charges[now, b], stretch[reading, :, b], usual, quiet[b])
                    rows.append((kind + name, seed, k + 1, *found))
    names = ("arm", "seed", "episode", "quiet_high", "quiet_low", "charging_high", "charging_low")
    return state, pl.DataFrame(rows, schema=names, orient="row")


def go_on(one: Any, table: Sequence[np.ndarray], record: Sequence[int], episodes: int) -> list[np.ndarray]:
    """Play to the end with λ from tables, one per seed; the regretful choices at `record`."""
    each, tables = len(STEP_SIZES), np.stack(table)
    index = np.repeat(np.arange(len(tables)), each)[:, None]
    found = [one.totals.misses[:, 0].copy()] if EXPLORED in record else []
    one.roll_out()
    for k in range(EXPLORED, episodes):
        x = np.asarray(one.states).astype(np.intp)
        at = (index, *(x[:, :-1, i] for i in range(3)))
        lambdas = tables[(*at, x[:, 1:, CHARGE] - x[:, :-1, CHARGE])] if tables.ndim == 5 else tables[at]
        due = k + 1 in record
        one.learn(lambdas, roll_on=not due)
        if due:
            found.append(one.totals.misses[:, 0].copy())
            if k + 1 < episodes:
                one.roll_out()
    return found


def runs(kind: str, seeds: Sequence[int], episodes: int = EPISODES) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All runs with inputs of one kind, and λ by charge over training."""
    signs = ("inputs", "inputs-mirrored")
    fleets = [[fleet(sign == signs[1], seeds, episodes) for sign in signs] for _ in READINGS]
    began = time.monotonic()
    state, by = explore(kind, seeds, fleets)
    print(f"{kind}: networks of {len(seeds)} seeds trained in {time.monotonic() - began:.0f} s", flush=True)
    tables = [tables_of(config_of(kind), state.networks, b) for b in range(len(seeds))]
    record, parts = [each for each in RECORD if each <= episodes], []
    for reading, name in enumerate(READINGS):
        for sign, one in zip(signs, fleets[reading], strict=True):
            found = np.stack(go_on(one, [each[reading] for each in tables], record, episodes), axis=1)
            B = len(found)
            lost = one.diverged >= 0
            if lost.any():
                raise AssertionError(f"{lost.sum()} runs of {kind}{name} diverged")
            parts.append(pl.DataFrame({
                "problem": [sign] * (B * len(record)),
                "precision": ["float32-cpu"] * (B * len(record)),
                "arm": [kind + name] * (B * len(record)),
                "step_size": np.repeat(STEP_SIZES * len(seeds), len(record)),
                "seed": np.repeat(np.repeat(list(seeds), len(STEP_SIZES)), len(record)),
                "episode": list(record) * B,
                "score": found.ravel().astype(np.float64),
            }))  # fmt: skip
    return pl.concat(parts), by


def main() -> None:
    """Run, and write two tables per kind and batch of seeds; what is there is not run again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(20)))
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--together", type=int, default=2, help="seeds at a time")
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for first in range(0, len(given.seeds), given.together):
        seeds = given.seeds[first : first + given.together]
        for kind in given.kinds:
            path = given.out / f"{kind}-{'-'.join(map(str, seeds))}.parquet"
            if not path.exists():
                scores, by = runs(kind, seeds, given.episodes)
                by.write_parquet(path.with_suffix(".lambda.parquet"))
                scores.write_parquet(path)


if __name__ == "__main__":
    main()
