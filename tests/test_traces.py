"""Sparse traces against dense arrays; the backward pass against traces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunked_td.traces import Trace, backward_pass, clear, decay, mark, reinforce

ROWS = 5


def dense(trace):
    """The sparse trace as an array; also checks that its bookkeeping holds together."""
    out = np.zeros((trace.slot.size, trace.weight.shape[1]))
    count = int(trace.count[0])
    rows = trace.rows[:count].tolist()
    assert len(set(rows)) == count
    assert [int(trace.slot[row]) for row in rows] == list(range(count))
    assert sorted(np.flatnonzero(trace.slot >= 0).tolist()) == sorted(rows)
    out[rows] = trace.weight[:count]
    return out


steps = st.tuples(
    st.integers(0, ROWS - 1),
    st.lists(st.sampled_from([0.0, 0.3, 0.9, 1.0]), min_size=2, max_size=2),
    st.lists(st.floats(-2, 2), min_size=2, max_size=2),
)


@given(st.lists(steps, max_size=12), st.booleans(), st.sampled_from([0.0, 0.2]), st.sampled_from([0.0, 0.5, 1.0]))
def test_sparse_traces_equal_dense_ones(story, replacing, cutoff, discount):
    trace = Trace.empty(ROWS, 2, capacity=ROWS)
    e, values, expected = np.zeros((ROWS, 2)), np.zeros((ROWS, 2)), np.zeros((ROWS, 2))
    for row, lambdas, deltas in story:
        decay(trace, discount, np.array(lambdas), cutoff)
        mark(trace, row, replacing)
        reinforce(values, trace, 0.5, np.array(deltas))
        e *= discount * np.array(lambdas)
        e[np.abs(e).max(axis=1) <= cutoff] = 0.0
        e[row] = 1.0 if replacing else e[row] + 1.0
        expected += 0.5 * np.array(deltas) * e
        np.testing.assert_allclose(dense(trace), e, rtol=1e-12)
        np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-14)
    clear(trace)
    assert int(trace.count[0]) == 0
    assert (trace.slot == -1).all()


def test_zero_lambda_leaves_nothing_to_pay_for():
    trace = Trace.empty(1000, 1)
    for row in range(50):
        decay(trace, 1.0, np.zeros(1), 0.0)
        mark(trace, row, False)
        assert int(trace.count[0]) == 1


def test_growing_keeps_every_entry():
    trace = Trace.empty(3, 2, capacity=3)
    for row in range(3):
        decay(trace, 0.9, np.full(2, 0.5), 0.0)
        mark(trace, row, False)
    larger = trace.grown(10, 20)
    np.testing.assert_array_equal(dense(larger)[:3], dense(trace))
    mark(larger, 9, False)
    assert dense(larger)[9].tolist() == [1.0, 1.0]


@given(st.integers(1, 8), st.integers(0, 1000), st.floats(0, 1))
def test_backward_pass_equals_traces_on_an_acyclic_episode(length, seed, discount):
    rng = np.random.default_rng(seed)
    delta, lambda_ = rng.normal(size=(length, 2)), rng.random((length, 2))
    rows = rng.permutation(length)
    online, offline = np.zeros((length, 2)), np.zeros((length, 2))
    trace = Trace.empty(length, 2, capacity=length)
    for t in range(length):
        decay(trace, discount, lambda_[t], 0.0)
        mark(trace, rows[t], False)
        reinforce(online, trace, 0.1, delta[t])
    lambda_[0] = np.nan  # there is no λ for the first state
    backward_pass(offline, rows, delta.copy(), lambda_, length, discount, 0.1)
    np.testing.assert_allclose(offline, online, rtol=1e-9, atol=1e-14)


def test_backward_pass_reads_only_the_episode():
    values = np.zeros((2, 1))
    delta = np.array([[1.0], [2.0], [np.nan]])
    lambda_ = np.array([[np.nan], [0.5], [np.nan]])
    backward_pass(values, np.array([0, 1, 7]), delta, lambda_, 2, 0.5, 1.0)
    assert values[:, 0].tolist() == pytest.approx([1.5, 2.0])
