"""Facts of a problem: chance, steps back, masks, hidden state."""

from __future__ import annotations

import itertools
import math
import statistics

import gymnasium as gym
import numpy as np
import pytest

from chunked_td.comparison.facts import Facts, _chance, _played, _same, _Step, facts_of
from chunked_td.comparison.settings import Settings
from chunked_td.observations import make_indexer


@pytest.mark.parametrize(("n", "first", "second"), [(40, 20, 20), (4000, 2000, 2000), (5000, 250, 250)])
@pytest.mark.parametrize("level", [1e-3, 1e-6, 1e-8])
def test_a_sign_of_a_hidden_state_is_as_rare_as_it_says(n, first, second, level):
    """All tables with these sums, by their definition: those at most as likely as the level have that much, together.

    With a normal tail of z the share would be up to 55 times the level.
    """
    ways = [math.comb(first, k) * math.comb(n - first, second - k) for k in range(min(first, second) + 1)]
    rare = sum(way for k, way in enumerate(ways) if _chance(n, first, second, k) <= level)
    assert 0.0 < rare / sum(ways) <= level


class Ring(gym.Env):
    """Four cells in a ring, of which action 1 goes on and action 0 stays; an episode has six steps."""

    observation_space, action_space = gym.spaces.Discrete(4), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cells = [0]
        return 0, {}

    def step(self, action):
        self.cells.append((self.cells[-1] + int(action)) % 4)
        return self.cells[-1], 0.0, len(self.cells) == 7, False, {}


def test_the_facts_know_where_an_episode_comes_back():
    steps = _played(Ring(), make_indexer(Ring.observation_space), masks=False)
    begins = [k for k, step in enumerate(steps) if step.previous < 0]
    assert begins == list(range(0, len(steps), 6))
    for k in begins:
        seen = [steps[k].state, *(step.target for step in steps[k : k + 6])]
        assert [step.back for step in steps[k : k + 6]] == [cell in seen[: j + 1] for j, cell in enumerate(seen[1:])]


@pytest.mark.parametrize("targets", [[1, 1, 2], [3, 3], [1, 2], [5, 1, 5, 2, 5, 1]])
def test_facts_are_about_pairs_of_different_tries(targets):
    """Of all pairs of tries with one action in one state, the share that lead to the same state; times their number."""
    steps = [_Step(0, -1, 0, 0, target, 0.0, False, False, math.nan) for target in targets]
    alike = statistics.mean(a == b for a, b in itertools.combinations(targets, 2))
    assert _same(steps) == pytest.approx(alike * len(targets))


def settled(env: str, **more) -> Facts:
    return facts_of(Settings(env, episodes=1, **more))


def test_facts_are_those_of_the_problem():
    """Slippery ice leads to one of three cells, a third each: two tries differ 2/3 of the time, less at the rim."""
    lake = settled("FrozenLake-v1")
    assert 0.5 < lake.chance < 2 / 3
    assert lake.last == 1.0
    assert np.isnan(lake.legal)
    sure = settled("FrozenLake-v1", env_settings={"is_slippery": False})
    assert sure.chance == 0.0
    assert (lake.deterministic, sure.deterministic) == (False, True)
    taxi = settled("Taxi-v4")
    assert 1.0 < taxi.legal < taxi.n_actions
    assert np.isnan(settled("Taxi-v4", action_mask=False).legal)
    assert (lake.hidden, sure.hidden, taxi.hidden) == ("", "", "")


@pytest.mark.parametrize("hidden", [True, False])
def test_a_state_that_observations_hide_is_noticed(hidden):
    """The T-maze shows its signal at the start only; with hidden=False it shows it everywhere."""
    found = settled("ChunkedTD/TMaze-v0", env_settings={"corridor": 2, "hidden": hidden})
    assert bool(found.hidden) == hidden


def test_features_leave_lengths_and_rewards():
    car = settled("MountainCar-v0")
    assert (car.length, car.paid) == (200.0, 1.0)
    assert np.isnan(car.chance)
    assert car.hidden == ""
