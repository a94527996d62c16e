"""A new user, from start to finish: known environments through the public commands and the API, and what they say.

bsuite is not among this package's dependencies, so two of its problems are played by stand-ins with the
same spaces: a memory chain and a catch game whose observations are float arrays with finitely many values.
"""

from __future__ import annotations

import logging
import warnings

import gymnasium as gym
import numpy as np
import polars as pl
import pytest
from gymnasium import spaces

import chunked_td as ctd
from chunked_td import cli
from chunked_td.comparison.picture import SCORE
from helpers.stand_ins import Catch, MemoryChain

MASK = "info['action_mask'] is applied"


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(list(arguments))
    return int(stop.value.code or 0)


def ten_lines(env, tmp_path, episodes, cls=ctd.ChunkedSarsa, **settings):
    """What the README shows: learn, look, evaluate, save, load, go on."""
    agent = cls(env, step_size=0.1, discount=0.99, epsilon=0.1, seed=0, **settings)
    history = agent.learn(env, episodes=episodes)
    assert history.returns.shape == (episodes,)
    observation, _ = env.reset(seed=1)
    assert env.action_space.contains(np.int64(agent.act(observation)))
    assert np.isfinite(agent.q_values(observation)).all()
    assert agent.evaluate(env, 2, max_steps=50).returns.shape == (2,)
    agent.save(tmp_path / "agent.ctd")
    again = ctd.load(tmp_path / "agent.ctd")
    assert np.array_equal(again.q_values(observation), agent.q_values(observation))
    assert np.array_equal(again.learn(env, 2).returns, agent.learn(env, 2).returns) or env.unwrapped.np_random is None
    return agent


# ---- the commands


SEA = ["mo_gymnasium:deep-sea-treasure-v0", "--max-steps", "50"]
CART = ["CartPole-v1", "--bins", "3", "4", "8", "6", "--low", "None", "-2", "None", "-2"]
CART += ["--high", "None", "2", "None", "2"]
SHORT = [
    ["FrozenLake-v1"],
    ["FrozenLake8x8-v1", "--learner", "ChunkedExpectedSarsa"],
    ["CliffWalking-v1", "--learner", "SarsaLambda", "--lambda", "0.5", "--max-steps", "60"],
    ["Blackjack-v1", "--discount", "1", "--epsilon", "0.2"],
    ["minigrid:MiniGrid-Empty-5x5-v0"],
]
OTHERS = [  # each is compiled for its own number of actions and rewards
    ["Taxi-v4"],
    ["Taxi-v4", "--no-action-mask"],
    CART,
    ["minigrid:MiniGrid-DoorKey-5x5-v0", "--env-kwargs", "max_steps=20"],
    [*SEA, "--reward-weights", "1", "0.1"],
    [*SEA, "--wrappers", "helpers.stand_ins:one_reward"],
    ["mo_gymnasium:resource-gathering-v0"],
    ["helpers.stand_ins:MemoryChain-v0", "--indexer", "hash"],
    ["helpers.stand_ins:Catch-v0", "--indexer", "hash"],
]


def vectors(test):
    """Without what Gymnasium's checker says of vector rewards and mo-gymnasium's spaces."""
    for text in ("precision lowered by casting", "The reward returned by"):
        test = pytest.mark.filterwarnings(f"ignore:.*{text}:UserWarning")(test)
    return test


def named(arguments: list[str]) -> str:
    return " ".join(text for text in arguments if text == "--no-action-mask" or text[0] != "-")


@vectors
@pytest.mark.parametrize(
    "arguments", [*SHORT, *(pytest.param(one, marks=pytest.mark.long) for one in OTHERS)], ids=named
)
def test_train_and_resume(arguments, tmp_path, capsys):
    command = ["train", *arguments, "--episodes", "12", "--out", str(tmp_path)]
    assert run(*command) == 0
    assert run(*command, "--resume") == 0
    out = capsys.readouterr().out
    assert "12 episodes in all" in out
    assert "24 episodes in all" in out
    assert f"saved: {tmp_path / 'agent.ctd'}" in out
    assert pl.read_parquet(tmp_path / "curve.parquet").height == 24


def compared(tmp_path, capsys, *arguments: str) -> str:
    """What `compare` prints."""
    assert run("compare", *arguments, "--out", str(tmp_path), "--extend", "0") == 0
    shown = capsys.readouterr()
    for name in ("compare.html", "compare.png", "compare.parquet"):
        assert (tmp_path / name).stat().st_size > 1_000
        assert str(tmp_path / name) in shown.out.replace("\n", "")
    return shown.out


@vectors
def test_compare_where_many_episodes_have_one_step(tmp_path, capsys):
    settings = ["--episodes", "30", "--seeds", "2", "--lambdas", "0.5", "--sources", "forward"]
    out = compared(tmp_path, capsys, *SEA, *settings, "--bootstraps", "expected_sarsa")
    assert "No verdict: 2 seeds are too few" in out
    assert "inf …" not in out
    assert SCORE in (tmp_path / "compare.html").read_text(encoding="utf-8")
    chosen = pl.read_parquet(tmp_path / "compare.parquet")
    by_episode = chosen.group_by("arm", "episode").agg(pl.col("mean_lambda").is_nan().all())
    assert by_episode["mean_lambda"].any()  # where all episodes are one step long, there is no λ
    assert "inf to" not in (tmp_path / "compare.html").read_text(encoding="utf-8")


def for_compare(arguments: list[str]) -> list[str]:
    """Without the options of `train` that `compare` does not have."""
    for name in ("--learner", "--lambda"):
        if name in arguments:
            place = arguments.index(name)
            arguments = arguments[:place] + arguments[place + 2 :]
    return arguments


@pytest.mark.long
@vectors
@pytest.mark.parametrize("arguments", [*SHORT, *OTHERS], ids=named)
def test_compare_everywhere(arguments, tmp_path, capsys):
    settings = ["--episodes", "20", "--seeds", "2", "--lambdas", "0", "0.9", "--sources", "forward"]
    settings += ["--step-sizes", "0.1", "0.2", "--bootstraps", "expected_sarsa"]
    out = compared(tmp_path, capsys, *for_compare(arguments), *settings)
    assert "No verdict: 2 seeds are too few" in out
    frame = pl.read_parquet(tmp_path / "compare.parquet")
    assert frame.height == (3 * 2 + 1) * 2 * 20
    assert np.isfinite(frame["mean_return"].to_numpy()).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--learner", "SarsaLambda"], "has --learner ChunkedExpectedSarsa, got SarsaLambda"),
        (["--step-size", "0.5"], "has --step-size 0.1, got 0.5"),
        (["--discount", "1"], "has --discount 0.99, got 1.0"),
        (["--epsilon", "0.3"], "has --epsilon 0.1, got 0.3"),
        (["--lambda", "0.3"], "has --lambda ForwardLambda("),
        (["--seed", "3"], "has --seed 0, got 3"),
    ],
)
def test_resuming_with_other_settings_is_refused(change, message, tmp_path, capsys):
    command = ["train", "FrozenLake-v1", "--episodes", "2", "--out", str(tmp_path)]
    assert run(*command) == 0
    before = (tmp_path / "agent.ctd").read_bytes()
    assert run(*command, "--resume", *change) == 2
    assert message in capsys.readouterr().err
    assert (tmp_path / "agent.ctd").read_bytes() == before


def test_resuming_in_another_environment_is_a_sentence(tmp_path, capsys):
    command = ["--episodes", "2", "--max-steps", "5", "--out", str(tmp_path)]
    assert run("train", "CliffWalking-v1", *command) == 0
    for env in ("CliffWalkingSlippery-v1", "Taxi-v4"):  # the first has the same states and actions
        assert run("train", env, *command, "--resume") == 2
        assert f"was trained in CliffWalking-v1, got {env}" in capsys.readouterr().err
    (tmp_path / "environment.json").unlink()  # as before it was written
    assert run("train", "Taxi-v4", *command, "--resume") == 2
    assert "it has 6 actions, the learner was made for 4" in capsys.readouterr().err


def test_explain_writes_what_it_says(tmp_path, capsys):
    settings = ["--against", "0.5", "ExpectedLambda", "--episodes", "40", "--out", str(tmp_path)]
    assert run("explain", "FrozenLake-v1", *settings) == 0
    out = capsys.readouterr().out
    for label in ("Forward λ", "λ = 0.5", "Expected λ"):
        assert f"ChunkedExpectedSarsa, {label}: " in out
    for name in ("explain.html", "explain.png", "explain.csv", "traces.csv", "over_training.csv"):
        assert str(tmp_path / name) in out
        assert (tmp_path / name).stat().st_size > 100
    assert run("explain", "FrozenLake-v1", "--against", "NoSuch", "--out", str(tmp_path / "none")) == 2
    assert "learner must be one of" in capsys.readouterr().err


def test_a_saved_agent_is_explained(tmp_path, capsys):
    assert run("train", "FrozenLake-v1", "--episodes", "20", "--out", str(tmp_path)) == 0
    command = ["explain", "FrozenLake-v1", "--agent", str(tmp_path / "agent.ctd"), "--out", str(tmp_path / "why")]
    assert run(*command) == 0
    assert "ChunkedExpectedSarsa, Forward λ: " in capsys.readouterr().out
    assert not (tmp_path / "why" / "over_training.csv").exists()


# ---- the API


def test_taxi_says_once_that_it_obeys_the_mask(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "chunked_td"):
        ten_lines(gym.make("Taxi-v4", max_episode_steps=30), tmp_path, 5)
    assert sum(MASK in line for line in caplog.messages) == 2  # the learner, and the one that was loaded
    caplog.clear()
    with caplog.at_level(logging.WARNING, "chunked_td"):
        ten_lines(gym.make("Taxi-v4", max_episode_steps=30), tmp_path, 5, action_mask=True)
    assert caplog.messages == []


def test_taxi_without_its_mask(tmp_path, caplog):
    env = ctd.Recorder(gym.make("Taxi-v4", max_episode_steps=30))
    with caplog.at_level(logging.WARNING, "chunked_td"):
        agent = ten_lines(env, tmp_path, 20, action_mask=False)
    assert caplog.messages == []
    taken = [e.action_masks[t][a] for e in env.episodes for t, a in enumerate(e.actions)]
    assert 0 in taken  # forbidden actions are tried
    assert ctd.load(tmp_path / "agent.ctd").action_mask is False
    assert agent.policy_probabilities(0, {"action_mask": [1, 0, 0, 0, 0, 0]}).min() > 0.0


def test_cart_pole_in_bins(tmp_path):
    env = gym.make("CartPole-v1")
    bins = ctd.Discretise(env, bins=4, low=[-2.4, -3, -0.21, -3], high=[2.4, 3, 0.21, 3])
    ten_lines(env, tmp_path, 10, indexer=bins)


@pytest.mark.parametrize("name", ["MiniGrid-Empty-5x5-v0", "MiniGrid-DoorKey-5x5-v0"])
def test_minigrid(name, tmp_path):
    import minigrid  # noqa: F401 (registers its environments)

    agent = ten_lines(gym.make(name, max_steps=20), tmp_path, 3)
    assert set(agent.indexer.decode(0)) == {"direction", "image", "mission"}


def sea():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*precision lowered by casting", category=UserWarning)
        import mo_gymnasium

        return gym.wrappers.TimeLimit(mo_gymnasium.make("deep-sea-treasure-v0"), 20)


def test_vector_rewards_with_weights(tmp_path):
    env = sea()
    agent = ten_lines(env, tmp_path, 10, ctd.ChunkedExpectedSarsa, reward_weights=[1.0, 0.1])
    assert agent.n_rewards == 2
    told = agent.explain(env, 0)
    assert told.learners[0].lambdas.shape[1] == 2
    assert set(told.rewards[:, 1]) == {-0.1}  # a step costs 1, weighted
    assert ctd.load(tmp_path / "agent.ctd").reward_weights.tolist() == [1.0, 0.1]
    with pytest.raises(ValueError, match=r"reward_weights must be 2 finite numbers.*got \[1\]"):
        ctd.ChunkedExpectedSarsa(env, reward_weights=[1])


def test_linear_rewards_are_read_through_the_wrapper(tmp_path):
    from mo_gymnasium.wrappers import LinearReward

    env = gym.wrappers.TimeLimit(LinearReward(sea(), weight=np.array([1.0, 0.1])), 20)
    agent = ten_lines(env, tmp_path, 10)
    assert agent.n_rewards == 1


def test_weights_and_the_linear_wrapper_agree():
    from mo_gymnasium.wrappers import LinearReward

    whole = LinearReward(sea(), weight=np.array([1.0, 0.1]))
    one = ctd.ExpectedSarsaLambda(whole, seed=1)
    two = ctd.ExpectedSarsaLambda(sea(), seed=1, reward_weights=[1.0, 0.1])
    history = one.learn(whole, 8, progress=False)
    assert two.learn(sea(), 8, progress=False).returns == pytest.approx(history.returns)
    assert two.tables.values.sum(axis=1) == pytest.approx(one.tables.values[:, 0])


def test_a_wrapper_that_sums_without_saying_so_is_named():
    class Summed(gym.RewardWrapper):
        def reward(self, reward):
            return float(np.sum(reward))

    env = Summed(sea())
    agent = ctd.ChunkedSarsa(env)
    with pytest.raises(ValueError, match=r"must have 2 components, got the number .*`reward_space` of shape \(\)"):
        agent.learn(env, 1)
    env.reward_space = spaces.Box(-np.inf, np.inf, ())
    ctd.ChunkedSarsa(env).learn(env, 1)


@pytest.mark.parametrize("make", [MemoryChain, Catch])
def test_float_observations_with_finitely_many_values(make, tmp_path):
    with pytest.raises(ValueError, match=r"if few different ones occur: indexer=chunked_td\.make_indexer\(\)"):
        ctd.ChunkedSarsa(make())
    agent = ten_lines(make(), tmp_path, 30, indexer=ctd.make_indexer())
    assert agent.indexer.decode(0).dtype == np.float32


# ---- help


def test_vector_environments_are_learned_from_and_otherwise_refused_with_the_reason(tmp_path):
    env = gym.make_vec("FrozenLake-v1", num_envs=3, vectorization_mode="sync")
    agent = ctd.ChunkedSarsa(env)
    assert agent.learn(env, 10).returns.size >= 10
    for refused in (agent.evaluate, agent.explain):
        with pytest.raises(ValueError, match=r"a vector environment of 3 copies; `learn` takes it.*gymnasium\.make\)"):
            refused(env)
    agent.save(tmp_path / "agent.ctd")
    assert np.array_equal(ctd.load(tmp_path / "agent.ctd").tables.values, agent.tables.values)
    env.close()


def test_a_vector_environment_with_lineage_traces_names_the_way_out():
    env = gym.make_vec("FrozenLake-v1", num_envs=4, vectorization_mode="sync")
    with pytest.raises(ValueError, match=r"vector environment of 4 copies: view 'lineage'.*gymnasium\.make, or"):
        ctd.LineageExpectedSarsa(env).learn(env, 3)
    env.close()


def test_gae_without_truncations_and_with_the_values_of_cleanrl():
    """CleanRL keeps one value more than rewards; None is an episode that is never truncated."""
    rng = np.random.default_rng(0)
    rewards, values, never = rng.normal(size=(3, 2)), rng.normal(size=(4, 2)), np.zeros((3, 2), bool)
    with pytest.raises(ValueError, match=r"values: got shape \(4, 2\).*pass values=values\[:-1\].*values\[1:\]"):
        ctd.gae(rewards, values, values[1:], never, never, 0.9, 0.8)
    found = [ctd.gae(rewards, values[:-1], values[1:], never, truncated, 0.9, 0.8) for truncated in (None, never)]
    assert np.array_equal(*found)


class Old(gym.Env):
    observation_space, action_space = spaces.Discrete(2), spaces.Discrete(2)
    first = True

    def reset(self, *, seed=None, options=None):
        return (0, {}) if self.first else 0

    def step(self, action):
        return 1, 0.0, True, {}


def test_old_environments_are_named():
    env = Old()
    agent = ctd.ChunkedSarsa(env)
    with pytest.raises(ValueError, match=r"step\(\) must return .*before 0\.26"):
        agent.learn(env, 1)
    env.first = False
    with pytest.raises(ValueError, match=r"reset\(\) must return \(observation, info\).*got 0"):
        agent.learn(env, 1)
    env.reset = lambda: 0
    with pytest.raises(ValueError, match=r"reset\(\) must take the keyword `seed`, as Gymnasium has it since 0\.26"):
        agent.learn(env, 1)


def test_a_table_model_with_the_wrong_number_of_actions_is_named():
    lake = gym.make("FrozenLake-v1")
    with pytest.raises(ValueError, match=r"n_actions must be .* 4 actions in state 0, got 6"):
        ctd.TableModel(lake.unwrapped.P, 6)
    with pytest.raises(ValueError, match="n_actions=4, the environment has 6 actions"):
        ctd.ChunkedSarsa(gym.make("Taxi-v4"), model=ctd.TableModel(lake.unwrapped.P, 4))
    half = ctd.TableModel({0: lake.unwrapped.P[0]}, 4)
    with pytest.raises(ValueError, match=r"table must have every state .* got none for \d+"):
        ctd.ChunkedSarsa(lake, model=half).learn(lake, 3)
    with pytest.raises(ValueError, match=r"table\[0\]\[0\] must be a list of \(probability, next state, reward"):
        ctd.TableModel(np.full((16, 4, 16), 1 / 16), 4)


def test_a_pairing_that_nobody_asked_for_is_printed(caplog):
    class Pairs:
        observation_space, action_space = spaces.MultiDiscrete([2, 3]), spaces.Discrete(2)
        reward_space = spaces.Box(-1.0, 1.0, (2,))

    with caplog.at_level(logging.WARNING, "chunked_td"):
        ctd.FactoredChunkedExpectedSarsa(Pairs())
        assert "reward 0 ← component 0, reward 1 ← component 1" in caplog.text
        assert "components=(0, 1)" in caplog.text
        caplog.clear()
        ctd.FactoredChunkedExpectedSarsa(Pairs(), lambda_source=ctd.FactoredLambda(components=(0, 1)))
        ctd.FactoredChunkedExpectedSarsa(gym.make("ChunkedTD/KeyToDoor-v0"))
    assert caplog.messages == []


def test_a_network_comes_back_by_itself(tmp_path):
    env = gym.make("FrozenLake-v1")
    model = ctd.NeuralModel(env, hidden=(8,), batch_size=8)
    agent = ctd.ChunkedSarsa(env, model=model, seed=0)
    agent.learn(env, 5, progress=False)
    agent.save(tmp_path / "agent.ctd")
    again = ctd.load(tmp_path / "agent.ctd")
    assert again.model.config == model.config
    assert np.array_equal(again.model.probabilities(0, 1), model.probabilities(0, 1))
    more, same = gym.make("FrozenLake-v1"), gym.make("FrozenLake-v1")
    again.learn(more, 3, progress=False)
    agent.trained_in = None
    agent.learn(same, 3, progress=False)
    assert np.array_equal(again.tables.values, agent.tables.values)
