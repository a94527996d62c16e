"""λ where the state is hidden: the T-maze, whose last step is certain for those who remember the cue."""

import itertools

import numpy as np
import pytest

from chunked_td.compression.percepts import T_MAZE_ACTIONS, T_MAZE_PERCEPTS, RecurrentPerceptModel, t_maze_episode

EPISODES = [t_maze_episode(3, *which) for which in itertools.product(("up", "down"), repeat=2)]


def test_a_model_with_memory_is_certain_where_a_table_is_not():
    """A table over (percept, action) gives the last step 1/2 in all four episodes."""
    outcomes = [percepts[-1] for percepts, actions in EPISODES if (percepts[-2], actions[-1]) == ("junction", "up")]
    assert sorted(outcomes) == ["nothing", "reward"]
    model = RecurrentPerceptModel(T_MAZE_PERCEPTS, T_MAZE_ACTIONS, hidden=16, window=12, seed=0)
    model.fit(EPISODES, epochs=1_200, batch_size=4)
    lambdas = np.array([model.probabilities(*episode) for episode in EPISODES])
    assert lambdas.shape == (4, 5)
    assert lambdas[:, -1].min() > 0.9
    assert lambdas.min() > 0.9
    assert model.states(*EPISODES[0]).shape == (6, 16)


def test_probabilities_are_of_the_percepts():
    """Before training too: each is what one level of the compressor gave to the symbol at that place."""
    model = RecurrentPerceptModel(T_MAZE_PERCEPTS, T_MAZE_ACTIONS, hidden=4)
    percepts, actions = EPISODES[1]
    turns = [("percept", percepts[0])]
    for action, percept in zip(actions, percepts[1:], strict=True):
        turns += [("action", action), ("percept", percept)]
    reading = model._network.compress(turns).readings[0]
    expected = [p for p, (kind, _) in zip(reading.probabilities, turns, strict=False) if kind == "percept"][1:]
    np.testing.assert_array_equal(model.probabilities(percepts, actions), expected)


def test_lengths_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"percepts has 2 entries and actions 2; they take T \+ 1 and T"):
        RecurrentPerceptModel(T_MAZE_PERCEPTS, T_MAZE_ACTIONS).probabilities(["junction"] * 2, ["up"] * 2)
