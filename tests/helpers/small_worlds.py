"""Small sizes of the two network experiments, shared by the tests so that few programs are compiled, and the online
loop written out: store, train if due, read."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from chunked_td.envs.dynamics import AccumulatedCharge, KeyToDoor
from chunked_td.lambdas.on_device import Reading
from chunked_td.models.neural import networks
from chunked_td.models.neural.networks import CategoricalNetwork
from chunked_td.models.neural.world import World, model_seed
from chunked_td.simulation.networks import PRECISION
from studies.accumulated_charge.network import network_config as charge_network
from studies.key_to_door.network import network_config as door_network

LENGTH = 8
CHARGE_DYNAMICS = AccumulatedCharge.make(horizon=LENGTH, points=2)
DOOR_DYNAMICS = KeyToDoor.make(horizon=LENGTH, distractors=1)
_SMALL = {"batch_size": 6, "capacity": 20, "learning_rate": 1e-2}
CHARGE = dataclasses.replace(charge_network(CHARGE_DYNAMICS.nvec, 2, 4), hidden=(8, 8, 8), **_SMALL)
DOOR = dataclasses.replace(door_network(DOOR_DYNAMICS.nvec, 2), hidden=(8, 8), **_SMALL)


def small_world(config, seeds, **settings):
    """A world in the arrangement that the studies use."""
    reading = Reading(settings.pop("reading", "sarsa"), settings.pop("expected", False))
    world = World(config, seeds, LENGTH, **{"reading": reading, "precision": PRECISION, **settings})
    world.compile()
    return world


def episodes_of(config, runs, count, seed=0):
    """Random episodes: (states [B, T+1, c], actions [B, T], policy [B, T, A]) × count."""
    rng = np.random.default_rng(seed)
    result = []
    for _ in range(count):
        states = np.zeros((runs, LENGTH + 1, len(config.nvec)), np.int64)
        states[:, :, -1] = np.arange(LENGTH + 1)
        if config.nvec[1] > 2:
            states[:, 1:, 0] = rng.integers(0, 2, (runs, 1))
            states[:, 1:, 1] = np.cumsum(rng.integers(0, 2, (runs, LENGTH)), 1)
        else:
            states[:, :, :-1] = rng.integers(0, 2, (runs, LENGTH + 1, len(config.nvec) - 1))
        policy = rng.dirichlet(np.ones(config.actions), (runs, LENGTH))
        result.append((states, rng.integers(0, config.actions, (runs, LENGTH)), policy))
    return result


def transitions_of(episodes, run):
    """[(state, action, next state)] of one run."""
    return [(s[run, t], int(a[run, t]), s[run, t + 1]) for s, a, _ in episodes for t in range(LENGTH)]


def adam_of(config):
    return optax.chain(optax.add_decayed_weights(config.weight_decay), optax.adam(config.learning_rate))


@functools.partial(jax.jit, static_argnums=0)
def start(config, seed):
    init, sampling = jax.random.split(jax.random.key(seed))
    network = CategoricalNetwork(config, key=init)
    return network, adam_of(config).init(eqx.filter(network, eqx.is_array)), sampling


@functools.partial(jax.jit, static_argnums=0)
def train(config, network, moments, state, action, following):
    x, outcome = networks.features(config, state, action), networks.outcomes(config, state, following)
    gradient = eqx.filter_grad(lambda m: networks.mean_cross_entropy(config, m(x), outcome))(network)
    change, moments = adam_of(config).update(gradient, moments, eqx.filter(network, eqx.is_array))
    return eqx.apply_updates(network, change), moments


@functools.partial(jax.jit, static_argnums=0)
def probabilities(config, network, state, following):
    """float32[A, c], for every action."""
    every = jnp.arange(config.actions)
    x = networks.features(config, jnp.tile(state, (config.actions, 1)), every)
    return jnp.exp(networks.log_likelihood(config, network(x), networks.outcomes(config, state, following)[None]))


def online_loop(config, seed, transitions, *, shift=0, read_first=False, lost=0, wait=0):
    """P̂ᵢ(x'ⁱ|x, a) of every transition, action and component for one run: float64[n, A, c].

    The mutations that a test of timing must notice:
      shift: train at n + shift in place of n. read_first: read before training.
      lost: the ring is that much smaller. wait: training begins that much later.
    """
    network, moments, sampling = start(config, np.uint32(model_seed(seed)))
    ring, read = [], []
    for n, (state, action, following) in enumerate(transitions, start=1):
        ring = [*ring, (state, action, following)][-(config.capacity - lost) :]
        if read_first:
            read.append(probabilities(config, network, state, following))
        if (n + shift) % config.train_every == 0 and n > config.batch_size + wait:
            age = jax.random.randint(jax.random.fold_in(sampling, n), (config.batch_size,), 0, len(ring))
            batch = [ring[-1 - a] for a in np.asarray(age)]
            parts = (np.array(part) for part in zip(*batch, strict=True))
            network, moments = train(config, network, moments, *parts)
        if not read_first:
            read.append(probabilities(config, network, state, following))
    return np.array(read, np.float64)
