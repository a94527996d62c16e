"""λ from logits, against sums over actions in NumPy's own words; and the log-probabilities that come with it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chunked_td import returns
from helpers.return_backends import BACKENDS, close, needs_torch, torch

RNG = np.random.default_rng(0)
LOGITS = (4 * RNG.normal(size=(3, 5, 7))).astype(np.float32).astype(np.float64)
LOGITS[0, 0, :3] = -np.inf  # actions that cannot be taken
LOGITS[1, 1] += 300.0  # exponentials of these overflow
ACTIONS = RNG.integers(3, 7, size=(3, 5))
PI = np.exp(LOGITS - LOGITS.max(-1, keepdims=True))
PI /= PI.sum(-1, keepdims=True)
TAKEN = np.take_along_axis(PI, ACTIONS[..., None], -1)[..., 0]
EXPECTED = {
    "realised": TAKEN,
    "expected": (PI**2).sum(-1),
    "entropy": np.exp((PI * np.log(np.where(PI > 0, PI, 1.0))).sum(-1)),
}


@pytest.mark.parametrize("backend", [x for x in BACKENDS if "doubling" not in x.id])
@pytest.mark.parametrize("kind", EXPECTED)
def test_lambda_is_the_sum_over_actions(backend, kind):
    for which, expected in enumerate((np.log(TAKEN), EXPECTED[kind])):

        def one(logits, actions, which=which):
            return returns.log_probs_and_lambda(logits, actions, kind)[which]

        close(backend(one, LOGITS, ACTIONS), expected, 10 * backend.tolerance)


@needs_torch
@pytest.mark.parametrize("kind", EXPECTED)
def test_log_probabilities_keep_their_gradient_and_lambda_has_none(kind):
    expected = np.eye(7)[ACTIONS] - PI  # ∂ log π(a) / ∂ logits
    logits = torch.tensor(LOGITS, requires_grad=True)
    log_probs, lambda_ = returns.log_probs_and_lambda(logits, torch.tensor(ACTIONS), kind)
    assert not lambda_.requires_grad
    log_probs.sum().backward()
    np.testing.assert_allclose(logits.grad, expected, atol=1e-12)

    def total(logits):
        return sum(x.sum() for x in returns.log_probs_and_lambda(logits, ACTIONS, kind))

    np.testing.assert_allclose(jax.grad(total)(jnp.asarray(LOGITS, jnp.float32)), expected, atol=1e-5)


def test_sixteen_bits_are_added_up_in_float32():
    exact = LOGITS[2]
    made = [jnp.asarray(exact, "bfloat16"), *([torch.tensor(exact).bfloat16()] if torch is not None else [])]
    for logits in made:
        found = returns.log_probs_and_lambda(logits, ACTIONS[2])
        reference = returns.log_probs_and_lambda(np.asarray(logits.tolist()), ACTIONS[2])
        for ours, theirs in zip(found, reference, strict=True):
            assert str(ours.dtype).endswith("float32")
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@needs_torch
def test_it_compiles_as_one_graph():
    compiled = torch.compile(returns.log_probs_and_lambda, fullgraph=True, backend="aot_eager")
    found = compiled(torch.tensor(LOGITS), torch.tensor(ACTIONS))
    np.testing.assert_allclose(found.lambda_, EXPECTED["expected"], rtol=1e-12)


def test_longer_sequences_bootstrap_less():
    """VAPO's rule; sequences too short for it have λ = 0."""
    mask = np.arange(200) < np.array([[200], [40], [20], [5], [0]])
    expected = [[1 - 1 / 10], [1 - 1 / 2], [0], [0], [0]]
    np.testing.assert_allclose(returns.length_lambda(mask), expected)
    np.testing.assert_allclose(returns.length_lambda(mask, alpha=0.01), [[1 - 1 / 2], [0], [0], [0], [0]])
    np.testing.assert_allclose(returns.length_lambda(mask.T, time_axis=0), np.transpose(expected))
    np.testing.assert_allclose(returns.length_lambda(jnp.asarray(mask)), expected, rtol=1e-6)
    if torch is not None:
        np.testing.assert_allclose(returns.length_lambda(torch.tensor(mask)), expected, rtol=1e-6)


def test_the_value_kernel_is_the_mean_of_a_gaussian_of_differences():
    """E exp(−(x − y)²/(2τ²)) for independent x, y ~ N(0, v), by quadrature over x − y ~ N(0, 2v)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    for v, tau in ((0.1, 1.0), (2.0, 1.5)):
        mean = (weights * np.exp(-((nodes * np.sqrt(2 * v)) ** 2) / (2 * tau**2))).sum() / weights.sum()
        np.testing.assert_allclose(returns.value_kernel_lambda(np.array([v]), tau), mean, rtol=1e-6)


def test_what_a_critic_leaves_unexplained():
    rng = np.random.default_rng(0)
    mask = np.arange(6) < np.array([[6], [4], [1]])
    returns_, noise = rng.normal(size=(3, 1)), rng.normal(size=(3, 6))
    whole = np.broadcast_to(returns_, mask.shape)[mask]
    values = np.where(mask, returns_ + 0.1 * noise, np.nan)
    expected = (values[mask] - whole).var() + (values[mask] - whole).mean() ** 2
    expected = expected / whole.var()
    assert 0.0 < expected < 1.0
    for backend in (np.asarray, jnp.asarray, *([torch.tensor] if torch is not None else [])):
        given = (backend(values), backend(returns_), backend(mask))
        np.testing.assert_allclose(returns.unexplained_lambda(*given), expected, rtol=1e-5)
        np.testing.assert_allclose(
            returns.unexplained_lambda(given[0] * 0 + 99, *given[1:]), 1.0
        )  # worse than the mean
        np.testing.assert_allclose(returns.unexplained_lambda(given[1], given[1]), 0.0)
        np.testing.assert_allclose(returns.unexplained_lambda(given[1], given[1] * 0 + 2), 1.0)  # nothing to explain
    np.testing.assert_allclose(
        jax.jit(returns.unexplained_lambda)(*map(jnp.asarray, (values, returns_, mask))), expected, rtol=1e-5
    )
    with pytest.raises(ValueError, match=r"^returns: got nan, takes finite numbers"):
        returns.unexplained_lambda(np.zeros(2), np.array([1.0, np.nan]))


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"^kind: got 'sum', takes 'expected', 'realised' or 'entropy'"):
        returns.log_probs_and_lambda(LOGITS, ACTIONS, "sum")
    with pytest.raises(ValueError, match=r"^actions: got shape \(3, 4\), takes \(3, 5\)"):
        returns.log_probs_and_lambda(LOGITS, ACTIONS[:, :4])
    with pytest.raises(ValueError, match=r"^actions: got 7, takes integers in 0..6"):
        returns.log_probs_and_lambda(LOGITS, ACTIONS * 0 + 7)
    for backend in (np.asarray, jnp.asarray, *([torch.tensor] if torch is not None else [])):
        with pytest.raises(ValueError, match=r"^actions: got -1, takes integers in 0..6|takes integers ≥ 0"):
            returns.log_probs_and_lambda(backend(LOGITS), backend(ACTIONS * 0 - 1))  # not the last action
    inside = jax.jit(returns.log_probs_and_lambda)(jnp.asarray(LOGITS), jnp.asarray(ACTIONS * 0 - 1))
    assert np.isnan(inside.log_probs).all()


@pytest.mark.parametrize("alpha", [0, -1, np.nan, np.inf, "1", None])
def test_a_length_has_a_positive_factor(alpha):
    """λ would be above 1 for a negative one."""
    with pytest.raises(ValueError, match=r"alpha must be a positive finite number"):
        returns.length_lambda(np.ones((2, 3), bool), alpha)


@pytest.mark.parametrize(("variance", "tau"), [(-1.0, 1.0), (np.nan, 1.0), (1.0, 0.0), (1.0, -1.0), (1.0, np.inf)])
def test_no_lambda_from_a_variance_that_is_none(variance, tau):
    made = [np.asarray, jnp.asarray, *([torch.tensor] if torch is not None else [])]
    for backend in made:
        with pytest.raises(ValueError, match=r"^(variance|tau): got .*, takes finite numbers"):
            returns.value_kernel_lambda(backend([variance, 1.0]), backend(tau))
    with pytest.raises(TypeError, match=r"^variance: got an array of complex128"):
        returns.value_kernel_lambda(1j, 1.0)
