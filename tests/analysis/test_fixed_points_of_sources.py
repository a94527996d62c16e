"""Exact fixed points of every λ source: against all episodes one by one, against V^π, against long simulations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chunked_td as ctd
from chunked_td.analysis.fixed_points import fixed_point
from chunked_td.analysis.fixed_points.chain import Chain, Places, Problem
from chunked_td.analysis.fixed_points.weights import LimitModel
from chunked_td.envs.dynamics import KeyToDoor, SkewedSplit, TransitionTable
from chunked_td.lambdas import CLASSES
from chunked_td.simulation import simulate
from helpers.episodes import Enumerated
from helpers.random_tables import random_outcomes, random_table

# ---- all episodes, one by one


def short_table(seed, states=3, actions=2, limit=4):
    """Episodes begin in every state, return to it, end and are cut."""
    outcomes = random_outcomes(np.random.default_rng(seed), states, actions, branching=2, stop=0.3, masks=False)
    return TransitionTable.from_outcomes(outcomes, starts=list(range(states)), horizon=limit)


def skewed_policy(table, seed):
    pi = np.random.default_rng(seed).dirichlet(np.ones(table.n_actions), size=table.n_states)
    return np.where(table.legal_actions, pi, 0.0) / np.where(table.legal_actions, pi, 0.0).sum(1, keepdims=True)


DEFINED = {
    "backward": (ctd.BackwardLambda(), lambda every, truth: every.backward),
    "visit": (ctd.VisitLambda(), lambda every, truth: lambda story, t: 0.0),
    "greedy": (ctd.GreedyLambda(), lambda every, truth: every.greedy(truth)),
    "value": (ctd.ValueLambda(0.8), lambda every, truth: every.value_kernel(truth, 0.8, True)),
    "value, world": (
        ctd.ValueLambda(0.8, policy_noise=False),
        lambda every, truth: every.value_kernel(truth, 0.8, False),
    ),
    "expected": (ctd.ExpectedLambda(), lambda every, truth: every.expected(True)),
    "expected, world": (ctd.ExpectedLambda(policy_noise=False), lambda every, truth: every.expected(False)),
    "forward, world": (ctd.ForwardLambda(policy_noise=False), lambda every, truth: every.forward(False)),
}


@pytest.mark.uncompiled
@pytest.mark.parametrize("learner", ["td", "sarsa", "expected_sarsa"])
@pytest.mark.parametrize("name", DEFINED)
def test_update_and_variance_are_those_of_all_episodes(name, learner):
    """E[Σ δ e] at any values is visits · A (fixed point − values); E[U²] at the fixed point is the variance."""
    source, define = DEFINED[name]
    for seed in (1, 2):
        table = short_table(seed)
        needs_legal = "legal" in source.inputs({"td": 0, "sarsa": 1, "expected_sarsa": 2}[learner])
        pi = table.legal_actions / 2 if needs_legal else skewed_policy(table, seed)
        found = fixed_point(table, source, learner=learner, discount=0.9, policy=pi if not needs_legal else "uniform")
        every = Enumerated(table, pi, learner, 0.9)
        lambda_ = define(every, found.truth[:, 0])
        values, settled = np.random.default_rng(seed).normal(size=found.visits.size), found.values[:, 0]
        mean = found.visits * (found.update[:, :, 0] @ (settled - values))
        np.testing.assert_allclose(every.mean_update(values, lambda_), mean, atol=1e-9)
        squares = np.zeros(found.visits.size)
        for p, row, u in every.targets(settled, lambda_):
            squares[row] += p * u**2
        np.testing.assert_allclose(squares / found.visits, found.variance[:, 0], rtol=1e-8, atol=1e-25)


def test_learners_of_the_best_action_by_all_episodes():
    """Q-learning with a λ that sees the outcome: E[Σ δ e] = 0, with the best actions of the fixed point itself."""
    for seed in (1, 2, 3):
        table = short_table(seed)
        pi = skewed_policy(table, seed)
        found = fixed_point(table, ctd.ForwardLambda(), learner="q_learning", discount=0.9, policy=pi)
        every = Enumerated(table, pi, "q_learning", 0.9)
        update = every.mean_update(found.values[:, 0], every.forward(True))
        np.testing.assert_allclose(update, 0.0, atol=1e-9)
        assert found.max_bias > 1e-3


# ---- V^π

STATE_ONLY = {
    **{
        name: CLASSES[name]()
        for name in ("ExpectedLambda", "BackwardLambda", "VisitLambda", "GreedyLambda", "ValueLambda")
    },
    "without policy": ctd.ExpectedLambda(policy_noise=False),
    "value without policy": ctd.ValueLambda(policy_noise=False),
    "ConstantLambda": ctd.ConstantLambda(0.6),
    "AdaptiveLambda": ctd.AdaptiveLambda(),
    "MetaGradientLambda": ctd.MetaGradientLambda(per_state=True),
}
OF_THE_ACTION = {"WatkinsLambda": ctd.WatkinsLambda(0.7)}
OF_THE_OUTCOME = {"ForwardLambda": ctd.ForwardLambda(), "FactoredLambda": ctd.FactoredLambda()}

problems = st.builds(
    random_table,
    st.integers(0, 10**6),
    states=st.integers(1, 5),
    actions=st.integers(1, 3),
    horizon=st.sampled_from([7, 500]),
    starts=st.just(1),
    stop=st.sampled_from([0.1, 0.5]),
)


def made_up(source, table, rows, seed):
    """Arrays that a source without a limit may have learned."""
    rng, (S, A) = np.random.default_rng(seed), table.legal_actions.shape
    if isinstance(source, ctd.AdaptiveLambda):
        return {"number": 50.0, "mean": rng.normal(size=(S, A)), "variance": rng.random((S, A))}
    return {"theta": rng.normal(size=S)} if isinstance(source, ctd.MetaGradientLambda) else None


def test_every_source_is_tested():
    names = {type(source).__name__ for source in [*STATE_ONLY.values(), *OF_THE_ACTION.values()]}
    assert names | set(OF_THE_OUTCOME) == set(CLASSES)


@pytest.mark.uncompiled
@pytest.mark.parametrize("name", [*STATE_ONLY, *OF_THE_ACTION])
def test_a_lambda_that_knows_no_outcome_leaves_the_true_values(name):
    """V^π, Q^π or Q*, whatever the problem, the policy and what was learned."""
    source = {**STATE_ONLY, **OF_THE_ACTION}[name]
    learners = ["td", "sarsa", "expected_sarsa", "q_learning"]
    place = list({**STATE_ONLY, **OF_THE_ACTION}).index(name)
    chosen = [learners[place % 3 + 1]] + (["td"] if name in STATE_ONLY else [])  # each learner costs a compilation

    @settings(deadline=None, max_examples=8)
    @given(problems, st.floats(0, 0.99), st.integers(0, 1000))
    def check(table, discount, seed):
        greedy = {"values": np.random.default_rng(seed).normal(size=table.legal_actions.shape), "epsilon": 0.3}
        for learner in chosen:
            learned = made_up(source, table, None, seed)
            found = fixed_point(table, source, learner=learner, discount=discount, learned=learned, **greedy)
            assert found.max_bias < 1e-7
            assert np.nanmin(found.variance) > -1e-9

    check()


# ---- long simulations


def check_against_simulation(table, source, learner, *, seeds=64, episodes=8000, step_size=0.01, discount=0.9, **more):
    """The mean over seeds against the exact fixed point, in rows that are learned well; returns its distance.

    The offline view under a fixed policy is linear with independent episodes, so its mean is the fixed point itself for
    any step size, once the start is forgotten. 5 standard errors: fails by chance once in 10⁴ runs for 100 rows.
    """
    counted = {"came_from", "visits"} & set(source.asks(0))
    runs = simulate(
        table, learner=learner, lambda_source=source, model="counts" if counted else "oracle", step_sizes=step_size,
        seeds=np.arange(seeds), epsilon=1.0, discount=discount, episodes=episodes, view="offline", keep_values=True,
    )  # fmt: skip
    found = fixed_point(table, source, learner=learner, discount=discount, **more)
    learned = found.visits * step_size * episodes > 15
    assert learned.sum() >= 4
    values = runs.values[:, learned]
    error = values.std(axis=0, ddof=1) / np.sqrt(seeds)
    off = np.abs(values.mean(axis=0) - found.values[learned])
    assert (off < 5 * error + 1e-3 * np.abs(found.truth).max()).all()
    return np.abs(values.mean(axis=0) - found.truth[learned]) / np.maximum(error, 1e-12)


LONG = [
    (ctd.ConstantLambda(0.6), "td"),
    (ctd.ForwardLambda(), "td"),
    (ctd.ForwardLambda(), "sarsa"),
    (ctd.ForwardLambda(), "expected_sarsa"),
    (ctd.ForwardLambda(policy_noise=False), "td"),
    (ctd.ExpectedLambda(), "sarsa"),
    (ctd.ExpectedLambda(policy_noise=False), "td"),
    (ctd.WatkinsLambda(0.8), "expected_sarsa"),
    (ctd.BackwardLambda(), "td"),
    (ctd.BackwardLambda(), "sarsa"),
    (ctd.VisitLambda(), "expected_sarsa"),
    (ctd.ValueLambda(), "td"),
    (ctd.GreedyLambda(), "td"),
    (ctd.AdaptiveLambda(), "sarsa"),
    (ctd.MetaGradientLambda(), "td"),
]


SHORT = {"ForwardLambda", "BackwardLambda"}
"""One learner of each of these is simulated in every run of the tests, all others with `make test-all`."""


def _with_marks():
    seen = set()
    for source, learner in LONG:
        name = type(source).__name__
        marks = () if name in SHORT - seen else pytest.mark.long
        seen.add(name)
        yield pytest.param(source, learner, marks=marks, id=f"{source}-{learner}")


@pytest.mark.parametrize("seed", [24, *(pytest.param(seed, marks=pytest.mark.long) for seed in (25, 26))])
@pytest.mark.parametrize(("source", "learner"), list(_with_marks()))
def test_long_simulations_settle_there(source, learner, seed):
    outcomes = random_outcomes(np.random.default_rng(seed), 5, 2, stop=0.1, masks=False)
    table = TransitionTable.from_outcomes(outcomes, starts=[0, 1, 2, 3, 4], horizon=8)
    without_limit = isinstance(source, ctd.AdaptiveLambda | ctd.MetaGradientLambda)
    more = {"learned": {}, "step_size": 0.03} if without_limit else {}  # λ is often 0: values settle more slowly
    off = check_against_simulation(table, source, learner, **more)
    if isinstance(source, ctd.ForwardLambda) and seed == 24:
        assert off.max() > 10  # and not on the true values, which lie far off in this problem


@pytest.mark.long
def test_factored_sources_settle_there():
    table = TransitionTable.from_dynamics(KeyToDoor.make(horizon=3, distractors=1))
    source = ctd.FactoredLambda()
    found = fixed_point(table, source, learner="expected_sarsa")
    assert found.values.shape == (table.n_states * 2, len(table.nvec))
    check_against_simulation(table, source, "expected_sarsa", discount=1.0, step_size=0.05)


def test_every_source_is_simulated():
    assert {type(source).__name__ for source, _ in LONG} | {"FactoredLambda"} == set(CLASSES)


@pytest.mark.long
def test_long_simulations_of_q_learning_settle_there():
    """One action is best by far everywhere, so that the best of noisy values is hardly ever another one."""
    outcomes = {0: {a: [(0.9, 1, a, False), (0.1, 2, a, False)] for a in (0, 1)}}
    outcomes |= {s: {a: [(0.8, 3, s + 2 * a, True), (0.2, 4, -1.0 * a, True)] for a in (0, 1)} for s in (1, 2)}
    outcomes |= {3: {}, 4: {}}
    table = TransitionTable.from_outcomes(outcomes, starts=0, horizon=5)
    off = check_against_simulation(table, ctd.ForwardLambda(), "q_learning", step_size=0.005, episodes=20_000)
    assert off.max() > 10


# ---- what counts tend to


def test_backward_counts_tend_to_the_predecessors_of_the_policy():
    outcomes = random_outcomes(np.random.default_rng(3), 4, 2, stop=0.2, masks=False)
    table = TransitionTable.from_outcomes(outcomes, starts=[0, 1], horizon=6)
    agent = ctd.ChunkedTD(table.env(), lambda_source=ctd.BackwardLambda(), seed=0)
    agent.learn(table.env(), 4000, progress=False)
    problem = Problem.make(table, "td", 0.9, "uniform", None, None)
    chain = Chain.make(problem, Places.after_pairs(problem, actions=False))
    model = LimitModel.make(chain, Chain.make(problem, Places.without_memory(table)))
    checked = 0
    for place, (state, previous) in enumerate(zip(chain.places.state, chain.places.previous, strict=True)):
        if previous >= 0:
            counted = ctd.models.counts.probability(agent.counts, state, previous // 2)
            assert counted == pytest.approx(model.came[2 * place], abs=0.03)
            checked += 1
    assert checked >= 8


def test_too_many_ways_are_refused():
    states = 150
    dense = [[[(1 / states, s, 0.0, False) for s in range(states)]] for _ in range(states)]
    table = TransitionTable.from_outcomes(dense, starts=0, horizon=30)
    with pytest.raises(ValueError, match=r"problem must have at most 20,000 states and ways to them"):
        fixed_point(table, ctd.BackwardLambda(), discount=0.9)


@pytest.mark.parametrize(
    "source",
    [ctd.AdaptiveLambda(), ctd.MetaGradientLambda(), ctd.GreedyLambda(least_weight=0.1)],
    ids=str,
)
def test_sources_without_a_limit_say_so(source):
    name, arrays = type(source).__name__, ", ".join(source.arrays)
    with pytest.raises(ValueError, match=rf"learned must be given for {name}: its arrays {arrays}.*; \w"):
        fixed_point(SkewedSplit.make(), source)


def test_a_source_of_ones_own_that_learns_needs_what_it_has_learned():
    @dataclass(frozen=True)
    class Given(ctd.LambdaSource):
        arrays: ClassVar[dict[str, str]] = {"level": "float64[1]"}

        @staticmethod
        @ctd.kernel
        def lambda_t(source, step, i):
            return source.level[0]

        @staticmethod
        @ctd.kernel
        def after_step(source, step, reward, td_error, ended):
            pass

    table = random_table(0)
    with pytest.raises(ValueError, match=r"learned must be given for Given: its arrays level"):
        fixed_point(table, Given())
    found, same = fixed_point(table, Given(), learned={"level": 0.4}), fixed_point(table, 0.4)
    np.testing.assert_allclose(found.variance, same.variance)


# ---- the policy's own randomness


def test_policy_noise_and_the_fixed_point():
    """A decision, then its reward, in a certain world: without policy noise λ = 1, with it λ = ½."""
    table = TransitionTable.from_outcomes(
        {0: {0: [(1, 1, 0, False)]}, 1: {0: [(1, 2, 1, False)], 1: [(1, 3, -1, False)]}}
        | {s: {0: [(1, 4, 0, True)]} for s in (2, 3)}
        | {4: {}},
        starts=0,
    )
    for source, variance in (
        (ctd.ExpectedLambda(), 0.25),
        (ctd.ExpectedLambda(policy_noise=False), 1.0),
        (ctd.ForwardLambda(policy_noise=False), 1.0),
    ):
        found = fixed_point(table, source, learner="td")
        assert found.max_bias < 1e-12
        assert found.variance[0, 0] == pytest.approx(variance)
