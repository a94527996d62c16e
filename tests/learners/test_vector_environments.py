"""One learner in many copies of an environment: one copy is the single run, many follow a plain definition."""

from __future__ import annotations

import copy
from functools import partial
from typing import ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import chunked_td as ctd

MODES = list(AutoresetMode)
SETTINGS = {"step_size": 0.3, "discount": 0.95, "epsilon": 0.3, "seed": 5}


class Walk(gym.Env):
    """Seven places, a noisy walk. The right end terminates and pays; nine steps truncate; a mask in the middle."""

    observation_space, action_space = spaces.Discrete(7), spaces.Discrete(2, start=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = int(self.np_random.integers(1, 4)), 0
        return self.place, self.info()

    def info(self):
        return {"action_mask": np.array([self.place != 3, True])}

    def step(self, action):
        go = 1 if (action == 2) != (self.np_random.random() < 0.2) else -1
        self.place, self.time = max(self.place + go, 0), self.time + 1
        return self.place, float(self.place == 6), self.place == 6, self.time == 9, self.info()


class Words(gym.Env):
    """Tuples of a text and a number, which get ids on first sight, and so many that tables grow."""

    observation_space = spaces.Tuple((spaces.Text(4), spaces.Discrete(500)))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number = int(self.np_random.integers(3))
        return ("a", self.number), {}

    def step(self, action):
        self.number += 1 + action
        return ("b", self.number), 1.0, bool(self.np_random.random() < 0.02 or self.number > 450), False, {}


def vector(n, mode=AutoresetMode.NEXT_STEP, make=Walk):
    return SyncVectorEnv([make] * n, autoreset_mode=mode)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("cls", [ctd.ChunkedSarsa, ctd.NStepChunkedSarsa, ctd.CorrectedTD])
def test_one_copy_is_the_single_run(cls, mode):
    settings = {"seed": 5} if cls is ctd.CorrectedTD else SETTINGS
    single, env = cls(Walk(), **settings), Walk()
    one, copies = cls(vector(1), **settings), vector(1, mode)
    for _ in range(2):  # the second call goes on
        history, other = single.learn(env, 30), one.learn(copies, 30)
        assert np.array_equal(history.returns, other.returns)
        assert np.array_equal(history.lengths, other.lengths)
    assert single.tables.values.any()
    assert np.array_equal(single.tables.values, one.tables.values)


def test_sources_that_follow_an_episode_take_one_copy():
    source = ctd.MetaGradientLambda()
    one = ctd.ChunkedSarsa(vector(1), lambda_source=source, **SETTINGS)
    env = Walk()
    single = ctd.ChunkedSarsa(env, lambda_source=source, **SETTINGS)
    one.learn(vector(1), 20)
    single.learn(env, 20)
    assert np.array_equal(single.tables.values, one.tables.values)
    with pytest.raises(ValueError, match=r"vector environment of 2 copies: \w+Lambda keeps the current"):
        one.learn(vector(2), 1)


def by_turns(agent, n, episodes):
    """The definition: n learners whose tables and counts are one, each in its own episode, in turns."""
    from chunked_td.learners.copies import Position

    envs, places = [Walk() for _ in range(n)], [Position(agent) for _ in range(n)]
    actions, starting, returns = [None] * n, [False] * n, []
    totals = [0.0] * n
    for k, env in enumerate(envs):
        places[k].enter(agent)
        actions[k] = agent.start(*env.reset(seed=agent.seed + k))
        places[k].store(agent)
    while len(returns) < episodes:
        for k, env in enumerate(envs):
            places[k].enter(agent)
            if starting[k]:
                starting[k], actions[k] = False, agent.start(*env.reset())
            else:
                observation, reward, terminated, truncated, info = env.step(actions[k])
                actions[k] = agent.step(reward, observation, terminated, truncated, info)
                totals[k] += reward
                if actions[k] is None:
                    returns.append(totals[k])
                    starting[k], totals[k] = True, 0.0
            places[k].store(agent)
    return returns


def test_copies_take_turns_at_one_table():
    agent, other = (ctd.ChunkedSarsa(Walk(), action_mask=True, **SETTINGS) for _ in range(2))
    history = agent.learn(vector(3), 60)
    assert by_turns(other, 3, 60) == history.returns.tolist()
    assert np.array_equal(agent.tables.values, other.tables.values)
    assert agent.episode == history.returns.size
    counts = agent.counts
    assert counts is not None
    under_way = agent._copies.lengths.sum()
    assert counts.total.sum() == history.lengths.sum() + under_way  # every transition once, none across a reset


class NaiveTable:
    """Expected-SARSA(λ) on one dict of values with one dict of traces per copy; nothing of ours."""

    def __init__(self, n, gamma, alpha, lambda_):
        self.q, self.traces = {}, [{} for _ in range(n)]
        self.gamma, self.alpha, self.lambda_ = gamma, alpha, lambda_

    def expected(self, s, policy):
        return sum(p * self.q.get((s, a), 0.0) for a, p in enumerate(policy))

    def step(self, k, s, a, reward, s2, policy, ended):
        trace = self.traces[k]
        for key in trace:
            trace[key] *= self.gamma * self.lambda_
        trace[s, a] = trace.get((s, a), 0.0) + 1.0
        ahead = 0.0 if ended == "terminated" else self.expected(s2, policy)
        delta = reward + self.gamma * ahead - self.q.get((s, a), 0.0)
        for key, weight in trace.items():
            self.q[key] = self.q.get(key, 0.0) + self.alpha * delta * weight
        if ended:
            self.traces[k] = {}


class Watched(Walk):
    """Writes down what happens, for a replay in the order of the turns."""

    log: ClassVar[list] = []
    copies = 0

    def __init__(self):
        self.number = Watched.copies
        Watched.copies += 1

    def step(self, action):
        before, (observation, reward, terminated, truncated, info) = self.place, super().step(action)
        end = "terminated" if terminated else "truncated" if truncated else ""
        Watched.log.append((self.number, before, action - 1, reward, observation, info["action_mask"], end))
        return observation, reward, terminated, truncated, info


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_the_table_follows_a_definition_that_knows_nothing_of_copies(mode):
    """ε = 1, so that the policy is uniform over the legal actions and the definition needs no draws."""
    Watched.log, Watched.copies = [], 0
    env = vector(3, mode, Watched)
    agent = ctd.ExpectedSarsaLambda(env, lambda_=0.7, step_size=0.2, discount=0.9, epsilon=1.0, seed=2)
    agent.learn(env, steps=300)
    naive = NaiveTable(3, 0.9, 0.2, 0.7)
    for k, s, a, reward, s2, mask, end in Watched.log:
        naive.step(k, s, a, reward, s2, mask / mask.sum(), end)
    found = {(s, a): agent.q_values(s)[a] for s, a in naive.q}
    assert {row[-1] for row in Watched.log} == {"", "terminated", "truncated"}
    assert found == pytest.approx(naive.q)
    assert 300 <= len(Watched.log) < 303


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_a_run_follows_from_its_seed_and_goes_on(mode):
    runs = []
    for parts in ((40,), (40,), (20, 20)):
        env = vector(4, mode)
        agent = ctd.ChunkedExpectedSarsa(env, **SETTINGS)
        returns = np.concatenate([agent.learn(env, steps=10 * part).returns for part in parts])
        runs.append((returns.tolist(), agent.tables.values.tobytes()))
    assert runs[0] == runs[1]
    if mode is not AutoresetMode.NEXT_STEP:  # rounds that begin episodes make fewer steps
        assert runs[0] == runs[2]


def test_processes_give_the_same_run():
    one, two = (ctd.ChunkedSarsa(vector(2), **SETTINGS) for _ in range(2))
    history = one.learn(vector(2), 20)
    env = AsyncVectorEnv([Walk] * 2, context="spawn")  # JAX may have been loaded, which does not go with fork
    try:
        assert np.array_equal(two.learn(env, 20).returns, history.returns)
    finally:
        env.close()
    assert np.array_equal(one.tables.values, two.tables.values)


def test_tables_that_grow_serve_all_copies():
    env = vector(3, make=Words)
    agent = ctd.ChunkedSarsa(env, indexer=ctd.make_indexer(), exploration=ctd.CountBonus(1.0), epsilon=0.1, seed=1)
    history = agent.learn(env, 30)
    assert agent.indexer.size > 100
    assert agent.tables.exploration.visits.sum() == history.lengths.sum() + agent._copies.lengths.sum()
    again = ctd.ChunkedSarsa(env, indexer=ctd.make_indexer(), exploration=ctd.CountBonus(1.0), epsilon=0.1, seed=1)
    assert np.array_equal(again.learn(vector(3, make=Words), 30).returns, history.returns)


def test_other_training_leaves_the_episodes_of_the_copies_alone():
    settings = SETTINGS | {"epsilon": 1.0}
    env = vector(2)
    agent = ctd.SarsaLambda(env, **settings)
    agent.learn(env, 5)
    held = copy.deepcopy([place.trace.rows[: place.trace.count[0]] for place in agent._copies.positions])
    assert agent.state == -1
    agent.learn(Walk(), 3)
    agent.evaluate(Walk(), 2)
    for rows, place in zip(held, agent._copies.positions, strict=True):
        assert np.array_equal(rows, place.trace.rows[: place.trace.count[0]])
    agent.learn(env, 5)
    twin = copy.deepcopy(agent)
    assert twin._copies is None
    twin.learn(vector(2), 3)


def test_a_saved_learner_goes_on_with_the_random_numbers_of_every_copy(tmp_path):
    env = vector(2)
    agent = ctd.SarsaLambda(env, **SETTINGS)
    agent.learn(env, 8)
    agent.save(tmp_path / "agent.ctd")
    runs = []
    for _ in range(2):
        twin = ctd.load(tmp_path / "agent.ctd")
        runs.append(twin.learn(vector(2), 8).returns.tolist())
    assert runs[0] == runs[1]
    assert twin.env_state != agent.env_state
    states = [one.np_random.bit_generator.state for one in env.envs]
    assert ctd.load(tmp_path / "agent.ctd").env_state == states
    ctd.load(tmp_path / "agent.ctd").learn(Walk(), 2)  # a single environment takes the learner's seed


@pytest.mark.parametrize("view", ["true_online", "lineage"])
def test_views_that_need_still_values_take_one_copy(view):
    agent = ctd.ChunkedSarsa(vector(1), view=view, **SETTINGS)
    agent.learn(vector(1), 2)
    with pytest.raises(ValueError, match=rf"single environment.*2 copies: view '{view}' follows one episode only"):
        agent.learn(vector(2), 1)


def test_wrong_vectors_are_named():
    env = vector(2)
    with pytest.raises(ValueError, match="it has 2 actions, the learner was made for 4"):
        ctd.ChunkedSarsa(gym.make("FrozenLake-v1")).learn(env, 1)
    agent = ctd.ChunkedSarsa(env)
    env.metadata["autoreset_mode"] = None
    with pytest.raises(ValueError, match=r"autoreset_mode'\] must be one of .*got None"):
        agent.learn(env, 1)


def test_divergence_stops_all_copies():
    class Loud(Walk):
        def step(self, action):
            observation, _, terminated, truncated, info = super().step(action)
            return observation, 1e150, terminated, truncated, info

    agent = ctd.SarsaLambda(Loud(), step_size=1.0, lambda_=1.0, discount=1.0, epsilon=1.0)
    with pytest.warns(ctd.DivergenceWarning, match="training stopped"):
        assert agent.learn(vector(2, make=Loud), 2000).diverged is not None
    assert agent._copies is None


def test_make_vec_and_masks():
    env = gym.make_vec("Taxi-v4", num_envs=2, vectorization_mode="sync", max_episode_steps=20)
    seen = []
    agent = ctd.ChunkedSarsa(env, action_mask=True, seed=1)
    for one in env.envs:
        inner = one.unwrapped
        step = inner.step
        inner.step = partial(
            lambda inner, step, action: (seen.append(inner.action_mask(inner.s)[action]), step(action))[1], inner, step
        )
    agent.learn(env, 6)
    assert len(seen) > 50
    assert all(seen)
