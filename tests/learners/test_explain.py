"""Where credit goes: the credits of the steps are the change of the table, and the traces are the learner's."""

from __future__ import annotations

import copy
import html
import re

import gymnasium as gym
import numpy as np
import pytest

import chunked_td as ctd
from chunked_td.analysis.training import watch_training
from chunked_td.learners.loop import train


def trained(cls, env, episodes, **settings):
    agent = cls(env, seed=1, **settings)
    agent.learn(env, episodes, progress=False)
    return agent


def assert_credits_are_the_change(told):
    for one in told.learners:
        by_row = np.array([one.credits[one.rows == row].sum(axis=0) for row in one.touched])
        assert np.abs(by_row - one.change).max() < 1e-12
        assert np.abs(one.change).max() > 0.0


LAKE = [
    (ctd.ChunkedSarsa, {}),
    (ctd.ChunkedSarsa, {"view": "offline"}),
    (ctd.NStepChunkedSarsa, {}),
    (ctd.ChunkedExpectedSarsa, {"replacing": True}),
    (ctd.ExpectedSarsaLambda, {"lambda_": 0.7, "cutoff": 0.05}),
    (ctd.ChunkedTD, {"percept": "reward-state"}),
    (ctd.ExpectedSarsaLambda, {"lambda_": 1.0, "view": "lineage", "reward_source": ctd.ExpectedError()}),
]


@pytest.mark.parametrize(("cls", "settings"), LAKE, ids=lambda x: getattr(x, "__name__", ""))
def test_credits_add_up_to_the_change_of_the_table(cls, settings):
    env = gym.make("FrozenLake-v1")
    agent = trained(cls, env, 300, step_size=0.3, discount=0.95, **settings)
    before = agent.tables.values.copy()
    for seed in range(5):
        assert_credits_are_the_change(agent.explain(env, seed))
    assert np.array_equal(agent.tables.values, before)


@pytest.mark.parametrize(
    ("name", "settings", "steps"),
    [
        ("ChunkedTD/ChainAndSplit-v0", {}, 10),
        ("ChunkedTD/KeyToDoor-v0", {"horizon": 12}, 12),
        ("minigrid:MiniGrid-Empty-5x5-v0", {"max_steps": 25}, 5),
    ],
)
def test_credits_add_up_on_the_papers_problems_and_on_a_grid(name, settings, steps):
    env = gym.make(name, **settings)
    agent = trained(ctd.ChunkedExpectedSarsa, env, 60, step_size=0.2, epsilon=1.0, action_mask=True)
    episodes = []
    for seed in range(12):
        episodes.append(agent.explain(env, seed, against=0.9))
        assert_credits_are_the_change(episodes[-1])
        agent.learn(env, 1, progress=False)
    told = max(episodes, key=lambda told: len(told.actions))
    assert len(told.actions) >= steps
    one = told.learners[0]
    assert not np.array_equal(one.credits, told.learners[1].credits)
    one.credits[0] += 1e-6  # what the check would find
    with pytest.raises(AssertionError):
        assert_credits_are_the_change(told)


def test_the_episode_is_the_one_that_the_learner_would_have_played():
    env = gym.make("FrozenLake-v1")
    agent = trained(ctd.ChunkedSarsa, env, 100)
    told, twin = agent.explain(env, 7), copy.deepcopy(agent)
    observation, info = env.reset(seed=7)
    action, actions = twin.start(observation, info), []
    while action is not None:
        actions.append(action)
        observation, reward, terminated, truncated, info = env.step(action)
        action = twin.step(reward, observation, terminated, truncated, info)
    assert told.actions.tolist() == actions
    one = told.learners[0]
    assert np.array_equal(twin.tables.values[one.touched] - agent.tables.values[one.touched], one.change)


def test_traces_are_those_of_the_learner():
    env = gym.make("FrozenLake-v1")
    agent = trained(ctd.ChunkedSarsa, env, 200, discount=0.9)
    one = agent.explain(env, 3).learners[0]
    twin = copy.deepcopy(agent)
    observation, info = env.reset(seed=3)
    action = twin.start(observation, info)
    for t, e in one.traces():
        observation, reward, terminated, truncated, info = env.step(action)
        action = twin.step(reward, observation, terminated, truncated, info)
        if action is None:
            break
        live = int(twin.trace.count[0])
        held = dict(zip(twin.trace.rows[:live].tolist(), twin.trace.weight[:live, 0].tolist(), strict=True))
        ours = {int(row): e[one.rows[: t + 1] == row].sum() for row in one.rows[: t + 1]}
        assert {row: x for row, x in ours.items() if x > 0} == pytest.approx(held)
    assert np.array_equal(one.trace_at(2), [[np.prod(0.9 * one.lambdas[k + 1 : 3])] for k in range(3)])


def test_vector_rewards_have_traces_of_their_own():
    env = gym.make("ChunkedTD/KeyToDoor-v0", horizon=8)
    agent = trained(ctd.FactoredChunkedExpectedSarsa, env, 200)
    other = trained(ctd.ChunkedExpectedSarsa, env, 200)
    told = agent.explain(env, 2, against=[other, 0.9])
    assert_credits_are_the_change(told)
    assert told.rewards.shape == told.learners[0].lambdas.shape == (8, 8)
    treasure, shared = told.learners[0].lambdas[1:-1, -2], told.learners[1].lambdas[1:-1, -2]
    assert treasure.min() > 0.9  # certain, whatever the distractors do
    assert shared.mean() < treasure.mean() - 0.1
    assert "component" in told.sentences()[0]


def test_another_lambda_source_sees_the_same_values_and_counts():
    env = gym.make("FrozenLake-v1")
    forward, expected = (ctd.ChunkedSarsa(env, seed=1, lambda_source=source) for source in (None, ctd.ExpectedLambda()))
    episodes = ctd.Recorder(gym.make("FrozenLake-v1"))
    trained(ctd.ChunkedSarsa, episodes, 60)
    for agent in (forward, expected):
        agent.learn_from(episodes)
        agent.tables.values[:] = np.random.default_rng(0).normal(size=agent.tables.values.shape)
    told = forward.explain(env, 1, against=ctd.ExpectedLambda())
    alone = expected.explain(env, 1)
    assert np.array_equal(told.actions, alone.actions)
    assert np.array_equal(told.learners[1].lambdas, alone.learners[0].lambdas)
    assert not np.array_equal(told.learners[0].lambdas, alone.learners[0].lambdas)
    assert_credits_are_the_change(told)


def test_what_cannot_be_shown_says_why():
    env = gym.make("FrozenLake-v1")
    agent = trained(ctd.ChunkedSarsa, env, 5)
    with pytest.raises(ValueError, match=r"against: BackwardLambda reads counts that this learner has not kept"):
        agent.explain(env, against=ctd.BackwardLambda())
    for against in ("ExpectedLambda", ["ExpectedLambda"]):
        with pytest.raises(ValueError, match=r"against must be a learner.*got 'ExpectedLambda'; a name is not enough"):
            agent.explain(env, against=against)
    with pytest.raises(ValueError, match=r"explain requires a learner with a step size.*CorrectedTD"):
        trained(ctd.CorrectedTD, env, 2).explain(env)
    with pytest.raises(ValueError, match="it has 6 actions"):
        agent.explain(gym.make("Taxi-v4"))


def test_tables_and_files(tmp_path):
    env = gym.make("FrozenLake-v1", is_slippery=False)
    agent = ctd.ChunkedExpectedSarsa(env, seed=1)
    watched = watch_training(agent, env, 150, windows=10, progress=False)
    told = agent.explain(env, 0, against=(0.5,)).with_training(watched, None)
    table = told.table()
    assert table.height == 2 * len(told.actions)
    assert table["update"].to_numpy() == pytest.approx(np.concatenate([one.credits[:, 0] for one in told.learners]))
    traces = told.trace_table().filter(told.trace_table()["learner"] == told.learners[1].label)
    t = told.arrivals[0][0]
    assert traces["trace"].to_numpy() == pytest.approx(0.5 ** np.arange(t, -1, -1) * 0.99 ** np.arange(t, -1, -1))
    names = [path.name for path in told.save(tmp_path)]
    assert names == [
        "explain.html", "explain.svg", "explain.png", "explain.csv", "traces.csv", "over_training.csv",
    ]  # fmt: skip
    assert all((tmp_path / name).stat().st_size > 100 for name in names)
    page = (tmp_path / "explain.html").read_text(encoding="utf-8")
    assert len(page) < 1_000_000
    assert "<script" not in page
    assert not re.findall(r"(?:src|href)=\"(?!#|data:)", page)
    places = [page.index(text) for text in ('class="answer"', "<svg", "<details>")]
    assert places == sorted(places)
    assert told.sentence(told.learners[0]) in html.unescape(page)
    assert told.sentence(told.learners[0]) in str(told)


def test_a_long_episode_has_a_small_page(tmp_path):
    env = gym.make("Taxi-v4")
    agent = ctd.ChunkedExpectedSarsa(env, seed=0, action_mask=True)
    told = agent.explain(env, 0, against=(0.9,))
    assert len(told.actions) == 200
    told.save(tmp_path)
    assert (tmp_path / "explain.html").stat().st_size < 1_000_000


def test_the_picture_shows_what_each_step_gets():
    """The bars are the traces at the arrival, dark as far as the sentence says; orange lines are the breaks."""
    env = gym.make("ChunkedTD/KeyToDoor-v0", horizon=20)
    agent = trained(ctd.ChunkedExpectedSarsa, env, 60)
    told = agent.explain(env, 0)
    one, (t, i) = told.learners[0], told.arrivals[0]
    bars = told.figure().axes[0]
    assert [bar.get_height() for bar in bars.patches] == pytest.approx(one.trace_at(t)[:, i])
    far, _ = told.reach(one)
    dark = [k for k, bar in enumerate(bars.patches) if bar.get_facecolor()[0] == 0.0]
    assert dark == list(range(far, t + 1))
    assert f"back to step {far}" in told.sentence(one)
    lines = {float(line.get_xdata()[0]) for line in bars.lines if len(line.get_xdata()) == 2}
    assert lines == {k - 0.5 for k in np.flatnonzero(one.breaks[:, i])}


def test_watching_does_not_change_training():
    env, other = gym.make("FrozenLake-v1"), gym.make("FrozenLake-v1")
    watched, alone = ctd.ChunkedSarsa(env, seed=2), ctd.ChunkedSarsa(other, seed=2)
    kept = watch_training(watched, env, 60, windows=6, progress=False)
    seen = []
    train(alone, other, 60, progress=False, watch=lambda state, episode: seen.append((state, episode)))
    assert np.array_equal(watched.tables.values, alone.tables.values)
    assert sum(int(steps.sum()) for steps in kept.steps.values()) == len(seen) == kept.history.lengths.sum()
    in_last = [state for state, episode in seen if episode >= 50]
    assert kept.steps[0][-1] == in_last.count(0)
    assert 0.0 <= kept.certain.min() <= kept.certain.max() <= 1.0
    assert kept.table()["mean_lambda"].is_between(0, 1).all()


def kinds(one, t):
    return [text.partition(":")[0] for text in one.causes[t][0]]


@pytest.mark.uncompiled
@pytest.mark.parametrize("cls", [ctd.ChunkedExpectedSarsa, ctd.ChunkedSarsa])
def test_in_a_certain_world_credit_stops_at_exploratory_actions(cls):
    """Which actions are not greedy is found by playing the same episode again and asking for the values."""
    env = gym.make("FrozenLake-v1", is_slippery=False)
    agent = trained(cls, env, 150, epsilon=0.3)
    cuts = 0
    for seed in range(10):
        agent.learn(env, 5, progress=False)
        one = agent.explain(env, seed).learners[0]
        twin, (observation, _) = copy.deepcopy(agent), env.reset(seed=seed)
        action, random = twin.start(observation), []
        random.append(twin.q_values(observation)[action] < twin.q_values(observation).max())
        while action is not None:
            observation, reward, terminated, truncated, _ = env.step(action)
            before = twin.q_values(observation)
            action = twin.step(reward, observation, terminated, truncated)
            if action is not None:
                q = before if cls is ctd.ChunkedSarsa else twin.q_values(observation)
                random.append(q[action] < q.max())
        random = [*random[1:], False] if cls is ctd.ChunkedSarsa else random
        for t in np.flatnonzero(one.breaks[:, 0]):
            assert random[t]
            assert kinds(one, t) == ["exploration"]
        cuts += int(one.breaks.sum())
        assert "at exploratory actions (" in one.summary(0) or not one.breaks.any()
    assert cuts


@pytest.mark.uncompiled
def test_causes_are_facts_of_the_run():
    lake = gym.make("FrozenLake-v1")
    greedy = trained(ctd.ChunkedExpectedSarsa, lake, 100, epsilon=0.0, initial_value=0.5)
    told = greedy.explain(lake, 0)
    one = told.learners[0]
    for t in np.flatnonzero(one.breaks[:, 0]):
        (text,) = one.causes[t][0]
        known = {target for _, target, _, _ in lake.unwrapped.P[int(told.places[t])][told.actions[t]]}
        assert text.startswith("chance: ")
        assert 2 <= int(text.split()[1]) <= len(known)
    assert one.breaks.any()
    fresh = ctd.ChunkedExpectedSarsa(lake, lambda_source=ctd.ForwardLambda(literal=True), seed=0).explain(lake, 0)
    assert all("first visit" in kinds(fresh.learners[0], t) for t in range(2) if fresh.learners[0].breaks[t, 0])
    walk = gym.make("FrozenLake-v1", is_slippery=False)
    agent, cuts = trained(ctd.ChunkedExpectedSarsa, walk, 100, epsilon=0.3, lambda_source=ctd.BackwardLambda()), 0
    for seed in range(6):
        agent.learn(walk, 5, progress=False)
        one = agent.explain(walk, seed).learners[0]
        for t in np.flatnonzero(one.breaks[:, 0]):
            assert kinds(one, t) == ["junction"]
            cuts += 1
    assert cuts
    fixed = greedy.explain(lake, 0, against=0.3).learners[1]
    assert fixed.cause(1, 0) == "none known"
    assert "no known cause" in fixed.summary(0)


@pytest.mark.uncompiled
def test_cells_of_a_certain_world_are_not_called_chance():
    """Nothing is random in MountainCar, but one cell of its observations leads to several."""
    env = gym.make("MountainCar-v0")
    faded = set()
    for indexer in (ctd.TileCoding(env), ctd.Discretise(env, 6)):
        agent = trained(ctd.ChunkedExpectedSarsa, env, 3, indexer=indexer, epsilon=0.0)
        for steps in range(50, 80, 3):
            told = agent.explain(env, 0, max_steps=steps)
            one, (sentence,) = told.learners[0], told.sentences()
            found = {kind for t in np.flatnonzero(one.breaks[:, 0]) for kind in kinds(one, t)}
            assert "cells" in found
            assert "chance" not in found
            t = told.arrivals[0][0]
            trace = one.trace_at(t)[:, 0]
            far = max(np.flatnonzero(trace < 0.1), default=-1) + 1
            assert ("no single step" in sentence) == (one.factors[max(far, 1) : t + 1, 0] >= 0.5).all()
            faded.add("no single step" in sentence)
    assert faded == {True, False}


@pytest.mark.uncompiled
def test_certain_means_certain_given_the_policy():
    env = gym.make("FrozenLake-v1", is_slippery=False)
    for source in (ctd.ForwardLambda(), ctd.ExpectedLambda()):
        kept = watch_training(
            ctd.ChunkedExpectedSarsa(env, lambda_source=source, seed=1), env, 300, windows=3, progress=False
        )
        assert kept.certain[-1] > 0.5
    slippery = gym.make("FrozenLake-v1")
    kept = watch_training(ctd.ChunkedExpectedSarsa(slippery, seed=1), slippery, 300, windows=3, progress=False)
    assert kept.certain[-1] < 0.2
