"""`RolloutLambda` on rollouts of others: what is known where episodes end and rollouts begin, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from chunked_td.deep import (
    Categories,
    Continuous,
    DeepLambdaGreedy,
    DeepPercepts,
    DeepRecurrent,
    DeepRollout,
    DeepValueKernel,
    Grid,
    RecurrentPercepts,
    RolloutLambda,
)
from chunked_td.deep.lambdas import DeepLambda
from chunked_td.deep.rollouts import from_episode_starts
from chunked_td.envs.spaces import read_space

T, B = 24, 8


def branching(seed):
    """States 0 → 1 → end (worth 0) or, with probability ½, 2 (worth 10) → end, paid 10; both kinds of
    rollouts."""
    rng = np.random.default_rng(seed)
    state, following = np.zeros((2, T, B), int)
    for b in range(B):
        now = 0
        for t in range(T):
            state[t, b] = now
            now = {0: 1, 1: 2 * int(rng.random() < 0.5), 2: 0}[now]
            following[t, b] = now
    over = following == 0
    worth = np.array([5.0, 5.0, 10.0])
    values, zeros, rewards = worth[state], np.zeros((T, B)), np.where(state == 2, 10.0, 0.0)
    whole = DeepRollout(state, 0 * state, rewards, following, values, worth[following], over, zeros > 0)
    starts = np.concatenate([np.ones((1, B)), over[:-1]])
    buffer = SimpleNamespace(
        observations=state[..., None], actions=np.zeros((T, B, 1)), rewards=rewards, episode_starts=starts,
        values=values, last_values=worth[following[-1]], last_dones=over[-1],
    )  # fmt: skip
    return whole, buffer


def learned(source, kind, rollouts=80):
    model = RolloutLambda(source, Categories((3,)), discount=1.0)
    for seed in range(rollouts):
        rollout = branching(seed)[kind]
        lambdas = model.update(rollout)
    return lambdas[np.asarray(rollout.observations).reshape(T, B) == 1]


@pytest.mark.parametrize("source", [DeepValueKernel(batch_rate=0.2), DeepLambdaGreedy()])
def test_sources_that_read_values_learn_from_the_last_step_of_an_episode(source):
    """The two kinds of rollouts tell them the same; with ends left out the next value of state 1 would be certain."""
    whole, buffer = (learned(source, kind) for kind in range(2))
    np.testing.assert_allclose(buffer.mean(), whole.mean(), atol=0.02)
    if isinstance(source, DeepValueKernel):
        assert buffer.mean() == pytest.approx(0.133, abs=0.02)  # 1 / √(1 + 2 · 25 / (0.3² · 10))


def test_what_a_buffer_of_another_library_knows():
    """Rows that start an episode end the one before. The next percept is not known there, the next value is."""
    starts = np.array([[1, 0], [0, 1], [0, 0]], float)
    rollout = SimpleNamespace(
        observations=np.arange(6).reshape(3, 2, 1),
        actions=np.zeros((3, 2, 2)),  # of two numbers each: not read
        rewards=np.ones((3, 2)),
        episode_starts=starts,
        values=np.arange(6.0).reshape(3, 2),
        last_values=np.array([9.0, 8.0]),
        last_dones=np.array([False, True]),
    )
    read = from_episode_starts(rollout)
    assert read.terminated.tolist() == [[False, True], [False, False], [False, True]]
    assert read.seen.tolist() == [[True, False], [True, True], [False, False]]
    assert read.next_values[-1].tolist() == [9.0, 8.0]
    assert read.starts.tolist() == [True, False]
    lambdas = RolloutLambda(DeepValueKernel(), Categories((6,))).update(rollout)
    assert lambdas.shape == (3, 2)
    assert np.all((lambdas >= 0) & (lambdas <= 1))


def test_percept_models_leave_out_percepts_that_are_not_known():
    """The observation stored after an end is that of another episode: it teaches nothing and λ is the expected form."""
    whole, buffer = branching(0)
    made = {form: RolloutLambda(DeepPercepts(form, hidden=8), Categories((3,))) for form in ("expected", "realised")}
    expected, realised = (made[form].update(buffer) for form in ("expected", "realised"))
    seen = from_episode_starts(buffer).seen
    np.testing.assert_array_equal(realised[~seen], expected[~seen])
    assert np.all(realised[seen] != expected[seen])
    junk = whole._replace(seen=seen, next_observations=np.where(seen, whole.next_observations, 99))
    again = RolloutLambda(DeepPercepts("realised", hidden=8), Categories((3,)))
    np.testing.assert_array_equal(again.update(junk), realised)
    made["realised"].update(buffer)
    assert made["realised"].calibration(1)["count"].tolist() == [seen.sum()]


class Starts(DeepLambda):
    """λ is 1 where an episode starts."""

    def init(self, key, sizes):
        return ()

    def lambdas(self, state, transitions):
        return transitions.start.astype(float)


def test_a_rollout_goes_on_where_the_one_before_ended():
    cut = np.zeros((T, B), bool)
    cut[-1, ::2], cut[3] = True, True
    model = RolloutLambda(Starts(), Categories((5,)))
    first, second = (model.update(good(truncated=cut)) for _ in range(2))
    assert first[0].tolist() == [1] * B
    assert second[0].tolist() == [1, 0] * (B // 2)
    for lambdas in (first, second):
        np.testing.assert_array_equal(lambdas[1:], cut[:-1])
    np.testing.assert_array_equal(model.lambdas(good(truncated=cut)), second)
    assert model.update(good(starts=np.arange(B) == 1))[0].tolist() == [0, 1] + [0] * (B - 2)
    assert model.update(good())[0].tolist() == [0] * B


def test_another_pass_begins_where_the_rollout_began():
    """Traces of TD(1) depend on observations only: as many passes as one likes leave the same ones."""
    traces = []
    for passes in (1, 3):
        model = RolloutLambda(DeepLambdaGreedy(), Categories((5,)), passes=passes)
        for seed in range(2):
            rng = np.random.default_rng(seed)
            model.update(
                good(observations=rng.integers(5, size=(T, B)), next_observations=rng.integers(5, size=(T, B)))
            )
        traces.append(model._state.trace)
    np.testing.assert_array_equal(*traces)
    model = RolloutLambda(
        DeepRecurrent(model=RecurrentPercepts(hidden=4, units=4), window=T), Categories((5,)), passes=2
    )
    model.update(good())
    ended = model._state.end[0]
    model.update(good())
    np.testing.assert_array_equal(model._state.begin[0], ended)
    assert np.any(ended != 0)


class Seen(Starts):
    """λ is 1 where the next state is known."""

    def lambdas(self, state, transitions):
        return transitions.seen


def test_features_of_the_next_state_are_those_of_the_next_row_if_it_goes_on():
    cut = np.zeros((T, B), bool)
    cut[3] = True
    plain, with_features = (
        RolloutLambda(Seen(), Categories((5,))).update(good(truncated=cut, features=features))
        for features in (None, np.ones((T, B, 2)))
    )
    assert plain.all()
    assert np.argwhere(~with_features.all(1)).ravel().tolist() == [3, T - 1]


def test_a_buffer_says_itself_whether_its_first_row_starts_an_episode():
    _, buffer = branching(0)
    buffer.episode_starts[0] = np.arange(B) == 1
    lambdas = RolloutLambda(Starts(), Categories((3,))).update(buffer)
    np.testing.assert_array_equal(lambdas, buffer.episode_starts)


def good(**changes):
    state = np.zeros((T, B), int)
    zeros = np.zeros((T, B))
    plain = DeepRollout(state[..., None], state, zeros, state[..., None], zeros, zeros, zeros > 0, zeros > 0)
    return plain._replace(**changes)


def at_one(shape, value, fill=0.0):
    array = np.full(shape, fill)
    array[(1,) * len(shape)] = value
    return array


POLICY = np.full((T, B, 2), 0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rewards": np.zeros(4)}, r"rewards: got shape \(4,\), takes \[T, B\]"),
        ({"rewards": np.zeros((0, B))}, r"rewards: got shape \(0, 8\), takes \[T, B\] with at least one step"),
        ({"values": np.zeros((2, 2))}, r"values: got shape \(2, 2\), takes \(24, 8\)"),
        ({"observations": np.zeros((T, B, 5))}, r"observations: got shape \(24, 8, 5\), takes \(24, 8, 1\)"),
        ({"observations": {"x": 0}}, r"observations: got a dict of x, takes one array"),
        ({"observations": at_one((T, B), 7)}, r"observations: got 7.0 at \(1, 1, 0\), takes whole numbers in 0..4"),
        ({"observations": at_one((T, B), -1)}, r"observations: got -1.0 at .*, takes whole numbers in 0..4"),
        ({"observations": at_one((T, B), 1.7)}, r"observations: got 1.7 at .*, takes whole numbers"),
        ({"next_observations": at_one((T, B), np.nan)}, r"next_observations: got nan at .*, takes whole numbers"),
        ({"next_values": np.full((T, B), np.nan)}, r"next_values: got nan, takes finite numbers"),
        ({"terminated": np.full((T, B), 0.5)}, r"terminated: got 0.5, takes bools"),
        ({"valid": np.ones(T)}, r"valid: got shape \(24,\), takes \(24, 8\)"),
        ({"features": np.ones((T, B))}, r"features: got shape \(24, 8\), takes \(24, 8, K\)"),
        ({"features": np.full((T, B, 3), np.inf)}, r"features: got inf, takes finite numbers"),
        ({"starts": np.ones(3)}, r"starts: got shape \(3,\), takes \(8,\)"),
        ({"policy": POLICY}, r"policy: got one with n_actions = 0"),
    ],
)
def test_bad_rollouts_are_refused(change, message):
    model = RolloutLambda(DeepValueKernel(), Categories((5,)))
    with pytest.raises((ValueError, TypeError), match=rf"^{message}"):
        model.update(good(**change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policy": None}, r"policy: got none with n_actions = 2"),
        ({"policy": at_one(POLICY.shape, -1.0, 0.5)}, r"policy: got -1.0, takes probabilities"),
        ({"policy": at_one(POLICY.shape, np.nan, 0.5)}, r"policy: got nan, takes probabilities"),
        ({"policy": 0.8 * POLICY}, r"policy: got probabilities that add up to 0.8"),
        ({"actions": at_one((T, B), 9)}, r"actions: got 9.0, takes whole numbers in 0..1"),
        ({"actions": np.zeros((T, B, 2))}, r"actions: got shape \(24, 8, 2\), takes \(24, 8\)"),
    ],
)
def test_bad_actions_and_policies_are_refused(change, message):
    model = RolloutLambda(DeepPercepts(), Categories((5,)), n_actions=2)
    with pytest.raises(ValueError, match=rf"^{message}"):
        model.update(good(policy=POLICY)._replace(**change))


def test_what_is_no_rollout_or_no_longer_fits_is_refused():
    space = Categories((5,))
    for wrong in (None, 3, np.zeros((T, B))):
        with pytest.raises(TypeError, match=r"^rollout: got \w+ without observations, takes a DeepRollout"):
            RolloutLambda(DeepValueKernel(), space).update(wrong)
    fewer = good()._replace(**{n: getattr(good(), n)[:, :3] for n in DeepRollout._fields[:8]})
    for source in (DeepLambdaGreedy(), DeepRecurrent(window=T)):
        model = RolloutLambda(source, space)
        model.update(good())
        with pytest.raises(ValueError, match=r"^rewards: got 3 environments, takes 8 as before"):
            model.update(fewer)
    model = RolloutLambda(DeepValueKernel(), space)
    model.update(good(features=np.ones((T, B, 2))))
    assert model.update(fewer._replace(features=np.ones((T, 3, 2)))).shape == (T, 3)
    with pytest.raises(ValueError, match=r"^features: got 0 numbers per state, takes 2 as before"):
        model.update(good())
    buffer = vars(branching(0)[1])
    with pytest.raises(TypeError, match=r"^observations: got a dict of pixels, takes one array"):
        RolloutLambda(DeepValueKernel(), space).update(SimpleNamespace(**(buffer | {"observations": {"pixels": 0}})))


def test_categories_may_start_anywhere():
    space = read_space(spaces.Discrete(5, start=3))
    assert space == Categories((5,), (3,))
    assert read_space(spaces.MultiDiscrete([2, 4], start=[1, 0])) == Categories((2, 4), (1, 0))
    assert space.codes(np.array([3, 7])).tolist() == [0, 4]
    assert space.inputs(np.array([[3], [7]])).argmax(-1).tolist() == [0, 4]
    model = RolloutLambda(DeepPercepts(), space)
    model.update(good(observations=np.full((T, B), 7), next_observations=np.full((T, B), 3)))
    with pytest.raises(ValueError, match=r"^observations: got 2 at .*, takes whole numbers in 3..7"):
        model.update(good(observations=np.full((T, B), 2), next_observations=np.full((T, B), 3)))


def test_bounds_are_needed_by_percept_models_only():
    """Gymnasium's CartPole has two dimensions without bounds."""
    limits = np.array([4.8, np.inf, 0.418, np.finfo(np.float32).max], np.float32)
    space = spaces.Box(-limits, limits)
    observations = np.random.default_rng(0).normal(size=(T, B, 4))
    rollout = good(observations=observations, next_observations=observations)
    model = RolloutLambda(DeepValueKernel(), space)
    assert model.update(rollout).shape == (T, B)
    read = np.asarray(model.space.inputs(observations))
    np.testing.assert_allclose(read, observations / [4.8, 1.0, 0.418, 1.0], rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match=r"^observations: got nan at \(0, 0, 0\), takes finite numbers"):
        model.update(rollout._replace(observations=np.full((T, B, 4), np.nan)))
    with pytest.raises(ValueError, match=r"^space: no percept model reads .*Continuous\(low, high\) says what range"):
        RolloutLambda(DeepPercepts(), space)
    bounded = Continuous((-4.8, -3.0, -0.42, -3.0), (4.8, 3.0, 0.42, 3.0))
    assert RolloutLambda(DeepPercepts(), bounded).update(rollout).shape == (T, B)


def test_spaces_that_are_too_large_are_refused():
    for space in (spaces.Box(0, 255, (84, 84, 4), np.uint8), spaces.Box(0, np.iinfo(np.int64).max, (2,), np.int64)):
        with pytest.raises(ValueError, match=r"^space: Box.* is too large .*at most 65,536 are read"):
            read_space(space)
    with pytest.raises(ValueError, match=r"^symbols: observations have 7,225,344 numbers"):
        Grid((84, 84, 4), 256)


def test_numbers_of_16_bits_and_spaces_of_several_axes_are_read():
    zeros, no = np.zeros((4, 2)), np.zeros((4, 2), bool)
    seen = np.random.default_rng(0).integers(2, size=(4, 2, 2, 3))
    space = read_space(spaces.MultiBinary((2, 3)))
    found = []
    for values in (zeros, jnp.zeros((4, 2), jnp.bfloat16)):
        source = RolloutLambda(DeepValueKernel(), space, discount=0.9)
        found.append(source.update(DeepRollout(seen, zeros.astype(int), zeros, seen, values, values, no, no)))
    np.testing.assert_array_equal(*found)
