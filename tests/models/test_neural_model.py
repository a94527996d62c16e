"""NeuralModel: the online loop for one learner, its answers against their definitions, saving, and bad input."""

import itertools
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import chunked_td as ctd
from chunked_td.envs.face import DynamicsEnv
from chunked_td.models.neural.networks import boolean, categorical
from chunked_td.models.neural.online import _resolve
from helpers.compilation import uncompiled
from helpers.small_worlds import CHARGE, DOOR, DOOR_DYNAMICS, LENGTH, episodes_of, online_loop, transitions_of

CHARGE_SPACE, DOOR_SPACE = spaces.MultiDiscrete(CHARGE.nvec), spaces.MultiDiscrete(DOOR.nvec)


def ids(config, *states):
    return [int(np.ravel_multi_index(tuple(state), config.nvec)) for state in states]


def tell(model, transitions):
    for state, action, following in transitions:
        before, after = ids(model.config, state, following)
        model.observe(before, action, 0.0, after, False)


@pytest.fixture(scope="module")
def trained():
    """A model of the small Key-to-Door after six random episodes, and the last transition's ids and action."""
    model = ctd.NeuralModel(DOOR_SPACE, DOOR, seed=3)
    rows = transitions_of(episodes_of(DOOR, 1, 6), 0)
    tell(model, rows)
    return model, *ids(DOOR, rows[-1][0], rows[-1][2]), rows[-1][1]


@pytest.mark.parametrize(("config", "space"), [(CHARGE, CHARGE_SPACE), (DOOR, DOOR_SPACE)], ids=["charge", "door"])
def test_answers_are_those_of_the_online_loop(config, space):
    """Six episodes, one transition at a time: past the first training step, and past where the ring is full."""
    rows = transitions_of(episodes_of(config, 1, 6), 0)
    model, found = ctd.NeuralModel(space, config, seed=3), []
    for row in rows:
        tell(model, [row])
        before, after = ids(config, row[0], row[2])
        each = model.component_probabilities(before, after, 0.0)
        np.testing.assert_allclose(model.probabilities(before, after, 0.0), each.prod(1), rtol=1e-6)
        found.append(each)
    np.testing.assert_allclose(found, online_loop(config, 3, rows), rtol=2e-4)
    for mutation in ({"read_first": True}, {"lost": 1}, {"wait": 4}):
        wrong = online_loop(config, 3, rows, **mutation)
        assert np.abs(np.array(found) / wrong - 1).max() > 0.01


def test_questions_change_nothing_and_need_not_be_asked(trained):
    model, before, after, _ = trained
    first = model.probabilities(before, after, 0.0)
    model.probabilities(0, after, 0.0)
    model.overlaps(1)
    np.testing.assert_array_equal(model.probabilities(before, after, 0.0), first)
    assert model.loss > 0.0


def test_distributions_hold_every_next_state_once(trained):
    model, before, after, action = trained
    pairs = list(model.distribution(before, action))
    assert sorted(target for target, _ in pairs) == list(range(np.prod(DOOR.nvec)))
    assert sum(chance for _, chance in pairs) == pytest.approx(1.0, abs=1e-6)
    for target, chance in pairs:
        assert chance == pytest.approx(model.probabilities(before, target, 0.0)[action], rel=1e-4)
    assert dict(pairs)[after] == pytest.approx(model.probabilities(before, after, 0.0)[action], rel=1e-4)


def test_overlaps_by_summing_over_next_states(trained):
    model, before, _, _ = trained
    each = np.array([[p for _, p in sorted(model.distribution(before, a))] for a in range(2)])
    np.testing.assert_allclose(model.overlaps(before), each @ each.T, rtol=1e-4)


def test_distributions_of_differences_stay_in_range():
    model = ctd.NeuralModel(CHARGE_SPACE, CHARGE, seed=1)
    (state,) = ids(CHARGE, (0, 7, 3))
    pairs = list(model.distribution(state, 1))
    assert len(pairs) == 2 * 2 * 5  # first: 0 or 1, charge: 7 or 8, time: 3..7
    for target, chance in pairs:
        assert chance == pytest.approx(model.probabilities(state, target)[1], rel=1e-4)


def test_long_distributions_keep_the_most_probable():
    model = ctd.NeuralModel(spaces.MultiDiscrete([30, 30, 30]), actions=1, hidden=(4,))
    pairs = dict(model.distribution(0, 0))
    assert len(pairs) == 10_000
    least = min(pairs.values())
    left_out = [state for state in range(0, 27_000, 500) if state not in pairs]
    assert max(model.probabilities(0, state)[0] for state in left_out) <= least * (1 + 1e-4)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        uncompiled("ChunkedTD", {}),
        ("ChunkedSarsa", {}),
        uncompiled("ChunkedSarsa", {"lambda_source": ctd.ExpectedLambda()}),
        ("ChunkedExpectedSarsa", {"lambda_source": ctd.ExpectedLambda()}),
        uncompiled("ChunkedTD", {"lambda_source": ctd.ExpectedLambda(policy_noise=False)}),
        uncompiled("ChunkedExpectedSarsa", {"lambda_source": ctd.ValueLambda()}),
        ("FactoredChunkedExpectedSarsa", {}),
        uncompiled("NStepChunkedTD", {}),
        uncompiled("NStepChunkedSarsa", {}),
    ],
)
def test_every_chunked_learner_takes_it(name, settings):
    """With the model of the right answers its λ: the agent asks once per transition, after telling it."""
    env = DynamicsEnv(DOOR_DYNAMICS)
    model = ctd.NeuralModel(env, DOOR, seed=3)
    agent = getattr(ctd, name)(env, model=model, seed=3, **settings)
    fresh = ctd.NeuralModel(env, DOOR, seed=3)
    agent.learn(env, 3, progress=False)
    assert model.transitions == 3 * LENGTH
    assert 0.0 < agent.memory.lambda_t.min() <= agent.memory.lambda_t.max() <= 1.0
    assert np.abs(model.probabilities(0, 1) - fresh.probabilities(0, 1)).max() > 1e-4  # it has trained
    start = agent.values(np.zeros(5, int)) if name.endswith("TD") else agent.q_values(np.zeros(5, int))
    assert np.isfinite(start).all()


@pytest.mark.parametrize(
    ("space", "nvec"),
    [
        (spaces.Discrete(7, start=3), (7,)),
        (spaces.MultiBinary(3), (2, 2, 2)),
        (spaces.Box(-1, 2, (2,), np.int32), (4, 4)),
        (spaces.Tuple([spaces.Discrete(2), spaces.MultiDiscrete([3, 5])]), (2, 3, 5)),
        (spaces.Dict({"a": spaces.Discrete(4)}), (4,)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_spaces_have_a_default_network(space, nvec):
    config = _resolve(space, None, None, {"actions": 3})
    assert config.nvec == nvec
    assert config.heads == tuple(boolean() if n == 2 else categorical(n) for n in nvec)
    assert (config.actions, config.embedding) == (3, 0)


def test_states_are_row_major_digits():
    """The network sees the components that np.unravel_index gives, divided by their maxima."""
    model = ctd.NeuralModel(spaces.MultiDiscrete([2, 3, 5]), actions=2, hidden=(4,))
    chances = {}
    for target in range(30):
        chances[np.unravel_index(target, (2, 3, 5))] = model.component_probabilities(7, target)[0]
    for x in itertools.product(range(2), range(3), range(5)):
        for i in range(3):
            alike = [y for y in chances if y[i] == x[i]]
            assert len({chances[y][i] for y in alike}) == 1
    sums = [
        sum(chances[tuple(v if j == i else 0 for j in range(3))][i] for v in range(n)) for i, n in enumerate((2, 3, 5))
    ]
    np.testing.assert_allclose(sums, 1.0, rtol=1e-6)


# ---- saving


def test_a_saved_learner_goes_on_bit_for_bit(tmp_path):
    env = DynamicsEnv(DOOR_DYNAMICS)
    agent = ctd.FactoredChunkedExpectedSarsa(env, model=ctd.NeuralModel(env, DOOR, seed=3), seed=3)
    agent.learn(env, 4, progress=False)
    agent.save(tmp_path / "agent.ctd")
    again = DynamicsEnv(DOOR_DYNAMICS)
    loaded = ctd.load(tmp_path / "agent.ctd", model=ctd.NeuralModel(again, DOOR, seed=77))
    history, continued = agent.learn(env, 4, progress=False), loaded.learn(again, 4, progress=False)
    np.testing.assert_array_equal(history.returns, continued.returns)
    np.testing.assert_array_equal(agent.tables.values, loaded.tables.values)
    ours, theirs = agent.model.state_arrays(), loaded.model.state_arrays()
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def test_saved_arrays_are_copies_and_fit_one_configuration_only():
    model = ctd.NeuralModel(DOOR_SPACE, DOOR)
    saved = model.state_arrays()
    before = {name: array.copy() for name, array in saved.items()}
    tell(model, transitions_of(episodes_of(DOOR, 1, 2), 0))
    for name, array in saved.items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)
    with pytest.raises(ValueError, match="config must have capacity 20 as the saved model, got 30"):
        ctd.NeuralModel(DOOR_SPACE, DOOR, capacity=30).load_arrays(saved)
    with pytest.raises(ValueError, match="network: the saved arrays do not have the shapes"):
        model.load_arrays(saved | {"network_0": np.zeros(3, np.float32)})
    with pytest.raises(ValueError, match="ring: the saved array has shape"):
        model.load_arrays(saved | {"transitions": np.array(5)})


# ---- what goes wrong


def test_a_ruined_network_stops_with_the_transition_s_number():
    model = ctd.NeuralModel(DOOR_SPACE, DOOR)
    model._network = [jnp.full_like(leaf, jnp.nan) for leaf in model._network]
    rows = transitions_of(episodes_of(DOOR, 1, 2), 0)
    tell(model, rows[:7])
    with pytest.raises(FloatingPointError, match="not finite at transition 7"):
        model.probabilities(*ids(DOOR, rows[6][0], rows[6][2]), 0.0)
    with pytest.raises(FloatingPointError, match="not finite at transition 7"):  # also where nobody asks
        tell(model, rows[7:8])
    with pytest.raises(FloatingPointError, match="not finite at transition 7"):  # nor is it saved
        model.state_arrays()


def test_errors_name_the_argument():
    model = ctd.NeuralModel(CHARGE_SPACE, CHARGE)
    low, high = ids(CHARGE, (0, 0, 0), (0, 5, 1))
    with pytest.raises(ValueError, match=r"next_state must change component 1 by 0\.\.4, .* got 5"):
        model.observe(low, 0, 0.0, high, False)
    with pytest.raises(ValueError, match=r"action must be in 0\.\.1, got 2"):
        model.observe(0, 2, 0.0, 1, False)
    with pytest.raises(ValueError, match=r"state must be in 0\.\.161, .*, got 162"):
        model.probabilities(162, 0, 0.0)
    assert model.transitions == 0
    with pytest.raises(ValueError, match="actions must be given with an observation space"):
        ctd.NeuralModel(DOOR_SPACE)
    with pytest.raises(ValueError, match=r"must be among actions, activation, .*, got width"):
        ctd.NeuralModel(DOOR_SPACE, width=3)
    with pytest.raises(ValueError, match="config must have the nvec"):
        ctd.NeuralModel(CHARGE_SPACE, DOOR)
    with pytest.raises(ValueError, match=r"seed must be a whole number from 0, got 1\.5"):
        ctd.NeuralModel(CHARGE_SPACE, CHARGE, seed=1.5)
    odd = SimpleNamespace(observation_space=CHARGE_SPACE, action_space=spaces.MultiBinary(2))
    with pytest.raises(ValueError, match=r"env\.action_space must be Discrete, got MultiBinary"):
        ctd.NeuralModel(odd, CHARGE)
    with pytest.raises(ValueError, match="discrete components"):
        ctd.NeuralModel(spaces.Text(4), actions=2)
    with pytest.raises(ValueError, match="at most 10,000,000 states"):
        ctd.NeuralModel(spaces.MultiBinary(60), actions=2)
    with pytest.raises(ValueError, match="a Box of real numbers"):
        ctd.NeuralModel(spaces.Box(0, 1), actions=2)
