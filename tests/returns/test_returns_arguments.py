"""Bad shapes and bad values give errors that name the argument, what came and what is taken."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chunked_td import returns
from helpers.return_backends import needs_torch, torch

GOOD = {
    "rewards": np.ones((4, 3)),
    "values": np.ones((4, 3)),
    "next_values": np.ones((4, 3)),
    "terminated": np.zeros((4, 3), dtype=bool),
    "truncated": np.zeros((4, 3), dtype=bool),
    "discount": 0.9,
    "lambda_": np.full((4, 3), 0.5),
}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("values", np.ones((4, 2)), r"got shape \(4, 2\), takes \(4, 3\) as rewards, \(4,\) with one entry per step"),
        ("values", np.ones((3, 4)), r"got shape \(3, 4\), takes \(4, 3\)"),
        ("values", np.ones((4, 3, 1)), r"got shape \(4, 3, 1\), takes \(4, 3\)"),
        ("lambda_", np.ones(3), r"got shape \(3,\), takes \(4, 3\) as rewards, \(4,\) with one entry per step"),
        ("lambda_", 1.5, r"got 1.5, takes numbers in \[0, 1\]"),
        ("lambda_", np.nan, r"got nan, takes numbers in \[0, 1\]"),
        ("lambda_", np.array([2.0, 0.5, 0.5, 0.5]), r"got 2.0, takes numbers in \[0, 1\]"),
        ("lambda_", np.array([0.5, 0.5, 0.5, -1.0]), r"got -1.0, takes numbers in \[0, 1\]"),
        ("discount", 1.1, r"got 1.1, takes numbers in \[0, 1\]"),
        ("terminated", np.full((4, 3), 0.5), r"got 0.5, takes bools, or the numbers 0 and 1"),
        ("truncated", np.full((4, 3), 2), r"got 2, takes bools, or the numbers 0 and 1"),
        ("rewards", np.full((4, 3), np.nan), r"got nan, takes finite numbers"),
        ("values", np.full((4, 3), np.inf), r"got inf, takes finite numbers"),
        ("next_values", np.full((4, 3), np.nan), r"got nan, takes finite numbers"),
        ("rewards", 1.0, r"got shape \(\), takes an array with a time axis"),
        ("rewards", np.ones((0, 3)), r"got shape \(0, 3\), takes at least one step along axis 0"),
        ("rewards", [[1.0], [1.0, 2.0]], r"got .*, takes an array"),
    ],
)
def test_bad_arguments_of_gae_are_named(name, value, message):
    with pytest.raises(ValueError, match=rf"^{name}: {message}"):
        returns.gae(**(GOOD | {name: value}))


@pytest.mark.parametrize("name", ["rewards", "values", "next_values", "lambda_"])
def test_a_single_bad_number_anywhere_is_found(name):
    """The kernels look at coefficients and at the first step only: NaN must get there past every cut."""
    rng = np.random.default_rng(0)
    cuts = rng.random((2, 4, 3)) < 0.5
    for index in np.ndindex(4, 3):
        if name == "next_values" and cuts[0][index]:
            continue  # not read
        bad = GOOD[name].copy()
        bad[index] = np.nan
        with pytest.raises(ValueError, match=rf"^{name}: got nan"):
            returns.gae(**(GOOD | {"terminated": cuts[0], "truncated": cuts[1], name: bad}))


def test_time_axis_is_checked():
    for bad, error in ((2, ValueError), (-3, ValueError), (0.0, TypeError), (True, TypeError), (None, TypeError)):
        with pytest.raises(error, match=r"^time_axis: got"):
            returns.gae(**GOOD, time_axis=bad)


@pytest.mark.parametrize("name", ["lambda_", "rewards"])
def test_jax_arrays_are_checked_outside_jit_only(name):
    given = {key: jnp.asarray(value) for key, value in GOOD.items()} | {name: jnp.full((4, 3), jnp.nan)}
    with pytest.raises(ValueError, match=rf"^{name}: got nan"):
        returns.gae(**given)
    traced = jax.jit(lambda bad: returns.gae(**(given | {name: bad})))(given[name])
    assert jnp.isnan(traced).any()
    with pytest.raises(ValueError, match=r"^values: got shape"):
        jax.jit(lambda v: returns.gae(**(GOOD | {"values": v})))(jnp.ones((3, 4)))
    with pytest.raises(ValueError, match=r"^discount: got 1.5"):
        jax.jit(lambda v: returns.gae(**(GOOD | {"values": v, "discount": 1.5})))(jnp.ones((4, 3)))


@needs_torch
def test_torch_tensors_are_checked_on_the_cpu():
    given = {key: torch.as_tensor(value) for key, value in GOOD.items()}
    with pytest.raises(ValueError, match=r"^lambda_: got 2"):
        returns.gae(**(given | {"lambda_": torch.full((4, 3), 2.0)}))
    with pytest.raises(ValueError, match=r"^discount: got nan"):
        returns.gae(**(given | {"discount": float("nan")}))
    with pytest.raises(ValueError, match=r"^values: got shape \(4, 2\)"):
        returns.gae(**(given | {"values": torch.ones(4, 2)}))
    with pytest.raises(TypeError, match=r"^values: got a tensor of torch.complex64"):
        returns.gae(**(given | {"values": torch.ones(4, 3, dtype=torch.complex64)}))
    with pytest.raises(ValueError, match=r"^values: got a tensor on meta, takes cpu as rewards"):
        returns.gae(**(given | {"values": torch.ones(4, 3, device="meta")}))


@needs_torch
def test_tensors_that_are_not_contiguous_are_read_right():
    rng = np.random.default_rng(0)
    r, v, lam = rng.random((3, 5, 4))
    ours = returns.lambda_returns(*(torch.tensor(x).t() for x in (r, np.full_like(r, 0.9), v, lam)), time_axis=1)
    np.testing.assert_allclose(ours.numpy().T, returns.lambda_returns(r, 0.9, v, lam), rtol=1e-14)


def test_sampled_chunks_in_every_backend():
    """Dropped with probability λ; the last state is kept. 4.5 standard errors, fixed seed."""
    lambda_t, n = np.array([0.0, 0.3, 1.0, 0.8]), 20_000
    tiled = np.tile(lambda_t, (n, 1))
    draws = {
        "numpy": (tiled, np.random.default_rng(0), np.ones(n)),
        "jax": (jnp.asarray(tiled), jax.random.key(0), jax.random.key(1)),
    }
    if torch is not None:
        draws["torch"] = (torch.tensor(tiled), torch.Generator().manual_seed(0), np.random.default_rng(0))
    for name, (array, rng, wrong) in draws.items():
        keep = returns.sample_keep(array, rng, time_axis=1)
        assert type(keep) is type(array), name
        dropped = 1 - np.asarray(keep).mean(axis=0)
        expected = np.append(lambda_t[:-1], 0.0)
        assert np.all(np.abs(dropped - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / n)), name
        if name != "jax":
            with pytest.raises(TypeError, match=r"^rng: got"):
                returns.sample_keep(array, wrong, time_axis=1)
    with pytest.raises(TypeError, match=r"^rng: got"):
        returns.sample_keep(jnp.asarray(tiled), np.random.default_rng(0), time_axis=1)


def jaxed(given):
    return {name: jnp.asarray(value) for name, value in given.items()}


def torched(given, dtype=None, gradient=False):
    tensors = {name: torch.as_tensor(value) for name, value in given.items()}
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            tensors[name] = tensor.to(dtype or tensor.dtype).requires_grad_(gradient)
    return tensors


WAYS = {"numpy": dict, "jax": jaxed}
if torch is not None:
    WAYS |= {
        "torch": torched,
        "torch-bfloat16": lambda given: torched(given, torch.bfloat16),
        "torch-gradients": lambda given: torched(given, gradient=True),
    }


@pytest.mark.parametrize("way", WAYS)
def test_all_backends_refuse_the_same(way):
    keep = {"stop_target_gradients": way != "torch-gradients"}
    cases = [
        ("terminated", np.full((4, 3), 0.5), r"got 0.5, takes bools, or the numbers 0 and 1"),
        ("terminated", np.full((4, 3), 2), r"got 2(\.0)?, takes bools, or the numbers 0 and 1"),
        ("lambda_", np.full((4, 3), np.nan), r"got nan, takes numbers in \[0, 1\]"),
        ("lambda_", np.full((4, 3), 1.5), r"got 1.5, takes numbers in \[0, 1\]"),
        ("values", np.full((4, 3), np.inf), r"got inf, takes finite numbers"),
        ("next_values", np.full(4, np.nan), r"got nan, takes finite numbers"),
    ]
    for name, value, message in cases:
        with pytest.raises(ValueError, match=rf"^{name}: {message}"):
            returns.gae(**WAYS[way](GOOD | {name: value}), **keep)
    lambdas = dict(zip(("r_t", "discount_t", "v_t", "lambda_"), (np.ones(3), 0.5, np.ones(3), 1.5), strict=True))
    with pytest.raises(ValueError, match=r"^lambda_: got 1.5, takes numbers in \[0, 1\]"):
        returns.lambda_returns(**WAYS[way](lambdas), **keep)
    with pytest.raises(ValueError, match=r"^v_t: got nan, takes finite numbers"):
        returns.discounted_returns(
            **WAYS[way]({"r_t": np.ones(3), "discount_t": 0.5, "v_t": np.full(3, np.nan)}), **keep
        )
    with pytest.raises(ValueError, match=r"^v_t: got shape \(2,\), takes \(3,\) as r_t"):
        returns.discounted_returns(**WAYS[way]({"r_t": np.ones(3), "discount_t": 0.5, "v_t": np.ones(2)}), **keep)


@pytest.mark.parametrize("way", WAYS)
def test_all_backends_leave_alone_what_is_not_read(way):
    """Next values where terminated; values before the last in returns that bootstrap at the end only."""
    keep = {"stop_target_gradients": way != "torch-gradients"}
    terminated = np.zeros((4, 3), bool)
    terminated[1] = True
    whole, holed = np.ones((4, 3)), np.ones((4, 3))
    holed[1] = np.nan
    given = GOOD | {"terminated": terminated}
    told, untold = (returns.gae(**WAYS[way](given | {"next_values": x}), **keep) for x in (whole, holed))
    untold_per_step = returns.gae(**WAYS[way](given | {"next_values": holed[:, 0]}), **keep)
    for answer in (untold, untold_per_step):
        np.testing.assert_array_equal(plain(answer), plain(told))
    for v in (np.array([np.nan, np.nan, 2.0]), 2.0, np.array([[np.nan], [np.inf], [2.0]])):
        got = returns.discounted_returns(**WAYS[way]({"r_t": np.ones((3, 2)), "discount_t": 0.5, "v_t": v}), **keep)
        np.testing.assert_array_equal(plain(got), np.full((3, 2), 2.0))


def plain(array):
    return array.detach().double().numpy() if hasattr(array, "detach") else np.asarray(array)


@pytest.mark.parametrize("way", ["numpy", "jax", *(["torch"] if torch is not None else [])])
def test_all_backends_refuse_actions_that_there_are_not(way):
    q, ones = np.ones((3, 4)), np.ones(3)
    given = dict(q_tm1=q, q_t=q, a_tm1=[0, 1, 2], a_t=[0, 7, 2], r_t=ones, discount_t=ones, pi_t=q / 4, mu_t=ones / 4)
    with pytest.raises(ValueError, match=r"^a_t: got 7, takes integers in 0..3"):
        returns.retrace(**WAYS[way]({k: np.asarray(v) for k, v in given.items()}), lambda_=0.5)
