"""Masks, segments and ragged batches: what is masked might as well not be there.

Each masked call is compared with calls on the steps that are left, one sequence after the other. What stands at masked
steps is NaN (or an index that does not exist), so a backend that reads it fails.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chunked_td import returns
from helpers import return_definitions as definitions
from helpers.return_backends import DOUBLING, JAX, NUMPY, TORCH, close, needs_torch, torch

T, B, A = 7, 4, 3
BACKENDS = [NUMPY[0], JAX[2], TORCH[1], DOUBLING[0]]  # the others differ in precision, or are tested below


def single(x):
    """Numbers that float32 holds exactly."""
    return x.astype(np.float32).astype(np.float64)


def drawn(kinds, rng):
    """Arrays [T, B], or [T, B, A], by kind."""
    make = {
        "r": lambda: single(rng.normal(size=(T, B))),
        "u": lambda: single(rng.random((T, B))),
        "p": lambda: single(rng.uniform(0.1, 2.0, (T, B))),
        "b": lambda: rng.random((T, B)) < 0.2,
        "i": lambda: rng.integers(A, size=(T, B)),
        "q": lambda: single(rng.normal(size=(T, B, A))),
        "π": lambda: single(rng.dirichlet(np.ones(A), size=(T, B))),
    }
    return [make[kind]() for kind in kinds]


def vtrace(*arguments, mask=None, **settings):
    return returns.vtrace(*arguments, sample_mask=mask, **settings)


def vtrace_advantage(*arguments, mask=None, **settings):
    return returns.vtrace_td_error_and_advantage(*arguments, sample_mask=mask, **settings).pg_advantage


def vtrace_q(*arguments, mask=None, **settings):
    return returns.vtrace_td_error_and_advantage(*arguments, sample_mask=mask, **settings).q_estimate


def discounted(r_t, discount_t, v_t, **settings):
    return returns.discounted_returns(r_t, discount_t, v_t, **settings)


def token_advantages(rewards, values, lambda_policy, lambda_value, discount, *, mask=None, time_axis=0, **settings):
    return returns.token_gae(
        rewards, values, mask, lambda_policy, lambda_value, discount=discount, time_axis=time_axis, **settings
    ).advantages


def token_targets(rewards, values, lambda_policy, lambda_value, discount, *, mask=None, time_axis=0, **settings):
    return returns.token_gae(
        rewards, values, mask, lambda_policy, lambda_value, discount=discount, time_axis=time_axis, **settings
    ).targets


FUNCTIONS = {
    "gae": (returns.gae, "rrrbbuu"),
    "lambda_returns": (returns.lambda_returns, "ruru"),
    "discounted_returns": (discounted, "rur"),
    "td_lambda": (returns.td_lambda, "rruru"),
    "upgo_returns": (returns.upgo_returns, "rur"),
    "vtrace": (vtrace, "rrrupu"),
    "vtrace_advantage": (vtrace_advantage, "rrrupu"),
    "vtrace_q": (vtrace_q, "rrrupu"),
    "retrace": (returns.retrace, "qqiiruπpu"),
    "token_advantages": (token_advantages, "rruuu"),
    "token_targets": (token_targets, "rruuu"),
}


def piece_by_piece(function, arrays, mask, groups):
    """The function on each group of steps of each column alone; 0 elsewhere. `groups` are lists of indices."""
    out = np.zeros(mask.shape)
    for column in range(B):
        for steps in groups[column]:
            if len(steps):
                out[steps, column] = function(*(x[steps, column] for x in arrays))
    return out


def left(mask, ids, stops):
    """Per column, the groups of steps that make one sequence each."""
    found = []
    for column in range(B):
        groups, before = [], None
        for t in range(T):
            if not mask[t, column]:
                before = None if stops else before
                continue
            if before is None or ids[t, column] != ids[before, column]:
                groups.append([])
            groups[-1].append(t)
            before = t
        found.append([np.array(group) for group in groups])
    return found


def spoiled(arrays, mask):
    """NaN where masked; flags the other way round, indices that do not exist."""
    bad = {"f": np.nan, "b": True, "i": 99}
    return [
        np.where(mask.reshape(mask.shape + (1,) * (x.ndim - 2)), x, np.array(bad[x.dtype.kind], x.dtype))
        for x in arrays
    ]


def case(seed):
    """(mask, segment ids): padding in front, behind, in the middle, everywhere; ids grow along time."""
    rng = np.random.default_rng(seed)
    mask = rng.random((T, B)) < 0.6
    mask[:2, 0] = mask[-3:, 1] = mask[:, 2] = False
    mask[:, 3] |= seed % 2 == 0
    return mask, np.cumsum(rng.random((T, B)) < 0.3, axis=0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_masked_steps_might_as_well_not_be_there(backend, name):
    function, kinds = FUNCTIONS[name]
    for seed in range(2):
        mask, ids = case(seed)
        arrays = drawn(kinds, np.random.default_rng(seed))
        hidden = spoiled(arrays, mask)
        for stops, segments in ((False, False), (False, True), (True, False), (True, True)):
            groups = left(mask, ids if segments else np.zeros_like(ids), stops)
            expected = piece_by_piece(function, arrays, mask, groups)

            def masked(mask, ids, *arrays, stops=stops, segments=segments, **settings):
                named = {"mask": mask, "masked": "stop" if stops else "pass", "segment_ids": ids if segments else None}
                return function(*arrays, **named, **settings)

            random_ids = np.where(mask, ids, 99) if not stops else ids  # ids of masked steps are not read either
            found = backend(masked, mask, random_ids, *hidden)
            close(found, expected, 4 * backend.tolerance, *arrays[:1])
            if seed == 0 and not segments:
                turned = [np.swapaxes(x, 0, 1).copy() for x in (mask, random_ids, *hidden)]
                close(backend(masked, *turned, time_axis=1).T, expected, 4 * backend.tolerance, *arrays[:1])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_segments_of_one_row_are_sequences_of_their_own(backend, name):
    function, kinds = FUNCTIONS[name]
    arrays, (_, ids) = drawn(kinds, np.random.default_rng(0)), case(0)
    everything = np.ones((T, B), dtype=bool)
    expected = piece_by_piece(function, arrays, everything, left(everything, ids, False))

    def packed(ids, *arrays, **settings):
        return function(*arrays, segment_ids=ids, **settings)

    close(backend(packed, ids, *arrays), expected, 4 * backend.tolerance, *arrays[:1])


@pytest.mark.parametrize("name", ["lambda_returns", "vtrace_q", "token_targets"])
def test_masks_under_jit_and_vmap(name):
    function, kinds = FUNCTIONS[name]
    arrays, (mask, ids) = drawn(kinds, np.random.default_rng(0)), case(0)
    expected = function(*spoiled(arrays, mask), mask=mask, segment_ids=ids)
    each = jax.vmap(lambda mask, ids, *arrays: function(*arrays, mask=mask, segment_ids=ids), in_axes=1, out_axes=1)
    found = jax.jit(each)(mask, ids, *spoiled(arrays, mask))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tokens_are_scored_as_defined(backend):
    """Against explicit sums: λ of the state that a token is written in, permuted within the sequence too."""
    rng = np.random.default_rng(0)
    rewards, values, policy, critic, discount = drawn("rruuu", rng)
    mask, last = case(1)[0], single(rng.normal(size=(1, B)))
    rewards = np.where(mask, rewards, 0.0)
    for order in (np.arange(T), rng.permutation(T)):

        def tokens(rewards, values, mask, policy, critic, discount, last, which=0, order=order, **settings):
            arguments = (rewards, values, mask, policy[order], critic[order])
            return returns.token_gae(*arguments, discount=discount, last_values=last, time_axis=0, **settings)[which]

        for which, lambdas in enumerate((policy[order], critic[order])):
            expected = np.zeros((T, B))
            for column in range(B):
                (steps,) = np.nonzero(mask[:, column])
                if len(steps):
                    r, v, g, lam = (x[steps, column] for x in (rewards, values, discount, lambdas))
                    following = np.append(v[1:], last[0, column])
                    found = definitions.lambda_return(r, g, following, np.append(lam[1:], 0.0))
                    expected[steps, column] = found - (v if which == 0 else 0.0)
            found = backend(tokens, rewards, values, mask, policy, critic, discount, last, which=which)
            close(found, expected, backend.tolerance, rewards, values)


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_number_per_sequence_serves_its_tokens(backend):
    rewards, values, lambdas, _ = drawn("rruu", np.random.default_rng(0))
    per_sequence = lambdas[:1]

    def tokens(rewards, values, lambda_, **settings):
        return returns.token_gae(rewards, values, None, lambda_, 0.5, time_axis=0, **settings).advantages

    wide = np.broadcast_to(per_sequence, (T, B)).copy()
    close(backend(tokens, rewards, values, per_sequence), backend(tokens, rewards, values, wide), 1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_whitening_counts_what_is_not_masked(backend):
    (x,), mask = drawn("r", np.random.default_rng(0)), case(0)[0]
    kept = x[mask]
    for shift in (True, False):

        def whiten(x, mask, shift=shift, **settings):
            return returns.masked_whiten(x, mask, shift)

        expected = np.zeros((T, B))
        expected[mask] = (kept - kept.mean()) / np.sqrt(kept.var(ddof=1) + 1e-8) + (0 if shift else kept.mean())
        close(backend(whiten, np.where(mask, x, np.nan), mask), expected, 4 * backend.tolerance)


def test_lengths_make_a_mask():
    expected = [[True, True, False], [False, False, False], [True, True, True]]
    arrays = [np.array([2, 0, 3]), jnp.array([2, 0, 3]), *([torch.tensor([2, 0, 3])] if torch is not None else [])]
    for lengths in arrays:
        assert returns.length_mask(lengths, 3).tolist() == expected


DIFFERENTIABLE = [name for name in FUNCTIONS if name != "retrace"]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_do_not_come_from_masked_steps(name):
    """With gradients through everything: finite, 0 where masked, and those of the steps that are left elsewhere."""
    function, kinds = FUNCTIONS[name]
    arrays, (mask, _) = drawn(kinds, np.random.default_rng(0)), case(0)
    hidden = spoiled(arrays, mask)
    floating = [k for k, kind in enumerate(kinds) if kind not in "b"]
    column, steps = 3, np.nonzero(mask[:, 3])[0]

    def total(given, mask):
        found = function(*given, mask=mask, stop_target_gradients=False)
        return (found * np.arange(1.0, 1.0 + len(found)).reshape((-1,) + (1,) * (found.ndim - 1))).sum()

    def short(*some):
        given = [some[floating.index(k)] if k in floating else arrays[k][steps, 3] for k in range(len(arrays))]
        return (function(*given, stop_target_gradients=False) * (1.0 + steps)).sum()

    with jax.enable_x64(True):

        def loss(*some):
            return total([some[floating.index(k)] if k in floating else hidden[k] for k in range(len(hidden))], mask)

        every = tuple(range(len(floating)))
        found = jax.grad(loss, every)(*(jnp.asarray(hidden[k]) for k in floating))
        expected = jax.grad(short, every)(*(jnp.asarray(arrays[k][steps, 3]) for k in floating))
    for ours, theirs in zip(found, expected, strict=True):
        assert np.all(np.asarray(ours)[~mask] == 0.0)
        np.testing.assert_allclose(np.asarray(ours)[steps, column], theirs, rtol=1e-9, atol=1e-12)
    if torch is not None:
        given = [torch.tensor(x, requires_grad=k in floating) for k, x in enumerate(hidden)]
        result = function(*given, mask=torch.tensor(mask), stop_target_gradients=False)
        (result * torch.arange(1.0, 1.0 + T)[:, None]).sum().backward()
        for k, ours in zip(floating, found, strict=True):
            theirs = given[k].grad
            np.testing.assert_allclose(0.0 if theirs is None else theirs, ours, rtol=1e-9, atol=1e-12)


@needs_torch
def test_masked_tokens_compile_as_one_graph():
    rng = np.random.default_rng(0)
    rewards, values, policy, critic = (torch.tensor(x, dtype=torch.float32) for x in drawn("rruu", rng))
    mask = torch.tensor(case(0)[0])

    def score(rewards, values, mask, policy, critic):
        return returns.token_gae(rewards, values, mask, policy, critic, time_axis=0)

    compiled = torch.compile(score, fullgraph=True, backend="aot_eager")
    arguments = (rewards, values, mask, policy, critic)
    for ours, reference in zip(compiled(*arguments), score(*arguments), strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision_tokens(name):
    rewards, values, policy, critic = drawn("rruu", np.random.default_rng(0))
    mask, ids = case(0)
    ids = 1000 + ids  # more than 16 bits tell apart
    made = [[jnp.asarray(x, name) for x in (rewards, values, policy, critic)]]
    if torch is not None:
        made.append([torch.tensor(x).to(getattr(torch, name)) for x in (rewards, values, policy, critic)])
    for r, v, p, c in made:
        flags, segments = (mask, ids) if isinstance(r, jax.Array) else (torch.tensor(mask), torch.tensor(ids))
        found = returns.token_gae(r, v, flags, p, c, segment_ids=segments, time_axis=0).targets
        assert str(found.dtype).endswith(name)
        exact = [np.asarray(x.tolist()) for x in (r, v, p, c)]
        reference = returns.token_gae(*exact[:2], mask, *exact[2:], segment_ids=ids, time_axis=0).targets
        np.testing.assert_allclose(np.asarray(found.tolist()), reference, rtol=0.01, atol=0.02)


def test_bad_masks_are_named():
    r = np.ones((4, 3))
    with pytest.raises(ValueError, match=r"^mask: got shape \(3, 4\), takes \(4, 3\)"):
        returns.lambda_returns(r, 0.9, r, mask=np.ones((3, 4), bool))
    with pytest.raises(ValueError, match=r"^mask: got 0.5, takes bools"):
        returns.lambda_returns(r, 0.9, r, mask=np.full((4, 3), 0.5))
    with pytest.raises(TypeError, match=r"^segment_ids: got an array of float64, takes integers"):
        returns.lambda_returns(r, 0.9, r, segment_ids=r)
    with pytest.raises(ValueError, match=r"^last_values: got shape \(3,\), takes \(3, 1\) with one entry per sequence"):
        returns.token_gae(np.ones((3, 3)), np.ones((3, 3)), None, 0.9, 0.9, last_values=np.ones(3))
    with pytest.raises(TypeError, match=r"^rewards: got a masked array, takes a plain one"):
        returns.token_gae(np.ma.ones((3, 3)), r[:3], None, 0.9, 0.9)
    with pytest.raises(ValueError, match=r"^masked: got 'skip', takes 'pass' or 'stop'"):
        returns.lambda_returns(r, 0.9, r, masked="skip")
    with pytest.raises(ValueError, match=r"^r_t: got nan, takes finite numbers"):
        returns.lambda_returns(np.full((4, 3), np.nan), 0.9, r, mask=np.arange(12).reshape(4, 3) > 5)


def test_only_rewards_move_from_under_a_mask():
    x, mask = np.arange(6.0), np.array([1, 1, 0, 1, 0, 1], bool)
    np.testing.assert_allclose(returns.masked_whiten(x, mask)[mask], returns.masked_whiten(x[mask]))
    assert returns.unexplained_lambda(x, 2 * x, mask) == returns.unexplained_lambda(x[mask], 2 * x[mask])


@pytest.mark.parametrize("make", [np.asarray, jnp.asarray, *([torch.tensor] if torch is not None else [])])
def test_a_masked_reward_stays_in_its_segment(make):
    """The 2 stands at a masked step of the second sequence, before its first token: it belongs to nobody."""
    rewards, values = make(np.array([[0.0, 1.0, 2.0, 3.0]])), make(np.zeros((1, 4)))
    mask, ids = make(np.array([[True, False, False, True]])), make(np.array([[5, 5, 9, 9]]))
    found = returns.token_gae(rewards, values, mask, 1.0, 1.0, segment_ids=ids)
    assert np.asarray(found.targets).tolist() == [[1.0, 0.0, 0.0, 3.0]]
    without = returns.token_gae(rewards, values, mask, 1.0, 1.0)
    assert np.asarray(without.targets).tolist() == [[6.0, 0.0, 0.0, 3.0]]


def test_errors_call_the_mask_by_its_name():
    r = np.zeros((1, 3))
    with pytest.raises(ValueError, match=r"^mask: got shape \(1, 2\), takes \(1, 3\)"):
        returns.token_gae(r, r, np.ones((1, 2), bool), 0.9, 0.9)
    with pytest.raises(TypeError, match=r"^mask: got a masked array"):
        returns.token_gae(r, r, np.ma.masked_array(r == 0), 0.9, 0.9)
    with pytest.raises(ValueError, match=r"^mask: got 2"):
        returns.length_lambda(r + 2)
