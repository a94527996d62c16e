"""Stable-Baselines3 with our buffer: its own advantages at constant λ, the right ones at cuts, and real training."""

from __future__ import annotations

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # imports of theirs that have been deprecated
    pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed")
    from stable_baselines3 import A2C, PPO
    from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer
    from stable_baselines3.common.env_util import make_vec_env

import chunked_td as ctd  # noqa: E402
from chunked_td.integrations.sb3 import LambdaDictRolloutBuffer, LambdaRolloutBuffer  # noqa: E402

T, B = 64, 3
BOX, TWO = spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(2)


def fill(buffer, seed=0):
    """A random rollout; returns (last_values, dones)."""
    rng = np.random.default_rng(seed)
    for _ in range(T):
        observation = rng.uniform(-1, 1, size=(B, 2))
        if isinstance(buffer, DictRolloutBuffer):
            observation = {"x": observation}
        values, log_probs = (torch.tensor(x, dtype=torch.float32) for x in rng.normal(size=(2, B)))
        buffer.add(observation, rng.integers(2, size=B), rng.normal(size=B), rng.random(B) < 0.1, values, log_probs)
    return torch.tensor(rng.normal(size=(B, 1)), dtype=torch.float32), rng.random(B) < 0.5


@pytest.mark.parametrize("lambda_", [0.0, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("kind", ["plain", "dict"])
def test_one_lambda_gives_their_advantages(lambda_, kind):
    theirs, ours, space = {
        "plain": (RolloutBuffer, LambdaRolloutBuffer, BOX),
        "dict": (DictRolloutBuffer, LambdaDictRolloutBuffer, spaces.Dict({"x": BOX})),
    }[kind]
    settings = {"device": "cpu", "gamma": 0.97, "gae_lambda": lambda_, "n_envs": B}
    expected = theirs(T, space, TWO, **settings)
    expected.compute_returns_and_advantage(*fill(expected))
    for source in (None, lambda_, np.float32(lambda_), lambda rollout: np.full(rollout.rewards.shape, lambda_)):
        buffer = ours(T, space, TWO, **settings, lambda_source=source)
        buffer.compute_returns_and_advantage(*fill(buffer))
        assert buffer.advantages.dtype == buffer.returns.dtype == np.float32
        np.testing.assert_allclose(buffer.advantages, expected.advantages, rtol=2e-6, atol=2e-6)
        np.testing.assert_allclose(buffer.returns, expected.returns, rtol=2e-6, atol=2e-6)
        assert sum(len(batch.actions) for batch in buffer.get(16)) == T * B


class Cut(gym.Env):
    """Walks 0, 1, 2, …; reward 1 a step. Ends at 3 for good in odd episodes; a time limit cuts the others."""

    observation_space = spaces.Box(0.0, 100.0, (1,))
    action_space = TWO

    def __init__(self):
        self.episode = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = 0
        self.episode += 1
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.position += 1
        terminated = bool(self.episode % 2 and self.position == 3)
        return np.full(1, self.position, np.float32), 1.0, terminated, False, {}


def test_a_cut_bootstraps_from_the_state_it_cut_in():
    """SB3 folds the bootstrap into the reward. With a λ per step the result is that of `gae` with true next values."""
    lambdas = np.random.default_rng(0).random((32, 1))
    model = PPO(
        "MlpPolicy",
        gym.wrappers.TimeLimit(Cut(), 5),
        n_steps=32,
        batch_size=32,
        n_epochs=1,
        gamma=0.9,
        seed=0,
        device="cpu",
        rollout_buffer_class=LambdaRolloutBuffer,
        rollout_buffer_kwargs={"lambda_source": lambda rollout: lambdas},
    )
    kept = {}
    model.rollout_buffer.lambda_source = lambda rollout: kept.update(rollout=rollout) or lambdas
    _, callback = model._setup_learn(32, None)
    callback.on_training_start({}, {})
    model.collect_rollouts(model.env, callback, model.rollout_buffer, 32)

    def value(x):
        with torch.no_grad():
            return model.policy.predict_values(torch.full((1, 1), float(x))).item()

    # The same walk by the book: episodes of 3 steps that end, and of 5 that are cut.
    left, terminated, truncated = [], [], []
    position, episode = 0, 1
    for _ in range(32):
        left.append(position)
        position += 1
        terminated.append(bool(episode % 2 and position == 3))
        truncated.append(not terminated[-1] and position == 5)
        if terminated[-1] or truncated[-1]:
            position, episode = 0, episode + 1
    assert sum(truncated) >= 3 <= sum(terminated)
    values, next_values = [value(x) for x in left], [value(x + 1) for x in left]
    expected = ctd.gae(np.ones(32), values, next_values, terminated, truncated, 0.9, lambdas[:, 0])
    np.testing.assert_allclose(model.rollout_buffer.advantages[:, 0], expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(kept["rollout"].observations[:, 0, 0], left)
    rewards = kept["rollout"].rewards[:, 0]
    np.testing.assert_allclose(rewards[np.array(truncated)], 1 + 0.9 * value(5), rtol=1e-5)
    np.testing.assert_array_equal(rewards[~np.array(truncated)], 1.0)


class ByValue:
    """A λ source with a memory: small where the next value differs much from what is usual."""

    def __init__(self):
        self.scale, self.rollouts = 1.0, 0

    def update(self, rollout):
        following = np.concatenate([rollout.values[1:], rollout.last_values[None]])
        change = np.abs(following - rollout.values)
        self.scale = 0.9 * self.scale + 0.1 * float(change.mean())
        self.rollouts += 1
        return torch.as_tensor(0.5 + 0.5 * np.exp(-change / (10 * self.scale)))


@pytest.fixture
def one_thread():
    """Networks this small are slower on several threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("algorithm", [PPO, A2C])
def test_cartpole_is_learnt_with_a_lambda_per_step(algorithm, one_thread):
    """Episodes of the random policy last 22 steps on average; three times that is learning. The seed is fixed."""
    source = ByValue()
    settings, envs, steps = {
        PPO: ({"n_steps": 64, "batch_size": 256, "n_epochs": 10, "learning_rate": 2e-3}, 4, 8_192),
        A2C: ({"n_steps": 8, "learning_rate": 2e-3}, 8, 38_400),
    }[algorithm]
    model = algorithm(
        "MlpPolicy",
        make_vec_env("CartPole-v1", envs, seed=0),
        gamma=0.98,
        seed=0,
        device="cpu",
        rollout_buffer_class=LambdaRolloutBuffer,
        rollout_buffer_kwargs={"lambda_source": source},
        **settings,
    )
    model.learn(steps)
    assert source.rollouts == steps // (settings["n_steps"] * envs)
    assert 0.5 <= model.rollout_buffer.lambdas.min() < model.rollout_buffer.lambdas.max() <= 1.0
    lengths = [episode["l"] for episode in model.ep_info_buffer][-20:]
    assert np.mean(lengths) > 3 * 22


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (1.5, ValueError, r"got 1.5, takes numbers in \[0, 1\]"),
        (float("nan"), ValueError, r"got nan"),
        (True, TypeError, r"got True, takes a number, a function"),
        ("0.9", TypeError, r"got '0.9', takes a number, a function"),
        (ByValue, TypeError, r"got <class .*ByValue'>, takes .*an object with update\(rollout\) .*, not its class"),
        (lambda rollout: None, TypeError, r"returned None, takes an array of numbers"),
        (lambda rollout: rollout.rewards[:-1], ValueError, rf"got an array of shape \({T - 1}, {B}\), takes"),
        (lambda rollout: np.full((B, T), 0.5), ValueError, rf"got an array of shape \({B}, {T}\), takes \({T}, {B}\)"),
        (lambda rollout: np.full(rollout.rewards.shape, np.nan), ValueError, r"got nan, takes numbers in \[0, 1\]"),
    ],
)
def test_bad_sources_are_named(source, error, message):
    def use():
        buffer = LambdaRolloutBuffer(T, BOX, TWO, device="cpu", n_envs=B, lambda_source=source)
        buffer.compute_returns_and_advantage(*fill(buffer))

    with pytest.raises(error, match=rf"^lambda_source: {message}"):
        use()


def test_dict_spaces_are_sent_to_the_other_buffer():
    with pytest.raises(TypeError, match="LambdaDictRolloutBuffer"):
        LambdaRolloutBuffer(T, spaces.Dict({"x": BOX}), TWO, device="cpu", n_envs=B)
