"""The Gymnasium faces: the checks of Gymnasium and mo-gymnasium, seeding, masks, errors and drawings."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from typing import Any, NamedTuple

import gymnasium as gym
import mo_gymnasium as mo
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from mo_gymnasium.wrappers import LinearReward, MORecordEpisodeStatistics
from mo_gymnasium.wrappers.vector import MOSyncVectorEnv

from chunked_td import envs, registration
from chunked_td._numba import kernel
from chunked_td.envs.face import DynamicsEnv
from chunked_td.envs.key_to_door.gym import KeyToDoorEnv
from chunked_td.envs.protocol import prepare
from chunked_td.seeding import Draws

registration.register()

OPTIONS = {
    "ChunkedTD/ChainAndSplit-v0": [{}, {"horizon": 3, "actions": 2, "width": 4, "chain_reward": 0.5}],
    "ChunkedTD/AccumulatedCharge-v0": [
        {},
        {"mirrored": True},
        {"horizon": 6, "points": 2, "success": 0.2, "bonus": 1.0},
    ],
    "ChunkedTD/KeyToDoor-v0": [{"scalar_reward": True}, {"scalar_reward": True, "horizon": 3, "distractors": 0}],
    "ChunkedTD/LinearKeyToDoor-v0": [{}, {"length": 9, "apples": 0.9, "seed": 2}],
    "ChunkedTD/SkewedSplit-v0": [{}, {"probability": 0.5, "reward": -1, "length": 0}],
    "ChunkedTD/TMaze-v0": [{}, {"corridor": 3, "numbered": True, "look": True, "prizes": 2, "hidden": False}],
    "ChunkedTD/TimedTMaze-v0": [{"corridor": 3}, {"corridor": 4, "active": True, "slots": 2}],
}
VECTOR: list[dict[str, Any]] = [{}, {"horizon": 5, "distractors": 2, "treasure_reward": 1.0, "distractor_reward": -0.5}]
SCALAR = [(name, options) for name, several in OPTIONS.items() for options in several]
EVERY = SCALAR + [("ChunkedTD/KeyToDoor-v0", options) for options in VECTOR]
every = pytest.mark.parametrize(("name", "options"), EVERY, ids=str)


def rollout(env, seed, episodes=3, action_seed=0):
    """Everything that a few random episodes return."""
    record = [env.reset(seed=seed)]
    env.action_space.seed(action_seed)
    for episode in range(episodes):
        if episode:
            record.append(env.reset())
        ended = False
        while not ended:
            record.append(env.step(env.action_space.sample()))
            ended = record[-1][2] or record[-1][3]
    return record


def test_every_id_is_tried():
    assert (
        set(OPTIONS)
        == set(registration.ENVIRONMENTS)
        == {name for name in gym.registry if name.startswith("ChunkedTD/")}
    )


def test_importing_the_package_registers():
    script = "import gymnasium as gym; env = gym.make('chunked_td:ChunkedTD/KeyToDoor-v0'); print(env.reset(seed=0)[0])"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["[0", "0", "0", "0", "0", "0", "0", "0]"]


def test_registering_again_changes_nothing():
    before = dict(gym.registry)
    registration.register()
    assert gym.registry == before


@pytest.mark.parametrize(("name", "options"), SCALAR, ids=str)
def test_check_env_passes_without_a_warning(name, options):
    check_env(gym.make(name, **options).unwrapped)


@pytest.mark.parametrize("options", VECTOR, ids=str)
def test_check_env_minds_nothing_but_the_vector_in_a_vector_reward(options):
    """Gymnasium's checker knows scalar rewards only, and says so once; nothing else may be wrong."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(gym.make("ChunkedTD/KeyToDoor-v0", **options).unwrapped)
    messages = [str(w.message) for w in caught]
    assert len(messages) == 1
    assert "The reward returned by `step()` must be a float" in messages[0]


class FreshLinearReward(LinearReward):
    """Without mo-gymnasium's own slip: it puts the same weights object into every info, which check_env forbids."""

    def step(self, action):
        *transition, info = super().step(action)
        del info["reward_weights"]
        return (*transition, info)


@pytest.mark.parametrize("options", VECTOR, ids=str)
def test_check_env_passes_as_mo_gymnasium_does_it(options):
    """mo-gymnasium checks its environments through `LinearReward`; the checker remarks that there is a wrapper."""
    env = FreshLinearReward(mo.make("ChunkedTD/KeyToDoor-v0", **options))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*different from the unwrapped version")
        check_env(env)


@every
def test_random_play_passes_the_passive_checker(name, options):
    env = gym.make(name, **options)
    rollout(env, seed=3)
    if "KeyToDoor" not in name:
        assert "PassiveEnvChecker" in repr(env)


@every
def test_the_same_seed_gives_the_same_episodes(name, options):
    first, second, other = (rollout(gym.make(name, **options), seed, episodes=20) for seed in (5, 5, 6))
    assert data_equivalence(first, second, exact=True)
    if options.get("distractors") != 0:  # without distractors there is no chance in it
        assert not data_equivalence(first, other)


@every
def test_the_face_makes_the_episodes_of_the_kernels(name, options):
    """Both faces read the same numbers in the same order, whatever the size of the blocks."""
    env = gym.make(name, **options).unwrapped
    dynamics = envs.dynamics.independent_copy(env.dynamics)
    draws = Draws(np.random.Generator(np.random.PCG64(np.random.SeedSequence(11))), size=13)
    actions = np.random.default_rng(0)
    prepare(dynamics, draws.reserve(dynamics.draws))
    state, reward = np.zeros(len(dynamics.nvec), np.int64), np.zeros(dynamics.n_rewards)
    for episode in range(10):
        observation, _ = env.reset(seed=11 if episode == 0 else None)
        dynamics.reset(dynamics, draws.reserve(dynamics.draws), state)
        terminated = truncated = False
        while not (terminated or truncated):
            assert env.hidden or np.array_equal(np.atleast_1d(observation), state)
            action = int(actions.integers(dynamics.legal(dynamics, state)))
            observation, paid, terminated, truncated, _ = env.step(action)
            assert terminated == dynamics.step(dynamics, draws.reserve(dynamics.draws), state, action, reward)
            assert np.array_equal(np.atleast_1d(paid), reward)
            assert not truncated or "TMaze" in name
        assert env.hidden or np.array_equal(np.atleast_1d(observation), state)


@every
def test_a_copy_goes_on_like_the_original(name, options):
    env = gym.make(name, **options).unwrapped
    env.reset(seed=2)
    for twin in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        twin_again = copy.deepcopy(env)
        assert data_equivalence(rollout(twin, None), rollout(twin_again, None), exact=True)


def test_charging_steps_belong_to_the_seed():
    env = gym.make("ChunkedTD/AccumulatedCharge-v0").unwrapped
    env.reset(seed=0)
    steps = env.dynamics.charging.copy()
    env.reset()
    assert (env.dynamics.charging == steps).all()
    env.reset(seed=1)
    assert (env.dynamics.charging != steps).any()
    env.reset(seed=0)
    assert (env.dynamics.charging == steps).all()


def test_a_generator_of_ones_own_is_used():
    env, other = (gym.make("ChunkedTD/AccumulatedCharge-v0").unwrapped for _ in range(2))
    env.reset(seed=9)
    other.np_random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(9)))
    other.reset()
    assert (env.dynamics.charging == other.dynamics.charging).all()


def test_the_generator_stands_behind_the_numbers_used():
    env = gym.make("ChunkedTD/KeyToDoor-v0").unwrapped
    env.reset(seed=9)
    for _ in range(5):  # one number each
        env.step(0)
    reference = np.random.default_rng(9)
    reference.random(5)
    assert env.np_random.bit_generator.state == reference.bit_generator.state
    coins = int(reference.random() * 16)
    observation, *_ = env.step(0)
    assert observation[2:6].tolist() == [coins >> i & 1 for i in range(4)]


# Masks and errors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "start"), [("ChainAndSplit", 10), ("AccumulatedCharge", 2)])
def test_the_mask_tells_the_legal_actions(name, start):
    env = gym.make(f"ChunkedTD/{name}-v0")
    _, info = env.reset(seed=0)
    assert info["action_mask"].dtype == np.int8
    assert info["action_mask"].tolist() == [1] * start
    assert {int(env.action_space.sample()) for _ in range(200)} == set(range(start))
    *_, info = env.step(0)
    assert info["action_mask"].tolist() == [1] + [0] * (start - 1)
    assert {int(env.action_space.sample()) for _ in range(50)} == {0}
    assert env.action_space.sample(mask=np.eye(start, dtype=np.int8)[1]) == 1
    with pytest.raises(gym.error.InvalidAction, match=r"action must be an integer in 0\.\.0 in state .*got 1"):
        env.step(1)
    env.step(0)  # the refused action changed nothing


@pytest.mark.parametrize("action", [2, -1, 0.5, "unlock", None, np.array([0, 1])])
def test_actions_out_of_range_are_refused(action):
    env = gym.make("ChunkedTD/KeyToDoor-v0")
    env.reset(seed=0)
    with pytest.raises(gym.error.InvalidAction, match=r"action must be an integer in 0\.\.1 in state"):
        env.step(action)


@every
def test_stepping_outside_an_episode_is_an_error(name, options):
    env = gym.make(name, **options).unwrapped
    with pytest.raises(gym.error.ResetNeeded, match="before the first reset"):
        env.step(0)
    with pytest.raises(gym.error.ResetNeeded, match="before the first reset"):
        env.exact()
    env.reset(seed=0)
    while not any(env.step(0)[2:4]):
        pass
    with pytest.raises(gym.error.ResetNeeded, match="after the end of the episode"):
        env.step(0)
    env.reset()
    env.step(0)


def test_wrong_arguments_reach_the_caller():
    with pytest.raises(ValueError, match="points must divide horizon = 200"):
        gym.make("ChunkedTD/AccumulatedCharge-v0", points=3)
    with pytest.raises(ValueError, match=r"render_mode must be one of \['ansi', 'rgb_array'\] or None, got 'svg'"):
        KeyToDoorEnv(render_mode="svg")


# Vector rewards -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", VECTOR, ids=str)
def test_vector_rewards_lie_in_their_space(options):
    env = mo.make("ChunkedTD/KeyToDoor-v0", **options)
    space = env.unwrapped.reward_space
    assert isinstance(space, gym.spaces.Box)
    assert space.shape == (env.unwrapped.dynamics.distractors + 4,)
    assert np.isfinite(space.low).all()
    assert np.isfinite(space.high).all()
    rewards = [transition[1] for transition in rollout(env, seed=0, episodes=20) if len(transition) == 5]
    assert all(reward in space for reward in rewards)
    assert (np.max(rewards, axis=0) == space.high).all()  # with a treasure among twenty random episodes
    assert (np.min(rewards, axis=0) == space.low).all()


def test_scalar_reward_is_the_sum_of_the_vector():
    vector, scalar = (rollout(gym.make("ChunkedTD/KeyToDoor-v0", scalar_reward=s), seed=4) for s in (False, True))
    for one, other in zip(vector, scalar, strict=True):
        assert np.array_equal(one[0], other[0])
        if len(one) == 5:
            assert isinstance(other[1], float)
            assert one[1].sum() == pytest.approx(other[1])


def test_mo_gymnasium_wrappers_work():
    env = MORecordEpisodeStatistics(mo.make("ChunkedTD/KeyToDoor-v0", horizon=10))
    record = rollout(env, seed=0, episodes=1)
    total = np.sum([transition[1] for transition in record[1:]], axis=0)
    assert record[-1][4]["episode"]["r"] == pytest.approx(total)

    weights = np.array([0, 0, 1, 1, 1, 1, 0, 0.0])
    linear = rollout(LinearReward(mo.make("ChunkedTD/KeyToDoor-v0", horizon=10), weights), seed=0, episodes=1)
    assert sum(t[1] for t in linear[1:]) == pytest.approx(weights @ total)

    vector = MOSyncVectorEnv([lambda: mo.make("ChunkedTD/KeyToDoor-v0", horizon=10)] * 3)
    vector.reset(seed=0)
    _, rewards, *_ = vector.step(np.zeros(3, dtype=np.int64))
    assert rewards.shape == (3, 8)
    vector.close()


def test_plain_vector_environments_take_scalar_rewards():
    many = gym.make_vec("ChunkedTD/AccumulatedCharge-v0", num_envs=3, vectorization_mode="sync", horizon=4, points=2)
    _, info = many.reset(seed=0)
    for _ in range(20):
        mask = info["action_mask"]
        _, rewards, *_, info = many.step(np.array([np.flatnonzero(m)[-1] for m in mask]))
        assert rewards.shape == (3,)
    many.close()


# Exact values and drawings --------------------------------------------------------------------------------------------


def test_the_face_hands_out_the_exact_model():
    env = gym.make("ChunkedTD/AccumulatedCharge-v0", horizon=8, points=2).unwrapped
    env.reset(seed=0)
    model = env.exact()
    assert env.exact() is model
    assert model.optimal().action_values((0, 0, 0)) == pytest.approx([0.1, 0.0])
    assert env.P[0][1] == [(1.0, 1, 0.0, False)]
    env.reset(seed=1)
    assert env.exact() is not model  # other charging steps


def play(env, count):
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(count):
        if any(env.step(env.action_space.sample())[2:4]):
            break
    return env.render()


@every
def test_pictures_show_each_step(name, options):
    env = gym.make(name, render_mode="rgb_array", **options)
    frames = [play(env, count) for count in range(3)]
    frames.append(play(env, 10_000))
    for frame in frames:
        assert frame.shape == (400, 800, 3)
        assert frame.dtype == np.uint8
    assert (frames[0] != frames[1]).any()
    assert (frames[0] != frames[-1]).any()


def test_texts_tell_the_state_and_what_happened():
    env = gym.make("ChunkedTD/ChainAndSplit-v0", render_mode="ansi")
    env.reset(seed=0)
    assert "start of the episode\nstate 0/122" in env.render()
    env.step(1)
    env.step(0)
    assert "step 2: action 0   reward" in env.render()
    assert "the episode has ended\nstate " in env.render()


def test_rendering_without_a_mode_warns():
    env = KeyToDoorEnv()
    env.reset()
    with pytest.warns(UserWarning, match="without a render_mode"):
        assert env.render() is None
    with pytest.raises(gym.error.ResetNeeded, match="before the first reset"):
        KeyToDoorEnv(render_mode="ansi").render()


# An environment of one's own ------------------------------------------------------------------------------------------


class Countdown(NamedTuple):
    """Two components; the reward is a vector of two."""

    horizon: int = 3
    nvec: tuple[int, int] = (2, 4)
    n_actions: int = 2
    n_rewards: int = 2
    draws: int = 1

    @staticmethod
    @kernel
    def prepare(env, rng):
        pass

    @staticmethod
    @kernel
    def reset(env, rng, state):
        state[:] = 0

    @staticmethod
    @kernel
    def step(env, rng, state, action, reward):
        state[0] = action
        state[1] += 1
        reward[0] = state[0]
        reward[1] = state[1]
        return state[1] == env.horizon

    @staticmethod
    @kernel
    def legal(env, state):
        return 2

    def outcomes(self, state, action):
        return [(1.0, (action, state[1] + 1), (float(action), state[1] + 1.0), state[1] + 1 == self.horizon)]


def test_any_dynamics_get_a_face():
    env = DynamicsEnv(Countdown(), render_mode="ansi")  # type: ignore[arg-type]
    assert env.observation_space == gym.spaces.MultiDiscrete([2, 4])
    assert env.reward_space.shape == (2,)
    env.reset(seed=0)
    observation, reward, *_ = env.step(1)
    assert observation.tolist() == [1, 1]
    assert reward.tolist() == [1.0, 1.0]
    assert "state 1/1 1/3" in env.render()
    assert env.exact().optimal().value((0, 0)) == 9
    picture = DynamicsEnv(Countdown(), render_mode="rgb_array")  # type: ignore[arg-type]
    picture.reset()
    assert picture.render().shape == (400, 800, 3)
