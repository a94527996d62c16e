"""Ways to explore against their definitions: the probabilities, and learners that act by them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import chunked_td as ctd
from chunked_td._link import kernel
from chunked_td.policies import optimistic_greedy
from chunked_td.simulation import simulate
from helpers.compilation import uncompiled
from helpers.faces import RING, check_both_faces, check_saving
from helpers.naive import EXPECTED_SARSA, SARSA, Naive
from helpers.worlds import World, side_by_side
from studies.credit.exploration import ReturnBonus
from studies.memory.exploration import EpsilonPerStay

values = st.sampled_from([-1.0, 0.0, 0.5, 2.0])
actions_ = st.lists(st.tuples(values, values, st.booleans(), st.integers(0, 3)), min_size=1, max_size=5)
COOLING = ctd.Schedule(((0, 2.0), (10, 0.2)))


@dataclass(frozen=True)
class Softmax(ctd.Exploration):
    """An exploration from outside with a number of its own in the place of ε: π(a) ∝ exp(Q(a)/τ)."""

    temperature: float | ctd.Schedule

    uses_epsilon = False

    def rate_with(self, epsilon):
        return self.temperature

    @staticmethod
    @kernel
    def probabilities(exploration, q, state, legal, rate, out):
        best, total = -math.inf, 0.0
        for a in range(legal.size):
            out[a] = q[a].sum() if legal[a] else -math.inf
            best = max(best, out[a])
        for a in range(legal.size):
            out[a] = math.exp((out[a] - best) / rate)
            total += out[a]
        for a in range(legal.size):
            out[a] /= total


# ---- the probabilities


@given(actions_, st.floats(0.1, 3), st.floats(0, 1))
def test_the_bonus_is_added_and_untried_actions_come_first(actions, scale, epsilon):
    q, legal = np.array([a[:2] for a in actions]), np.array([a[2] for a in actions])
    visits = np.array([a[3] for a in actions])
    assume(legal.any())
    out = np.full(len(actions), np.nan)
    optimistic_greedy(q, visits, legal, scale, 0.0, epsilon, out)
    untried = [a for a in range(len(actions)) if legal[a] and visits[a] == 0]
    upper = [sum(q[a]) + scale / visits[a] ** 0.5 if visits[a] else 0.0 for a in range(len(actions))]
    best = untried or [a for a in range(len(actions)) if legal[a] and upper[a] == max(np.array(upper)[legal])]
    for a in range(len(actions)):
        expected = legal[a] * (epsilon / legal.sum() + (1 - epsilon) / len(best) * (a in best))
        assert out[a] == pytest.approx(expected)


def test_a_lost_value_gives_probabilities_still():
    out, legal = np.zeros(3), np.ones(3, bool)
    optimistic_greedy(np.array([[np.nan], [1.0], [2.0]]), np.ones(3, np.int64), legal, 1.0, 0.0, 0.0, out)
    assert out.tolist() == [0.0, 0.0, 1.0]


# ---- learners


class NaiveSoftmax(Naive):
    temperature = 0.4

    def greedy_policy(self, s, legal):
        q = self.values[s].sum(axis=1)
        weights = np.where(legal, np.exp((q - q[legal].max()) / self.temperature), 0.0)
        return weights / weights.sum()


class NaiveBonus(Naive):
    scale = 0.7

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.taken = np.zeros((self.world.states, self.world.actions), int)

    def greedy_policy(self, s, legal):
        q = self.values[s].sum(axis=1)
        upper = [q[a] + self.scale / n**0.5 if n else np.inf for a, n in enumerate(self.taken[s])]
        greedy = legal & (upper == np.array(upper)[legal].max())
        return self.epsilon * legal / legal.sum() + (1 - self.epsilon) * greedy / greedy.sum()

    def step(self, reward, s2, ended, legal):
        self.taken[self.s, self.a] += 1
        return super().step(reward, s2, ended, legal)


class NaivePerStay(Naive):
    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.came_from = []

    def greedy_policy(self, s, legal):
        q = np.where(legal, self.values[s].sum(axis=1), -np.inf)
        pairs = list(itertools.pairwise([None, *self.came_from]))
        stays = [before != s for before, now in pairs if now == s]
        epsilon = 0.6 * (sum(stays) / len(stays) if stays else 1.0)
        return epsilon * legal / legal.sum() + (1 - epsilon) * (q == q.max()) / (q == q.max()).sum()

    def step(self, reward, s2, ended, legal):
        self.came_from.append(self.s)
        return super().step(reward, s2, ended, legal)


class NaiveReturnBonus(NaiveBonus):
    """σ from a list of all returns, with NumPy's standard deviation."""

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.returns, self.rewards = [], []

    def greedy_policy(self, s, legal):
        sigma = np.std(self.returns) if len(self.returns) > 1 else abs(sum(self.returns))
        upper = self.values[s].sum(axis=1) + self.scale * sigma / np.sqrt(self.taken[s] + 1)
        greedy = legal & (upper == upper[legal].max())
        return self.epsilon * legal / legal.sum() + (1 - self.epsilon) * greedy / greedy.sum()

    def step(self, reward, s2, ended, legal):
        self.rewards.append(np.sum(reward))
        found = super().step(reward, s2, ended, legal)
        if ended:
            self.returns.append(sum(0.9**t * paid for t, paid in enumerate(self.rewards)))
            self.rewards = []
        return found


TABLE = np.random.default_rng(3).dirichlet(np.ones(3), 5)  # of seven states: two are beyond it
TABLE[1] = 0.0


class NaiveGiven(Naive):
    def greedy_policy(self, s, legal):
        chances = TABLE[s] * legal if s < len(TABLE) else 0.0 * legal
        return chances / chances.sum() if chances.sum() else legal / legal.sum()


WAYS = {
    "return bonus": (NaiveReturnBonus, ReturnBonus(0.7), 0.2),
    "given": (NaiveGiven, ctd.GivenPolicy(TABLE), None),
    "softmax": (NaiveSoftmax, Softmax(0.4), None),
    "bonus": (NaiveBonus, ctd.CountBonus(0.7), 0.2),
    "per stay": (NaivePerStay, EpsilonPerStay(0.6), None),
}
CLASSES = {SARSA: ctd.ChunkedSarsa, EXPECTED_SARSA: ctd.ChunkedExpectedSarsa}


@pytest.mark.uncompiled
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # states without legal actions
@pytest.mark.parametrize(
    ("way", "bootstrap", "source"),
    [
        ("softmax", SARSA, "expected"),
        ("softmax", EXPECTED_SARSA, "forward"),
        ("bonus", SARSA, "forward"),
        ("bonus", EXPECTED_SARSA, "expected"),
        ("per stay", SARSA, "forward"),
        ("return bonus", EXPECTED_SARSA, "forward"),
        ("given", EXPECTED_SARSA, "expected"),
        ("given", SARSA, "forward"),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_learners_follow_the_definition(way, bootstrap, source, masked):
    reference, exploration, epsilon = WAYS[way]
    world = World(7, (2, 3), 3, 2, masked=masked)
    common = {"seed": 5}
    naive = reference(world, bootstrap, (source,), gamma=0.9, alpha=0.3, epsilon=epsilon, **common)
    kind = {"forward": ctd.ForwardLambda, "expected": ctd.ExpectedLambda}[source]
    agent = CLASSES[bootstrap](
        world, lambda_source=kind(), discount=0.9, step_size=0.3, epsilon=epsilon, exploration=exploration, **common
    )
    side_by_side(agent, naive, world, episodes=12, check_steps=True)
    s = 0
    expected = naive.greedy_policy(s, world.legal[s])
    assert agent.policy_probabilities(world.observe(s), world.info(s)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("exploration", "epsilon"),
    [(Softmax(COOLING), None), (ctd.CountBonus(0.5), 0.1), (ReturnBonus(), 0.1)],
    ids=["softmax", "bonus", "return bonus"],
)
@pytest.mark.parametrize(
    ("cls", "learner", "source", "more"),
    [
        (ctd.ChunkedSarsa, "sarsa", ctd.ForwardLambda(), {}),
        uncompiled(ctd.ChunkedExpectedSarsa, "expected_sarsa", ctd.ValueLambda(), {"planner": ctd.Dyna(3)}),
    ],
    ids=["sarsa", "planning"],
)
def test_both_faces_give_the_same_bits(cls, learner, source, more, exploration, epsilon):
    agent = check_both_faces(cls, learner, source=source, exploration=exploration, epsilon=epsilon, **more)
    if isinstance(exploration, ctd.CountBonus):
        visits = agent.tables.exploration.visits
        assert visits.sum() > 25
    elif isinstance(exploration, ReturnBonus):
        assert agent.tables.exploration.spread[0] > 0
    else:
        assert agent.exploring_rate is COOLING


@pytest.mark.uncompiled
def test_q_learning_with_a_bonus_still_takes_the_maximum():
    check_both_faces(
        ctd.QLambda, "q_learning", source=ctd.ConstantLambda(0.0), exploration=ctd.CountBonus(2.0), epsilon=0.1
    )


def test_the_temperature_follows_its_schedule():
    """The recording's probabilities at the start of an episode are those of that episode's temperature."""
    env = gym.make("FrozenLake-v1")
    agent = ctd.SarsaLambda(env, exploration=Softmax(COOLING), seed=1, step_size=0.5)
    agent.tables.values[:4, 0] = [0.0, 1.0, 2.0, 3.0]
    for episode in (0, 5, 30):
        agent.episode = episode
        weights = np.exp(np.arange(4) / COOLING(episode))
        assert agent.policy_probabilities(0) == pytest.approx(weights / weights.sum())


@pytest.mark.uncompiled
@pytest.mark.parametrize(
    "exploration",
    [
        ctd.CountBonus(0.3),
        ctd.GivenPolicy(TABLE),
    ],
)
def test_saved_and_resumed(exploration, tmp_path):
    world = World(3, (6,), 3)
    agent = ctd.ChunkedExpectedSarsa(world, exploration=exploration, seed=2, step_size=0.4)
    twin = check_saving(agent, world, tmp_path / "agent.ctd")
    assert twin.exploration == exploration
    assert twin.exploring_rate == agent.exploring_rate
    for name in exploration.arrays:
        kept = getattr(agent.tables.exploration, name)
        assert np.array_equal(getattr(twin.tables.exploration, name), kept)
        assert kept.any()


def test_all_methods_see_the_same_transitions_of_a_given_policy():
    """A seed fixes them, whatever is learned from them; another seed has others."""
    policy = ctd.GivenPolicy([[0.3, 0.7]] * 5)

    def played(seed, **settings):
        common = {"learner": "expected_sarsa", "step_sizes": 0.5, "seeds": [seed], "episodes": 30, "threads": 1}
        runs = simulate(RING, exploration=policy, view="traces", **common, **settings)
        return runs.returns_at.tolist(), runs.steps.tolist(), runs.values

    alike = [played(1, lambda_source=0.0), played(1, lambda_source=1.0, planner=ctd.Dyna(2))]
    assert alike[0] == alike[1]
    assert alike[0] != played(2, lambda_source=0.0)


def test_a_policy_says_what_it_does_in_states_that_were_never_met():
    agent = ctd.SarsaLambda(
        gym.make("Taxi-v4" if "Taxi-v4" in gym.registry else "Taxi-v3"), exploration=ctd.GivenPolicy(np.eye(6))
    )
    assert agent.policy_probabilities(3) == pytest.approx(np.eye(6)[3])
    assert agent.policy_probabilities(400) == pytest.approx(np.full(6, 1 / 6))


@pytest.mark.parametrize(
    ("table", "message"),
    [([0.5, 0.5], "shape"), ([[0.5, 0.6]], "sum to 1"), ([[1.5, -0.5]], "sum to 1"), ([[np.nan, 1.0]], "sum to 1")],
)
def test_a_table_that_is_no_policy_is_refused(table, message):
    with pytest.raises(ValueError, match=message):
        ctd.GivenPolicy(table)
    with pytest.raises(ValueError, match="a column for each of 4 actions"):
        ctd.SarsaLambda(gym.make("FrozenLake-v1"), exploration=ctd.GivenPolicy([[0.5, 0.5]] * 16))


def test_discounted_returns_are_those_of_the_rewards():
    """Every step pays 1, so that both sums follow from the length; plain Python gives the compiled numbers."""
    chain = ctd.TransitionTable.from_outcomes(
        {0: {0: [(0.7, 0, 1.0, False), (0.3, 0, 1.0, True)]}}, starts=0, horizon=40, n_actions=1
    )

    class Half(ctd.LambdaSource):
        def lambda_t(self, step):
            return 0.5

    common = {"learner": "expected_sarsa", "step_sizes": 0.5, "seeds": [1], "episodes": 6, "discount": 0.5}
    found = [simulate(chain, lambda_source=source, record_at=range(1, 7), **common) for source in (0.5, Half())]
    for runs in found:
        assert runs.discounted_at == pytest.approx(2.0 * (1.0 - 0.5**runs.returns_at))
    assert np.array_equal(found[0].discounted_at, found[1].discounted_at)


def test_states_that_come_by_and_by_are_counted():
    """Tables of hashed observations grow during training, and n(s, a) with them."""

    class Long(gym.Env):
        observation_space, action_space = gym.spaces.Text(8), gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.place = 0
            return "0", {}

        def step(self, action):
            self.place += 1 + action
            return str(self.place), 1.0, self.place > 300, False, {}

    env = Long()
    agent = ctd.ChunkedSarsa(env, indexer=ctd.make_indexer(), exploration=ctd.CountBonus(1.0), epsilon=0.0)
    history = agent.learn(env, 4)
    assert agent.tables.exploration.visits.sum() == history.lengths.sum()
    assert agent.policy_probabilities("unheard of").tolist() == [0.5, 0.5]


def test_a_replay_counts_what_was_taken():
    env = ctd.Recorder(gym.make("FrozenLake-v1"))
    settings = {"exploration": ctd.CountBonus(0.2), "epsilon": 0.05, "seed": 4}
    agent = ctd.ChunkedSarsa(env, **settings)
    agent.learn(env, 30)
    again = ctd.ChunkedSarsa(env, **settings)
    again.learn_from(env)
    assert np.array_equal(again.tables.values, agent.tables.values)
    assert np.array_equal(again.tables.exploration.visits, agent.tables.exploration.visits)


@dataclass(frozen=True)
class Stubborn(ctd.Exploration):
    """An exploration of a user's own: the last legal action, with probability 1 − ε."""

    @staticmethod
    @kernel
    def probabilities(exploration, q, state, legal, rate, out):
        last, count = 0, 0
        for a in range(legal.size):
            if legal[a]:
                last, count = a, count + 1
        for a in range(legal.size):
            out[a] = (rate / count + (1.0 - rate) * (a == last)) if legal[a] else 0.0


def test_an_exploration_of_ones_own(tmp_path):
    agent = check_both_faces(
        ctd.ChunkedExpectedSarsa, "expected_sarsa", source=ctd.ExpectedLambda(), exploration=Stubborn(), epsilon=0.2
    )
    assert agent.policy_probabilities(0) == pytest.approx([0.1, 0.9])
    agent.save(tmp_path / "own.ctd")
    with pytest.raises(ValueError, match=r"exploration: .*Stubborn.*not part of chunked_td.*load\(…, exploration=…\)"):
        ctd.load(tmp_path / "own.ctd")
    assert ctd.load(tmp_path / "own.ctd", exploration=Stubborn()).exploration == Stubborn()


# ---- what is refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"exploration": "softmax"}, r"exploration must be None .ε-greedy., CountBonus.*got 'softmax'"),
        ({"exploration": ctd.CountBonus}, r"did you mean CountBonus\(…\)"),
        ({"exploration": Softmax(1.0), "epsilon": 0.2}, r"epsilon is not used by Softmax.*got 0\.2"),
        ({"exploration": ctd.CountBonus(1.0), "epsilon": 2.0}, r"epsilon must .*\[0, 1\]"),
        ({"exploration": ctd.CountBonus(1.0), "planner": ctd.Dyna(greedy=True)}, "plans for the greedy policy"),
    ],
)
def test_bad_arguments_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        ctd.ChunkedSarsa(gym.make("FrozenLake-v1"), **settings)
    with pytest.raises(ValueError, match=message):
        simulate(RING, step_sizes=0.1, seeds=0, episodes=3, view="traces", lambda_source=0.5, **settings)


def test_bad_numbers_are_named():
    with pytest.raises(ValueError, match=r"scale must be .*got 0"):
        ctd.CountBonus(0)
    with pytest.raises(ValueError, match=r"exploration requires action values"):
        ctd.ChunkedTD(gym.make("FrozenLake-v1"), exploration=Softmax(1.0))
    with pytest.raises(ValueError, match=r"epsilon must be above 0 for Q-learning"):
        ctd.QLambda(gym.make("FrozenLake-v1"), exploration=ctd.CountBonus(1.0), epsilon=0.0)


@pytest.mark.uncompiled
def test_the_spread_of_returns_survives_a_large_mean():
    agent = ctd.ExpectedSarsaLambda(World(1, (5,), 1), exploration=ReturnBonus(), discount=1.0)
    for paid in (1e8, 1e8 + 1.0) * 3:
        agent.start(0)
        agent.step(paid, 1, True)
    assert agent.tables.exploration.spread[0] == pytest.approx(0.5)
