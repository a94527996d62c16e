"""The T-mazes of Ni et al.: by their definition, without a leak of the goal; their memory is that of `KeptPercepts`."""

from __future__ import annotations

import itertools

import gymnasium as gym
import numpy as np
import pytest

from chunked_td.envs import KeptPercepts
from chunked_td.envs.dynamics import TimedTMaze
from chunked_td.envs.t_maze.timed import DOWN, LEFT, RIGHT, UP
from chunked_td.simulation.simulate import simulate

MOVES = {RIGHT: (1, 0), UP: (0, 1), LEFT: (-1, 0), DOWN: (0, -1)}


def defined(corridor, active, goal, actions):
    """[(observation, reward, done)] by the paper's text: a map of free cells, o the steps from oracle to start."""
    o = int(active)
    free = {(x, 0) for x in range(o + corridor + 1)} | {(o + corridor, 1), (o + corridor, -1)}
    x, y, visited, found = o, 0, False, []
    for t, action in enumerate((None, *actions)):
        if action is not None and (x + MOVES[action][0], y + MOVES[action][1]) in free:
            x, y = x + MOVES[action][0], y + MOVES[action][1]
        shown = [1, y] if x == o + corridor else [0, goal if x == 0 and not visited else 0]
        visited |= x == 0
        done = t == corridor + 2 * o + 1
        reward = float(y == goal) if done else -1 / corridor * (x < t - o)
        found.append((shown, reward if t else 0.0, done))
    return found


WRITTEN = {0: [0, 0], 1: [0, -1], 2: [0, 1], 3: [1, 0], 4: [1, -1], 5: [1, 1]}


def played(env, seed, actions):
    """[(observation, reward, done)] of an environment, and its goal."""
    found = [(WRITTEN[env.reset(seed=seed)[0]], 0.0, False)]
    goal = int(env.unwrapped.dynamics.hidden[2])
    for action in actions:
        percept, reward, done, _, _ = env.step(action)
        found.append((WRITTEN[percept], reward, done))
    return found, goal


@pytest.mark.parametrize("active", [False, True])
def test_every_episode_of_a_short_maze_is_as_defined_and_hides_the_goal(active):
    """All action sequences: rewards and percepts by definition; percepts of both goals differ on the oracle's first
    visit only, so nothing else tells the goal, neither ends nor walls nor a second visit."""
    corridor = 2
    env = gym.make("ChunkedTD/TimedTMaze-v0", corridor=corridor, active=active)
    horizon = corridor + (3 if active else 1)
    seeds = {played(env, seed, ())[1]: seed for seed in range(10)}
    assert seeds.keys() == {-1, 1}
    for actions in itertools.product(range(4), repeat=horizon):
        percepts = {}
        for goal, seed in seeds.items():
            found, _ = played(env, seed, actions)
            assert [(o, pytest.approx(r), d) for o, r, d in defined(corridor, active, goal, actions)] == found
            percepts[goal] = [shown for shown, _, _ in found]
        told = [t for t in range(horizon + 1) if percepts[1][t] != percepts[-1][t]]
        assert told == told[:1] if active else told == [0]
        assert all(percepts[goal][t] == [0, goal] for goal in percepts for t in told)


@pytest.mark.parametrize("active", [False, True])
def test_the_best_policy_earns_one(active):
    env = gym.make("ChunkedTD/TimedTMaze-v0", corridor=7, active=active)
    for seed in range(20):
        percepts, total, done = [env.reset(seed=seed)[0]], 0.0, False
        while not done:
            turn = UP if 2 in percepts else DOWN
            look = active and len(percepts) == 1
            percept, reward, done, _, _ = env.step(LEFT if look else turn if percepts[-1] == 3 else RIGHT)
            percepts.append(percept)
            total += reward
        assert total == 1.0
        assert len(percepts) == 7 + (4 if active else 2)


@pytest.mark.parametrize(("slots", "clock", "threshold"), [(2, 1, 0.75), (3, 4, 0.5)])
def test_the_memory_is_that_of_kept_percepts(slots, clock, threshold):
    options = {"corridor": 6, "active": True}
    built_in = gym.make("ChunkedTD/TimedTMaze-v0", slots=slots, clock=clock, threshold=threshold, **options)
    wrapped = KeptPercepts(gym.make("ChunkedTD/TimedTMaze-v0", **options), slots, threshold, clock)
    assert built_in.observation_space == wrapped.observation_space
    draws, kept = np.random.default_rng(0), set()
    for episode in range(200):
        seed = 3 if episode == 0 else None  # a seed forgets the counts of one, not of the other
        observed = [env.reset(seed=seed)[0].tolist() for env in (built_in, wrapped)]
        done = False
        while not done:
            assert observed[0] == observed[1]
            kept.add(tuple(observed[0]))
            action = int(draws.choice(4, p=(0.7, 0.1, 0.1, 0.1)))
            steps = [env.step(action) for env in (built_in, wrapped)]
            observed, done = [step[0].tolist() for step in steps], steps[0][2]
    assert len(kept) > 20


def test_runs_side_by_side_do_not_share_what_is_hidden():
    dynamics = TimedTMaze.make(6, slots=2)
    options = {"lambda_source": 0.9, "view": "traces", "replacing": True, "step_sizes": 0.1, "episodes": 60}
    together = simulate(dynamics, seeds=[5, 6], keep_values=True, **options)
    alone = simulate(dynamics, seeds=6, keep_values=True, **options)
    np.testing.assert_array_equal(together.values[1], alone.values[0])
    assert dynamics.counts.sum() == 0


def test_a_table_with_the_memory_solves_it():
    """As in the study, smaller. Without the memory a run of 100 episodes passes 0.8 by chance once in 10⁹."""
    earned = {}
    for slots in (0, 2):
        runs = simulate(
            TimedTMaze.make(40, slots=slots),
            lambda_source=0.9,
            step_sizes=0.05,
            seeds=range(4),
            epsilon=np.r_[np.linspace(1, 1 / 41, 800), np.full(2_100, 1 / 41), np.zeros(100)],
            episodes=3_000,
            record_at=[2_900],
            view="traces",
            replacing=True,
        )
        earned[slots] = runs.returns_at[:, -1] / 100
    assert (earned[2] >= 0.95).all()
    assert (earned[0] < 0.8).all()


@pytest.mark.parametrize("active", [False, True])
def test_the_task_for_networks_is_the_same_maze(active):
    """All action sequences with both goals, in one program."""
    jax, corridor = pytest.importorskip("jax"), 2
    from studies.networks.tasks import TimedTMazeTask

    task, horizon = TimedTMazeTask(corridor, active), corridor + (3 if active else 1)
    every = np.array(list(itertools.product(range(4), repeat=horizon)))

    def play(key, actions):
        start, first = task.reset(key)

        def step(state, action):
            done = task.step(key, state, action)
            return done.state, (done.observation[0], done.reward, done.terminated, done.score)

        return start.goal, first[0], jax.lax.scan(step, start, actions)[1]

    goals = set()
    for seed in range(4):
        goal, first, (percepts, rewards, ended, scores) = jax.jit(jax.vmap(play, (None, 0)))(
            jax.random.key(seed), every
        )
        goals.add(int(goal[0]))
        for k, actions in enumerate(every):
            expected = defined(corridor, active, int(goal[0]), actions)
            assert [WRITTEN[int(p)] for p in (first[k], *percepts[k])] == [shown for shown, _, _ in expected]
            np.testing.assert_allclose(rewards[k], [reward for _, reward, _ in expected[1:]], rtol=1e-6)
            assert ended[k].tolist() == [done for _, _, done in expected[1:]]
            assert scores[k][-1] == expected[-1][1]
    assert goals == {-1, 1}
