"""Linear values: against Sutton and Barto's algorithms in plain NumPy, against tables, and on small Box problems."""

import gymnasium as gym
import numpy as np
import pytest

import chunked_td as ctd
from helpers.compilation import uncompiled

GAMMA, ALPHA, LAMBDA = 0.95, 0.3, 0.8


class Line(gym.Env):
    """A point on [0, 1] that drifts left or right with noise; the ends pay 1 and −1."""

    def __init__(self, noise=0.05):
        self.observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
        self.action_space = gym.spaces.Discrete(2)
        self.noise = noise

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0.5
        return np.array([self.x]), {}

    def step(self, action):
        self.x += (0.06 if action else -0.06) + self.noise * self.np_random.standard_normal()
        ended = not 0.0 < self.x < 1.0
        return np.array([np.clip(self.x, 0.0, 1.0)]), float(np.sign(self.x - 0.5)) * ended, ended, False, {}


def features_of(name, env):
    if name == "tiles":
        return ctd.TileCoding(env, bins=4, tilings=4)
    return ctd.OwnFeatures(lambda x: np.cos(np.pi * np.arange(4) * x[0]), 4, codes=ctd.Discretise(env, 8))


# ---- features


def plain_tiles(x, low, high, bins, tilings):
    """The active tiles by the definition: one index per tiling, row-major within it."""
    found = []
    for t in range(tilings):
        place = t
        for j in range(len(x)):
            width = (high[j] - low[j]) / bins[j]
            shift = (t * (2 * j + 1)) % tilings / tilings
            place = place * (bins[j] + 1) + int(np.floor((np.clip(x[j], low[j], high[j]) - low[j]) / width + shift))
        found.append(place)
    return found


def test_tiles_are_those_of_the_definition():
    low, high, bins, tilings = (-1.2, -0.07, 0.0), (0.6, 0.07, 5.0), (3, 5, 4), 8
    coder = ctd.TileCoding(None, list(bins), tilings, list(low), list(high))
    assert (coder.count, coder.active) == (8 * 4 * 6 * 5, 8)
    rng = np.random.default_rng(0)
    for x in rng.uniform(np.array(low) - 0.5, np.array(high) + 0.5, (200, 3)):
        expected = np.zeros(coder.count)
        expected[plain_tiles(x, low, high, bins, tilings)] = 1.0
        np.testing.assert_array_equal(coder.vector(x), expected)


def test_tiles_share_memory_where_there_are_many():
    coder = ctd.TileCoding(None, 9, 8, [0] * 6, [1] * 6, memory=512)
    found = [coder.vector(x) for x in np.random.default_rng(0).random((50, 6))]
    assert coder.hashed
    assert all(one.sum() == 8 for one in found)
    assert np.count_nonzero(np.sum(found, axis=0)) > 200  # spread over the memory


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ctd.TileCoding(None, 8, 0, 0.0, 1.0), "tilings"),
        (lambda: ctd.OwnFeatures("f", 4), "function must be"),  # type: ignore[arg-type]
        (lambda: ctd.TileCoding(None, 2, 2, 0.0, 1.0).vector([np.nan]), "finite"),
        (lambda: ctd.TDLambda(Line(), indexer=ctd.TileCoding(Line()), view="offline"), "features require view"),
        (lambda: ctd.DynaQ(Line(), indexer=ctd.TileCoding(Line())), "planner requires a table of values"),
        (lambda: ctd.NaiveTD0(Line(), indexer=ctd.TileCoding(Line())), "learns a table"),
        (lambda: ctd.ChunkedSarsa(Line(), indexer=ctd.OwnFeatures(lambda o: o, 1)), "codes to count"),
    ],
)
def test_errors_say_what_is_wrong(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# ---- against plain NumPy


def definition(kind, view, features, episodes, replacing, n_actions=2):
    """Weights after recorded episodes, by the algorithms of Sutton and Barto (2018), chapter 12.

    Args:
      kind: "td", "sarsa" or "expected" (uniform policy). episodes: lists of (x, a, r, x', a', terminated).
    """
    width = 1 if kind == "td" else n_actions
    w = np.zeros((features.count, width))
    rates = ALPHA * features.rates[:, None]

    def x_of(observation, action):
        x = np.zeros_like(w)
        x[:, 0 if kind == "td" else action] = features.vector(observation)
        return x

    for episode in episodes:
        z, old = np.zeros_like(w), 0.0
        for x, a, r, x2, a2, terminated in episode:
            phi = x_of(x, a)
            value = (w * phi).sum()
            ahead = [0.0 if terminated else (w * x_of(x2, b)).sum() for b in range(n_actions)]
            b = np.mean(ahead) if kind == "expected" else ahead[a2]
            delta = r + GAMMA * b - value
            if view == "traces":
                z = GAMMA * LAMBDA * z
                z = np.where(phi != 0, phi, z) if replacing else z + phi
                w = w + rates * delta * z
            else:
                z = GAMMA * LAMBDA * z + (1 - GAMMA * LAMBDA * (rates * z * phi).sum()) * phi
                w = w + rates * ((delta + value - old) * z - (value - old) * phi)
                old = 0.0 if terminated else ahead[a2]
    return w.ravel()


def record(env, episodes, seed=0):
    """Episodes of acting at random, in the form that `definition` takes."""
    rng, found = np.random.default_rng(seed), []
    for k in range(episodes):
        x, _ = env.reset(seed=seed if k == 0 else None)
        a, steps, ended = int(rng.integers(2)), [], False
        while not ended:
            x2, r, ended, _, _ = env.step(a)
            a2 = int(rng.integers(2))
            steps.append((x, a, r, x2, a2, ended))
            x, a = x2, a2
        found.append(steps)
    return found


def replay(agent, episodes):
    for episode in episodes:
        agent.start(episode[0][0], action=episode[0][1])
        for _, _, r, x2, a2, terminated in episode:
            agent.step(r, x2, terminated, next_action=a2)


@pytest.mark.parametrize(
    ("kind", "view", "features", "replacing"),
    [
        ("sarsa", "traces", "tiles", False),
        *(
            uncompiled(kind, view, features, replacing)
            for kind, view, features, replacing in [
                ("td", "traces", "tiles", True),
                ("td", "true_online", "tiles", False),
                ("expected", "traces", "own", False),
                ("sarsa", "true_online", "tiles", False),
                ("sarsa", "true_online", "own", False),
            ]
        ),
    ],
)
def test_weights_are_those_of_the_definition(kind, view, features, replacing):
    env = Line()
    made, episodes = features_of(features, env), record(env, 5)
    classes = {"td": ctd.TDLambda, "sarsa": ctd.SarsaLambda, "expected": ctd.ExpectedSarsaLambda}
    more = {} if kind == "td" else {"epsilon": 1.0}
    agent = classes[kind](
        env, lambda_=LAMBDA, step_size=ALPHA, discount=GAMMA, view=view, replacing=replacing, indexer=made, **more
    )
    replay(agent, episodes)
    expected = definition(kind, view, made, episodes, replacing)
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(agent.trace.weights[:, 0], expected, rtol=0, atol=1e-12)
    x = episodes[0][0][0]
    if kind == "td":
        assert agent.values(x) == pytest.approx(made.vector(x) @ expected)
    else:
        np.testing.assert_allclose(agent.q_values(x), made.vector(x) @ expected.reshape(-1, 2), atol=1e-12)


# ---- against tables


def one_hot(env):
    n = int(env.observation_space.n)
    return ctd.OwnFeatures(lambda state: np.eye(n)[state], n, codes=ctd.make_indexer(env.observation_space), rate=1.0)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ChunkedSarsa", {}),
        uncompiled("ChunkedExpectedSarsa", {"lambda_source": ctd.ExpectedLambda()}),
        uncompiled("QLambda", {}),
        uncompiled("ChunkedTD", {}),
        uncompiled("ExpectedSarsaLambda", {"lambda_source": ctd.ValueLambda()}),
        uncompiled("SarsaLambda", {"replacing": True, "exploration": ctd.CountBonus(0.5)}),
        uncompiled("SarsaLambda", {"lambda_source": ctd.BackwardLambda()}),
    ],
)
def test_one_hot_features_give_the_table_to_the_last_bit(name, options):
    env = gym.make("FrozenLake-v1", map_name="4x4")
    settings = {"step_size": 0.2, "discount": 0.97, "seed": 1, **options}
    table = getattr(ctd, name)(env, **settings)
    linear = getattr(ctd, name)(env, indexer=one_hot(env), **settings)
    first = table.learn(env, 40, progress=False)
    second = linear.learn(gym.make("FrozenLake-v1", map_name="4x4"), 40, progress=False)
    np.testing.assert_array_equal(first.returns, second.returns)
    np.testing.assert_array_equal(first.lengths, second.lengths)
    rows = linear.trace.weights.shape[0]
    np.testing.assert_array_equal(table.tables.values[:rows], linear.trace.weights)


@pytest.mark.uncompiled
def test_one_hot_features_give_the_table_up_to_rounding():
    env = gym.make("FrozenLake-v1")
    settings = {"step_size": 0.2, "discount": 0.97, "epsilon": 1.0, "view": "true_online"}
    agents = [ctd.SarsaLambda(env, **more, **settings) for more in ({}, {"indexer": one_hot(env)})]
    for agent in agents:
        agent.learn(gym.make("FrozenLake-v1"), 40, progress=False)
    table, linear = agents
    np.testing.assert_allclose(table.tables.values[:64], linear.trace.weights, rtol=0, atol=1e-12)


@pytest.mark.uncompiled
@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("ExpectedSarsaLambda", ctd.ValueLambda()),
        ("SarsaLambda", ctd.ExpectedLambda()),
        ("TDLambda", ctd.VisitLambda()),
        ("SarsaLambda", ctd.GreedyLambda()),
    ],
)
def test_every_source_answers_with_features(name, source, tmp_path):
    env = Line()
    agent = getattr(ctd, name)(env, lambda_source=source, indexer=ctd.TileCoding(env, 4, 2), step_size=0.1)
    seen = []
    for _ in range(3):
        agent.learn(env, 3, progress=False)
        seen.append(agent.memory.lambda_t[0])
    assert all(0.0 <= one <= 1.0 for one in seen)
    agent.save(tmp_path / "agent.ctd")
    resumed = ctd.load(tmp_path / "agent.ctd")
    first, second = agent.learn(env, 3, progress=False), resumed.learn(Line(), 3, progress=False)
    np.testing.assert_array_equal(first.returns, second.returns)
    np.testing.assert_array_equal(agent.trace.weights, resumed.trace.weights)


# ---- saving, learning


def test_a_learner_resumes_in_the_middle_of_an_episode(tmp_path):
    env, other = Line(), Line()
    agents: list = [ctd.ChunkedSarsa(e, indexer=features_of("tiles", e), seed=2, step_size=0.2) for e in (env, other)]
    agents[0].learn(env, steps=300, progress=False)
    x, _ = other.reset(seed=2)
    action = agents[1].start(x)
    for k in range(300):
        if k == 150:
            agents[1].save(tmp_path / "half.ctd")
            agents[1] = ctd.load(tmp_path / "half.ctd")
        x, r, terminated, truncated, info = other.step(action)
        action = agents[1].step(r, x, terminated, truncated, info)
        if action is None:
            action = agents[1].start(other.reset()[0])
    np.testing.assert_array_equal(agents[0].trace.weights, agents[1].trace.weights)


@pytest.mark.uncompiled
def test_own_features_need_their_function_to_load(tmp_path):
    env = Line()

    def powers(x):
        return x[0] ** np.arange(4)

    agent = ctd.TDLambda(env, indexer=ctd.OwnFeatures(powers, 4))
    agent.learn(env, 2, progress=False)
    agent.save(tmp_path / "own.ctd")
    with pytest.raises(ValueError, match="features: the saved learner"):
        ctd.load(tmp_path / "own.ctd")
    loaded = ctd.load(tmp_path / "own.ctd", features=powers)
    assert loaded.values(np.array([0.4])) == agent.values(np.array([0.4]))


@pytest.mark.parametrize(
    ("task", "features", "options", "episodes", "score"),
    [
        ("MountainCar-v0", {}, {"step_size": 0.3}, 150, -150),  # the best need 100 steps; random ones use all 200
        (
            "CartPole-v1",
            {"bins": 6, "low": (-2.4, -2.5, -0.21, -3), "high": (2.4, 2.5, 0.21, 3)},
            {"step_size": 0.3, "discount": 0.99, "initial_value": 100.0},
            60,
            150,  # random ones have 22
        ),
        (
            "Acrobot-v1",
            {"bins": 3, "low": (-1, -1, -1, -1, -6, -9), "high": (1, 1, 1, 1, 6, 9)},
            {"step_size": 0.2},
            45,
            -350,  # random ones have −500
        ),
    ],
)
def test_classic_problems_are_learned(task, features, options, episodes, score):
    env = gym.make(task)
    options = {"lambda_": 0.9, "discount": 1.0, "epsilon": 0.0} | options
    agent = ctd.SarsaLambda(env, indexer=ctd.TileCoding(env, **features), seed=0, **options)
    assert agent.learn(env, episodes, progress=False).returns[-20:].mean() > score


@pytest.mark.uncompiled
def test_explain_follows_an_episode():
    env = Line()
    agent = ctd.ChunkedExpectedSarsa(env, indexer=ctd.TileCoding(env, 4, 2))
    agent.learn(env, 5, progress=False)
    told = agent.explain(env, against=[0.9])
    assert len(told.learners) == len(told.sentences()) == 2


def test_vector_environments_are_refused():
    envs = gym.vector.SyncVectorEnv([Line, Line])
    agent = ctd.SarsaLambda(Line(), indexer=ctd.TileCoding(Line()))
    with pytest.raises(ValueError, match="features keep the observation"):
        agent.learn(envs, 2, progress=False)
