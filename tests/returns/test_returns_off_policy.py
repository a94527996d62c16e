"""Retrace and V-trace: against rlax, against explicit sums with a λ per step, and in their limits."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunked_td import returns
from helpers import return_definitions as definitions
from helpers.return_backends import BACKENDS, close

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # rlax's own dependencies use what JAX has deprecated
    import rlax

few = settings(max_examples=15)
SEEDS = st.integers(0, 10_000)
T, B, A = 6, 3, 4


def single(x):
    """Numbers that float32 holds exactly."""
    return x.astype(np.float32).astype(np.float64)


def off_policy_walk(seed):
    """One Q table for s_0..s_T, so that q_tm1 and q_t agree where they overlap."""
    rng = np.random.default_rng(seed)
    q = single(rng.normal(size=(T + 1, B, A)))
    actions = rng.integers(A, size=(T + 1, B))
    pi, mu = single(rng.dirichlet(np.ones(A), size=(T, B))), single(rng.uniform(0.05, 1.0, size=(T, B)))
    r_t, discount_t, lambda_t = single(rng.normal(size=(T, B))), single(rng.random((T, B))), single(rng.random((T, B)))
    discount_t[rng.random((T, B)) < 0.1] = 0.0
    lambda_t[rng.random((T, B)) < 0.2] = 1.0
    return [q[:-1], q[1:], actions[:-1], actions[1:], r_t, discount_t, pi, mu, lambda_t]


@pytest.mark.parametrize("backend", BACKENDS)
@given(SEEDS)
@few
def test_retrace_is_the_sum_of_corrected_td_errors(backend, seed):
    walk = off_policy_walk(seed)
    reference = np.stack([definitions.retrace_errors(*[argument[:, b] for argument in walk]) for b in range(B)], axis=1)
    close(backend(returns.retrace, *walk), reference, backend.tolerance, walk[0])
    # Batch-major: the same trajectories, actions still last.
    turned = [np.swapaxes(argument, 0, 1) for argument in walk]
    close(backend(returns.retrace, *turned, time_axis=1), reference.T, backend.tolerance, walk[0])


@given(SEEDS, st.sampled_from([0.0, 0.3, 1.0]))
@few
def test_retrace_with_one_lambda_is_rlax_s(seed, lambda_):
    walk = [argument[:, 0] for argument in off_policy_walk(seed)]
    with jax.enable_x64(True):
        theirs = np.asarray(jax.jit(rlax.retrace)(*walk[:-1], lambda_))
    np.testing.assert_allclose(returns.retrace(*walk[:-1], lambda_), theirs, rtol=1e-12, atol=1e-12)


@given(SEEDS, st.sampled_from([0.0, 0.3, 1.0, "per step"]), st.sampled_from([0.5, 1.0, 3.0]))
@few
def test_vtrace_is_rlax_s(seed, lambda_, clip):
    rng = np.random.default_rng(seed)
    v_tm1, v_t, r_t = rng.normal(size=(3, T))
    discount_t, rho_tm1 = rng.random(T), 2 * rng.random(T)
    lambda_t = rng.random(T) if lambda_ == "per step" else lambda_
    with jax.enable_x64(True):
        theirs = jax.jit(rlax.vtrace)(v_tm1, v_t, r_t, discount_t, rho_tm1, lambda_t, clip)
    ours = returns.vtrace(v_tm1, v_t, r_t, discount_t, rho_tm1, lambda_t, clip)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


@given(SEEDS)
@few
def test_on_policy_vtrace_is_td_lambda(seed):
    rng = np.random.default_rng(seed)
    v, r_t = rng.normal(size=T + 1), rng.normal(size=T)
    discount_t, lambda_t = rng.random((2, T))
    errors = returns.vtrace(v[:-1], v[1:], r_t, discount_t, np.ones(T), lambda_t)
    np.testing.assert_allclose(errors, returns.td_lambda(v[:-1], r_t, discount_t, v[1:], lambda_t), atol=1e-12)


@given(SEEDS)
@few
def test_retrace_of_a_deterministic_policy_is_sarsa_s_lambda_return(seed):
    """π = μ = always the action taken: Σ_a π Q = Q(s, a), and the ratio is 1."""
    q_tm1, q_t, a_tm1, a_t, r_t, discount_t, *_, lambda_t = off_policy_walk(seed)
    pi = np.eye(A)[a_t]
    errors = returns.retrace(q_tm1, q_t, a_tm1, a_t, r_t, discount_t, pi, np.ones((T, B)), lambda_t, eps=0.0)
    taken = np.take_along_axis(q_t, a_t[..., None], axis=-1)[..., 0]
    before = np.take_along_axis(q_tm1, a_tm1[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(errors, returns.td_lambda(before, r_t, discount_t, taken, lambda_t), atol=1e-12)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("a_t", np.full((T, B), 0.5), TypeError),
        ("a_t", np.full((T, B), -1), ValueError),
        ("a_t", np.full((T, B), A), ValueError),
        ("pi_t", np.full((T, B, A), 1.5), ValueError),
        ("pi_t", np.full((T, B), 0.5), ValueError),
        ("q_t", np.zeros((T, B, A + 1)), ValueError),
        ("mu_t", -np.ones((T, B)), ValueError),
        ("lambda_", 1.5, ValueError),
    ],
)
def test_bad_arguments_are_named(name, value, error):
    names = ["q_tm1", "q_t", "a_tm1", "a_t", "r_t", "discount_t", "pi_t", "mu_t", "lambda_"]
    given = dict(zip(names, off_policy_walk(0), strict=True))
    blamed = "q_tm1" if name == "q_t" else name  # q_t fixes the number of actions
    with pytest.raises(error, match=rf"^{blamed}: got"):
        returns.retrace(**(given | {name: value}))
    with pytest.raises(ValueError, match=r"^rho_tm1: got -1"):
        returns.vtrace(np.ones(2), np.ones(2), np.ones(2), 0.9, -np.ones(2))
    with pytest.raises(ValueError, match=r"^clip_rho_threshold: got"):
        returns.vtrace(np.ones(2), np.ones(2), np.ones(2), 0.9, np.ones(2), clip_rho_threshold=0.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_upgoing_returns_bootstrap_where_the_next_step_disappoints(backend):
    """Vinyals et al. (2019): G_t = r + γ·(G if Q ≥ V at the next state, else V), Q by one step."""
    rng = np.random.default_rng(0)
    r, v = single(rng.normal(size=(2, T, B)))
    discount = single(rng.random((T, B)))
    expected = np.zeros((T, B))
    for b in range(B):
        for t in reversed(range(T)):
            target = v[t, b]
            if t + 1 < T and r[t + 1, b] + discount[t + 1, b] * v[t + 1, b] >= v[t, b]:
                target = expected[t + 1, b]
            expected[t, b] = r[t, b] + discount[t, b] * target
    close(backend(returns.upgo_returns, r, discount, v), expected, backend.tolerance)
