"""NumPy backend: against rlax, against written-out sums, and by enumeration of every keep/drop pattern."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
import warnings

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import chunked_td.returns as returns

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # rlax's own dependencies use what JAX has deprecated
    import rlax


def theirs(function, *arguments):
    """Call a function of rlax in double precision."""
    with jax.enable_x64(True):
        static = 3 if function is rlax.n_step_bootstrapped_returns else ()
        return np.asarray(jax.jit(function, static_argnums=static)(*arguments))


UNIT = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1))


def arrays(shape, elements):
    return hnp.arrays(np.float64, shape, elements=elements)


ANY_LENGTH = st.integers(1, 12)
FEW_LENGTHS = st.sampled_from([1, 2, 7])  # rlax is compiled anew for each


@st.composite
def trajectories(draw, lengths=ANY_LENGTH):
    """r_t, discount_t, v_t, lambda_t of one random length."""
    steps = draw(lengths)
    numbers = st.floats(-100, 100)
    return (
        draw(arrays(steps, numbers)),
        draw(arrays(steps, UNIT)),
        draw(arrays(steps, numbers)),
        draw(arrays(steps, UNIT)),
    )


same = {"rtol": 1e-12, "atol": 1e-9}
ours_and_theirs = settings(max_examples=60)


@given(trajectories(FEW_LENGTHS))
@ours_and_theirs
def test_lambda_returns_are_rlax_s(trajectory):
    np.testing.assert_allclose(returns.lambda_returns(*trajectory), theirs(rlax.lambda_returns, *trajectory), **same)


@given(trajectories(FEW_LENGTHS), UNIT)
@ours_and_theirs
def test_one_lambda_for_all_steps_is_rlax_s(trajectory, lambda_):
    r_t, discount_t, v_t, _ = trajectory
    np.testing.assert_allclose(
        returns.lambda_returns(r_t, discount_t, v_t, lambda_),
        theirs(rlax.lambda_returns, r_t, discount_t, v_t, lambda_),
        **same,
    )


@given(trajectories(FEW_LENGTHS), st.floats(-100, 100))
@ours_and_theirs
def test_advantages_and_errors_are_rlax_s(trajectory, v_0):
    r_t, discount_t, v_t, lambda_t = trajectory
    values = np.concatenate([[v_0], v_t])
    ours = returns.truncated_generalized_advantage_estimation(r_t, discount_t, lambda_t, values)
    reference = theirs(rlax.truncated_generalized_advantage_estimation, r_t, discount_t, lambda_t, values)
    np.testing.assert_allclose(ours, reference, **same)
    np.testing.assert_allclose(
        returns.td_lambda(values[:-1], r_t, discount_t, v_t, lambda_t),
        theirs(rlax.td_lambda, values[:-1], r_t, discount_t, v_t, lambda_t),
        **same,
    )


@given(trajectories(FEW_LENGTHS), st.sampled_from([1, 3, 8]))
@ours_and_theirs
def test_n_step_returns_are_rlax_s(trajectory, n):
    r_t, discount_t, v_t, lambda_t = trajectory
    np.testing.assert_allclose(
        returns.n_step_bootstrapped_returns(r_t, discount_t, v_t, n, lambda_t),
        theirs(rlax.n_step_bootstrapped_returns, r_t, discount_t, v_t, n, lambda_t),
        **same,
    )


@given(trajectories(FEW_LENGTHS))
@ours_and_theirs
def test_discounted_returns_are_rlax_s(trajectory):
    r_t, discount_t, v_t, _ = trajectory
    np.testing.assert_allclose(
        returns.discounted_returns(r_t, discount_t, v_t), theirs(rlax.discounted_returns, r_t, discount_t, v_t), **same
    )
    np.testing.assert_allclose(
        returns.discounted_returns(r_t, discount_t, 3.0), theirs(rlax.discounted_returns, r_t, discount_t, 3.0), **same
    )


@given(trajectories(), st.floats(-100, 100))
def test_lambda_returns_are_sums_of_discounted_td_errors(trajectory, v_0):
    """G_t − v_t = Σ_k δ_k Π_{i=t+1..k} γ_i λ_i, the sum in the proof of Prop. 1."""
    r_t, discount_t, v_t, lambda_t = trajectory
    v = np.concatenate([[v_0], v_t])
    delta = r_t + discount_t * v[1:] - v[:-1]
    expected = [
        math.fsum(delta[k] * math.prod(discount_t[i] * lambda_t[i] for i in range(t, k)) for k in range(t, len(delta)))
        for t in range(len(delta))
    ]
    np.testing.assert_allclose(returns.td_lambda(v[:-1], *trajectory), expected, rtol=1e-9, atol=1e-9)


@given(trajectories())
def test_lambda_zero_is_td_zero(trajectory):
    r_t, discount_t, v_t, _ = trajectory
    targets = returns.lambda_returns(r_t, discount_t, v_t, 0.0)
    np.testing.assert_allclose(targets, r_t + discount_t * v_t, **same)
    np.testing.assert_array_equal(returns.n_step_bootstrapped_returns(r_t, discount_t, v_t, 1), targets)


@given(trajectories())
def test_lambda_one_is_monte_carlo(trajectory):
    r_t, discount_t, v_t, _ = trajectory
    discount_t[-1] = 0.0
    targets = returns.lambda_returns(r_t, discount_t, v_t, 1.0)
    expected = [math.fsum(r_t[k] * math.prod(discount_t[t:k]) for k in range(t, len(r_t))) for t in range(len(r_t))]
    np.testing.assert_allclose(targets, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(returns.discounted_returns(r_t, discount_t, v_t), targets)
    np.testing.assert_array_equal(returns.n_step_bootstrapped_returns(r_t, discount_t, v_t, len(r_t)), targets)


def n_step_target(rewards, discount, values, kept, t):
    """By the book: discounted rewards from s_t to the next kept state after it, and that state's value there."""
    end = next(k for k in range(t + 1, len(values)) if kept[k])
    total = sum(discount ** (k - t) * rewards[k] for k in range(t, end))
    terminal = end == len(values) - 1
    return total if terminal else total + discount ** (end - t) * values[end]


def expected_targets(rewards, discount, values, drop):
    """Mean of the n-step targets over all patterns; drop[t] is the probability that s_t is left out."""
    steps = len(rewards)
    mean = np.zeros(steps)
    for inner in itertools.product([True, False], repeat=steps - 1):
        kept = [True, *inner, True]
        probability = math.prod(1 - drop[t] if kept[t] else drop[t] for t in range(1, steps))
        keep_t = np.array(kept[1:])
        discount_t = np.full(steps, discount)
        discount_t[-1] = 0.0
        targets = returns.chunked_targets(rewards, discount_t, values[1:], keep_t)
        by_the_book = [n_step_target(rewards, discount, values, kept, t) for t in range(steps)]
        np.testing.assert_allclose(targets, by_the_book, rtol=1e-12, atol=1e-12)
        mean += probability * targets
    return mean


@pytest.mark.parametrize("steps", [1, 2, 5, 8])
def test_the_expected_chunked_target_is_the_lambda_return_for_state_values(steps):
    rng = np.random.default_rng(steps)
    rewards, values = rng.normal(size=steps), rng.normal(size=steps + 1)
    # A chain of states: transition t leaves s_t with this probability, and λ_t belongs to the state it leaves.
    transition = rng.random(steps)
    lambda_t = np.append(transition[1:], 0.123)  # for the states 1..T; nothing leaves the terminal one
    discount_t = np.full(steps, 0.9)
    discount_t[-1] = 0.0
    np.testing.assert_allclose(
        expected_targets(rewards, 0.9, values, transition),
        returns.lambda_returns(rewards, discount_t, values[1:], lambda_t),
        rtol=1e-12,
    )


@pytest.mark.parametrize("steps", [2, 4, 7])
def test_the_expected_chunked_target_is_the_lambda_return_for_sarsa(steps):
    rng = np.random.default_rng(steps)
    states, actions = 4, 3
    q = rng.normal(size=(states, actions))
    model = rng.dirichlet(np.ones(states), size=(states, actions))
    policy = rng.dirichlet(np.ones(actions), size=states)
    s, a = rng.integers(states, size=steps + 1), rng.integers(actions, size=steps + 1)
    rewards = rng.normal(size=steps)
    # λ_t = P̂(s_{t+1} | s_t, a_t) π(a_{t+1} | s_{t+1}); no action follows the last transition.
    drop = [model[s[t], a[t], s[t + 1]] * (policy[s[t + 1], a[t + 1]] if t + 1 < steps else 1.0) for t in range(steps)]
    values = q[s, a]
    discount_t = np.full(steps, 0.95)
    discount_t[-1] = 0.0
    np.testing.assert_allclose(
        expected_targets(rewards, 0.95, values, drop),
        returns.lambda_returns(rewards, discount_t, values[1:], [*drop[1:], 0.5]),
        rtol=1e-12,
    )


@given(trajectories())
def test_keeping_all_is_td_zero_and_dropping_all_is_monte_carlo(trajectory):
    r_t, discount_t, v_t, _ = trajectory
    keep = np.ones(len(r_t), dtype=bool)
    np.testing.assert_array_equal(
        returns.chunked_targets(r_t, discount_t, v_t, keep), returns.lambda_returns(r_t, discount_t, v_t, 0.0)
    )
    np.testing.assert_array_equal(
        returns.chunked_targets(r_t, discount_t, v_t, ~keep), returns.discounted_returns(r_t, discount_t, v_t)
    )


def test_states_are_dropped_with_probability_lambda():
    """Each frequency is within 4.5 standard errors: a false alarm in about 1 of 30,000 seeds, and the seed is fixed."""
    lambda_t = np.array([0.0, 0.1, 0.5, 0.9, 1.0, 0.7])
    n = 20_000
    keep = returns.sample_keep(np.tile(lambda_t, (n, 1)), np.random.default_rng(1), time_axis=1)
    dropped = 1 - keep.mean(axis=0)
    expected = np.append(lambda_t[:-1], 0.0)  # the last state is always kept
    assert np.all(np.abs(dropped - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / n))
    pairs = np.corrcoef(keep[:, 1], keep[:, 2])[0, 1]
    assert abs(pairs) < 4.5 / np.sqrt(n)


def test_the_draws_do_not_depend_on_lambda():
    a, b = np.random.default_rng(0), np.random.default_rng(0)
    returns.sample_keep(np.zeros(5), a)
    returns.sample_keep(np.ones(5), b)
    assert a.random() == b.random()


@pytest.mark.parametrize("batch", [(3,), (2, 3), (0,), (1, 1, 2)])
def test_axes_before_time_are_batches(batch):
    rng = np.random.default_rng(0)
    steps = 6
    r_t, v_t = rng.normal(size=(2, *batch, steps))
    discount_t, lambda_t = rng.random(size=(2, *batch, steps))
    v_0 = rng.normal(size=(*batch, 1))
    values = np.concatenate([v_0, v_t], axis=-1)
    keep_t = returns.sample_keep(lambda_t, rng, time_axis=-1)

    def n_step(r_t, discount_t, v_t, lambda_t, time_axis):
        return returns.n_step_bootstrapped_returns(r_t, discount_t, v_t, 3, lambda_t, time_axis=time_axis)

    calls = {
        "lambda": (returns.lambda_returns, r_t, discount_t, v_t, lambda_t),
        "discounted": (returns.discounted_returns, r_t, discount_t, v_t),
        "n-step": (n_step, r_t, discount_t, v_t, lambda_t),
        "gae": (returns.truncated_generalized_advantage_estimation, r_t, discount_t, lambda_t, values),
        "chunked": (returns.chunked_targets, r_t, discount_t, v_t, keep_t),
    }
    for name, (function, *arguments) in calls.items():
        together = function(*arguments, time_axis=-1)
        assert together.shape == (*batch, steps), name
        for i in np.ndindex(*batch):
            np.testing.assert_array_equal(together[i], function(*[argument[i] for argument in arguments], time_axis=0))


def test_one_discount_and_lambda_may_serve_a_batch():
    rng = np.random.default_rng(0)
    r_t, v_t = rng.normal(size=(2, 3, 4))
    discount_t, lambda_t = rng.random(size=(2, 4))
    together = returns.lambda_returns(r_t, discount_t, v_t, lambda_t, time_axis=1)
    for i in range(3):
        np.testing.assert_array_equal(together[i], returns.lambda_returns(r_t[i], discount_t, v_t[i], lambda_t))


def test_arguments_are_left_alone_and_lists_are_read():
    arguments = [np.array([1.0, 2.0]), np.array([0.75, 0.0]), np.array([3.0, 4.0]), np.array([0.5, 0.5])]
    copies = [argument.copy() for argument in arguments]
    expected = returns.lambda_returns(*arguments)
    for argument, copy in zip(arguments, copies, strict=True):
        np.testing.assert_array_equal(argument, copy)
    np.testing.assert_array_equal(returns.lambda_returns(*[x.tolist() for x in arguments]), expected)
    np.testing.assert_array_equal(expected, [1 + 0.75 * (0.5 * 3 + 0.5 * 2), 2.0])


GOOD = {"r_t": [1.0, 2.0], "discount_t": [0.9, 0.0], "v_t": [3.0, 4.0], "lambda_": [0.5, 0.5]}


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("r_t", [1.0, math.nan], ValueError),
        ("r_t", [1.0, math.inf], ValueError),
        ("r_t", 1.0, ValueError),
        ("r_t", [], ValueError),
        ("r_t", ["a", "b"], TypeError),
        ("discount_t", [1.1, 0.0], ValueError),
        ("discount_t", [0.9, -0.1], ValueError),
        ("discount_t", [0.9, math.nan], ValueError),
        ("discount_t", [0.9, 0.9, 0.9], ValueError),
        ("v_t", [math.nan, 0.0], ValueError),
        ("v_t", [[1.0, 2.0]] * 3, ValueError),
        ("v_t", [1j, 0], TypeError),
        ("lambda_", 1.5, ValueError),
        ("lambda_", math.nan, ValueError),
        ("lambda_", [0.5, -0.5], ValueError),
    ],
)
def test_bad_arguments_are_named(name, value, error):
    with pytest.raises(error, match=f"^{name}: got"):
        returns.lambda_returns(**(GOOD | {name: value}))


def test_other_bad_arguments_are_named():
    r_t, discount_t, v_t, lambda_t = GOOD.values()
    for n in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match=r"^n: got"):
            returns.n_step_bootstrapped_returns(r_t, discount_t, v_t, n)
    with pytest.raises(ValueError, match=r"^values: got shape"):
        returns.truncated_generalized_advantage_estimation(r_t, discount_t, lambda_t, v_t)
    with pytest.raises(TypeError, match=r"^keep_t: got"):
        returns.chunked_targets(r_t, discount_t, v_t, [1, 0])
    with pytest.raises(ValueError, match=r"^keep_t: got shape"):
        returns.chunked_targets(r_t, discount_t, v_t, [True])
    with pytest.raises(TypeError, match=r"^rng: got"):
        returns.sample_keep(lambda_t, 0)
    with pytest.raises(ValueError, match=r"^lambda_t: got"):
        returns.sample_keep([0.5, 2.0], np.random.default_rng())
    with pytest.raises(ValueError, match=r"^lambda_t: got shape"):
        returns.sample_keep(0.5, np.random.default_rng())


SCRIPT = """
import json, numpy as np
from chunked_td import returns
rng = np.random.default_rng(0)
r_t, v_t = rng.normal(size=(2, 3, 20))
discount_t, lambda_t = rng.random((2, 3, 20))
keep_t = returns.sample_keep(lambda_t, rng)
print(json.dumps([
    returns.lambda_returns(r_t, discount_t, v_t, lambda_t).tolist(),
    returns.lambda_returns(r_t, discount_t, v_t, lambda_t, time_axis=1).tolist(),
    returns.gae(r_t, v_t, v_t[::-1], discount_t < 0.2, lambda_t < 0.2, 0.9, lambda_t).tolist(),
    returns.vtrace(v_t, v_t[::-1], r_t, discount_t, lambda_t * 2, lambda_t).tolist(),
    returns.n_step_bootstrapped_returns(r_t, discount_t, v_t, 4, lambda_t).tolist(),
    returns.chunked_targets(r_t, discount_t, v_t, keep_t).tolist(),
]))
"""


WITHOUT_NUMBA = "import sys; sys.modules['numba'] = None\n"  # as if it were not installed


def test_plain_python_and_plain_numpy_give_the_same_numbers():
    def run(script, disable="0"):
        environment = os.environ | {"NUMBA_DISABLE_JIT": disable}
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
        return json.loads(done.stdout)

    compiled = run(SCRIPT)
    np.testing.assert_allclose(run(SCRIPT, "1"), compiled, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(run(WITHOUT_NUMBA + SCRIPT), compiled, rtol=1e-13, atol=1e-13)
