"""Planners and model errors against plain definitions, exact solutions and the simulation.

Most combinations are played without compilation; compiled, every planner and the simulation are.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import pytest

import chunked_td as ctd
from chunked_td._link import kernel
from chunked_td.envs.dynamics import ChainAndSplit, KeyToDoor
from chunked_td.envs.face import DynamicsEnv
from chunked_td.learners.planning import PLANNERS
from chunked_td.learners.planning.prioritised_sweeping import pop, push
from chunked_td.simulation import simulate
from helpers.compilation import COMPILED, uncompiled
from helpers.naive import EXPECTED_SARSA, SARSA, V
from helpers.naive_planning import Planned
from helpers.worlds import World, side_by_side
from studies.wrong_models.errors import CorruptedModel, PermutedModel, StaleModel, wrong_states

CLASSES = {V: ctd.ChunkedTD, SARSA: ctd.ChunkedSarsa, EXPECTED_SARSA: ctd.ChunkedExpectedSarsa}
SETTINGS = {"gamma": 0.9, "alpha": 0.2, "epsilon": 0.3, "seed": 5}


def pair(world, bootstrap, source, plain_source, *, planner=None, plain=None, **more):
    """A learner and its plain definition."""
    agent = CLASSES[bootstrap](
        world,
        lambda_source=source,
        planner=planner,
        step_size=0.2,
        discount=0.9,
        epsilon=0.3,
        seed=5,
        model=more.pop("model", None),
    )
    direct = planner is None or planner.direct
    return agent, Planned(world, bootstrap, plain_source, planner=plain, direct=direct, **SETTINGS, **more)


PAIRS = {
    "dyna": (ctd.Dyna(4), ("dyna", 4, False, False)),
    "dyna-expected": (ctd.Dyna(3, expected=True), ("dyna", 3, True, False)),
    "dyna-greedy": (ctd.Dyna(2, greedy=True), ("dyna", 2, False, True)),
    "sweeping": (ctd.PrioritisedSweeping(3, threshold=1e-3), ("sweeping", 3, 1e-3)),
    "sweeping-direct": (ctd.PrioritisedSweeping(2, threshold=1e-3, direct=True), ("sweeping", 2, 1e-3)),
    "certain": (ctd.CertaintyEquivalence(tolerance=1e-13), ("certain",)),
}


@pytest.mark.parametrize(
    ("name", "bootstrap", "rewards"),
    [
        ("dyna", EXPECTED_SARSA, 1),
        uncompiled("dyna", V, 1),
        uncompiled("dyna-expected", SARSA, 2),
        ("dyna-greedy", EXPECTED_SARSA, 1),
        ("sweeping", EXPECTED_SARSA, 2),
        uncompiled("sweeping", V, 1),
        ("sweeping-direct", EXPECTED_SARSA, 1),
        ("certain", EXPECTED_SARSA, 1),
        uncompiled("certain", V, 2),
    ],
)
def test_planners_do_what_the_plain_definition_does(name, bootstrap, rewards):
    planner, plain = PAIRS[name]
    world = World(3, (6,), actions=3, rewards=rewards, sudden=0.1)
    side_by_side(
        *pair(world, bootstrap, 0.6, ("constant", 0.6), planner=planner, plain=plain),
        world,
        12 if plain == ("certain",) else 40,
    )


@pytest.mark.uncompiled
def test_chunked_traces_and_a_planner_on_the_same_table():
    world = World(4, (6,), actions=2, sudden=0.1)
    agent, reference = pair(
        world, SARSA, ctd.ForwardLambda(), ("forward",), planner=ctd.Dyna(3), plain=("dyna", 3, False, False)
    )
    side_by_side(agent, reference, world, 40, check_steps=True)


# ---- exact solutions of the empirical model


def watch(agent, reference, world, episodes):
    """Let a learner play; the reference only writes down what it sees."""
    for _ in range(episodes):
        s, ended = world.reset(), 0
        action = agent.start(world.observe(s), world.info(s))
        reference.acted_in[s] = world.legal[s]
        while not ended:
            row = s if reference.bootstrap == V else (s, action)
            reward, s, ended = world.step(action)
            action = agent.step(float(reward[0]), world.observe(s), ended == 1, ended == 2, world.info(s))
            reference.story.setdefault(row, []).append((s, reward, ended == 1))
            if ended != 1:
                reference.acted_in[s] = world.legal[s]


def solution(reference):
    """Values of the model of the raw transitions, by policy iteration with linear algebra."""
    rows, gamma, d = list(reference.story), reference.gamma, reference.world.rewards
    index = {row: k for k, row in enumerate(rows)}
    policy = {s: legal / legal.sum() for s, legal in reference.acted_in.items()}
    values = None
    for _ in range(100):
        P, r = np.zeros((len(rows), len(rows))), np.zeros((len(rows), d))
        for row, k in index.items():
            for s2, reward, over in reference.story[row]:
                n = len(reference.story[row])
                r[k] += reward / n
                for a, p in enumerate([1.0] if reference.bootstrap == V else policy.get(s2, ())):
                    at = index.get(s2 if reference.bootstrap == V else (s2, a))
                    if not over and at is not None:
                        P[k, at] += gamma * p / n
        new = np.linalg.solve(np.eye(len(rows)) - P, r)
        if values is not None and np.abs(new - values).max() < 1e-12:
            return dict(zip(rows, values, strict=True))
        values = new
        for row, k in index.items():
            reference.values[row] = new[k]
        if reference.bootstrap != V:
            policy = {s: reference.greedy_policy(s, legal) for s, legal in reference.acted_in.items()}
    raise AssertionError("policy iteration did not settle")


@pytest.mark.parametrize("bootstrap", [uncompiled(V), EXPECTED_SARSA])
@pytest.mark.parametrize(
    "planner",
    [ctd.CertaintyEquivalence(sweeps=5000, tolerance=1e-12), ctd.PrioritisedSweeping(100_000, threshold=1e-12)],
    ids=["certainty", "sweeping"],
)
def test_planned_to_the_end_is_the_exact_solution_of_the_empirical_model(planner, bootstrap):
    world = World(8, (9,), actions=2, sudden=0.05)
    agent, reference = pair(world, bootstrap, 0.0, ("constant", 0.0), planner=planner)
    watch(agent, reference, world, 60 if COMPILED else 10)
    exact = solution(reference)
    assert len(exact) > 6
    learned = agent.tables.values.reshape(-1, 1) if bootstrap == V else agent.tables.values.reshape(-1, 2, 1)
    for row, value in exact.items():
        np.testing.assert_allclose(learned[row], value, rtol=0, atol=1e-9)


class Heap(NamedTuple):
    queue: np.ndarray
    place: np.ndarray
    priority: np.ndarray
    size: np.ndarray


def test_the_queue_gives_the_largest_first():
    heap = Heap(np.zeros(40, np.int64), np.zeros(40, np.int64), np.zeros(40), np.zeros(1, np.int64))
    rng, plain = np.random.default_rng(0), {}
    for _ in range(2000):
        if plain and rng.random() < 0.4:
            best = min(plain, key=lambda row: (-plain[row], row))
            assert pop(heap) == best
            del plain[best]
        else:
            row = int(rng.integers(40))
            plain[row] = rng.integers(9) / 9
            push(heap, row, plain[row])
        assert heap.size[0] == len(plain)


# ---- model errors


def misreading(error, world):
    """The error as a plain function, from its own fixed arrays."""
    form, A = error.compiled({"S": world.states, "A": world.actions}), world.actions
    if isinstance(error, StaleModel):
        return lambda n, s, a, s2, episode: s2 if episode <= error.until else None
    if isinstance(error, PermutedModel):
        return lambda n, s, a, s2, episode: int(form.wrong[s2]) if form.permuted[s * A + a] else s2

    def corrupted(n, s, a, s2, episode):
        u = form.offset[s * A + a]
        moved = int(n * error.fraction + u) - int((n - 1) * error.fraction + u)
        return int(form.wrong[s2]) if moved else s2

    return corrupted


ERRORS = [CorruptedModel(0.3, seed=2), PermutedModel(0.5), StaleModel(6)]


PLAIN = {
    ctd.ForwardLambda(): ("forward",),
    ctd.ExpectedLambda(): ("expected",),
    ctd.BackwardLambda(): ("backward",),
    ctd.FactoredLambda(((0,), (1,))): ("factored", [(0,), (1,)]),
}


@pytest.mark.parametrize(
    ("error", "source"),
    [(ERRORS[0], ctd.ForwardLambda()), *(uncompiled(*pair) for pair in list(product(ERRORS, PLAIN))[1:])],
    ids=lambda value: type(value).__name__,
)
def test_sources_with_a_wrong_model(error, source):
    world = World(9, (3, 2), actions=2, rewards=2, sudden=0.1)
    agent, reference = pair(world, EXPECTED_SARSA, source, PLAIN[source], model=error, misread=misreading(error, world))
    side_by_side(agent, reference, world, 40)


@pytest.mark.uncompiled
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_planners_with_the_same_wrong_model(error):
    world = World(10, (6,), actions=2, sudden=0.1)
    agent, reference = pair(
        world,
        SARSA,
        ctd.ForwardLambda(),
        ("forward",),
        planner=ctd.Dyna(3),
        plain=("dyna", 3, False, False),
        model=error,
        misread=misreading(error, world),
    )
    side_by_side(agent, reference, world, 40)


@pytest.mark.uncompiled
def test_a_model_that_never_looks_leaves_the_learner_alone():
    env = gym.make("FrozenLake-v1")
    plain = ctd.ExpectedSarsaLambda(env, lambda_=0.0)
    for planner in (ctd.Dyna(), ctd.PrioritisedSweeping(direct=True), ctd.CertaintyEquivalence(direct=True)):
        agent = ctd.ExpectedSarsaLambda(env, lambda_=0.0, planner=planner, model=StaleModel(0))
        for learner in (plain, agent):
            learner.learn(gym.make("FrozenLake-v1", is_slippery=False), 20)
        np.testing.assert_array_equal(agent.tables.values, plain.tables.values)
        plain = ctd.ExpectedSarsaLambda(env, lambda_=0.0)


def test_wrong_states_are_all_others_and_one_to_one():
    wrong = wrong_states(50, 1, None)
    assert sorted(wrong) == list(range(50))
    assert (wrong != np.arange(50)).all()
    some = wrong_states(50, 1, (3, 4, 5))
    assert sorted(some[[3, 4, 5]]) == [3, 4, 5]
    assert np.flatnonzero(some != np.arange(50)).tolist() == [3, 4, 5]
    assert PermutedModel(0.25).compiled({"S": 1000, "A": 4}).permuted.mean() == pytest.approx(0.25, abs=0.03)


# ---- the simulation

SMALL = ChainAndSplit.make(horizon=4, actions=3, width=3)
RUNS = {
    "dyna": ("expected_sarsa", SMALL, {"planner": ctd.Dyna(3), "lambda_source": 0.0, "view": "traces"}),
    "offline": ("sarsa", SMALL, {"planner": ctd.Dyna(2), "view": "offline", "model": CorruptedModel(0.2)}),
    "sweeping": ("expected_sarsa", KeyToDoor.make(horizon=5, distractors=2), {"planner": ctd.PrioritisedSweeping()}),
    "certain": ("td", SMALL, {"planner": ctd.CertaintyEquivalence(), "model": PermutedModel(0.5)}),
    "expected": ("sarsa", SMALL, {"reward_source": ctd.ExpectedError(), "model": StaleModel(9)}),
}
LEARNERS = {"td": ctd.ChunkedTD, "sarsa": ctd.ChunkedSarsa, "expected_sarsa": ctd.ChunkedExpectedSarsa}


@pytest.mark.parametrize("name", ["dyna", *map(uncompiled, ("offline", "sweeping", "certain", "expected"))])
def test_the_simulation_gives_the_values_of_the_agent(name):
    learner, dynamics, more = RUNS[name]
    more = {"view": "traces", "lambda_source": None} | more
    runs = simulate(
        dynamics, learner=learner, step_sizes=0.2, seeds=[4], epsilon=0.2, episodes=300, keep_values=True, **more
    )
    env = DynamicsEnv(dynamics)
    agent = LEARNERS[learner](env, step_size=0.2, discount=1.0, epsilon=0.2, seed=4, **more)
    agent.learn(env, 300, progress=False)
    np.testing.assert_array_equal(runs.values[0], agent.tables.values[: runs.values.shape[1]])


# ---- saving, growing, own planners


@pytest.mark.parametrize(
    ("cls", "more"),
    [
        (ctd.DynaQ, {"model": CorruptedModel(0.2, states=(1, 2, 3))}),
        (ctd.PrioritisedSweepingQ, {"planner": ctd.PrioritisedSweeping(1, threshold=1e-6)}),
        (ctd.CertaintyEquivalentQ, {"reward_source": ctd.ExpectedError(), "model": StaleModel(30)}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_saved_planner_goes_on_as_if_nothing_had_happened(cls, more, tmp_path):
    env = gym.make("FrozenLake-v1", reward_schedule=[1, -1, -0.1])
    whole, first = cls(env, **more), cls(env, **more)
    whole.learn(env, 20)
    whole.learn(env, 20)
    env = gym.make("FrozenLake-v1", reward_schedule=[1, -1, -0.1])
    first.learn(env, 20)
    first.save(tmp_path / "agent.ctd")
    second = ctd.load(tmp_path / "agent.ctd", model=first.model)
    assert (second.planner, second.model, second.reward_source) == (first.planner, first.model, first.reward_source)
    second.learn(gym.make("FrozenLake-v1", reward_schedule=[1, -1, -0.1]), 20)
    np.testing.assert_array_equal(second.tables.values, whole.tables.values)


class Growing:
    """States that get ids on first sight: words that grow by a letter each step."""

    observation_space = gym.spaces.Text(20)
    action_space = gym.spaces.Discrete(2)

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def reset(self, seed=None):
        self.word = "x"
        return self.word, {}

    def step(self, action):
        self.word += "ab"[action] if self.rng.random() < 0.8 else "c"
        over = len(self.word) == 7
        return self.word, float(self.word.count("a")) * over, over, False, {}


@pytest.mark.parametrize("cls", [ctd.DynaQ, ctd.PrioritisedSweepingQ, ctd.CertaintyEquivalentQ])
def test_tables_that_grow(cls):
    agent = cls(Growing(), discount=1.0, seed=1)
    agent.learn(Growing(), 400)
    assert agent.indexer.size > 128  # twice the room that there was at first
    assert agent.q_values("x")[0] > 2.5
    assert agent.act("x") == 0


@dataclass(frozen=True)
class Nightly(ctd.Planner):
    """Own planner: counts the episodes, and sets the value of the last row to their number."""

    arrays = {"episodes": "int64[1]"}  # noqa: RUF012

    @staticmethod
    @kernel
    def plan(planner, agent, row, epsilon, step_size, over):
        if over:
            planner.episodes[0] += 1
            agent.tables.values[row, 0] = planner.episodes[0]


def test_a_planner_of_your_own(tmp_path):
    env = gym.make("FrozenLake-v1")
    agent = ctd.SarsaLambda(env, planner=Nightly())
    agent.learn(env, 12)
    assert agent.tables.values.max() == 12.0
    agent.save(tmp_path / "own.ctd")
    with pytest.raises(ValueError, match=r"planner: the saved learner uses .*Nightly"):
        ctd.load(tmp_path / "own.ctd")
    again = ctd.load(tmp_path / "own.ctd", planner=Nightly())
    again.learn(env, 1)
    assert again.tables.values.max() == 13.0


def test_bad_input():
    env = gym.make("FrozenLake-v1")
    with pytest.raises(ValueError, match=r"planner must be None, one of .*Dyna.*, got 5"):
        ctd.DynaQ(env, planner=5)
    with pytest.raises(ValueError, match=r"did you mean Dyna\(\)\?"):
        simulate(SMALL, planner=ctd.Dyna, step_sizes=0.1, seeds=1, episodes=1)
    with pytest.raises(ValueError, match=r"steps must be an integer >= 1, got 0"):
        ctd.Dyna(0)
    with pytest.raises(ValueError, match=r"threshold must be a finite number from 0, got -1"):
        ctd.PrioritisedSweeping(threshold=-1)
    with pytest.raises(ValueError, match=r"reward_source must be None or one of ExpectedError\(…\), .*, got 1\.0"):
        ctd.DynaQ(env, reward_source=1.0)
    with pytest.raises(ValueError, match=r"fraction must be a probability in \[0, 1\], got 2"):
        CorruptedModel(2)
    with pytest.raises(ValueError, match=r"states must be two or more different state ids, got \(1, 1\)"):
        PermutedModel(0.5, states=(1, 1))
    with pytest.raises(ValueError, match=r"states must be ids in 0\.\.15, got \(1, 99\)"):
        ctd.DynaQ(env, model=PermutedModel(0.5, states=(1, 99)))
    with pytest.raises(ValueError, match=r"requires a known number of states"):
        ctd.DynaQ(Growing(), model=PermutedModel(0.5))
    with pytest.raises(ValueError, match=r"requires percept='state'"):
        ctd.ChunkedSarsa(env, model=StaleModel(1), percept="reward-state")
    assert {"Dyna", "PrioritisedSweeping", "CertaintyEquivalence"} == set(PLANNERS)
