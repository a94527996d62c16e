"""Recorded episodes: a replay is the run, off-policy cuts are Retrace, and nothing is credited to the wrong action."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import polars as pl
import pytest
from gymnasium import spaces

import chunked_td as ctd
from chunked_td.learners.logged import RecordedEpisode
from chunked_td.returns import lambda_returns


def same_tables(one, other):
    states = one.indexer.size * (1 if one.tables.values.shape[0] == one._capacity else one.n_actions)
    assert np.array_equal(one.tables.values[:states], other.tables.values[:states])
    if one.counts is not None:
        size = int(one.counts.size[0])
        assert np.array_equal(one.counts.pairs[:size], other.counts.pairs[:size])


LEARNERS = [
    (ctd.ChunkedSarsa, {}),
    (ctd.ChunkedExpectedSarsa, {"lambda_source": ctd.ExpectedLambda()}),
    (ctd.SarsaLambda, {"lambda_": 0.9, "replacing": True}),
    (ctd.ChunkedTD, {"percept": "reward-state"}),
    (ctd.ChunkedSarsa, {"view": "offline", "epsilon": ctd.linear(1.0, 0.1, 20)}),
    (ctd.NStepChunkedSarsa, {}),
    (ctd.CorrectedTD, {}),
]


@pytest.mark.parametrize(("cls", "settings"), LEARNERS, ids=lambda x: getattr(x, "__name__", ""))
def test_a_recorded_run_gives_the_table_of_the_run(cls, settings, tmp_path):
    env = ctd.Recorder(gym.make("Taxi-v4", max_episode_steps=40))
    agent = cls(env, seed=3, action_mask=True, **settings)
    played = agent.learn(env, 40, progress=False)
    env.write_parquet(tmp_path / "taxi.parquet")
    for source in (env, env.episodes, tmp_path / "taxi.parquet"):
        twin = cls(gym.make("Taxi-v4"), seed=3, action_mask=True, **settings)
        told = twin.learn_from(source)
        same_tables(agent, twin)
        assert np.array_equal(told.returns, played.returns)
        assert np.array_equal(told.lengths, played.lengths)
        assert twin.episode == 40


def test_observations_of_every_kind_survive_the_file(tmp_path):
    import minigrid  # noqa: F401 (registers its environments)

    env = ctd.Recorder(gym.make("MiniGrid-Empty-5x5-v0"))
    agent = ctd.ChunkedSarsa(env, seed=1)
    agent.learn(env, 3, progress=False)
    env.write_parquet(tmp_path / "grid.parquet")
    twin = ctd.ChunkedSarsa(env, seed=1)
    twin.learn_from(str(tmp_path / "grid.parquet"))
    same_tables(agent, twin)
    assert twin.indexer.size == agent.indexer.size
    shown = twin.indexer.decode(0)
    assert shown["image"].dtype == np.uint8
    assert twin.indexer.find(shown) == 0


class Dataset:
    """As much of a Minari dataset as is read: episodes with arrays, dicts of arrays for Dict spaces."""

    def __init__(self, episodes):
        self.episodes = episodes

    def iterate_episodes(self):
        return iter(self.episodes)


class Moment:
    def __init__(self, **fields):
        self.__dict__.update(fields)


def test_minari_episodes_with_dict_observations():
    class Walk:
        observation_space = spaces.Dict({"x": spaces.Discrete(4), "y": spaces.Box(0, 1, (2,), np.int8)})
        action_space = spaces.Discrete(2)

    episode = Moment(
        id=0,
        observations={"x": np.array([0, 1, 2, 3]), "y": np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.int8)},
        actions=np.array([1, 0, 1]),
        rewards=np.array([0.0, 0.0, 1.0]),
        terminations=np.array([False, False, True]),
        truncations=np.array([False, False, False]),
        infos={},
    )
    agent = ctd.SarsaLambda(Walk(), lambda_=1.0, discount=0.5, step_size=0.1)
    agent.learn_from(Dataset([episode]))
    here = [{"x": k, "y": np.array(divmod(k, 2), np.int8)} for k in range(3)]
    learned = [agent.q_values(shown)[a] for shown, a in zip(here, (1, 0, 1), strict=True)]
    assert learned == pytest.approx([0.025, 0.05, 0.1])


class Line:
    """Ten states in a row; two actions."""

    observation_space, action_space = spaces.Discrete(10), spaces.Discrete(2)


def line_episode(rng, length=8, **more):
    states = list(range(length + 1))
    return {
        "observations": states,
        "actions": rng.integers(2, size=length),
        "rewards": rng.normal(size=length),
        "terminations": [False] * (length - 1) + [True],
        **more,
    }


def as_object(truncations=None, **fields):
    return RecordedEpisode(truncations=truncations, **fields)


def naive_retrace(q, episode, epsilon, gamma, lam, alpha, mu):
    """Q(x_t,a_t) += α Σ_{s≥t} (Π_{j=t+1..s} γ λ min(1, π/μ)_j) δ_s; no state is visited twice, so values hold still."""
    states, actions, rewards = episode["observations"], episode["actions"], episode["rewards"]
    T = len(actions)

    def policy(s):
        greedy = q[s] == q[s].max()
        return epsilon / 2 + (1 - epsilon) * greedy / greedy.sum()

    delta, cut = np.zeros(T), np.ones(T)
    for t in range(T):
        ahead = 0.0 if t + 1 == T else policy(states[t + 1]) @ q[states[t + 1]]
        delta[t] = rewards[t] + gamma * ahead - q[states[t], actions[t]]
        cut[t] = lam * min(1.0, policy(states[t])[actions[t]] / mu[states[t], actions[t]])
    out = q.copy()
    for t in range(T):
        weight = 1.0
        for s in range(t, T):
            weight *= gamma * cut[s] if s > t else 1.0
            out[states[t], actions[t]] += alpha * weight * delta[s]
    return out


@pytest.mark.parametrize("how", ["table", "function", "recorded"])
@pytest.mark.parametrize("view", ["traces", "offline"])
def test_off_policy_cuts_are_those_of_retrace(how, view):
    rng = np.random.default_rng(0)
    mu = rng.dirichlet(np.ones(2), size=10)
    agent = ctd.ExpectedSarsaLambda(Line(), lambda_=0.8, discount=0.9, epsilon=0.2, step_size=0.3, view=view)
    q = np.zeros((10, 2))
    for _ in range(30):
        episode = line_episode(rng)
        episode["probabilities"] = [mu[s, a] for s, a in zip(range(8), episode["actions"], strict=True)]
        given = {"table": mu, "function": lambda s: mu[s], "recorded": "recorded"}[how]
        agent.learn_from(episode, behaviour=given)
        q = naive_retrace(q, episode, 0.2, 0.9, 0.8, 0.3, mu)
        assert agent.tables.values[:20, 0] == pytest.approx(q.ravel(), abs=1e-12)


def test_a_uniform_behaviour_never_cuts_what_a_uniform_policy_does():
    rng = np.random.default_rng(1)
    episodes = [line_episode(rng) for _ in range(5)]
    own, other = (ctd.ExpectedSarsaLambda(Line(), epsilon=1.0, lambda_=0.9) for _ in range(2))
    own.learn_from(episodes)
    other.learn_from(episodes, behaviour="uniform")
    same_tables(own, other)


def test_monte_carlo_on_recorded_data_is_the_mean_of_the_returns():
    rng = np.random.default_rng(2)
    episode = line_episode(rng)
    agent = ctd.SarsaLambda(Line(), lambda_=1.0, discount=0.9, step_size=1.0)
    agent.learn_from([episode])
    discount_t = np.r_[np.full(7, 0.9), 0.0]
    returns = lambda_returns(episode["rewards"], discount_t, np.zeros(8), np.ones(8))
    learned = [agent.q_values(s)[a] for s, a in zip(range(8), episode["actions"], strict=True)]
    assert learned == pytest.approx(list(returns))


# ---- one step at a time


def test_told_actions_are_credited_and_not_the_learners_own():
    agent = ctd.SarsaLambda(Line(), lambda_=0.0, discount=0.0, step_size=1.0, epsilon=1.0, seed=0)
    for action in (0, 1):
        assert agent.start(0, action=action) == action
        assert agent.step(5.0 + action, 1, False, action=action, next_action=1 - action) == 1 - action
        assert agent.step(7.0, 2, True) is None
    assert agent.q_values(0).tolist() == [5.0, 6.0]


def test_a_taken_action_that_is_not_the_credited_one_is_an_error():
    agent = ctd.ChunkedSarsa(Line(), seed=0)
    chosen = agent.start(0)
    with pytest.raises(ValueError, match=rf"action: got {1 - chosen}, but the learner chose {chosen}.*learn_from"):
        agent.step(1.0, 1, False, action=1 - chosen)
    assert agent.step(1.0, 1, False, action=chosen) in (0, 1)


def test_told_actions_take_no_random_numbers():
    agent, twin = (ctd.ChunkedSarsa(Line(), seed=4, epsilon=1.0) for _ in range(2))
    agent.start(0, action=1)
    agent.step(1.0, 1, False, next_action=0)
    agent.step(1.0, 2, True)
    assert [agent.start(0) for _ in range(20)] == [twin.start(0) for _ in range(20)]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"observations": list(range(8))}, r"8 rewards and 9 observations.*got 8 and 8"),
        ({"rewards": np.zeros(3)}, "got 3 and 9"),
        ({"actions": None}, "every episode must have actions"),
        ({"terminations": None, "truncations": None}, "must have terminations"),
        ({"terminations": [True] * 8}, "split a recording of several episodes"),
        ({"probabilities": [0.5]}, "probabilities must have 8 entries"),
        ({"action_masks": np.ones((8, 2))}, "action_masks must have 9 entries"),
        ({"actions": np.full(8, 2)}, r"action must be an action, 0\.\.1, got"),
        ({"actions": [0, 1, 0, None, 0, 1, 0, 1]}, "episode 1, step 3: action must be"),
        ({"actions": [0, 1, 0, 1.0, 0, 1, 0, 1]}, "episode 1, step 0: action must be"),
        ({"rewards": ["1"] * 8}, "rewards must be numbers"),
        ({"rewards": [1j] * 8}, "rewards must be numbers"),
        ({"rewards": [0.0] * 7 + [np.nan]}, "step 7: reward must be 1 finite"),
        ({"rewards": [[0.0, 1.0]] * 8}, "step 0: reward must be 1 finite"),
        ({"terminations": "False"}, "terminations must be True or False, got 'False'"),
        ({"terminations": [False] * 7 + [np.nan]}, "terminations must be True or False, got nan"),
        ({"truncations": 5}, "truncations must be True or False, got 5"),
        ({"observations": [0, 1, 2, 3, -4, 5, 6, 7, 8]}, "episode 1, observation 4: observation: got -4"),
    ],
)
@pytest.mark.parametrize("kind", [dict, lambda fields: as_object(**fields)], ids=["dict", "object"])
def test_bad_episodes_are_named_before_anything_is_learned(change, match, kind):
    good, agent = line_episode(np.random.default_rng(0)), ctd.ChunkedSarsa(Line())
    with pytest.raises(ValueError, match=match):
        agent.learn_from([good, kind(good | change)])
    assert agent.episode == 0
    assert not agent.tables.values.any()


def test_a_row_that_is_missing_inside_an_episode_is_found(tmp_path):
    env = ctd.Recorder(Line())
    env.episodes.append(as_object(**line_episode(np.random.default_rng(0), truncations=[False] * 8)))
    env.write_parquet(tmp_path / "whole.parquet")
    frame = pl.read_parquet(tmp_path / "whole.parquet")
    frame.filter(pl.int_range(pl.len()) != 2).write_parquet(tmp_path / "torn.parquet")
    agent = ctd.ChunkedSarsa(Line())
    with pytest.raises(ValueError, match="in episode 0 an observation is not the next_observation"):
        agent.learn_from(tmp_path / "torn.parquet")


def test_bad_behaviour_is_named(tmp_path):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="behaviour requires Expected-SARSA"):
        ctd.ChunkedSarsa(Line()).learn_from(line_episode(rng), behaviour="uniform")
    agent = ctd.ChunkedExpectedSarsa(Line())
    with pytest.raises(ValueError, match="behaviour must be 'recorded'"):
        agent.learn_from(line_episode(rng), behaviour="random")
    with pytest.raises(ValueError, match="requires episodes with probabilities"):
        agent.learn_from(line_episode(rng), behaviour="recorded")
    with pytest.raises(ValueError, match="behaviour must have rows"):
        agent.learn_from(line_episode(rng), behaviour=np.ones((10, 2)))
    with pytest.raises(ValueError, match=r"a probability in \(0, 1\], got 0.0"):
        agent.learn_from(line_episode(rng, probabilities=np.zeros(8)), behaviour="recorded")
    with pytest.raises(ValueError, match="path of an existing Parquet file"):
        agent.learn_from("nowhere.parquet")
    with pytest.raises(ValueError, match="episodes must be recorded episodes"):
        agent.learn_from(3)
    pl.DataFrame({"episode": [0], "action": [1]}).write_parquet(tmp_path / "short.parquet")
    with pytest.raises(ValueError, match="it lacks observation, reward"):
        agent.learn_from(tmp_path / "short.parquet")


# ---- evaluation and learning by steps


def test_evaluation_changes_nothing_and_training_goes_on_as_if_it_had_not_been():
    tables = []
    for look in (False, True):
        env = gym.make("FrozenLake-v1")
        agent = ctd.ChunkedSarsa(env, seed=2)
        agent.learn(env, 30, progress=False)
        if look:
            before = agent.tables.values.copy()
            greedy = agent.evaluate(env, 5, seed=7)
            agent.evaluate(env, 5, explore=True, max_steps=3)
            assert np.array_equal(agent.tables.values, before)
            assert np.array_equal(greedy.returns, agent.evaluate(gym.make("FrozenLake-v1"), 5, seed=7).returns)
        agent.learn(env, 30, progress=False)
        tables.append(agent.tables.values.copy())
    assert np.array_equal(*tables)


def test_a_greedy_policy_that_has_learned_the_way_takes_it():
    env = gym.make("FrozenLake-v1", is_slippery=False)
    agent = ctd.ChunkedExpectedSarsa(env, seed=0, epsilon=0.5, step_size=0.3)
    agent.learn(env, 600, progress=False)
    history = agent.evaluate(env, 3)
    assert history.returns.tolist() == [1.0] * 3
    assert history.lengths.tolist() == [6] * 3


class Wheel(gym.Env):
    """Never ends: five states in a circle; action 1 at state 0 pays."""

    observation_space, action_space = spaces.Discrete(5), spaces.Discrete(2)
    at = 0

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return 0, {}

    def step(self, action):
        paid = float(self.at == 0 and action == 1)
        self.at = (self.at + 1) % 5
        return self.at, paid, False, False, {}


def test_steps_of_a_problem_without_an_end_join_up():
    whole, parts = (ctd.ChunkedSarsa(Wheel(), seed=1, discount=0.9) for _ in range(2))
    one, other = Wheel(), Wheel()
    history = whole.learn(one, steps=300, progress=False)
    assert history.unfinished
    assert history.lengths.tolist() == [300]
    pieces = [parts.learn(other, steps=n, progress=False) for n in (7, 93, 200)]
    assert np.array_equal(whole.tables.values, parts.tables.values)
    assert sum(piece.returns.sum() for piece in pieces) == history.returns.sum()
    assert whole.episode == 0
    assert whole.act(0) == 1


def test_steps_go_over_the_ends_of_episodes():
    env = gym.make("FrozenLake-v1")
    agent = ctd.ChunkedSarsa(env, seed=1)
    history = agent.learn(env, steps=100, progress=False)
    assert history.lengths.sum() == 100
    assert agent.episode == history.lengths.size - history.unfinished
    with pytest.raises(ValueError, match="learn takes episodes or steps"):
        agent.learn(env)
    with pytest.raises(ValueError, match="learn takes episodes or steps"):
        agent.learn(env, 1, steps=1)
    with pytest.raises(ValueError, match="steps must be a whole number"):
        agent.learn(env, steps=-1)
