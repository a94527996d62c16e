"""Streaming learners: the linear case is the tabular algorithm; a run does not depend on its neighbours."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chunked_td.traces import Trace, clear, decay, mark, reinforce
from studies.networks.agents.streaming import (
    StreamingAgent,
    StreamingSettings,
    learn_step,
    make_learned,
    step_bound,
)
from studies.networks.lambdas import SOURCES
from studies.networks.lambdas.base import DeepConstant, DeepSwitch
from studies.networks.networks import apply_mlp
from studies.networks.program import make_agent, start_fleet, train_fleet
from studies.networks.tasks import CatchTask, ChargeTask

STATES, ACTIONS, GAMMA, ALPHA = 5, 3, 0.9, 0.05
TINY = ChargeTask(horizon=4, points=2)


@pytest.mark.parametrize("rule", ["sarsa", "actor-critic"])
def test_the_linear_case_is_the_librarys_tabular_td_lambda(rule):
    """Random transitions with a λ per step and cycles: weights equal the table that the trace kernels keep."""
    rng = np.random.default_rng(0)
    settings = StreamingSettings(rule=rule, hidden=(), discount=GAMMA, bounded=False, sparsity=0.0)
    learned = make_learned(settings, STATES, ACTIONS, jax.random.key(0))
    rows = STATES if rule == "actor-critic" else STATES * ACTIONS
    table, trace = np.zeros((rows, 1)), Trace.empty(rows, 1)
    step = jax.jit(learn_step, static_argnums=0)
    for _ in range(200):
        s, a, r, s2, a2 = *rng.integers((STATES, ACTIONS)), rng.normal(), *rng.integers((STATES, ACTIONS))
        lambda_, ended = rng.random(), rng.random() < 0.1
        row, row2 = (s, s2) if rule == "actor-critic" else (s * ACTIONS + a, s2 * ACTIONS + a2)
        delta = r + (0.0 if ended else GAMMA * table[row2, 0]) - table[row, 0]
        x, x2 = np.eye(STATES, dtype=np.float32)[[s, s2]]
        index = (0, 0) if rule == "actor-critic" else (a, a2)
        value, bootstrap = (float(apply_mlp(learned.critic, z)[0][i]) for z, i in zip((x, x2), index, strict=True))
        error = r + (0.0 if ended else GAMMA * bootstrap) - value
        learned, _ = step(settings, learned, x, a, error, lambda_, ended, ALPHA)
        # The bias of the linear layer is a second set of weights with its own trace; the table has none.
        learned = learned._replace(
            critic=learned.critic._replace(biases=jax.tree.map(jnp.zeros_like, learned.critic.biases))
        )
        decay(trace, GAMMA, np.array([lambda_]), 0.0)
        mark(trace, row, False)
        reinforce(table, trace, ALPHA, np.array([delta]))
        if ended:
            clear(trace)
    weights = np.asarray(learned.critic.weights[0])
    np.testing.assert_allclose(weights.T.reshape(-1), table[:, 0], atol=1e-6)
    assert np.abs(table).max() > 0.1


def test_traces_add_up_to_the_forward_view():
    """A gradient k steps back weighs Π γλ of the steps since, as its TD error does in the λ-return."""
    from chunked_td.returns import td_lambda

    rng = np.random.default_rng(1)
    settings = StreamingSettings(hidden=(8,), discount=GAMMA, bounded=False)
    learned = make_learned(settings, STATES, ACTIONS, jax.random.key(1))
    critic = learned.critic._replace(
        weights=(*learned.critic.weights[:-1], jnp.asarray(rng.normal(size=(ACTIONS, 8)), jnp.float32))
    )
    learned = learned._replace(critic=critic)
    steps = 12
    x = np.eye(STATES, dtype=np.float32)[rng.integers(STATES, size=steps + 1)]
    a, r, lambda_ = rng.integers(ACTIONS, size=steps + 1), rng.normal(size=steps), rng.random(steps)
    values = np.array([float(apply_mlp(critic, x[t])[0][a[t]]) for t in range(steps + 1)])
    values[-1] = 0.0
    now = learned
    for t in range(steps):
        now, credit = learn_step(settings, now, x[t], a[t], 0.0, lambda_[t], False, 1.0)  # no error: weights stay
    expected = jax.tree.map(jnp.zeros_like, critic)
    for k in range(steps):
        gradient = jax.grad(lambda w, k=k: apply_mlp(w, x[k])[0][a[k]])(critic)
        weight = np.prod(GAMMA * lambda_[k + 1 : steps])
        expected = jax.tree.map(lambda e, g, weight=weight: e + weight * g, expected, gradient)
    for got, want in zip(jax.tree.leaves(credit.trace), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-6)
    errors = td_lambda(values[:-1], r, np.full(steps, GAMMA), values[1:], np.append(lambda_[1:], 0.0))
    deltas = r + GAMMA * values[1:] - values[:-1]
    by_trace = [sum(np.prod(GAMMA * lambda_[k + 1 : t + 1]) * deltas[t] for t in range(k, steps)) for k in range(steps)]
    np.testing.assert_allclose(errors, by_trace, atol=1e-12)


def test_a_bounded_step_does_not_overshoot():
    """After the step the error on the same transition has not changed its sign, however large it was."""
    settings = StreamingSettings(hidden=(8, 8), sparsity=0.0)
    learned = make_learned(settings, STATES, ACTIONS, jax.random.key(0))
    x = jnp.ones(STATES)
    for error in (0.5, 1e3):
        moved, credit = learn_step(settings, learned, x, 1, error, 0.9, False, 1.0)
        change = apply_mlp(moved.critic, x)[0][1] - apply_mlp(learned.critic, x)[0][1]
        assert 0 < float(change) < error
        assert float(credit.step_size) == pytest.approx(float(step_bound(settings, credit.trace, error, 2.0)))


@pytest.mark.parametrize("rule", ["sarsa", "q", "actor-critic"])
def test_the_compiled_block_is_the_loop_of_single_steps(rule):
    agent = StreamingAgent(TINY, DeepConstant(0.8), StreamingSettings(rule=rule, hidden=(8,), explore=20))
    state = agent.start(3)
    step = jax.jit(lambda s: agent.step(0.3, s)[0])
    looped = state
    for _ in range(25):
        looped = step(looped)
    scanned, tally = jax.jit(lambda s: agent.block(0.3, s, 25))(state)
    for got, want in zip(jax.tree.leaves(scanned.learned), jax.tree.leaves(looped.learned), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-6)
    assert int(tally.steps) == 25
    assert int(tally.episodes) == 6


def test_a_run_does_not_depend_on_the_runs_beside_it():
    agent = make_agent("sarsa", TINY, SOURCES["value-kernel"], hidden=(8,))
    three, _ = train_fleet(agent, jnp.full(3, 0.3), start_fleet(agent, jnp.array([7, 8, 9])), 40)
    two, _ = train_fleet(agent, jnp.full(2, 0.3), start_fleet(agent, jnp.array([9, 7])), 40)
    for got, want in zip(jax.tree.leaves(three.learned), jax.tree.leaves(two.learned), strict=True):
        np.testing.assert_allclose(got[jnp.array([2, 0])], want, rtol=1e-4, atol=1e-6)


def test_watkins_cuts_the_trace_at_actions_that_are_not_greedy():
    """With ε = 1 and random values, Q(1) has a λ of 1 or 0, SARSA(1) of 1 only."""
    means = {}
    for rule in ("q", "sarsa"):
        agent = make_agent(rule, CatchTask(), DeepConstant(1.0), hidden=(8,), epsilon=1.0)
        _, tally = train_fleet(agent, jnp.full(2, 1.0), start_fleet(agent, jnp.arange(2)), 300)
        means[rule] = float(tally.lambda_.sum() / tally.steps.sum())
        assert float(tally.lambda_.sum()) == int(tally.lambda_.sum())
    assert means["sarsa"] == 1.0
    assert means["q"] < 0.9


def test_the_switch_gives_every_run_what_its_own_source_gives():
    sources = (SOURCES["value-kernel"], SOURCES["meta-gradient"])
    switch = make_agent("sarsa", TINY, DeepSwitch(sources), hidden=(8,))
    states = start_fleet(switch, jnp.zeros(3, jnp.int32))
    chosen = states.source._replace(which=jnp.array([0, 1, 2]), fixed=jnp.full(3, 0.4))
    trained, together = train_fleet(switch, jnp.full(3, 0.3), states._replace(source=chosen), 60)
    for k, source in enumerate((DeepConstant(0.4), *sources)):
        alone = make_agent("sarsa", TINY, source, hidden=(8,))
        apart, tally = train_fleet(alone, jnp.full(1, 0.3), start_fleet(alone, jnp.zeros(1, jnp.int32)), 60)
        np.testing.assert_allclose(together.lambda_[k], tally.lambda_[0], rtol=1e-4)
        for got, want in zip(jax.tree.leaves(trained.learned), jax.tree.leaves(apart.learned), strict=True):
            np.testing.assert_allclose(got[k], want[0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("agent", ["sarsa", "actor-critic", "ppo"])
def test_agents_learn_what_is_easy(agent):
    """The first action of a small Accumulated-Charge with a large bonus. Chance is 0.5; error rate below 1e-3."""
    task = ChargeTask(horizon=4, points=1, bonus=3.0)
    small = {"environments": 8, "steps": 16, "hidden": (16,)} if agent == "ppo" else {"hidden": (16,)}
    small |= {} if agent == "ppo" else {"explore": 500}
    made = make_agent(agent, task, SOURCES["value-kernel"], **small)
    states, sizes = start_fleet(made, jnp.arange(4)), jnp.full(4, 0.01 if agent == "ppo" else 1.0)
    for _ in range(4):
        states, tally = train_fleet(made, sizes, states, 1_500)
    assert tally.score.sum() / tally.episodes.sum() > 0.85
