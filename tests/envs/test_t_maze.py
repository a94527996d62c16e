"""The T-maze: the same transitions as the task for networks, percepts that hide the state, and a memory for tables."""

from __future__ import annotations

import warnings
from collections import Counter

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import chunked_td as ctd
from chunked_td import cli
from chunked_td.analysis.exact import ExactModel
from chunked_td.comparison.running import problem_of
from chunked_td.comparison.settings import Settings
from chunked_td.envs import KeptPercepts
from chunked_td.envs.t_maze.dynamics import MazeState, t_maze
from studies.networks.tasks import TMazeTask


@pytest.mark.parametrize(
    "options",
    [
        {"corridor": 1},
        {"corridor": 3, "numbered": True, "walls": False},
        {"corridor": 2, "look": True, "prizes": 3, "spread": 0.25},
    ],
    ids=str,
)
def test_the_task_for_networks_makes_the_transitions_of_the_table(options):
    task = TMazeTask(**options)
    table = t_maze(**{name: value for name, value in options.items() if name != "numbered"})
    asked = [(s, a) for s, state in enumerate(table.names) for a in range(3) if table.outcomes((s,), a)]
    states = MazeState(*(jnp.array([table.names[s][i] for s, _ in asked]) for i in range(5)))
    keys = jax.random.split(jax.random.key(0), len(asked))
    state = (states, jnp.zeros(len(asked), jnp.int32))
    found = jax.jit(jax.vmap(task.step))(keys, state, jnp.array([a for _, a in asked]))
    found = jax.tree.map(np.asarray, found)
    for i, (s, a) in enumerate(asked):
        listed = {table.names[n[0]]: (p, r, end) for p, n, (r,), end in table.outcomes((s,), a)}
        after = tuple(int(x[i]) for x in found.state[0])
        chance, reward, ended = listed[after]
        assert chance == pytest.approx(1 / len(listed))
        assert reward == pytest.approx(float(found.reward[i]))
        assert ended == bool(found.terminated[i])
        assert ended or percept(MazeState(*after), options) == tuple(found.observation[i].tolist())
    first = jax.jit(jax.vmap(task.reset))(keys[:20])[1]
    assert set(map(tuple, first.tolist())) == {percept(table.names[s], options) for s in table.start}
    assert table.horizon == task.limit


def percept(state, options):
    """What is shown of a state, by its definition."""
    n = options["corridor"]
    kinds = {0: 0, n + 1: 2, n + 2: 3}
    return (state.cell if options.get("numbered") else kinds.get(state.cell, 1), *state[2:])


def test_the_right_arm_pays_and_the_other_does_not():
    """By hand: corridor of two cells, signal to fetch, three prizes that add −¼, 0 and ¼."""
    table = t_maze(2, look=True, prizes=3, spread=0.25)
    number = {state: s for s, state in enumerate(table.names)}

    def after(state, action):
        outcomes = table.outcomes((number[MazeState(*state)],), action)
        return {table.names[n[0]]: (p, r, end) for p, n, (r,), end in outcomes}

    assert after((1, 0, 0, 0, 0), 1) == {(1, 0, 2, 0, 0): (1.0, 0.0, False)}  # the signal is fetched
    assert after((1, 0, 2, 0, 0), 2) == {(1, 0, 0, 0, 0): (1.0, -0.025, False)}  # a wall
    assert after((1, 0, 2, 0, 0), 0) == {(1, 1, 0, 0, 0): (1.0, 0.0, False)}
    assert after((1, 1, 0, 0, 0), 1) == {(1, 1, 0, 0, 0): (1.0, -0.025, False)}
    assert after((1, 3, 0, 0, 0), 0) == {(1, 3, 0, 0, 0): (1.0, -0.025, False)}  # the junction has no way ahead
    right = after((1, 3, 0, 0, 0), 2)
    assert right == {(1, 4, 0, 1, i): (pytest.approx(1 / 3), 0.0, False) for i in (1, 2, 3)}
    wrong = after((1, 3, 0, 0, 0), 1)
    assert {state[3] for state in wrong} == {2}
    assert [after((1, 4, 0, 1, i), 0)[1, 4, 0, 1, 0] for i in (1, 2, 3)] == [
        (1.0, 0.75, True),
        (1.0, 1.0, True),
        (1.0, 1.25, True),
    ]
    assert after((1, 4, 0, 2, 3), 1) == {(1, 4, 0, 2, 0): (1.0, 0.25, True)}


def test_percepts_hide_which_arm_is_right():
    env = gym.make("ChunkedTD/TMaze-v0", corridor=4).unwrapped
    seen = {}
    for seed in range(10):
        percepts = [env.reset(seed=seed)[0].tolist()]
        percepts += [env.step(0)[0].tolist() for _ in range(5)]
        right = env.dynamics.names[env._state[0]].right
        assert percepts[0] == [0, 1 + right, 0, 0]
        seen[right] = percepts[1:]
    assert seen[0] == seen[1] == [[1, 0, 0, 0]] * 4 + [[2, 0, 0, 0]]


def test_whoever_sees_the_state_earns_one_and_whoever_does_not_a_half():
    model = ExactModel(t_maze(5))
    best = model.optimal(discount=1.0)
    assert [best.value(state) for state in model.starts] == pytest.approx([1.0, 1.0])
    env = gym.make("ChunkedTD/TMaze-v0", corridor=5)
    returns = []
    for seed in range(400):
        env.reset(seed=seed)
        for action in (0, 0, 0, 0, 0, 0, 1):
            _, reward, ended, *_ = env.step(action)
        assert ended
        returns.append(reward)
    assert abs(np.mean(returns) - 0.5) < 5 * np.sqrt(0.25 / 400)  # by chance once in a million


def test_compiled_runs_do_not_see_what_is_hidden():
    with pytest.raises(ValueError, match=r"env must show its state: TMazeEnv shows percepts.*hidden=False"):
        ctd.dynamics_of("ChunkedTD/TMaze-v0")
    assert ctd.dynamics_of(gym.make("ChunkedTD/TMaze-v0", hidden=False)).n_states == 2 * 13 + 2 + 2
    assert "shows percepts" in problem_of(Settings("ChunkedTD/TMaze-v0").problem()).how
    shown = Settings("ChunkedTD/TMaze-v0", env_settings={"hidden": False})
    assert problem_of(shown.problem()).how.startswith("compiled")


@pytest.mark.parametrize(
    ("options", "kind", "match"),
    [
        ({"corridor": 0}, ValueError, r"corridor must be an integer >= 1, got 0"),
        ({"prizes": 1}, ValueError, r"prizes must be 0 or at least 2, got 1"),
        ({"spread": -1.0}, ValueError, r"spread must be a finite number from 0, got -1\.0"),
        ({"hidden": 1}, TypeError, r"hidden must be True or False, got 1"),
        ({"numbered": None}, TypeError, r"numbered must be True or False, got None"),
    ],
)
def test_bad_settings_are_named(options, kind, match):
    with pytest.raises(kind, match=match):
        gym.make("ChunkedTD/TMaze-v0", **options)


class TestKeptPercepts:
    def test_what_is_kept_is_what_counts_did_not_expect(self):
        """Against the rule written out with counters; more distinct pairs than there is room for at first."""
        inner = gym.make("FrozenLake-v1", map_name="8x8")
        env = KeptPercepts(gym.make("FrozenLake-v1", map_name="8x8"), slots=3, threshold=0.4)
        draws, counts, some, growth = np.random.default_rng(0), Counter(), 0, env._counts.room
        for seed in range(150):
            x, kept = inner.reset(seed=seed)[0], []
            kept = [1 + x, 0, 0]
            assert env.reset(seed=seed)[0].tolist() == [x, *kept]
            ended = False
            while not ended:
                a = int(draws.integers(4))
                y, _, terminated, truncated, _ = inner.step(a)
                ended = terminated or truncated
                seen = sum(n for (x0, a0, _), n in counts.items() if (x0, a0) == (x, a))
                if not seen or counts[x, a, y] / seen < 0.4:
                    kept, some = [1 + y, *kept[:2]], some + 1
                counts[x, a, y] += 1
                assert env.step(a)[0].tolist() == [y, *kept]
                x = y
        assert 0 < some < sum(counts.values())
        assert len(counts) > growth

    def test_the_signal_is_still_there_at_the_junction(self):
        env = KeptPercepts(gym.make("ChunkedTD/TMaze-v0", corridor=30))
        for seed in range(40):
            signal = env.reset(seed=seed)[0][0]
            for _ in range(31):
                observation = env.step(0)[0]
            env.learning = seed < 20
        assert observation.tolist()[:3] == [2 * 9, 1 + 2 * 9, 1 + signal]

    def test_it_is_an_environment(self):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*different from the unwrapped version")
            env = KeptPercepts(gym.make("ChunkedTD/TMaze-v0").unwrapped)
            env.learning = False  # else the same seed would not give the same observations
            check_env(env, skip_render_check=True)

    @pytest.mark.parametrize(
        ("env", "options", "match"),
        [
            ("CartPole-v1", {}, r"observation_space: a Box of real numbers"),
            ("FrozenLake-v1", {"slots": 0}, r"slots must be an integer >= 1, got 0"),
            ("FrozenLake-v1", {"threshold": 1.5}, r"threshold must be a number in \[0, 1\], got 1\.5"),
        ],
    )
    def test_bad_settings_are_named(self, env, options, match):
        with pytest.raises(ValueError, match=match):
            KeptPercepts(gym.make(env), **options)

    def test_spaces_that_cannot_be_counted_are_refused(self):
        env = gym.make("FrozenLake-v1")
        env.observation_space = spaces.Text(5)
        with pytest.raises(ValueError, match=r"env must have a finite observation space.* got Text"):
            KeptPercepts(env)
        env = gym.make("FrozenLake-v1")
        env.action_space = spaces.MultiBinary(2)
        with pytest.raises(ValueError, match=r"env must have a Discrete action space, got MultiBinary"):
            KeptPercepts(env)


def last_returns(env):
    """Mean of the last 300 episodes of two learners."""
    agents = [ctd.ChunkedExpectedSarsa(env, step_size=0.2, discount=0.98, epsilon=0.05, seed=k) for k in (0, 1)]
    return np.mean([agent.learn(env, episodes=1_500, progress=False).returns[-300:].mean() for agent in agents])


def test_a_table_needs_the_memory():
    """Twenty cells; no policy without a memory earns more than one half, and 600 episodes of one pass this by chance
    in one case of 30,000."""
    limit = 0.5 + 4 * np.sqrt(0.25 / 600)
    assert last_returns(gym.make("ChunkedTD/TMaze-v0", corridor=20)) < limit
    assert last_returns(KeptPercepts(gym.make("ChunkedTD/TMaze-v0", corridor=20))) > limit


def test_the_command_line_takes_both(tmp_path, capsys):
    wrapped = ["--wrappers", "chunked_td.envs:KeptPercepts", "--env-kwargs", "corridor=6", "--out", str(tmp_path)]
    with pytest.raises(SystemExit) as stopped:
        cli.main(["train", "ChunkedTD/TMaze-v0", "--episodes", "5", *wrapped])
    assert stopped.value.code == 0
    assert "5 episodes in all" in capsys.readouterr().out
