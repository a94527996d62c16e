"""Learned codes: against a plain definition, saved and loaded, and counted by λ sources."""

import gymnasium as gym
import numpy as np
import pytest

import chunked_td as ctd
from chunked_td.observations import indexer_from_state


def plain_codes(observations, low, high, most, rate):
    """The codes of a sequence of observations, and the centres, by the definition."""
    centres, visits, found = [], [], []
    for x in observations:
        z = np.clip((x - low) / (high - low), 0.0, 1.0)
        distances = [float(np.linalg.norm(z - w)) for w in centres]
        k = int(np.argmin(distances)) if centres else -1
        if len(centres) < most and (k < 0 or distances[k] > 0.5 * most ** (-1 / len(z))):
            k = len(centres)
            centres.append(z.copy())
            visits.append(0)
        visits[k] += 1
        centres[k] = centres[k] + max(1 / visits[k], rate) * (z - centres[k])
        found.append(k)
    return found, low + np.array(centres) * (high - low)


@pytest.mark.parametrize(("most", "rate"), [(5, 0.0), (12, 0.2), (40, 1.0)])
def test_codes_are_those_of_the_definition(most, rate):
    low, high = np.array([-1.0, 0.0, 2.0]), np.array([1.0, 5.0, 2.5])
    observations = np.random.default_rng(0).normal(0.5, 0.4, (300, 3)) * (high - low) + low
    book = ctd.Codebook(None, most, list(low), list(high), rate)
    found, centres = plain_codes(observations, low, high, most, rate)
    assert [book(x) for x in observations] == found
    assert book.size == len(centres)
    np.testing.assert_allclose([book.decode(k) for k in range(book.size)], centres, atol=1e-12)


def test_looking_up_moves_nothing():
    book = ctd.Codebook(gym.make("MountainCar-v0"), 16)
    assert book.find(np.array([-0.5, 0.0])) == -1
    book(np.array([-0.5, 0.0]))
    before = book.decode(0)
    assert book.find(np.array([-0.45, 0.01])) == 0
    assert np.array_equal(book.decode(0), before)
    with pytest.raises(ValueError, match="observation"):
        book(np.array([0.0, np.nan]))


def test_a_learner_counts_learned_codes_and_resumes_exactly(tmp_path):
    def new():
        env = gym.make("MountainCar-v0", max_episode_steps=60)
        tiles = ctd.TileCoding(env, bins=4, tilings=2, codes=ctd.Codebook(env, 400))
        return env, ctd.SarsaLambda(env, lambda_source=ctd.ExpectedLambda(), indexer=tiles, step_size=0.3, seed=3)

    env, agent = new()
    agent.learn(env, episodes=2)
    assert 1 < agent.indexer.codes.size <= 400
    agent.save(tmp_path / "car.ctd")
    again = ctd.load(tmp_path / "car.ctd")
    assert isinstance(again.indexer.codes, ctd.Codebook)
    np.testing.assert_array_equal(again.indexer.codes.centres, agent.indexer.codes.centres)
    first, second = agent.learn(env, episodes=2), again.learn(new()[0], episodes=2)
    np.testing.assert_array_equal(first.lengths, second.lengths)
    np.testing.assert_array_equal(agent.trace.weights, again.trace.weights)


def test_a_damaged_codebook_is_refused():
    book = ctd.Codebook(None, 4, [0.0, 0.0], [1.0, 1.0])
    book(np.array([0.5, 0.5]))
    state = book.state()
    for part in ({"centres": state["centres"][:-1]}, {"visits": np.array([0, 1, 0, 0])}, {"rate": 2.0}):
        with pytest.raises(ValueError, match=r"codebook|rate"):
            indexer_from_state({**state, **part})
