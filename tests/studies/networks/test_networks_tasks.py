"""Tasks as pure functions, PPO's advantages, the command."""

from __future__ import annotations

import sys
from typing import NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.optional import needs
from studies.networks.agents.ppo import PpoAgent, PpoSettings
from studies.networks.lambdas import SOURCES
from studies.networks.networks import apply_mlp
from studies.networks.results import OTHERS
from studies.networks.spaces import Continuous
from studies.networks.tasks import TASKS, ChargeTask, MemoryTask, RecentPercepts
from studies.networks.tasks.others import GymnaxTask, XLandTask, make_foreign, make_other

by_others = [pytest.param(name, marks=needs("xminigrid" if name.startswith("xland") else "gymnax")) for name in OTHERS]


@pytest.mark.parametrize("name", [*TASKS, *by_others])
def test_tasks_keep_to_their_space_and_end(name):
    task = TASKS[name] if name in TASKS else make_other(name)

    def one(carry, key):
        state, _ = carry
        move, act, begin = jax.random.split(key, 3)
        done = task.step(move, state, jax.random.randint(act, (), 0, task.n_actions))
        fresh, observation = task.reset(begin)
        over = done.terminated | done.truncated
        after = jax.tree.map(
            lambda new, old: jnp.where(over, new, old), (fresh, observation), (done.state, done.observation)
        )
        return after, (task.space.codes(done.observation), done.score, over, done.reward)

    start = task.reset(jax.random.key(0))
    _, (codes, score, over, reward) = jax.jit(lambda s, k: jax.lax.scan(one, s, k))(
        start, jax.random.split(jax.random.key(1), 2_000 if name == "xland-door-key" else 300)
    )
    assert task.space.inputs(start[1]).shape == (task.space.n_inputs,)
    assert np.all((np.asarray(codes) >= 0) & (np.asarray(codes) < np.asarray(task.space.nvec)))
    assert np.all((np.asarray(score) >= 0) & (np.asarray(score) <= 1))
    assert np.asarray(over).sum() >= 5
    assert np.isfinite(np.asarray(reward)).all()


def test_cart_pole_is_gymnasiums():
    env, task = gym.make("CartPole-v1").unwrapped, TASKS["cart-pole"]
    env.reset(seed=0)
    state, _ = task.reset(jax.random.key(0))
    env.state = np.asarray(state.body, np.float64)
    step = jax.jit(task.step)
    for action in (0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1):
        seen, reward, terminated, _, _ = env.step(action)
        done = step(jax.random.key(0), state, action)
        np.testing.assert_allclose(done.observation, seen, atol=1e-5)
        assert (float(done.reward), bool(done.terminated)) == (reward, terminated)
        state = done.state


def test_accumulated_charge_pays_the_bonus_on_average_and_its_mirror_too():
    """Mean return of either first action over 4,000 episodes: 0.3 and 0, standard error 0.022; five of them."""
    for mirrored in (False, True):
        task = ChargeTask(mirrored=mirrored)

        def episode(key, action, task=task):
            state, _ = task.reset(key)
            keys = jax.random.split(key, task.horizon)
            step = lambda s, k: (lambda d: (d.state, d.reward))(task.step(k, s, action))  # noqa: E731
            return jnp.sum(jax.lax.scan(step, state, keys)[1])

        keys = jax.random.split(jax.random.key(0), 4_000)
        for action, mean in ((0, 0.3), (1, 0.0)):
            returns = jax.jit(jax.vmap(episode, (0, None)))(keys, action)
            assert float(returns.mean()) == pytest.approx(mean, abs=0.11)
            assert float(returns.std()) == pytest.approx(0.5 * np.sqrt(32 / 4), rel=0.1)


def test_recent_percepts_hold_the_cue_to_the_end():
    task = RecentPercepts(MemoryTask(length=3), 4)
    state, observation = task.reset(jax.random.key(0))
    cue = int(observation[0])
    for _ in range(3):
        done = task.step(jax.random.key(0), state, cue - 1)
        state = done.state
    assert done.observation.reshape(4, 2).tolist() == [[0, 3], [0, 2], [0, 1], [cue, 0]]
    assert float(done.reward) == 1.0


class _Gymnax:
    """gymnax's interface, as its version 1.0 has it."""

    num_actions = 2

    def reset_env(self, key, params):
        return jnp.zeros(2), jnp.zeros((), jnp.int32)

    def step_env(self, key, state, action, params):
        time = state + 1
        return jnp.full(2, time / 5), time, action, time == 3, {}

    def is_truncated(self, state, params):
        return state >= params


def test_gymnax_environments_are_read_through_their_own_step():
    space = Continuous((0.0, 0.0), (1.0, 1.0))
    task = GymnaxTask(_Gymnax(), 3, space, returns=(0.0, 3.0))
    state, _ = task.reset(jax.random.key(0))
    for k in range(3):
        done = task.step(jax.random.key(k), state, 1)
        state = done.state
    assert done.observation.tolist() == pytest.approx([0.6, 0.6])
    assert (bool(done.terminated), bool(done.truncated)) == (True, False)
    assert float(done.score) == 1.0
    cut = GymnaxTask(_Gymnax(), 1, space).step(jax.random.key(0), task.reset(jax.random.key(0))[0], 0)
    assert (bool(cut.terminated), bool(cut.truncated)) == (False, True)
    last = GymnaxTask(_Gymnax(), 3, space, returns=(0.0, 2.0), last_reward=True).step(jax.random.key(0), state, 1)
    assert float(last.score) == 0.5


@needs("gymnax")
def test_gymnaxs_cart_pole_is_ours():
    """Two implementations of one task, step by step until the pole falls."""
    theirs, ours = make_other("gymnax-cart-pole"), TASKS["cart-pole"]
    (inner, total), seen = theirs.reset(jax.random.key(3))
    state, step = ours.reset(jax.random.key(3))[0]._replace(body=seen), [jax.jit(t.step) for t in (theirs, ours)]
    assert theirs.space == ours.space
    for action in (0, 1, 1, 0, *(1,) * 20):
        a, b = step[0](jax.random.key(0), (inner, total), action), step[1](jax.random.key(0), state, action)
        np.testing.assert_allclose(a.observation, b.observation, atol=1e-6)
        assert (float(a.reward), bool(a.terminated)) == (float(b.reward), bool(b.terminated))
        assert float(a.score) == pytest.approx(float(b.score))
        (inner, total), state = a.state, b.state
        if a.terminated:
            break
    assert bool(a.terminated)


@needs("gymnax")
@pytest.mark.parametrize("name", ["gymnax-umbrella", "gymnax-umbrella-distractors"])
def test_gymnaxs_umbrella_is_scored_by_what_suits_the_weather(name):
    task = make_other(name)
    step = jax.jit(task.step)
    for seed in range(4):
        state, seen = task.reset(jax.random.key(seed))
        rain, total = int(seen[0]), 0.0
        for t in range(20):
            done = step(jax.random.key(100 * seed + t), state, jnp.asarray(seed % 2 if t == 0 else t % 2))
            state, total = done.state, total + float(done.reward)
            assert done.observation[:3].tolist() == [rain, seed % 2, 19 - t]
            assert bool(done.terminated) == (t == 19)
        assert float(done.score) == float(rain == seed % 2)
        assert float(done.reward) == 2 * float(done.score) - 1
    assert task.space.nvec == (2, 2, 21) + (2,) * (20 if "distractors" in name else 0)


@needs("gymnax")
def test_gymnaxs_catch_pays_where_the_episode_ends():
    task = make_other("gymnax-catch")
    assert task.space.nvec == (2,) * 50
    step = jax.jit(task.step)
    state, seen = task.reset(jax.random.key(0))
    ball, paddle = int(np.argmax(seen[0])), 2
    for t in range(9):
        done = step(jax.random.key(t), state, jnp.asarray(1 + np.sign(ball - paddle)))
        state, paddle = done.state, paddle + int(np.sign(ball - paddle))
        assert (float(done.reward), bool(done.terminated)) == ((1.0, True) if t == 8 else (0.0, False))
    assert float(done.score) == 1.0


class _Timestep(NamedTuple):
    """XLand-MiniGrid's, as far as it is read."""

    time: jax.Array
    observation: jax.Array
    reward: jax.Array
    discount: jax.Array

    def last(self):
        return (self.time >= 4) | (self.discount == 0)


class _Rooms:
    """XLand-MiniGrid's interface, as its version 0.9 has it: action 1 reaches the goal."""

    def observation_shape(self, params):
        return 2, 3, 2

    def num_actions(self, params):
        return 6

    def reset(self, params, key):
        return _Timestep(jnp.zeros((), jnp.int32), jnp.ones((2, 3, 2), jnp.uint8), jnp.zeros(()), jnp.ones(()))

    def step(self, params, timestep, action):
        now, goal = timestep.time + 1, action == 1
        seen = jnp.stack([jnp.full((2, 3), 12), jnp.full((2, 3), 11)], -1).astype(jnp.uint8)
        return _Timestep(now, seen, jnp.where(goal, 0.7, 0.0), jnp.where(goal, 0.0, 1.0))


def test_xland_environments_end_at_the_goal_or_at_the_time_limit():
    task = XLandTask(_Rooms(), None)
    assert (task.space.nvec, task.n_actions) == ((13,) * 6, 6)
    state, _ = task.reset(jax.random.key(0))
    won = task.step(jax.random.key(0), state, 1)
    assert (bool(won.terminated), bool(won.truncated), float(won.score)) == (True, False, pytest.approx(0.7))
    assert won.observation.tolist() == [[12] * 3] * 2
    for _ in range(4):
        cut = task.step(jax.random.key(0), state, 0)
        state = cut.state
    assert (bool(cut.terminated), bool(cut.truncated), float(cut.score)) == (False, True, 0.0)


@needs("xminigrid")
def test_door_key_pays_at_the_goal():
    task = make_other("xland-door-key")
    from xminigrid.core.constants import NUM_COLORS, NUM_TILES, Tiles

    assert task.symbols == NUM_TILES >= NUM_COLORS
    begun, seen = task.reset(jax.random.key(0))
    assert seen.shape == task.space.shape == (7, 7)
    step, world = jax.jit(task.step), begun.state
    agent = world.agent.replace(position=jnp.asarray([2, 3]), direction=jnp.asarray(2))  # above the goal, looking down
    beside = begun.replace(state=world.replace(agent=agent, step_num=jnp.asarray(24)))
    turned = step(jax.random.key(0), beside, jnp.asarray(1))
    assert (bool(turned.terminated), float(turned.reward)) == (False, 0.0)
    done = step(jax.random.key(0), beside, jnp.asarray(0))
    assert (bool(done.terminated), bool(done.truncated)) == (True, False)
    assert float(done.reward) == float(done.score) == pytest.approx(1 - 0.9 * 25 / 250)
    assert int(done.observation[-1, 3]) == Tiles.GOAL
    late = beside.replace(state=beside.state.replace(step_num=jnp.asarray(249)))
    cut = step(jax.random.key(0), late, jnp.asarray(1))
    assert (bool(cut.terminated), bool(cut.truncated)) == (False, True)


def test_a_package_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "xminigrid", None)  # importing it fails
    with pytest.raises(ValueError, match=r"'Rooms' needs the package xminigrid: pip install xminigrid"):
        make_foreign("xminigrid", "Rooms")


def test_ppo_bootstraps_from_the_true_next_state():
    """TD errors bootstrap from the true next state, not from the first one of the next episode; λ is [T, B]."""
    task, settings = ChargeTask(horizon=4, points=2), PpoSettings(hidden=(8,), environments=3, steps=6, minibatches=1)
    agent = PpoAgent(task, SOURCES["value-kernel"], settings)
    state, rollout = jax.jit(agent.collect)(agent.start(0))
    _, lambdas, errors = jax.jit(agent.update)(1e-3, state, rollout)
    values = np.asarray(apply_mlp(state.networks.critic, rollout.inputs)[0][..., 0])
    following = np.asarray(apply_mlp(state.networks.critic, rollout.next_inputs)[0][..., 0])
    going_on = ~np.asarray(rollout.terminated)
    np.testing.assert_allclose(errors, rollout.reward + 0.99 * going_on * following - values, atol=1e-6)
    assert lambdas.shape == (6, 3)
    starts = np.asarray(rollout.start)
    assert starts[0].all()
    assert starts[4].all()
    assert starts.sum() == 6
