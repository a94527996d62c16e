"""The batched program against the online loop written out: store, train if due, read λ."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chunked_td.lambdas.on_device import Reading
from chunked_td.models.neural.world import World
from helpers.small_worlds import CHARGE, DOOR, LENGTH, episodes_of, online_loop, small_world, transitions_of


def lambdas_of(world, episodes):
    return np.concatenate([np.asarray(world.episode(*episode)) for episode in episodes], axis=1)


def taken(p, episodes, run):
    """P̂(x'|x, a) of the actions that were taken, from [n, A, c]."""
    actions = np.concatenate([actions[run] for _, actions, _ in episodes])
    return p.prod(2)[np.arange(len(p)), actions]


@pytest.mark.parametrize(
    ("config", "settings"),
    [(CHARGE, {}), (dataclasses.replace(CHARGE, train_every=8), {"staged": False})],
    ids=["as-in-the-studies", "every-8-at-once"],
)
def test_program_equals_the_online_loop(config, settings):
    """Six episodes: past the first training step and past the point where the ring is full."""
    episodes = episodes_of(config, 2, 6)
    result = lambdas_of(small_world(config, [3, 4], **settings), episodes)
    for run, seed in enumerate((3, 4)):
        expected = taken(online_loop(config, seed, transitions_of(episodes, run)), episodes, run)
        np.testing.assert_allclose(result[run], expected, rtol=2e-4)


def test_mixtures_and_components_equal_the_online_loop():
    """Training at every step; λ per component, Σₐ π(a|x) P̂ᵢ, and then of the whole percept, Σₐ π(a|x) Πᵢ P̂ᵢ."""
    episodes = episodes_of(DOOR, 2, 6)
    result = lambdas_of(small_world(DOOR, [3, 4], reading="both"), episodes)
    for run, seed in enumerate((3, 4)):
        p = online_loop(DOOR, seed, transitions_of(episodes, run))
        policy = np.concatenate([policy[run] for *_, policy in episodes])
        np.testing.assert_allclose(result[run, :, :-1], (policy[..., None] * p).sum(1), rtol=2e-4)
        np.testing.assert_allclose(result[run, :, -1], (policy * p.prod(2)).sum(1), rtol=2e-4)


@pytest.mark.parametrize(
    "mutation", [{"read_first": True}, {"shift": 1}, {"lost": 1}, {"wait": 4}], ids=lambda m: next(iter(m))
)
def test_the_comparison_would_notice_an_error_of_one_step(mutation):
    episodes = episodes_of(CHARGE, 2, 6)
    result = lambdas_of(small_world(CHARGE, [3, 4]), episodes)[0]
    wrong = taken(online_loop(CHARGE, 3, transitions_of(episodes, 0), **mutation), episodes, 0)
    assert np.abs(result / wrong - 1).max() > 0.01


def test_a_batch_of_runs_equals_single_runs():
    episodes = episodes_of(CHARGE, 2, 5)
    together = lambdas_of(small_world(CHARGE, [5, 6]), episodes)
    for i, seed in enumerate((5, 6)):
        single = [tuple(part[i : i + 1] for part in episode) for episode in episodes]
        np.testing.assert_allclose(together[i], lambdas_of(small_world(CHARGE, [seed]), single)[0], rtol=1e-4)
    assert np.abs(together[1] - together[0]).max() > 1e-4


def test_runs_of_one_seed_start_alike_and_draw_alike():
    episodes = episodes_of(CHARGE, 2, 4)
    same = [tuple(np.repeat(part[:1], 2, axis=0) for part in episode) for episode in episodes]
    result = lambdas_of(small_world(CHARGE, [9, 9]), same)
    np.testing.assert_allclose(result[0], result[1], rtol=1e-6)


def test_a_broken_run_is_frozen_and_spares_the_others():
    episodes = episodes_of(CHARGE, 2, 5)
    healthy = lambdas_of(small_world(CHARGE, [1, 2]), episodes)
    world = small_world(CHARGE, [1, 2])
    begin = np.asarray(world.state.networks.layers[1].weight).copy()
    bias = world.state.networks.layers[0].bias
    poisoned = eqx.tree_at(lambda m: m.layers[0].bias, world.state.networks, bias.at[1].set(jnp.nan))
    world.state = world.state._replace(networks=poisoned)
    result = lambdas_of(world, episodes)
    assert world.broken_at.tolist() == [0, 8]  # the first training step: n > 6, a multiple of 4
    np.testing.assert_array_equal(result[1], 0.0)
    np.testing.assert_array_equal(result[0], healthy[0])
    weights = np.asarray(world.state.networks.layers[1].weight)
    np.testing.assert_array_equal(weights[1], begin[1])
    assert np.abs(weights[0] - begin[0]).max() > 0


def test_a_change_the_heads_cannot_express_breaks_that_run():
    (states, actions, policy), *rest = episodes_of(CHARGE, 2, 5)
    states[1, 1:, 1] = 8  # a jump of 8 where the head ends at 4
    world = small_world(CHARGE, [1, 2])
    lambdas = lambdas_of(world, [(states, actions, policy), *rest])
    assert world.broken_at[0] == 0
    assert world.broken_at[1] > 0
    assert np.isfinite(lambdas).all()


def test_diagnostics_are_the_means_of_what_happened():
    episodes = episodes_of(CHARGE, 2, 4)
    world = small_world(CHARGE, [1, 2])
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
    """Logits planted so that the next state has probability 1: λ = 1, all in the last bin and all come true."""
    world = small_world(DOOR, [1, 2], reading="both")
    still = jax.tree.map(jnp.zeros_like, eqx.filter(world.state.networks, eqx.is_array))
    logits = np.full(DOOR.outputs, -60.0, np.float32)  # Booleans 0
    logits[[0, 4]] = 60.0  # but the first; time 0
    still = eqx.tree_at(lambda m: m.layers[-1].bias, still, jnp.asarray(np.tile(logits, (2, 1))))
    world.state = world.state._replace(networks=still)
    states = np.zeros((2, LENGTH + 1, 5), int)
    states[..., 0] = 1
    lambdas = world.episode(states, np.zeros((2, LENGTH), int), np.full((2, LENGTH, 2), 0.5))
    np.testing.assert_array_equal(np.asarray(lambdas), 1.0)
    told = world.diagnostics()
    assert told.counted[0].tolist() == [0] * 9 + [5 * LENGTH]
    assert told.observed[0, 9] == 1.0


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match="episode_length must be a positive multiple of train_every = 4, got 7"):
        World(CHARGE, [1], 7, reading=Reading())
    with pytest.raises(ValueError, match=r"question must be one of .*, got 'q'"):
        Reading("q")
    with pytest.raises(ValueError, match=r"precision must be one of .*, got 'half'"):
        World(CHARGE, [1], LENGTH, reading=Reading(), precision="half")
    world = World(CHARGE, [1], LENGTH, reading=Reading("expected_sarsa"))
    with pytest.raises(ValueError, match=r"policy must be .*, got None"):
        world.episode(np.zeros((1, LENGTH + 1, 3)), np.zeros((1, LENGTH)))
    with pytest.raises(ValueError, match="states must have the shape"):
        world.episode(np.zeros((1, LENGTH, 3)), np.zeros((1, LENGTH)))
    states, actions = np.zeros((1, LENGTH + 1, 3), int), np.zeros((1, LENGTH), int)
    with pytest.raises(ValueError, match=r"policy must have the shape .*, got \(1, 2\)"):
        world.episode(states, actions, np.zeros((1, 2)))
    with pytest.raises(ValueError, match=r"actions must have values in 0\.\.1"):
        world.episode(states, actions + 2, np.zeros((1, LENGTH, 2)))
    states[0, 1, 2] = CHARGE.nvec[2]
    with pytest.raises(ValueError, match=r"states must have values in 0\.\.\["):
        world.episode(states, actions, np.zeros((1, LENGTH, 2)))
