"""Targets are constants; errors pass the gradient of the values they are errors of, and nothing else."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chunked_td import returns
from helpers.return_backends import needs_torch, torch

RNG = np.random.default_rng(0)
T, B, A = 6, 3, 4
R, V, V_NEXT, RHO, LAM = RNG.random((5, T, B))
Q, Q_NEXT = RNG.normal(size=(2, T, B, A))
PI = RNG.dirichlet(np.ones(A), size=(T, B))
ACTIONS = RNG.integers(A, size=(2, T, B))
ENDS = RNG.random((2, T, B)) < 0.2

# name -> (function of (values at 0..T−1, values at 1..T, rewards, λ), whether the first may have a gradient)
CALLS = {
    "lambda_returns": (lambda v, w, r, lam: returns.lambda_returns(r, 0.9, w, lam, True), False),
    "n_step": (lambda v, w, r, lam: returns.n_step_bootstrapped_returns(r, 0.9, w, 3, lam, True), False),
    "gae": (lambda v, w, r, lam: returns.gae(r, v, w, *ENDS, 0.9, lam), False),
    "chunked_targets": (lambda v, w, r, lam: returns.chunked_targets(r, 0.9, w, lam > 0.5), False),
    "td_lambda": (lambda v, w, r, lam: returns.td_lambda(v, r, 0.9, w, lam), True),
    "vtrace": (lambda v, w, r, lam: returns.vtrace(v, w, r, 0.9, RHO, lam), True),
}


@pytest.mark.parametrize("name", CALLS)
def test_jax_targets_have_no_gradient(name):
    function, passes = CALLS[name]
    arguments = [jnp.asarray(x, jnp.float32) for x in (V, V_NEXT, R, LAM)]
    own, *others = jax.grad(lambda *a: function(*a).sum(), argnums=(0, 1, 2, 3))(*arguments)
    np.testing.assert_array_equal(own, -1.0 if passes else 0.0)
    for gradient in others:
        np.testing.assert_array_equal(gradient, 0.0)


@needs_torch
@pytest.mark.parametrize("name", CALLS)
def test_torch_targets_have_no_gradient(name):
    function, passes = CALLS[name]
    arguments = [torch.tensor(x, requires_grad=True) for x in (V, V_NEXT, R, LAM)]
    result = function(*arguments)
    assert result.requires_grad == passes
    if passes:
        result.sum().backward()
        own, *others = (x.grad for x in arguments)
        np.testing.assert_array_equal(own, -1.0)
        assert all(gradient is None or not gradient.any() for gradient in others)


def test_retrace_passes_the_gradient_of_the_action_taken():
    def total(q, q_next):
        return returns.retrace(q, q_next, *ACTIONS, R, 0.9, PI, 0.5 * np.ones((T, B)), LAM).sum()

    own, other = jax.grad(total, argnums=(0, 1))(jnp.asarray(Q), jnp.asarray(Q_NEXT))
    np.testing.assert_array_equal(own, -jax.nn.one_hot(ACTIONS[0], A))
    np.testing.assert_array_equal(other, 0.0)


def test_gradients_on_demand_are_those_of_finite_differences():
    """With stop_target_gradients=False, for meta-gradients: ∂ Σ G / ∂ λ."""

    def total(lam):
        return returns.lambda_returns(R, 0.9, V_NEXT, lam, stop_target_gradients=False).sum()

    step = 1e-6
    expected = np.zeros_like(LAM)
    for index in np.ndindex(*LAM.shape):
        shift = np.zeros_like(LAM)
        shift[index] = step
        below = np.clip(LAM - shift, 0, 1)
        expected[index] = (total(LAM + shift) - total(below)) / (2 * step)
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.grad(total)(jnp.asarray(LAM)), expected, rtol=1e-6, atol=1e-8)
    if torch is not None:
        lam = torch.tensor(LAM, requires_grad=True)
        total(lam).backward()
        np.testing.assert_allclose(lam.grad, expected, rtol=1e-6, atol=1e-8)


@needs_torch
def test_an_advantage_may_keep_its_gradient():
    v = torch.tensor(V, requires_grad=True)
    advantages = returns.gae(R, v, V_NEXT, *ENDS, 0.9, LAM, stop_target_gradients=False)
    advantages[-1].sum().backward()
    np.testing.assert_array_equal(v.grad[-1], -1.0)
    np.testing.assert_array_equal(v.grad[:-1], 0.0)
