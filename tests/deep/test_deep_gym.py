"""Networks on Gymnasium environments: the numbers of the JAX loop, ends of episodes, Gaussian policies, resuming."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from chunked_td import cli
from chunked_td.deep import Categories, Continuous, DeepLearner
from chunked_td.deep.agents.ppo import PpoNetworks, PpoSettings, ppo_loss
from chunked_td.deep.gym import ActionScale, Environments, Normaliser, Round
from chunked_td.deep.lambdas import DeepConstant
from chunked_td.deep.networks import apply_mlp, make_mlp
from chunked_td.deep.policies import Discrete, Gaussian
from chunked_td.deep.training import make_agent
from chunked_td.envs.jax_task import TaskStep

SMALL = {"hidden": (8,)}


@dataclass(frozen=True)
class WalkTask:
    """Cells 0..4 from 0 on; action 1 goes right, 0 left. Ends at 4 with reward 1, is cut after 7 steps."""

    space = Categories((5,))
    n_actions = 2

    def reset(self, key):
        start = jnp.zeros((), jnp.int32)
        return (start, start), start[None]

    def step(self, key, state, action):
        cell = jnp.clip(state[0] + 2 * action - 1, 0, 4)
        over, time = cell == 4, state[1] + 1
        return TaskStep((cell, time), cell[None], over.astype(jnp.float32), over, ~over & (time >= 7), jnp.zeros(()))


class Walk(gym.Env):
    """The same in Python."""

    observation_space, action_space = gym.spaces.Discrete(5), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = self.time = 0
        return 0, {}

    def step(self, action):
        self.cell, self.time = min(max(self.cell + 2 * int(action) - 1, 0), 4), self.time + 1
        over = self.cell == 4
        return self.cell, float(over), over, not over and self.time >= 7, {}


class Cut(gym.Env):
    """In turns: 0 → 1, cut with reward 0; and 1 → 2, terminated with reward 1. So V(1) = 1 and V(0) = γ."""

    observation_space, action_space = gym.spaces.Discrete(3), gym.spaces.Discrete(2)
    begins = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.begins = self.begins % 2, self.begins + 1
        return self.cell, {}

    def step(self, action):
        self.cell += 1
        return self.cell, float(self.cell == 2), self.cell == 2, self.cell == 1, {}


class OwnVector(SyncVectorEnv):
    """A vector environment that is read as any other, not copy by copy."""


def vector(make, copies=1, mode=AutoresetMode.NEXT_STEP, kind=SyncVectorEnv):
    return kind([make] * copies, autoreset_mode=mode)


def same(first, second, exactly=True):
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        (np.testing.assert_array_equal if exactly else lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5))(a, b)


@pytest.mark.parametrize("rule", ["sarsa", "actor-critic"])
def test_a_streaming_learner_fed_from_python_is_that_of_the_jax_loop(rule):
    learner = DeepLearner(Walk(), rule, lambda_=0.8, step_size=0.3, seed=3, explore=20, **SMALL)
    history = learner.learn(Walk(), 40)
    agent = make_agent(rule, WalkTask(), DeepConstant(0.8), explore=20, **SMALL)
    state, tally = jax.jit(lambda: agent.block(jnp.float32(0.3), agent.start(3), 40))()
    same(jax.tree.map(lambda x: x[0], learner.states.learned), state.learned, exactly=False)
    assert history.returns.size == int(tally.episodes) > 4
    assert history.returns.sum() == float(tally.returns)
    assert history.lengths.sum() == int(tally.length)
    assert learner.mean_lambda == pytest.approx(0.8)


def test_ppo_fed_from_python_is_that_of_the_jax_loop():
    env = vector(Walk, 2)
    learner = DeepLearner(env, "ppo", lambda_=0.9, seed=1, steps=16, normalise=False, **SMALL)
    history = learner.learn(env, 50)
    assert learner.steps == 64  # whole rollouts
    agent = make_agent("ppo", WalkTask(), DeepConstant(0.9), environments=2, steps=16, **SMALL)
    state, tally = jax.jit(lambda: agent.block(jnp.float32(1e-3), agent.start(1), 64))()
    same(learner.states.networks, state.networks, exactly=False)
    assert history.returns.size == int(tally.episodes) > 4


LINEAR = {"hidden": (), "bounded": False, "sparsity": 0.0, "discount": 0.9}


@pytest.mark.parametrize("mode", [None, *AutoresetMode])
def test_a_cut_episode_bootstraps_from_its_own_last_state(mode):
    """Taken for a termination, V(0) would be 0; with the first state of the next episode, 0.81 V(0) or more."""
    env = Cut() if mode is None else vector(Cut, 1, mode, OwnVector)
    learner = DeepLearner(env, "actor-critic", step_size=0.1, **LINEAR)
    learner.learn(env, 300)
    critic = jax.tree.map(lambda x: x[0], learner.states.learned.critic)
    values = [float(apply_mlp(critic, np.eye(3, dtype=np.float32)[k])[0][0]) for k in (0, 1)]
    assert values == pytest.approx([0.9, 1.0], abs=0.03)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_rounds_are_the_same_however_episodes_begin(mode):
    rng, wanted = np.random.default_rng(0), []
    actions = rng.integers(2, size=(40, 2))
    cells = Categories((5,))
    plain, other = Environments(vector(Walk, 2), cells), Environments(vector(Walk, 2, mode, OwnVector), cells)
    assert plain.singles is not None
    assert other.singles is None
    np.testing.assert_array_equal(plain.start(0), other.start(0))
    taken, seen = [0, 0], [[], []]
    for row in actions:
        given = plain.step(row)
        wanted.append(given)
    while min(taken) < 40:
        row = np.array([actions[min(taken[k], 39), k] for k in range(2)])
        given = other.step(row)
        for k in range(2):
            if given.valid is None or given.valid[k]:
                seen[k].append([x[k].tolist() for x in given[:4]] + [given.fresh[k].tolist()])
                taken[k] += 1
            else:  # it began an episode
                assert given.fresh[k].tolist() == [0]
    for k in range(2):
        for t, round_ in enumerate(wanted):
            expected = [x[k].tolist() for x in round_[:4]] + [round_.fresh[k].tolist()]
            ended = bool(round_.terminated[k] or round_.truncated[k])
            assert seen[k][t][:4] == expected[:4]
            assert not ended or mode is AutoresetMode.NEXT_STEP or seen[k][t][4] == expected[4]


def test_steps_that_only_begin_an_episode_teach_ppo_nothing():
    rng = np.random.default_rng(0)
    networks = PpoNetworks(make_mlp(jax.random.key(0), (3, 4, 2)), make_mlp(jax.random.key(1), (3, 4, 1)))
    networks = jax.tree.map(lambda w: w + 0.1 * rng.normal(size=w.shape).astype(np.float32), networks)
    given = [rng.normal(size=(12, 3)), rng.integers(2, size=12), *rng.normal(size=(3, 12))]
    given = [np.asarray(x, np.float32 if x.dtype == np.float64 else np.int32) for x in given]
    valid = rng.random(12) < 0.6
    loss = jax.jit(ppo_loss, static_argnums=0)
    masked = loss(PpoSettings(), networks, *given, valid.astype(np.float32))
    plain = loss(PpoSettings(), networks, *(x[valid] for x in given))
    assert float(masked) == pytest.approx(float(plain), rel=1e-5)


def test_ppo_learns_in_the_vector_environments_that_gymnasium_makes_by_default():
    env = gym.make_vec("CartPole-v1", num_envs=2)  # not a SyncVectorEnv; episodes begin with the next step
    learner = DeepLearner(env, "ppo", steps=32, **SMALL)
    history = learner.learn(env, 64)
    assert history.returns.size > 0
    assert (history.returns == history.lengths).all()  # 1 per step, and steps that begin episodes do not count
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(learner.states.networks))


def test_the_gaussian_policy_has_the_plain_formula():
    rng, policy = np.random.default_rng(0), Gaussian(3)
    outputs, action = (rng.normal(size=(5, n)).astype(np.float32) for n in (6, 3))
    outputs[:, 3:] = np.clip(outputs[:, 3:], -2.9, 0.9)
    mean, deviation = outputs[:, :3], np.exp(outputs[:, 3:])
    density = np.exp(-(((action - mean) / deviation) ** 2) / 2) / (deviation * math.sqrt(2 * math.pi))
    np.testing.assert_allclose(policy.log_probability(outputs, action), np.log(density).sum(1), rtol=1e-4)
    np.testing.assert_allclose(
        policy.entropy(outputs), (0.5 * np.log(2 * math.pi * math.e * deviation**2)).sum(1), rtol=1e-5
    )
    draws = policy.sample(jax.random.key(0), jnp.broadcast_to(outputs[0], (20_000, 6)))
    np.testing.assert_allclose(draws.mean(0), mean[0], atol=6 * deviation[0].max() / 141)
    np.testing.assert_allclose(draws.std(0), deviation[0], rtol=0.05)
    assert policy.mode(outputs).tolist() == mean.tolist()
    logits = outputs[:, :2]
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(
        Discrete(2).log_probability(logits, np.array([0, 1, 0, 1, 1])),
        np.log(chances[np.arange(5), [0, 1, 0, 1, 1]]),
        rtol=1e-4,
    )


def test_actions_are_scaled_to_the_bounds_of_the_environment():
    env = Walk()
    env.action_space = gym.spaces.Box(np.array([-2.0, 0.0, -np.inf]), np.array([2.0, 1.0, np.inf]), dtype=np.float64)
    taken = ActionScale(env)(np.array([[0.5, -3.0, 7.0], [1.5, 0.0, -7.0]]))
    np.testing.assert_allclose(taken, [[1.0, 0.0, 7.0], [2.0, 0.5, -7.0]])
    env.action_space = gym.spaces.Discrete(3, start=5)
    assert ActionScale(env)(np.array([0, 2])).tolist() == [5, 7]


def test_the_normaliser_has_the_moments_of_what_it_saw():
    rng, normaliser = np.random.default_rng(0), Normaliser(2, 3, 0.9)
    rows = rng.normal(5.0, 3.0, size=(30, 3, 2)).astype(np.float32)
    no = np.zeros(3, bool)
    normaliser.first(rows[0])
    totals, seen = np.zeros(3), []
    for shown in rows[1:]:
        reward = rng.normal(size=3).astype(np.float32)
        last = normaliser.follow(Round(shown, reward, no, no, shown))
        totals = 0.9 * totals + reward
        seen.append(totals)
    flat = rows.reshape(-1, 2).astype(np.float64)
    np.testing.assert_allclose(last.observation, (rows[-1] - flat.mean(0)) / flat.std(0, ddof=1), rtol=1e-4)
    np.testing.assert_allclose(last.reward, reward / np.sqrt(np.var(seen, ddof=1) + np.mean(seen) ** 2), rtol=1e-4)
    copy = Normaliser(2, 3, 0.9)
    copy.restore(normaliser.state())
    np.testing.assert_array_equal(copy.apply(rows[3]), normaliser.apply(rows[3]))


def test_ppo_normalises_unless_told_otherwise():
    """Rewards always, real numbers where no model predicts them. Where every step pays −1, returns have no spread."""
    cart, bounds = gym.make("CartPole-v1"), Continuous((-3.0,) * 4, (3.0,) * 4)
    learners = [DeepLearner(cart), DeepLearner(Walk()), DeepLearner(cart, lambda_="expected", space=bounds)]
    assert [learner.agent.task.normalised for learner in learners] == [True, False, False]
    assert DeepLearner(cart, "sarsa").normaliser is DeepLearner(cart, normalise=False).normaliser is None
    shown, no = np.array([[4], [2]]), np.zeros(2, bool)
    paid = [learners[1].normaliser.follow(Round(shown, -np.ones(2), no, no, shown)) for _ in range(3)]
    assert paid[0].reward.tolist() == pytest.approx([-1.0, -1.0])
    assert -1.0 < paid[2].reward[0] < -0.4
    assert paid[2].observation is shown


def pendulums():
    return vector(lambda: gym.make("Pendulum-v1", max_episode_steps=11), 2)


@pytest.mark.parametrize(
    ("agent", "make", "steps", "settings"),
    [
        ("sarsa", lambda: gym.make("CartPole-v1"), 45, {"explore": 20}),
        ("ppo", pendulums, 32, {"steps": 8, "normalise": True}),
    ],
)
def test_a_resumed_run_is_the_uninterrupted_one_to_the_last_bit(tmp_path, agent, make, steps, settings):
    settings |= SMALL
    whole, env = DeepLearner(make(), agent, seed=5, **settings), make()
    first = whole.learn(env, steps)
    whole.save(tmp_path / "agent.npz")
    second = whole.learn(env, steps)
    again, fresh = DeepLearner(make(), agent, seed=5, **settings), make()
    again.resume(tmp_path / "agent.npz")
    again.save(tmp_path / "copy.npz")  # before the environment is there
    other = DeepLearner(make(), agent, seed=5, **settings)
    other.resume(tmp_path / "copy.npz")
    for resumed in (again, other):
        got = resumed.learn(make() if resumed is other else fresh, steps)
        same(resumed.states, whole.states)
        assert resumed.steps == whole.steps == 2 * steps
        assert got.returns.size == second.returns.size > 0
        np.testing.assert_array_equal(got.returns, second.returns)
    assert first.returns.size > 0
    with pytest.raises(ValueError, match=r"^seed: .* was trained with 5, this agent has 6"):
        DeepLearner(make(), agent, seed=6, **settings).resume(tmp_path / "agent.npz")


def test_an_environment_that_cannot_be_brought_back_begins_new_episodes(tmp_path):
    class Unseeded(Walk):
        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.cell = int(np.random.default_rng().integers(10**9)) % 2 + 1
            return self.cell, {}

        def step(self, action):
            shown = super().step(action)
            return (int(np.random.default_rng().integers(5)), *shown[1:])

    learner = DeepLearner(Unseeded(), "sarsa", explore=20, **SMALL)
    env = Unseeded()
    learner.learn(env, 5)
    learner._environments.actions[0] = [1] * 3  # an episode under way
    learner._shown = np.array([[77]])
    learner.save(tmp_path / "agent.npz")
    again = DeepLearner(Unseeded(), "sarsa", explore=20, **SMALL)
    again.resume(tmp_path / "agent.npz")
    with pytest.warns(UserWarning, match=r"cannot be brought back .* new ones begin"):
        again.learn(Unseeded(), 3)
    assert again.steps == 8


def test_one_copy_is_a_single_environment():
    def run(make):
        learner = DeepLearner(make(), "sarsa", seed=2, explore=20, **SMALL)
        history = learner.learn(make(), 45)
        return learner, history

    (single, first), (copy, second) = (
        run(lambda: gym.make("CartPole-v1")),
        run(lambda: vector(lambda: gym.make("CartPole-v1"))),
    )
    same(single.states, copy.states)
    np.testing.assert_array_equal(first.returns, second.returns)
    observation = np.array([0.01, 0.0, 0.02, 0.0], np.float32)
    assert single.act(observation) == copy.act(observation) in (0, 1)
    evaluated = single.evaluate(gym.make("CartPole-v1"), 2, max_steps=20)
    assert (evaluated.returns == evaluated.lengths).all()


def test_what_networks_cannot_learn_is_refused():
    pendulum, cart = gym.make("Pendulum-v1"), gym.make("CartPole-v1")
    cases = [
        (lambda: DeepLearner(pendulum, "q"), "agent: q takes Discrete actions"),
        (lambda: DeepLearner(cart, lambda_="true-kernel"), "draws next states from the task"),
        (lambda: DeepLearner(cart, lambda_="expected"), "no percept model reads Box"),
        (lambda: DeepLearner(Walk(), normalise=True), "normalise: goes with observations of real numbers"),
        (lambda: DeepLearner(cart, lambda_=1.5), "1.5"),
        (lambda: DeepLearner(cart).save("x.npz"), "nothing has been learned"),
        (lambda: DeepLearner(cart).learn(pendulum, 10), "the learner was made for 1 copies and 2 actions"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()
    bounded = Continuous((-3.0, -1.0, -8.0), (3.0, 1.0, 8.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DeepLearner(pendulum, "actor-critic", lambda_="expected", space=bounded)


class Told(Walk):
    """A walk of which one thing is told wrongly."""

    def __init__(self, **wrong):
        self.wrong = wrong

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        told = {"observations": observation, "reward": reward, "terminated": terminated} | self.wrong
        return told["observations"], told["reward"], told["terminated"], truncated, info


@pytest.mark.parametrize(
    "wrong",
    [
        *({"reward": value} for value in ("1", math.nan, 1j, None)),
        *({"terminated": value} for value in ("False", math.nan, 5)),
        *({"observations": value} for value in (5, -1, 0.5, "1", [1, 2], [[0.5], [0.5, 0.5]])),
    ],
    ids=str,
)
def test_networks_learn_from_nothing_that_no_environment_should_say(wrong):
    """bool("False") is True, float("1") a number, and an observation beyond its space was read as zeros."""
    (name,), env = wrong, Walk()
    learner = DeepLearner(env, "sarsa", **SMALL)
    learner.learn(env, 1)
    told = Told(**wrong)
    for call in (lambda: learner.learn(told, 8), lambda: learner.evaluate(told, 1)):
        with pytest.raises(ValueError, match=name):
            call()


def test_cells_may_be_told_as_truth_values():
    env, told = Walk(), Told(observations=True)
    learner = DeepLearner(env, "sarsa", **SMALL)
    learner.learn(env, 1)
    assert learner.learn(told, 8).lengths.sum() > 0


@pytest.mark.parametrize("flags", [["False", "False"], [math.nan, 0.0], [2, 0]], ids=str)
def test_a_vector_environment_says_of_every_copy_whether_it_ended(flags):
    env = vector(Walk, 2, AutoresetMode.NEXT_STEP, OwnVector)
    rounds = Environments(env, Categories((5,)))
    rounds.start(0)
    step = env.step
    env.step = lambda actions: (*step(actions)[:2], flags, [False, False], {})
    with pytest.raises(ValueError, match="terminated must be True or False"):
        rounds.step(np.zeros(2, int))


def run(*arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", *arguments])
    return int(stop.value.code or 0)


def test_the_command_trains_saves_resumes_and_evaluates(tmp_path, capsys):
    """Two parts give the curve of the whole, and the same weights."""
    command = ("CartPole-v1", "--network", "q", "--lambda", "0.9", "--epsilon", "0.1")
    assert run(*command, "--steps", "600", "--out", str(tmp_path / "whole"), "--csv", "--log", "tensorboard") == 0
    said = capsys.readouterr().out
    assert "step       600   λ 0." in said
    assert "greedy policy, 20 episodes: mean return" in said
    for more in ((), ("--resume",)):
        assert run(*command, "--steps", "300", "--out", str(tmp_path / "parts"), *more) == 0
    curves = [pl.read_parquet(tmp_path / name / "curve.parquet") for name in ("whole", "parts")]
    assert curves[0].equals(curves[1])
    assert curves[0].equals(pl.read_csv(tmp_path / "whole/curve.csv"))
    assert list((tmp_path / "whole/tensorboard").iterdir())
    with np.load(tmp_path / "whole/agent.npz") as whole, np.load(tmp_path / "parts/agent.npz") as parts:
        for k in range(12):  # weights, biases and traces of three layers
            np.testing.assert_array_equal(whole[f"leaf_{k}"], parts[f"leaf_{k}"])
    capsys.readouterr()
    cases = [
        ((*command, "--out", str(tmp_path / "whole")), "holds an agent: --resume"),
        ((*command, "--out", str(tmp_path / "whole"), "--resume", "--seed", "3"), "seed: "),
        (("CartPole-v1", "--network", "q", "--episodes", "7"), "--episodes goes with learners that have a table"),
        (("CartPole-v1", "--network", "ppo", "--epsilon", "0.1"), "--epsilon goes with sarsa and q"),
        (("CartPole-v1", "--network", "q", "--bins", "3"), "--bins goes with learners that have a table"),
        (("FrozenLake-v1", "--steps", "10"), "--steps: goes with --network"),
        (("Pendulum-v1", "--network", "q"), "agent: q takes Discrete actions"),
    ]
    for arguments, message in cases:
        assert run(*arguments) == 2
        assert message in capsys.readouterr().err
