"""λ sources on processes that are known: variances, probabilities, calibration."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from studies.networks.lambdas import (
    DeepLambdaGreedy,
    DeepMetaGradient,
    DeepPercepts,
    DeepTrueModel,
    DeepValueKernel,
)
from studies.networks.lambdas.base import DeepConstant, NextDraws, SourceSizes, StreamCredit, Transitions, V
from studies.networks.spaces import Categories, Continuous, Grid

GAMMA = 0.9
SPREAD = np.array([0.0, 0.5, 2.0])  # of the next value, by state
CHANCE = np.array([[0.5, 0.5], [0.9, 0.1], [1.0, 0.0]])  # of the next second component, by state


def known_transitions(rng, steps=32, batch=16):
    """States 0..2 and a component 0..1 that depends on the state before; V(x') spreads by the state."""
    state, following = rng.integers(3, size=(2, steps, batch))
    component = (rng.random((steps, batch)) >= CHANCE[state, 0]).astype(int)
    next_values = 1.0 + SPREAD[state] * rng.normal(size=(steps, batch))
    space = Categories((3, 2))
    here, after = jnp.stack([state, 0 * state], -1), jnp.stack([0 * following, component], -1)
    coded = {"inputs": space.inputs(here), "next_inputs": space.inputs(after), "codes": here, "next_codes": after}
    numbers = {"next_value": jnp.float32(next_values), "td_error": jnp.float32(GAMMA * next_values)}
    return state, component, next_values, transitions(steps, batch, discount=jnp.float32(GAMMA), **coded, **numbers)


def trained(source, updates=60):
    """(state, component, next values, λ) of the last of many rollouts that a source learned from."""
    rng = np.random.default_rng(0)
    now = source.init(jax.random.key(0), SourceSizes(5, 0, (3, 2), 1, V, 16))
    step = jax.jit(source.step)
    for _ in range(updates):
        *truth, given = known_transitions(rng)
        now, lambdas = step(now, given)
    return *truth, np.asarray(lambdas)


def test_the_value_kernel_finds_the_variance_of_the_next_value():
    state, _, next_values, lambdas = trained(DeepValueKernel(c=0.5, batch_rate=0.1), updates=200)
    tau = 0.5 * np.sqrt(np.mean((GAMMA * next_values) ** 2))
    for s in range(3):
        expected = (1 + 2 * (GAMMA * SPREAD[s]) ** 2 / tau**2) ** -0.5
        assert lambdas[state == s].mean() == pytest.approx(expected, abs=0.08)


@pytest.mark.parametrize("form", ["expected", "realised"])
def test_the_percept_model_finds_probabilities(form):
    state, component, _, lambdas = trained(DeepPercepts(form, hidden=16, learning_rate=2e-3), updates=250)
    for s in range(3):
        for k in range(2):
            here = (state == s) & (component == k)
            if here.any():
                want = CHANCE[s] @ CHANCE[s] if form == "expected" else CHANCE[s, k]
                assert lambdas[here].mean() == pytest.approx(want, abs=0.06)


def test_the_expected_form_depends_on_the_state_alone_and_the_realised_one_does_not():
    for form, constant in (("expected", True), ("realised", False)):
        state, _, _, lambdas = trained(DeepPercepts(form, hidden=16, learning_rate=0.02), updates=20)
        spread = np.ptp(lambdas[state == 1])
        assert (spread < 1e-5) == constant


def test_policies_mix_what_actions_lead_to():
    """Two actions with certain but different outcomes: P given the policy is π, and the expected form is 1."""
    rng, space = np.random.default_rng(0), Categories((2,))
    policy = jnp.broadcast_to(jnp.array([0.8, 0.2]), (32, 8, 2))
    for form in ("realised", "expected"):
        source = DeepPercepts(form, hidden=8, learning_rate=0.05)
        now, step = source.init(jax.random.key(0), SourceSizes(2, 0, (2,), 2, V, 8)), jax.jit(source.step)
        for _ in range(40):
            action = (rng.random((32, 8)) < 0.2).astype(int)
            before, after = jnp.zeros((32, 8, 1), int), jnp.asarray(action)[..., None]
            coded = {"codes": before, "next_codes": after}
            coded |= {"inputs": space.inputs(before), "next_inputs": space.inputs(after)}
            now, lambdas = step(now, transitions(32, 8, action=jnp.asarray(action), policy=policy, **coded))
        want = np.where(action == 1, 0.2, 0.8) if form == "realised" else 1.0
        np.testing.assert_allclose(lambdas, want, atol=0.03)


def transitions(steps, batch, **given):
    zeros = jnp.zeros((steps, batch))
    fields = {name: zeros for name in ("reward", "next_value", "value", "td_error")}
    fields |= {"start": zeros > 0, "terminated": zeros > 0, "action": zeros.astype(int)}
    blank = jnp.zeros((steps, batch, 0))
    fields |= {"inputs": blank, "next_inputs": blank, "features": blank, "next_features": blank}
    fields |= {"policy": jnp.ones((steps, batch, 1))}
    fields |= {"codes": blank.astype(int), "next_codes": blank.astype(int), "discount": jnp.float32(1.0)}
    return Transitions(**(fields | given))


def test_lambda_greedy_is_one_where_the_return_is_certain_and_small_where_it_is_noisy():
    """State 0: return 1 always, value 0. State 1: return ±3, value 0: no bias, only variance."""
    rng, source = np.random.default_rng(0), DeepLambdaGreedy(rate=0.1)
    state = source.init(jax.random.key(0), SourceSizes(2, 0, (2,), 0, batch=16))
    learn = jax.jit(source.learn)
    for _ in range(100):
        which = rng.integers(2, size=(4, 16))
        x = jnp.asarray(np.eye(2)[which], jnp.float32)
        reward = jnp.asarray(np.where(which == 0, 1.0, rng.choice([-3.0, 3.0], size=which.shape)), jnp.float32)
        over = jnp.ones((4, 16), bool)
        t = transitions(4, 16, inputs=x, next_inputs=x, reward=reward, terminated=over, start=over)
        state = learn(state, t)
    lambdas = np.asarray(source.lambdas(state, t))
    assert lambdas[which == 0].mean() > 0.8
    assert lambdas[which == 1].mean() < 0.2


def test_the_true_model_counts_pairs_of_draws():
    codes = jnp.asarray([0, 0, 1, 0])[None, None, :, None]
    values = jnp.asarray([1.0, 1.0, 3.0, 1.0])[None, None]
    draws = NextDraws(codes, values, jnp.zeros((1, 1, 4), int))
    t = transitions(1, 1, next_codes=jnp.zeros((1, 1, 1), int), draws=draws)
    t = t._replace(td_error=jnp.full((1, 1), 2.0))
    for form, want in (
        ("realised", 3 / 4),
        ("expected", 3 / 6),
        ("per-action", 3 / 6),
        ("kernel", 0.5 + 0.5 * np.exp(-2.0)),
    ):
        source = DeepTrueModel(form, c=0.5)
        state = source.learn(source.init(jax.random.key(0), SourceSizes(1, 0, (2,), 2)), t)
        assert float(source.lambdas(state, t)[0, 0]) == pytest.approx(want, rel=1e-5)


def test_the_true_model_pairs_draws_as_learned_models_do():
    """Two actions, each with one outcome: certain given the action, not given the state."""
    codes = jnp.asarray([0, 0, 0, 1, 1, 1])[None, None, :, None]
    draws = NextDraws(codes, codes[..., 0] * 50.0, jnp.asarray([0, 0, 0, 1, 1, 1])[None, None])
    t = transitions(1, 1, next_codes=jnp.zeros((1, 1, 1), int), td_error=jnp.ones((1, 1)), draws=draws)
    for form, want in (("per-action", 1.0), ("expected", 0.0), ("kernel", 0.0)):
        source = DeepTrueModel(form)
        state = source.learn(source.init(jax.random.key(0), SourceSizes(1, 0, (2,), 2)), t)
        assert float(source.lambdas(state, t)[0, 0]) == pytest.approx(want, abs=1e-6)


def follow_meta_gradient(source, inputs, targets, psi, step_size, discount=0.9):
    """Weights of a linear critic with targets that do not depend on it, and the state of the source after them."""
    state = source.with_parameters(source.init(jax.random.key(0), SourceSizes(3, 0, (2,), 0)), jnp.zeros(3))
    state = state._replace(psi=jnp.float32(psi))
    weights = trace = jnp.zeros(3)
    for x, y in zip(inputs, targets, strict=True):
        before, trace = trace, discount * jax.nn.sigmoid(psi) * trace + x
        error = y - weights @ x
        no = jnp.zeros((), bool)
        credit = StreamCredit(before, trace, x, error, jnp.float32(step_size), jnp.float32(discount), no)
        state = source.after(state, credit)._replace(psi=jnp.float32(psi))
        weights = weights + step_size * error * trace
    return weights, state


def test_the_meta_gradient_carries_the_derivative_of_the_weights():
    rng = np.random.default_rng(0)
    inputs, targets = jnp.asarray(rng.normal(size=(12, 3)), jnp.float32), jnp.asarray(rng.normal(size=12), jnp.float32)
    source, small = DeepMetaGradient(), 0.02
    below, above = (follow_meta_gradient(source, inputs, targets, 0.4 + d, 0.1)[0] for d in (-small, small))
    state = follow_meta_gradient(source, inputs, targets, 0.4, 0.1)[1]
    np.testing.assert_allclose(state.weights, (above - below) / (2 * small), rtol=0.02, atol=1e-4)


def test_the_meta_gradient_stays_finite_where_steps_overshoot():
    rng = np.random.default_rng(0)
    inputs, targets = jnp.asarray(rng.normal(size=(60, 3)), jnp.float32), jnp.ones(60)
    sizes = []
    for source in (DeepMetaGradient(), DeepMetaGradient(bound=1e30)):
        state = follow_meta_gradient(source, inputs, targets, 2.0, 1.0)[1]
        sizes.append(float(jnp.linalg.norm(state.weights)))
    assert sizes[0] <= 1_001.0
    assert not sizes[1] < 1e6  # without the bound it would not


def test_a_constant_source_is_constant():
    assert set(trained(DeepConstant(0.7), updates=1)[-1].ravel().tolist()) == {np.float32(0.7).item()}


def test_spaces_give_inputs_and_codes():
    grid = Grid((2, 2), 3)
    picture = jnp.asarray([[0, 2], [1, 0]])
    assert grid.codes(picture).tolist() == [0, 2, 1, 0]
    assert grid.inputs(picture).reshape(4, 3).argmax(1).tolist() == [0, 2, 1, 0]
    box = Continuous((-1.0, 0.0), (1.0, 4.0), bins=4)
    assert box.codes(jnp.asarray([[-9.0, 0.0], [0.1, 3.9], [1.0, 9.0]])).tolist() == [[0, 0], [2, 3], [3, 3]]
    wide = Categories((2, 1_000))
    assert wide.inputs(jnp.asarray([1, 999])).tolist() == [0.0, 1.0, 1.0]
