"""The batched program against the online loop written out: store, train if due, read λ."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from chunked_td.models import networks
from chunked_td.models.networks import CategoricalNetwork, accumulated_charge, key_to_door
from chunked_td.models.world import World, model_seed

CHARGE = dataclasses.replace(
    accumulated_charge((2, 9, 9), 2, 4), hidden=(8, 8, 8), batch_size=6, capacity=20, learning_rate=1e-2
)
DOOR = dataclasses.replace(
    key_to_door((2, 2, 2, 2, 9), 2), hidden=(8, 8), batch_size=6, capacity=20, learning_rate=1e-2
)
LENGTH = 8


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


def online_loop(config, seed, transitions, *, shift=0, read_first=False):
    """λ of P̂(x'|x, a) for one run, one transition at a time.

    Args:
      transitions: [(state, action, next state)]. The mutations a test of timing must notice:
      shift: train at n + shift in place of n. read_first: read λ before training.
    """
    init, sampling = jax.random.split(jax.random.key(np.uint32(model_seed(seed))))
    network = CategoricalNetwork(config, key=init)
    adam = optax.chain(optax.add_decayed_weights(config.weight_decay), optax.adam(config.learning_rate))
    moments = adam.init(eqx.filter(network, eqx.is_array))
    ring, lambdas = [], []

    def inputs(rows):
        s, a, f = (jnp.asarray(np.array(part)) for part in zip(*rows, strict=True))
        return networks.features(config, s, a), networks.outcomes(config, s, f)

    @eqx.filter_jit
    def step(network, moments, x, outcome):
        gradient = eqx.filter_grad(lambda m: networks.mean_cross_entropy(config, m(x), outcome))(network)
        change, moments = adam.update(gradient, moments, eqx.filter(network, eqx.is_array))
        return eqx.apply_updates(network, change), moments

    @eqx.filter_jit
    def probability(network, x, outcome):
        return jnp.exp(networks.log_likelihood(config, network(x), outcome).sum())

    for n, transition in enumerate(transitions, start=1):
        ring = [*ring, transition][-config.capacity :]
        if read_first:
            lambdas.append(float(probability(network, *inputs([transition]))))
        if (n + shift) % config.train_every == 0 and n > config.batch_size:
            age = jax.random.randint(jax.random.fold_in(sampling, n), (config.batch_size,), 0, len(ring))
            batch = [ring[-1 - a] for a in np.asarray(age)]
            network, moments = step(network, moments, *inputs(batch))
        if not read_first:
            lambdas.append(float(probability(network, *inputs([transition]))))
    return np.array(lambdas)


def transitions_of(episodes, run):
    rows = []
    for states, actions, _ in episodes:
        rows += [(states[run, t], actions[run, t], states[run, t + 1]) for t in range(LENGTH)]
    return rows


def lambdas_of(world, episodes):
    return np.concatenate([np.asarray(world.episode(*episode)) for episode in episodes], axis=1)


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        (CHARGE, {}),
        (CHARGE, {"merged": False}),
        (CHARGE, {"staged": True}),
        (DOOR, {}),
        (dataclasses.replace(CHARGE, train_every=8), {}),
    ],
    ids=["charge", "charge-apart", "charge-staged", "door", "every-8"],
)
def test_program_equals_the_online_loop(config, settings):
    """Six episodes: past the first training step and past the point where the ring is full."""
    episodes = episodes_of(config, 2, 6)
    result = lambdas_of(World(config, [3, 4], LENGTH, **settings), episodes)
    for run, seed in enumerate((3, 4)):
        expected = online_loop(config, seed, transitions_of(episodes, run))
        np.testing.assert_allclose(result[run], expected, rtol=2e-4)


@pytest.mark.parametrize("config", [CHARGE, DOOR], ids=["charge", "door"])
def test_the_comparison_would_notice_an_error_of_one_step(config):
    episodes = episodes_of(config, 1, 6)
    result = lambdas_of(World(config, [3], LENGTH), episodes)[0]
    rows = transitions_of(episodes, 0)
    assert np.abs(result / online_loop(config, 3, rows, read_first=True) - 1).max() > 0.01
    if config.train_every > 1:
        assert np.abs(result / online_loop(config, 3, rows, shift=1) - 1).max() > 0.01
    smaller = dataclasses.replace(config, capacity=config.capacity - 1)
    assert np.abs(result / online_loop(smaller, 3, rows) - 1).max() > 0.01
    earlier = dataclasses.replace(config, batch_size=config.batch_size + 1)
    assert np.abs(result / online_loop(earlier, 3, rows) - 1).max() > 0.01


@pytest.mark.parametrize(("config", "reading"), [(CHARGE, "sarsa"), (DOOR, "factored")])
def test_a_batch_of_runs_equals_single_runs(config, reading):
    seeds = [5, 6, 6, 7]
    episodes = episodes_of(config, 4, 5)
    together = lambdas_of(World(config, seeds, LENGTH, reading=reading), episodes)
    for i, seed in enumerate(seeds):
        alone = World(config, [seed], LENGTH, reading=reading)
        single = lambdas_of(alone, [tuple(part[i : i + 1] for part in episode) for episode in episodes])
        np.testing.assert_allclose(together[i], single[0], rtol=1e-4)
    assert np.abs(together[1] - together[0]).max() > 1e-4


def test_runs_of_one_seed_start_alike_and_draw_alike():
    episodes = episodes_of(CHARGE, 2, 4)
    same = [tuple(np.repeat(part[:1], 2, axis=0) for part in episode) for episode in episodes]
    result = lambdas_of(World(CHARGE, [9, 9], LENGTH), same)
    np.testing.assert_allclose(result[0], result[1], rtol=1e-6)


def test_mixtures_and_components_follow_from_the_networks():
    """With a rate of zero the networks stay as they start: each reading from its definition."""
    config = dataclasses.replace(DOOR, learning_rate=0.0)
    (states, actions, policy), *_ = episodes = episodes_of(config, 1, 1)
    world = World(config, [2], LENGTH, reading="factored")
    network = jax.tree.map(lambda leaf: leaf[0], world.state.networks)
    per_action = []
    for a in range(config.actions):
        x = networks.features(config, jnp.asarray(states[0, :-1]), jnp.full(LENGTH, a))
        seen = networks.outcomes(config, jnp.asarray(states[0, :-1]), jnp.asarray(states[0, 1:]))
        per_action.append(np.exp(networks.log_likelihood(config, network(x), seen)))
    p = np.stack(per_action, 1)  # [T, A, c]
    np.testing.assert_allclose(lambdas_of(world, episodes)[0], (policy[0][..., None] * p).sum(1), rtol=1e-5)
    whole = lambdas_of(World(config, [2], LENGTH, reading="expected_sarsa"), episodes)[0]
    np.testing.assert_allclose(whole, (policy[0] * p.prod(2)).sum(1), rtol=1e-5)
    taken = lambdas_of(World(config, [2], LENGTH), episodes)[0]
    np.testing.assert_allclose(taken, p.prod(2)[np.arange(LENGTH), actions[0]], rtol=1e-5)


def test_a_broken_run_is_frozen_and_spares_the_others():
    episodes = episodes_of(CHARGE, 3, 5)
    healthy = lambdas_of(World(CHARGE, [1, 2, 3], LENGTH), episodes)
    world = World(CHARGE, [1, 2, 3], LENGTH)
    bias = world.state.networks.layers[0].bias
    poisoned = eqx.tree_at(lambda m: m.layers[0].bias, world.state.networks, bias.at[1].set(jnp.nan))
    world.state = world.state._replace(networks=poisoned)
    result = lambdas_of(world, episodes)
    assert world.broken_at.tolist() == [0, 8, 0]  # the first training step: n > 6, a multiple of 4
    np.testing.assert_array_equal(result[1], 0.0)
    np.testing.assert_allclose(result[[0, 2]], healthy[[0, 2]], rtol=1e-5)
    weights = np.asarray(world.state.networks.layers[1].weight)
    start = np.asarray(World(CHARGE, [1, 2, 3], LENGTH).state.networks.layers[1].weight)
    np.testing.assert_array_equal(weights[1], start[1])
    assert np.abs(weights[0] - start[0]).max() > 0


def test_a_change_the_heads_cannot_express_breaks_that_run():
    (states, actions, policy), *rest = episodes_of(CHARGE, 2, 5)
    states[1, 1:, 1] += 5  # a jump of at least 5 where the head ends at 4
    world = World(CHARGE, [1, 2], LENGTH)
    lambdas = lambdas_of(world, [(states, actions, policy), *rest])
    assert world.broken_at[0] == 0
    assert world.broken_at[1] > 0
    assert np.isfinite(lambdas).all()


def test_diagnostics_are_the_means_of_what_happened():
    episodes = episodes_of(CHARGE, 2, 4)
    world = World(CHARGE, [1, 2], LENGTH)
    noisy = np.arange(LENGTH) % 3 == 0
    world.mark_noisy(noisy)
    lambdas = lambdas_of(world, episodes)
    told = world.diagnostics()
    every = np.tile(noisy, 4)
    np.testing.assert_allclose(told.lambda_noisy[:, 0], lambdas[:, every].mean(1), rtol=1e-5)
    np.testing.assert_allclose(told.lambda_predictable[:, 0], lambdas[:, ~every].mean(1), rtol=1e-5)
    assert told.counted.sum(1).tolist() == [4 * LENGTH * 3] * 2
    assert (told.loss > 0).all()
    filled = told.counted > 0
    edges = np.floor(told.predicted[filled] * 10)
    np.testing.assert_array_equal(edges, np.nonzero(filled)[1])
    assert np.isnan(world.diagnostics().loss).all()  # a new stretch


def test_a_certain_network_is_perfectly_calibrated():
    """Logits planted so that the true next state has probability 1: λ = 1, all in the last bin and all come true."""
    config = dataclasses.replace(DOOR, nvec=(2, 2), heads=DOOR.heads[:2], learning_rate=0.0)
    world = World(config, [1], LENGTH)
    still = jax.tree.map(jnp.zeros_like, eqx.filter(world.state.networks, eqx.is_array))
    still = eqx.tree_at(lambda m: m.layers[-1].bias, still, jnp.array([[40.0, -40.0]]))
    world.state = world.state._replace(networks=still)
    states = np.zeros((1, LENGTH + 1, 2), int)
    states[..., 0] = 1
    lambdas = world.episode(states, np.zeros((1, LENGTH), int))
    np.testing.assert_array_equal(np.asarray(lambdas), 1.0)
    told = world.diagnostics()
    assert told.counted[0].tolist() == [0] * 9 + [2 * LENGTH]
    assert told.observed[0, 9] == 1.0


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match="episode_length is 7; it takes a positive multiple of train_every, 4"):
        World(CHARGE, [1], 7)
    with pytest.raises(ValueError, match="reading is 'q'"):
        World(CHARGE, [1], LENGTH, reading="q")
    with pytest.raises(ValueError, match="precision is 'half'"):
        World(CHARGE, [1], LENGTH, precision="half")
    world = World(CHARGE, [1], LENGTH, reading="factored")
    with pytest.raises(ValueError, match="policy is None"):
        world.episode(np.zeros((1, LENGTH + 1, 3)), np.zeros((1, LENGTH)))
    with pytest.raises(ValueError, match="states has the shape"):
        world.episode(np.zeros((1, LENGTH, 3)), np.zeros((1, LENGTH)))
