"""Numbers of 16 bits: what is given as a Python number is float32 or better, and sums are, in every backend."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from chunked_td import returns
from helpers.return_backends import torch

T = 1_000


def half(name):
    """How to make arrays of this precision: JAX, and Torch where it is installed."""
    made = [lambda x: jnp.asarray(x, name)]
    if torch is not None:
        made.append(lambda x: torch.tensor(np.asarray(x)).to(getattr(torch, name)))
    return made


def plain(x):
    return np.asarray(x.tolist(), np.float64)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("number", ["lambda", "discount"])
def test_a_number_near_1_is_not_rounded_to_16_bits(name, number):
    """0.999 is 1 in bfloat16: the first advantage would be 1 instead of 0.999⁹⁹⁹."""
    rewards, zeros = np.zeros(T), np.zeros(T)
    rewards[-1] = 1.0
    lambda_, discount = (0.999, 1.0) if number == "lambda" else (1.0, 0.999)
    for make in half(name):
        r, v = make(rewards), make(zeros)
        ends = make(zeros) != 0
        first = {
            "gae": returns.gae(r, v, v, ends, None, discount, lambda_)[0],
            "lambda_returns": returns.lambda_returns(r, discount, v, lambda_)[0],
            "td_lambda": returns.td_lambda(v, r, discount, v, lambda_)[0],
            "vtrace": returns.vtrace(v, v, r, discount, v + 1, lambda_)[0],
            "n_step": returns.n_step_bootstrapped_returns(r, discount, v, T, lambda_)[0],
            "token_gae": returns.token_gae(r, v, None, lambda_, 1.0, discount=discount).advantages[0],
            "token_gae with a mask": returns.token_gae(
                r, v, v == 0, lambda_, 1.0, discount=discount, segment_ids=np.zeros(T, int)
            ).advantages[0],
        }
        for function, found in first.items():
            assert str(found.dtype).endswith(name), function
            assert float(found) == pytest.approx(0.999**999, rel=0.01), function


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_sums_are_made_in_float32(name):
    """300 ones added in bfloat16 make 256."""
    for make in half(name):
        x, mask = make(np.repeat([0.0, 2.0], 300)), make(np.ones(600)) != 0
        found = plain(returns.masked_whiten(x, mask))
        np.testing.assert_allclose(found, np.repeat([-1.0, 1.0], 300), atol=0.01)
        ones = make(np.ones(300))
        assert float(returns.discounted_returns(ones, 1.0, 0.0 * ones)[0]) == 300.0


def test_lambda_from_variances_of_16_bits_is_float32():
    for make in half("bfloat16"):
        found = returns.value_kernel_lambda(make([0.001]), 1.0)
        assert str(found.dtype).endswith("float32")
        assert float(found[0]) == pytest.approx((1 + 2 * 0.001) ** -0.5, abs=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unexplained_is_1_where_returns_are_equal_up_to_rounding(dtype):
    returned = (np.full(1_000, 0.1, dtype) + np.full(1_000, 0.2, dtype)) * dtype(1.0)
    returned[::2] = np.nextafter(returned[0], dtype(1.0))
    for make in (np.asarray, jnp.asarray, *([torch.tensor] if torch is not None else [])):
        found = returns.unexplained_lambda(make(np.zeros(1_000, dtype)), make(returned))
        assert float(found) == 1.0
        assert float(returns.unexplained_lambda(make(returned), make(returned))) == 1.0
        spread = np.linspace(0, 1, 1_000, dtype=dtype)
        assert float(returns.unexplained_lambda(make(spread), make(spread))) == 0.0


def test_logits_that_allow_no_action_are_refused():
    logits = np.array([[0.0, -np.inf], [-np.inf, -np.inf]], np.float32)
    actions = np.array([0, 0])
    for make in (np.asarray, jnp.asarray, *([torch.tensor] if torch is not None else [])):
        with pytest.raises(ValueError, match="logits: got -inf, takes at least one finite number"):
            returns.log_probs_and_lambda(make(logits), make(actions))
        found = returns.log_probs_and_lambda(make(logits[:1]), make(actions[:1]))
        assert (float(found.log_probs[0]), float(found.lambda_[0])) == (0.0, 1.0)


def test_no_truncation_is_none():
    r = np.arange(6.0)
    ends = np.array([0, 0, 1, 0, 0, 0], bool)
    ours = returns.gae(r, r, r + 1, ends, None, 0.9, 0.8)
    np.testing.assert_array_equal(ours, returns.gae(r, r, r + 1, ends, False, 0.9, 0.8))


def test_numpy_arrays_of_16_bits_are_added_up_in_float32():
    """In float16, 4,096 numbers around 150 sum to infinity, and ρ = 0.999 of a product is lost."""
    numbers = np.linspace(100, 200, 4096).astype(np.float16)
    expected = returns.masked_whiten(numbers.astype(np.float64))
    np.testing.assert_allclose(returns.masked_whiten(numbers), expected, atol=1e-4)
    rng = np.random.default_rng(0)
    half = rng.random((6, 5, 1)).astype(np.float16)
    for formula in (returns.vtrace, lambda *a: returns.vtrace_td_error_and_advantage(*a).q_estimate):
        np.testing.assert_allclose(formula(*half, 0.9), formula(*half.astype(np.float64), 0.9), rtol=1e-5)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_monte_carlo_returns_have_the_precision_of_their_arrays(name):
    for make in half(name):
        found = returns.discounted_returns(make(np.ones(4)), 0.5, 0.0)
        assert str(found.dtype).endswith(name)
        assert plain(found).tolist() == [1.875, 1.75, 1.5, 1.0]


def test_whitening_nothing_is_silent():
    for make in (np.asarray, jnp.asarray, *([torch.tensor] if torch is not None else [])):
        found = returns.masked_whiten(make(np.ones(2)), make(np.zeros(2, bool)))
        assert plain(found).tolist() == [0.0, 0.0]
