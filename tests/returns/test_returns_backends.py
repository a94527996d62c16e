"""Every backend against definitions written as explicit sums: random λ per step, terminations and truncations."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from chunked_td import returns
from helpers import return_definitions as definitions
from helpers.optional import needs
from helpers.return_backends import BACKENDS, close, needs_torch, torch

LAYOUTS = [((1,), 0), ((7,), 0), ((5, 5), 0), ((5, 5), 1), ((4, 3, 2), 1), ((6, 2, 2), 0)]
NUMBERS = st.floats(-10, 10, width=32)  # numbers that float32 holds exactly, so that the inputs are the same
UNIT = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1, width=32))
few = settings(max_examples=20)


@st.composite
def arrays(draw, *kinds):
    """(arrays, shape, time axis): one array per kind, "r" for any numbers, "u" for [0, 1], "b" for bools."""
    shape, axis = draw(st.sampled_from(LAYOUTS))
    elements = {"r": (np.float64, NUMBERS), "u": (np.float64, UNIT), "b": (np.bool_, st.booleans())}
    return [draw(hnp.arrays(elements[kind][0], shape, elements=elements[kind][1])) for kind in kinds], shape, axis


@pytest.mark.parametrize("backend", BACKENDS)
@given(arrays("r", "u", "r", "u"))
@few
def test_lambda_returns_are_the_mean_over_where_one_bootstraps(backend, drawn):
    given_arrays, shape, axis = drawn
    reference = definitions.each_trajectory(definitions.lambda_return, given_arrays, shape, axis)
    ours = backend(returns.lambda_returns, *given_arrays, time_axis=axis)
    close(ours, reference, backend.tolerance, *given_arrays)


@pytest.mark.parametrize("backend", BACKENDS)
@given(arrays("r", "r", "r", "b", "b", "u", "u"))
@few
def test_gae_is_the_sum_of_td_errors_within_an_episode(backend, drawn):
    given_arrays, shape, axis = drawn
    reference = definitions.each_trajectory(definitions.gae, given_arrays, shape, axis)
    ours = backend(returns.gae, *given_arrays, time_axis=axis)
    close(ours, reference, backend.tolerance, *given_arrays)


@pytest.mark.parametrize("backend", BACKENDS)
@given(arrays("r", "r", "r", "u", "r", "u"), st.sampled_from([0.5, 1.0, 2.0]))
@few
def test_vtrace_is_the_weighted_sum_of_td_errors(backend, drawn, clip):
    given_arrays, shape, axis = drawn
    given_arrays[4] = np.abs(given_arrays[4]) / 4  # ratios, some above 1
    reference = definitions.each_trajectory(lambda *a: definitions.vtrace_errors(*a, clip), given_arrays, shape, axis)
    ours = backend(returns.vtrace, *given_arrays, clip_rho_threshold=clip, time_axis=axis)
    close(ours, reference, backend.tolerance, *given_arrays)


@pytest.mark.parametrize("backend", BACKENDS)
@given(arrays("r", "u", "r", "u"), st.sampled_from([1, 2, 3, 6, 20]))
@few
def test_n_step_returns_are_those_of_numpy(backend, drawn, n):
    """NumPy's are checked against rlax elsewhere."""
    given_arrays, _, axis = drawn
    reference = returns.n_step_bootstrapped_returns(*given_arrays[:3], n, given_arrays[3], time_axis=axis)

    def n_step(r_t, discount_t, v_t, lambda_t, **settings):
        return returns.n_step_bootstrapped_returns(r_t, discount_t, v_t, n, lambda_t, time_axis=axis, **settings)

    close(backend(n_step, *given_arrays), reference, backend.tolerance, *given_arrays)


@pytest.mark.parametrize("backend", BACKENDS)
@given(arrays("r", "u", "r", "b"))
@few
def test_chunked_targets_bootstrap_at_kept_states_only(backend, drawn):
    (r_t, discount_t, v_t, keep_t), shape, axis = drawn
    reference = definitions.each_trajectory(
        definitions.lambda_return, [r_t, discount_t, v_t, ~keep_t * 1.0], shape, axis
    )
    ours = backend(returns.chunked_targets, r_t, discount_t, v_t, keep_t, time_axis=axis)
    close(ours, reference, backend.tolerance, r_t, v_t)


@pytest.mark.parametrize("backend", BACKENDS)
@given(arrays("r", "r", "u", "r", "u"))
@few
def test_td_lambda_is_the_return_less_the_value(backend, drawn):
    given_arrays, shape, axis = drawn
    reference = definitions.each_trajectory(definitions.lambda_return, given_arrays[1:], shape, axis) - given_arrays[0]
    ours = backend(returns.td_lambda, *given_arrays, time_axis=axis)
    close(ours, reference, backend.tolerance, *given_arrays)


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_and_arrays_of_one_axis_serve_all_trajectories(backend):
    """T = B, and a λ per step: the trap in which an array of one axis is taken for one λ per trajectory."""
    rng = np.random.default_rng(0)
    r_t, v_t = rng.normal(size=(2, 4, 4)).astype(np.float32).astype(np.float64)
    lambda_t = np.array([0.0, 1.0, 0.5, 0.25])
    for axis in (0, 1):
        wide = np.broadcast_to(lambda_t[:, None] if axis == 0 else lambda_t, (4, 4))
        reference = definitions.each_trajectory(
            definitions.lambda_return, [r_t, np.full((4, 4), 0.5), v_t, wide], (4, 4), axis
        )
        close(backend(returns.lambda_returns, r_t, 0.5, v_t, lambda_t, time_axis=axis), reference, backend.tolerance)
        close(backend(returns.lambda_returns, r_t, 0.5, v_t, wide, time_axis=axis), reference, backend.tolerance)


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_lambda_per_step_serves_all_reward_components(backend):
    rng = np.random.default_rng(0)
    rewards, values, next_values = rng.integers(-8, 8, size=(3, 3, 3, 3)).astype(np.float64)
    terminated, truncated = rng.random((2, 3, 3)) < 0.2
    lambda_ = rng.integers(0, 5, size=(3, 3)) / 4
    reference = definitions.each_trajectory(
        definitions.gae,
        [
            rewards,
            values,
            next_values,
            *(x[..., None] for x in (terminated, truncated)),
            np.full(1, 0.5),
            lambda_[..., None],
        ],
        (3, 3, 3),
        0,
    )
    ours = backend(returns.gae, rewards, values, next_values, terminated, truncated, 0.5, lambda_)
    close(ours, reference, backend.tolerance)


@pytest.mark.parametrize("backend", BACKENDS)
def test_truncation_bootstraps_and_termination_does_not(backend):
    """Two episodes of two steps in one rollout. The value after the cut is 10, that of the next first state 7."""
    rewards, values = np.array([1.0, 1.0, 1.0, 1.0]), np.array([3.0, 4.0, 7.0, 8.0])
    next_values = np.array([4.0, 10.0, 8.0, 20.0])
    none, second = np.zeros(4, dtype=bool), np.array([False, True, False, False])
    last = np.array([False, False, False, True])
    arguments = [rewards, values, next_values]
    cut = backend(returns.gae, *arguments, last, second, 0.5, 1.0)
    np.testing.assert_allclose(cut, [1 + 0.5 * (1 + 0.5 * 10) - 3, 1 + 0.5 * 10 - 4, 1 + 0.5 - 7, 1 - 8])
    ended = backend(returns.gae, *arguments, last | second, none, 0.5, 1.0)
    np.testing.assert_allclose(ended, [1 + 0.5 * 1 - 3, 1 - 4, 1 + 0.5 - 7, 1 - 8])
    unaware = backend(returns.gae, rewards, values, np.array([4.0, 7.0, 8.0, 20.0]), last, none, 0.5, 1.0)
    assert abs(unaware[0] - cut[0]) > 0.5  # credit leaks from the second episode into the first
    both = backend(returns.gae, *arguments, last | second, second, 0.5, 1.0)
    np.testing.assert_array_equal(both, ended)  # an episode that terminated at its time limit has terminated


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_comes_after_termination_is_not_read(backend):
    next_values = np.array([2.0, 1e30])
    arguments = [np.ones(2), np.ones(2), next_values, np.array([False, True]), np.zeros(2, dtype=bool)]
    np.testing.assert_allclose(backend(returns.gae, *arguments, 0.5, 1.0), [1.0, 0.0])


def test_gae_is_the_lambda_return_less_the_value():
    """With γ_t = 0 at termination, and λ_t = 0 and the right value at a cut, the two indexings agree."""
    rng = np.random.default_rng(1)
    rewards, values, next_values = rng.normal(size=(3, 30))
    terminated, truncated = rng.random((2, 30)) < 0.2
    lambda_ = rng.random(30)
    goes_on = ~(terminated | truncated)
    next_values[:-1][goes_on[:-1]] = values[1:][goes_on[:-1]]
    lambda_t = np.where(truncated, 0.0, np.append(lambda_[1:], 0.0))
    targets = returns.lambda_returns(rewards, np.where(terminated, 0.0, 0.9), next_values, lambda_t)
    advantages = returns.gae(rewards, values, next_values, terminated, truncated, 0.9, lambda_)
    np.testing.assert_allclose(advantages, targets - values, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_long_trajectories_stay_exact(backend):
    """2,048 steps with γλ near 1: the error in float32 stays within 1e-5 of the largest return."""
    rng = np.random.default_rng(0)
    r_t, v_t = rng.normal(size=(2, 2048, 3)).astype(np.float32).astype(np.float64)
    lambda_t = rng.uniform(0.9, 1.0, size=(2048, 3)).astype(np.float32).astype(np.float64)
    reference = returns.lambda_returns(r_t, 0.996, v_t, lambda_t)
    ours = backend(returns.lambda_returns, r_t, 0.996, v_t, lambda_t)
    close(ours, reference, 1e-12 if backend.dtype == "float64" else 1e-5)


def test_the_scans_of_jax_agree():
    from chunked_td.returns._jax import associative_scan, serial_scan

    rng = np.random.default_rng(0)
    b, a = jnp.asarray(rng.normal(size=(100, 3)), jnp.float32), jnp.asarray(rng.random((100, 3)), jnp.float32)
    a = a.at[::7].set(0.0)
    np.testing.assert_allclose(associative_scan(b, a, b[0]), serial_scan(b, a, b[0]), rtol=1e-5, atol=1e-5)


def test_jax_functions_under_vmap_and_scan():
    rng = np.random.default_rng(0)
    r_t, v_t = jnp.asarray(rng.normal(size=(2, 6, 4)), jnp.float32)
    lambda_t = jnp.asarray(rng.random((6, 4)), jnp.float32)
    together = returns.lambda_returns(r_t, 0.9, v_t, lambda_t)
    each = jax.vmap(lambda r, v, lam: returns.lambda_returns(r, 0.9, v, lam), in_axes=1, out_axes=1)(r_t, v_t, lambda_t)
    np.testing.assert_allclose(each, together, rtol=1e-6)
    _, stacked = jax.lax.scan(
        lambda _, x: (None, returns.lambda_returns(x[0], 0.9, x[1], x[2])), None, (r_t.T, v_t.T, lambda_t.T)
    )
    np.testing.assert_allclose(stacked.T, together, rtol=1e-6)


@needs_torch
def test_torch_functions_compile_as_one_graph():
    rng = np.random.default_rng(0)
    r, v, n, lam = (torch.tensor(x, dtype=torch.float32) for x in rng.random((4, 9, 4)))
    ends = [torch.tensor(x) for x in rng.random((2, 9, 4)) < 0.2]

    def both(r, v, n, lam, terminated, truncated):
        return returns.gae(r, v, n, terminated, truncated, 0.9, lam), returns.lambda_returns(r, 0.9, n, lam)

    compiled = torch.compile(both, fullgraph=True, backend="aot_eager")
    for ours, reference in zip(compiled(r, v, n, lam, *ends), both(r, v, n, lam, *ends), strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-6, atol=1e-6)


@needs_torch
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision_is_added_up_in_float32(name):
    rng = np.random.default_rng(0)
    dtype = getattr(torch, name)
    r, v, lam = (torch.tensor(x).to(dtype) for x in rng.random((3, 200)))
    ours = returns.lambda_returns(r, 0.99, v, lam)
    assert ours.dtype == dtype
    reference = returns.lambda_returns(r.double(), float(torch.tensor(0.99).to(dtype)), v.double(), lam.double())
    torch.testing.assert_close(ours.double(), reference, rtol=2 * torch.finfo(dtype).eps, atol=0)
    theirs = returns.lambda_returns(
        *(jnp.asarray(x.float().numpy(), name) for x in (r, torch.full_like(r, 0.99), v, lam))
    )
    assert theirs.dtype == name
    np.testing.assert_allclose(np.asarray(theirs, np.float64), reference, rtol=2 * torch.finfo(dtype).eps)


MIXED = """
import sys
import numpy as np
import chunked_td as ctd
ctd.lambda_returns(np.ones(3), 0.9, np.ones(3), 0.5)
assert "jax" not in sys.modules and "torch" not in sys.modules, "imported without need"
"""


def test_numpy_arrays_load_neither_jax_nor_torch():
    subprocess.run([sys.executable, "-c", MIXED], check=True)


def test_numpy_arrays_join_jax_arrays():
    result = returns.lambda_returns(np.ones(3), np.float64(0.9), jnp.ones(3), [0.5, 0.5, 0.5])
    assert isinstance(result, jax.Array)
    assert result.dtype == jnp.float32


@needs_torch
def test_numpy_arrays_join_torch_tensors():
    result = returns.gae(np.ones(3), torch.ones(3), np.ones(3), [False, False, True], np.zeros(3), 0.9, np.float64(0.5))
    assert isinstance(result, torch.Tensor)
    assert result.dtype == torch.float32


@needs_torch
def test_jax_beside_torch_is_refused():
    with pytest.raises(TypeError, match=r"^v_t: got a Torch tensor, takes a JAX array as r_t"):
        returns.lambda_returns(jnp.ones(3), 0.9, torch.ones(3), 0.5)


@pytest.mark.parametrize("shape", [(1, 1), (5,), (33, 7), (70, 64), (40, 3, 25)])
def test_the_kernel_for_gpus_equals_the_serial_scan(shape):
    from chunked_td.returns._jax import serial_scan
    from chunked_td.returns._pallas import one_pass

    rng = np.random.default_rng(0)
    b, start = jnp.asarray(rng.normal(size=shape)), jnp.asarray(rng.normal(size=shape[1:]))
    a = jnp.asarray(rng.random(shape) * (rng.random(shape) < 0.9))
    found = one_pass(lambda *row: row, (b, a), start, interpret=True)  # as the kernel says, on the CPU
    np.testing.assert_allclose(found, serial_scan(b, a, start), rtol=1e-6, atol=1e-6)


def test_the_kernel_for_gpus_reads_the_lambda_of_the_next_step():
    from chunked_td.returns import _formulas
    from chunked_td.returns._pallas import one_pass

    rng = np.random.default_rng(0)
    rewards, values, next_values = rng.normal(size=(3, 45, 37))
    terminated, truncated = rng.random((2, 45, 37)) < 0.1
    lambda_, formula = rng.random((45, 37)), functools.partial(_formulas.GAE.coefficients, jnp)
    arguments = [rewards, values, next_values, terminated, truncated, np.full((1, 1), 0.9), lambda_]
    found = one_pass(formula, [jnp.asarray(x) for x in arguments], jnp.zeros(37), ahead=6, interpret=True)
    expected = returns.gae(rewards, values, next_values, terminated, truncated, 0.9, lambda_)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_the_kernel_for_gpus_is_in_programs_for_them():
    from chunked_td.returns._pallas import one_pass

    table, row = jnp.zeros((100, 64)), jnp.zeros(64)
    kernel = jax.jit(lambda b, a, start: one_pass(lambda *row: row, (b, a), start))
    assert "triton" in kernel.trace(table, table, row).lower(lowering_platforms=("cuda",)).as_text()


def on_a_gpu():
    """A function that brings arrays to an NVIDIA GPU, per backend that finds one."""
    found = []
    if jax.default_backend() == "gpu":
        found.append(pytest.param(jnp.asarray, id="jax"))
    if torch is not None and torch.cuda.is_available():
        found.append(pytest.param(lambda x: torch.as_tensor(x, device="cuda"), id="torch"))
    return found or [pytest.param(None, marks=pytest.mark.skip(reason="needs an NVIDIA GPU"))]


@pytest.mark.parametrize("time_axis", [0, 1])
@pytest.mark.parametrize("shape", [(1, 1), (5, 1500), (130, 2000), (700, 3)])
@pytest.mark.parametrize("bring", on_a_gpu())
def test_gpus_give_what_numpy_gives(bring, shape, time_axis):
    compare_with_numpy(bring, shape, time_axis)


def compare_with_numpy(bring, shape, time_axis):
    rng = np.random.default_rng(0)
    shape = shape if time_axis == 0 else shape[::-1]
    r, v, following = rng.normal(size=(3, *shape)).astype(np.float32)
    rho, lambda_ = rng.random((2, *shape)).astype(np.float32)
    ends = rng.random((2, *shape)) < 0.05
    for function, arguments in (
        (returns.gae, (r, v, following, *ends, 0.99, lambda_)),
        (returns.gae, (r, v, following, ends[0], False, 0.99, 0.5)),
        (returns.lambda_returns, (r, 0.99, v, lambda_)),
        (returns.td_lambda, (v, r, 0.9, following, lambda_)),
        (returns.vtrace, (v, following, r, 0.99, rho, lambda_)),
    ):
        brought = [bring(x) if isinstance(x, np.ndarray) else x for x in arguments]
        found = np.asarray(function(*brought, time_axis=time_axis).tolist())
        expected = function(*arguments, time_axis=time_axis)
        assert np.abs(found - expected).max() <= 2e-6 * np.abs(expected).max() + 1e-6


def compare_gae(function, bring, shape, time_axis):
    """With λ and discount per step, and as numbers."""
    rng = np.random.default_rng(0)
    shape = shape if time_axis == 0 else shape[::-1]
    r, v, following, lambda_, discount = rng.random((5, *shape)).astype(np.float32)
    ends = rng.random((2, *shape)) < 0.05
    for coefficients in ((0.99, lambda_), (discount, 1), (discount, lambda_)):
        arguments = (r, v, following, *ends, *coefficients)
        found = function(*(bring(x) if isinstance(x, np.ndarray) else x for x in arguments), time_axis=time_axis)
        expected = returns.gae(*arguments, time_axis=time_axis)
        assert np.abs(np.asarray(found.tolist()) - expected).max() <= 2e-6 * np.abs(expected).max() + 1e-6


def compare_tokens(function, bring, shape, time_axis):
    """Masked tokens with two λ, as numbers, per token and per sequence; NaN where masked."""
    rng = np.random.default_rng(0)
    r, v = rng.normal(size=(2, *shape)).astype(np.float32)
    policy, critic, discount = rng.random((3, *shape)).astype(np.float32)
    last = rng.normal(size=(1, shape[1]) if time_axis == 0 else (shape[0], 1)).astype(np.float32)
    mask = rng.random(shape) < 0.7
    holed = np.where(mask, r, np.nan).astype(np.float32)
    for arguments in (
        (r, v, None, 0.9, 1.0, 0.99, 0.0, time_axis),
        (holed, v, mask, policy, critic, discount, last, time_axis),
        (holed, v, mask, last * 0 + 0.5, 0.95, 1.0, 0.5, time_axis),
    ):
        found = function(*(bring(x) if isinstance(x, np.ndarray) else x for x in arguments))
        *first, discount_, last_, _ = arguments
        expected = returns.token_gae(*first, discount=discount_, last_values=last_, time_axis=time_axis)
        for ours, theirs in zip(found, expected, strict=True):
            ours = np.asarray(ours.tolist())
            assert np.abs(ours - theirs).max() <= 4e-6 * np.abs(theirs).max() + 1e-6


@pytest.mark.parametrize("time_axis", [0, 1])
@pytest.mark.parametrize("shape", [(1, 1), (40, 1500), (700, 3)])
@pytest.mark.parametrize("bring", on_a_gpu())
def test_gpus_score_tokens_as_numpy_does(bring, shape, time_axis):
    def score(*arguments):
        *first, discount, last, axis = arguments
        return returns.token_gae(*first, discount=discount, last_values=last, time_axis=axis)

    compare_tokens(score, bring, shape, time_axis)
    compare_gae(returns.gae, bring, shape, time_axis)


IN_THE_INTERPRETER = """
import contextlib, torch
torch.cuda.device = lambda device: contextlib.nullcontext()
torch.cuda.current_device = lambda: 0
import test_returns_backends as tests
from chunked_td.returns import _torch, _triton
_torch._compiled_loops_fit = lambda given, stop: False
_torch._kernels = lambda tensors: _triton

def in_one_launch(*arguments, time_axis):
    found = _torch.gae_on_gpu(arguments, time_axis)
    assert found is not None
    return found

for shape in ((1, 1), (37, 5), (5, 40)):
    for time_axis in (0, 1):
        tests.compare_with_numpy(torch.as_tensor, shape, time_axis)
        tests.compare_tokens(lambda *a: _torch.token_gae_on_gpu(a[:-1], a[-1]), torch.as_tensor, shape, time_axis)
        tests.compare_gae(in_one_launch, torch.as_tensor, shape, time_axis)
        r, ends = torch.rand(shape), torch.rand(shape) < 0.3
        found = in_one_launch(r, r, r, ends, False, 0.9, 0.8, time_axis=time_axis)
        torch.testing.assert_close(found, in_one_launch(r, r, r, ends, ends & False, 0.9, 0.8, time_axis=time_axis))
"""


@needs("triton")
def test_the_kernel_of_torch_as_its_interpreter_runs_it():
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", IN_THE_INTERPRETER], env=environment, check=True, timeout=300)


@needs("triton")
def test_the_kernel_for_tokens_compiles_for_a_gpu():
    """To machine code of an H100, which needs no GPU: as Triton's compiler, not its interpreter, reads it."""
    path = os.pathsep.join(sys.path)
    subprocess.run([sys.executable, "-W", "ignore", "-c", COMPILE], env={**os.environ, "PYTHONPATH": path}, check=True)


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from chunked_td.returns._triton import _tokens

for rows in (True, False):
    sizes = {"MASKED": True, "POLICY": True, "CRITIC": False, "DISCOUNT": False, "LAST": True}
    sizes |= {"PARTS": 64, "COLUMNS": 1 if rows else 4, "ROWS": rows}
    kinds = {"mask": "*u8", **dict.fromkeys(("steps", "columns", "stride", "column_stride"), "i32")}
    kinds |= {name: "constexpr" for name in sizes}
    names = _tokens.arg_names
    signature = {name: kinds.get(name, "fp32" if name.startswith("one_") else "*fp32") for name in names}
    source = ASTSource(fn=_tokens, signature=signature, constexprs={(names.index(n),): v for n, v in sizes.items()})
    assert triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]
"""


@needs("triton")
def test_a_compiled_program_is_kept_for_calls_like_it(monkeypatch):
    """Its key: sizes that are 1 or multiples of 16, where tensors begin, and the options."""
    from chunked_td.returns import _triton

    calls = []

    class Kernel:
        """Of Triton: a call returns the compiled program, which takes calls of its own."""

        def __init__(self, name):
            self.name = name

        def __getitem__(self, grid):
            def call(*given, num_warps=None):
                calls.append((self.name, grid, given, num_warps))
                return Kernel("compiled")

            return call

    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    kernel, x = Kernel("looked up"), torch.zeros(64)
    for tensor, size, options in [(x, 32, (1,)), (x, 48, (1,)), (x, 33, (1,)), (x, 32, (2,)), (x[1:], 32, (1,))]:
        _triton._launch(kernel, 3, 4, [tensor], [size], (tensor, size), options)
    assert [name for name, *_ in calls] == ["looked up", "compiled", "looked up", "looked up", "looked up"]
    assert calls[1][1:] == ((3, 1, 1), (x, 48, 1), None)
