"""Maturity: the weight of the initial values, against plain definitions and what it must be in small cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chunked_td as ctd
from helpers.faces import VECTOR, check_both_faces, check_saving
from helpers.naive import EXPECTED_SARSA, SARSA, Naive, V
from helpers.random_tables import random_table
from helpers.worlds import World, side_by_side
from learners.test_lineage import NaiveExpectedError, NaiveLineage

CLASSES = {V: ctd.TDLambda, SARSA: ctd.SarsaLambda, EXPECTED_SARSA: ctd.ExpectedSarsaLambda}


class Guessed(Naive):
    """Q and I side by side: I is a second table of values, of rewards 0, that begins at 1."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.guess = np.ones_like(self.values)

    def of_guess(self, function, *args):
        """What a function of the values says if I stands in their place."""
        values, self.values = self.values, self.guess
        try:
            return function(*args)
        finally:
            self.values = values

    def ahead(self, s2, a2):
        self.later = self.of_guess(super().ahead, s2, a2)
        return super().ahead(s2, a2)

    def lambda_now(self, s, a, reward, s2, a2):
        here = self.guess[s] if self.bootstrap == V else self.guess[s, a]
        if self.bootstrap == EXPECTED_SARSA:
            here = self.pi @ self.guess[s]
        self.here = here
        return super().lambda_now(s, a, reward, s2, a2)

    def target_of_guess(self, ended):
        return 0.0 if ended == 1 else self.gamma * self.later

    def learn(self, lambda_t, reward, bootstrap, ended):
        change = self.target_of_guess(ended) - self.guess[self.place]
        super().learn(self.raised(lambda_t), reward, bootstrap, ended)
        self.guess = np.clip(self.guess + self.alpha * change * self.trace, 0.0, 1.0)

    def raised(self, lambda_t):
        return 1 - (1 - lambda_t) * (1 - self.here)


class GuessedLineage(Guessed, NaiveLineage):
    """In lineage I raises the share of each row, not λ."""

    def raised(self, lambda_t):
        if len(self.history[-1]) == 0:
            self.guesses = []
        self.guesses.append(self.here)
        return lambda_t

    def passed(self, row, k):
        return 1 - (1 - self.guesses[k]) * (1 - super().passed(row, k))


class GuessedLuck(Guessed, NaiveExpectedError):
    """With expected errors I moves by its expectation, too."""

    def target_of_guess(self, ended):
        ends = [(s2, 0.0, end) for s2, _, end in self.story.get(self.place, ())] + [(self.seen, 0.0, ended == 1)]
        policies = {s: self.greedy_policy(s, legal) for s, legal in self.acted_in.items() if self.bootstrap != V}
        total = 0.0
        for s2, _, end in ends:
            if not end and (self.bootstrap == V or s2 in policies):
                total = total + (self.guess[s2] if self.bootstrap == V else policies[s2] @ self.guess[s2])
        return self.weight * self.gamma * total / len(ends) + (1 - self.weight) * super().target_of_guess(ended)


@st.composite
def cases(draw):
    """A cyclic world, a bootstrap and settings."""
    bootstrap = draw(st.sampled_from([V, SARSA, EXPECTED_SARSA]))
    world = World(draw(st.integers(0, 10**6)), (5,), draw(st.integers(1, 3)), draw(st.integers(1, 2)), sudden=0.1)
    common = {"epsilon": draw(st.floats(0, 1)), "seed": draw(st.integers(0, 99))}
    return (
        world,
        bootstrap,
        draw(st.sampled_from([0.0, 0.7])),
        draw(st.floats(0.05, 0.3)),
        draw(st.floats(0, 1)),
        common,
    )


def check(case, reference, replacing=False, **options):
    world, bootstrap, lambda_, alpha, gamma, common = case
    source = ctd.Mature(lambda_)
    agent = CLASSES[bootstrap](
        world, lambda_source=source, discount=gamma, step_size=alpha, replacing=replacing, **options, **common
    )
    naive = reference(world, bootstrap, ("constant", lambda_), gamma=gamma, alpha=alpha, replacing=replacing, **common)
    side_by_side(agent, naive, world, episodes=4, check_steps=True)
    learned = agent.learned["maturity"]
    np.testing.assert_allclose(1 - learned[:, 0], naive.guess.reshape(len(learned), -1)[:, 0], atol=1e-9)


@pytest.mark.uncompiled
@settings(max_examples=40)
@given(cases(), st.booleans())
def test_maturity_is_its_definition(case, replacing):
    check(case, Guessed, replacing)


@pytest.mark.uncompiled
@settings(max_examples=25)
@given(cases())
def test_mature_lineage_is_its_definition(case):
    check(case, GuessedLineage, view="lineage")


@pytest.mark.uncompiled
@settings(max_examples=25)
@given(cases())
def test_maturity_with_expected_errors_is_its_definition(case):
    check(case, GuessedLuck, reward_source=ctd.ExpectedError(0.7))


@pytest.mark.uncompiled
def test_the_guess_is_the_weight_of_the_initial_values():
    """Rewards 0 and all values q at first: every value is q times its guess, whatever λ is."""
    agent = ctd.QLambda(World(5, (6,), 2), lambda_source=ctd.Mature(0.4), initial_value=3.0, step_size=0.1, epsilon=0.5)
    world = World(5, (6,), 2)
    for _ in range(6):
        s = world.reset()
        action, ended = agent.start(s, world.info(s)), 0
        while not ended:
            _, s, ended = world.step(action)
            action = agent.step(0.0, s, ended == 1, ended == 2, world.info(s))
    values = agent.tables.values[:12]
    assert 0.0 < values.min() < 2.9
    np.testing.assert_allclose(values, 3.0 * (1 - agent.learned["maturity"]))


def test_a_mature_source_that_learns_on_both_faces():
    source = ctd.Mature(ctd.GreedyLambda())
    check_both_faces(ctd.ExpectedSarsaLambda, "expected_sarsa", source=source, view="lineage")


@pytest.mark.uncompiled
def test_a_maturity_for_every_reward_component():
    source, learner = ctd.Mature(ctd.FactoredLambda()), ctd.FactoredChunkedExpectedSarsa
    agent = check_both_faces(learner, "expected_sarsa", dynamics=VECTOR, source=source)
    assert agent.learned["maturity"].shape[1] == VECTOR.n_rewards


@pytest.mark.uncompiled
def test_a_mature_source_is_saved(tmp_path):
    source, world = ctd.Mature(ctd.SignalLambda(0.3)), World(11, (9,), 3, masked=False)
    agent = ctd.ExpectedSarsaLambda(world, lambda_source=source, epsilon=0.4, view="lineage", seed=2)
    assert check_saving(agent, World(11, (9,), 3, masked=False), tmp_path / "a.ctd").lambda_source == source


@pytest.mark.uncompiled
def test_in_the_end_the_fixed_point_is_that_of_the_source():
    table = random_table(3, 5, 2)
    for source in (ctd.ConstantLambda(0.3), ctd.ForwardLambda()):
        both = (source, ctd.Mature(source))
        found = [ctd.fixed_point(table, one, learner="expected_sarsa", discount=0.9).values for one in both]
        np.testing.assert_allclose(*found)


def test_what_cannot_be_made_mature_is_refused():
    class Plain(ctd.LambdaSource):
        def lambda_t(self, step):
            return 0.5

    for wrong in (Plain(), ctd.Mature(0.5)):
        with pytest.raises(ValueError, match="source must be a number or a compiled λ source that is not Mature, got"):
            ctd.Mature(wrong)
    with pytest.raises(ValueError, match=r"Mature\(\) goes with view 'traces' or 'lineage', got view 'true_online'"):
        ctd.SarsaLambda(World(1), lambda_source=ctd.Mature(0.5), view="true_online")
