"""Maturity and luck in networks against their definitions: the tabular algorithm, a loop, exact means."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from studies.networks.agents.ppo import PpoAgent, PpoSettings
from studies.networks.agents.streaming import StreamingAgent, StreamingSettings, learn_step, make_learned
from studies.networks.lambdas import make_source
from studies.networks.lambdas.base import DeepConstant, DeepSwitch, SourceSizes, Transitions
from studies.networks.lambdas.maturity import DeepMature
from studies.networks.networks import apply_mlp
from studies.networks.program import make_agent, start_fleet, train_fleet
from studies.networks.tasks import CatchTask, ChargeTask

STATES, ACTIONS, GAMMA, ALPHA = 5, 3, 0.9, 0.05
TINY = ChargeTask(horizon=4, points=2)
HALF = DeepMature(DeepConstant(0.5))


def transitions(x, x2, a, ended, mix=None, next_mix=None, start=None):
    """Transitions [T, B] on one-hot inputs that the critic reads as they are."""
    blank = jnp.zeros(np.shape(a))
    return Transitions(
        inputs=x, next_inputs=x2, features=x, next_features=x2, codes=blank, next_codes=blank, action=jnp.asarray(a),
        policy=blank, reward=blank, next_value=blank, value=blank, td_error=blank,
        start=blank > 0 if start is None else start, terminated=jnp.asarray(ended), discount=jnp.asarray(GAMMA),
        mix=mix, next_mix=next_mix,
    )  # fmt: skip


@pytest.mark.parametrize("rule", ["sarsa", "actor-critic"])
def test_the_linear_case_is_tabular_maturity(rule):
    """I ← I + α e (γ Σ π I(x', ·) − I(row)) with the traces of Q, and λ' = 1 − (1 − λ)(1 − Σ π I(x, ·))."""
    rng = np.random.default_rng(0)
    settings = StreamingSettings(rule=rule, hidden=(), discount=GAMMA, bounded=False, sparsity=0.0)
    learned = make_learned(settings, STATES, ACTIONS, jax.random.key(0))
    outputs = 1 if rule == "actor-critic" else ACTIONS
    state = HALF.init(jax.random.key(0), SourceSizes(STATES, STATES, (), ACTIONS, "q" if outputs > 1 else "v"))
    table, trace = np.ones((STATES, outputs)), np.zeros((STATES, outputs))
    say, learn, settle = jax.jit(HALF.step), jax.jit(learn_step, static_argnums=0), jax.jit(HALF.after)
    for _ in range(200):
        s, a, s2, ended = rng.integers(STATES), rng.integers(ACTIONS), rng.integers(STATES), rng.random() < 0.1
        mix, next_mix = rng.dirichlet(np.ones(outputs), 2)
        x, x2 = np.eye(STATES, dtype=np.float32)[[s, s2]]
        one = [jnp.asarray(v)[None, None] for v in (x, x2, a, ended, mix, next_mix)]
        state, lambdas = say(state, transitions(*one))
        lambda_ = 1 - 0.5 * (1 - mix @ table[s])
        np.testing.assert_allclose(lambdas[0, 0], lambda_, atol=1e-5)
        learned, credit = learn(settings, learned, x, a, rng.normal(), lambda_, ended, ALPHA)
        state = settle(state, credit)
        # The bias is a second set of weights with its own trace; the table has none.
        state = state._replace(head=state.head.at[:, -1].set(1.0))
        row = (s, a if outputs > 1 else 0)
        trace *= GAMMA * lambda_
        trace[row] += 1.0
        table += ALPHA * ((0.0 if ended else GAMMA * next_mix @ table[s2]) - table[row]) * trace
        trace *= not ended
    np.testing.assert_allclose(np.asarray(state.head[:, :-1]).T + 1.0, table, atol=1e-5)
    assert table.max() < 0.9
    assert table.min() > 0.0  # nothing was clipped


def test_a_rollout_moves_the_head_towards_its_own_lambda_returns():
    rng = np.random.default_rng(1)
    steps, source = 7, DeepMature(DeepConstant(0.5), batch_rate=0.3)  # 7 steps: one update each
    places = rng.integers(STATES, size=steps + 1)
    x = np.eye(STATES, dtype=np.float32)[places][:, None]
    ended, start = np.zeros((steps, 1), bool), np.zeros((steps, 1), bool)
    ended[2], start[3], start[5] = True, True, True  # the episode that begins at 3 was cut before 5
    state = source.init(jax.random.key(0), SourceSizes(STATES, STATES, (), ACTIONS))
    state = state._replace(head=jnp.asarray(rng.random((1, STATES + 1)) * 0.4, jnp.float32))
    w = np.asarray(state.head[0], np.float64)
    table = w[:-1] + w[-1]
    given = transitions(jnp.asarray(x[:-1]), jnp.asarray(x[1:]), np.zeros((steps, 1), int), ended, start=start)
    after, lambdas = jax.jit(source.step)(state, given)
    later, targets = 0.0, np.zeros(steps)
    for t in reversed(range(steps)):
        here, ahead = table[places[t]], 0.0 if ended[t, 0] else table[places[t + 1]]
        goes_on = t + 1 < steps and not ended[t, 0] and not start[t + 1, 0]
        later = GAMMA * ahead - here + (GAMMA * (1 - 0.5 * (1 - table[places[t + 1]])) * later if goes_on else 0.0)
        targets[t] = here + later
    for t in range(steps):
        phi = np.append(x[t, 0], 1.0)
        w += 0.3 * (targets[t] - phi @ w) * phi / (phi @ phi)
    np.testing.assert_allclose(after.head[0], w, atol=1e-5)
    np.testing.assert_allclose(lambdas[:, 0], 1 - 0.5 * (1 - (w[:-1] + w[-1])[places[:-1]]), atol=1e-5)


@pytest.mark.parametrize("agent", ["sarsa", pytest.param("q", marks=pytest.mark.long), "actor-critic", "ppo"])
def test_lambda_begins_at_one_and_falls_to_that_of_the_source(agent):
    small = {"environments": 4, "steps": 16} if agent == "ppo" else {"epsilon": 0.0, "explore": 1}
    made = make_agent(agent, TINY, HALF, hidden=(8,), **small)
    states, rates = start_fleet(made, jnp.arange(2)), jnp.full(2, 1e-3 if agent == "ppo" else 0.3)
    assert np.asarray(states.source.head[..., -1] == 1.0).all()
    states, first = train_fleet(made, rates, states, 64 if agent == "ppo" else 4)
    for _ in range(4):
        states, last = train_fleet(made, rates, states, 512)
    early, late = (float(jnp.sum(tally.lambda_) / jnp.sum(tally.steps)) for tally in (first, last))
    assert 0.5 < late < 0.62
    assert early > late + 0.05


class Noting(DeepConstant):
    """λ = 0, and the latest TD error as its state."""

    def init(self, key, sizes):
        return jnp.zeros(())

    def after(self, state, credit):
        return credit.td_error


@pytest.mark.parametrize("rule", ["sarsa", "q", "actor-critic"])
def test_with_luck_the_td_error_is_its_mean_over_draws(rule):
    """At the charging step of a tiny task the gain is 0, 1 or 2 with probabilities ¼, ½ and ¼."""
    settings = StreamingSettings(rule=rule, hidden=(), explore=10, luck=4_000)
    agent = StreamingAgent(TINY, Noting(0.0), settings)
    now = agent.start(3)
    critic = now.learned.critic
    weights = jnp.asarray(np.random.default_rng(0).normal(size=critic.weights[0].shape), jnp.float32)
    now = now._replace(learned=now.learned._replace(critic=critic._replace(weights=(weights,))))
    step = jax.jit(lambda state: agent.step(0.0, state)[0])
    now = step(now)
    after = step(now)
    chosen = int(now.task.chosen)
    codes = jnp.array([[chosen, gain, 2] for gain in range(3)])
    q = np.asarray(apply_mlp(now.learned.critic, TINY.space.inputs(codes))[0], np.float64)
    greedy = np.eye(q.shape[1])[q.argmax(1)]
    policy = {"sarsa": 0.9 / q.shape[1] + 0.1 * greedy, "q": greedy, "actor-critic": 1.0}[rule]
    here = apply_mlp(now.learned.critic, now.inputs)[0][0 if rule == "actor-critic" else int(now.action)]
    mean = 0.99 * np.array([0.25, 0.5, 0.25]) @ np.sum(policy * q, 1) - float(here)
    assert float(after.source) == pytest.approx(mean, abs=5 * np.abs(q).max() / 4_000**0.5)


def test_with_luck_ppo_takes_the_mean_too_and_the_draw_that_came_only_sets_the_path():
    source, small = DeepConstant(0.7), {"hidden": (), "environments": 3, "steps": 6, "minibatches": 1}
    agent = PpoAgent(TINY, source, PpoSettings(**small, luck=2_000))
    now = agent.start(0)
    critic = now.networks.critic
    weights = jnp.asarray(np.random.default_rng(0).normal(size=critic.weights[0].shape), jnp.float32)
    now = now._replace(networks=now.networks._replace(critic=critic._replace(weights=(weights,))))
    state, rollout = jax.jit(agent.collect)(now)
    _, _, errors = jax.jit(agent.update)(1e-3, state, rollout)
    value = lambda *codes: float(apply_mlp(now.networks.critic, TINY.space.inputs(jnp.array(codes)))[0][0])  # noqa: E731
    for b in range(3):
        chosen = int(rollout.codes[1, b, 0])
        after = [value(chosen, gain, 2) for gain in range(3)]
        mean = 0.99 * np.dot([0.25, 0.5, 0.25], after) - value(*rollout.codes[1, b].tolist())
        assert errors[1, b] == pytest.approx(mean, abs=5 * np.abs(after).max() / 2_000**0.5)
    plain = PpoAgent(TINY, source, PpoSettings(**small))
    _, once = plain.collect(now._replace(luck=()))
    np.testing.assert_array_equal(once.codes, rollout.codes)


@pytest.mark.parametrize(  # SARSA draws its next actions, too
    ("agent", "task", "draws"),
    [
        ("q", TINY, 1),
        ("q", CatchTask(), None),
        ("ppo", TINY, 1),
        pytest.param("ppo", CatchTask(), None, marks=pytest.mark.long),
    ],
    ids=["q-charge", "q-catch", "ppo-charge", "ppo-catch"],
)
def test_one_draw_is_the_agent_without_luck_and_certain_tasks_have_none(agent, task, draws):
    small = {"environments": 4, "steps": 8} if agent == "ppo" else {}

    def trained(luck, draws=None):
        made = make_agent(agent, task, DeepConstant(0.8), hidden=(8,), luck=luck, **small)
        states = start_fleet(made, jnp.arange(3))
        if draws is not None:
            states = states._replace(luck=jnp.full(3, draws))
        after = train_fleet(made, jnp.full(3, 1e-3 if agent == "ppo" else 0.3), states, 64)[0]
        return jax.tree.leaves(after.networks if agent == "ppo" else after.learned)

    for got, want in zip(trained(3, draws), trained(1), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_arms_are_read_from_their_names():
    assert make_source("0.8-mature") == DeepMature(DeepConstant(0.8))
    assert make_source("value") == make_source("value-kernel")
    assert DeepMature(make_source("true-kernel")).needs_draws
    assert DeepSwitch((DeepMature(make_source("true-kernel")),)).needs_draws
