"""The backends as the tests see them: how to make an array of each, and how to read it back."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.optional import needs

try:
    import torch
except ImportError:
    torch: Any = None


needs_torch = needs("torch")


class Backend(NamedTuple):
    name: str
    dtype: str
    array: Any  # from a NumPy array
    wrap: Any  # such as jit
    tolerance: float
    settings: Any  # for every call

    def __call__(self, function, *arguments, **settings):
        """The result as a NumPy array, from NumPy arguments; numbers stay numbers."""
        with jax.enable_x64(True) if self.name == "jax" and self.dtype == "float64" else contextlib.nullcontext():
            given = [self.array(x) if isinstance(x, np.ndarray) else x for x in arguments]
            result = self.wrap(lambda *a: function(*a, **self.settings, **settings))(*given)
            assert str(result.dtype).endswith(self.dtype)
            return np.asarray(result)


def _jax(dtype, wrap, name):
    def array(x):
        return jnp.asarray(x, dtype if x.dtype.kind == "f" else None)

    return pytest.param(Backend("jax", dtype, array, wrap, TOLERANCE[dtype], {}), id=f"{name}-{dtype}")


def _torch(dtype, wrap, name, **settings):
    def array(x):
        return torch.as_tensor(x.copy(), dtype=getattr(torch, dtype) if x.dtype.kind == "f" else None)

    backend = Backend("torch", dtype, array, wrap, TOLERANCE[dtype], settings)
    return pytest.param(backend, id=f"{name}-{dtype}", marks=needs_torch)


def without_compiled_loops(function):
    """Torch as on a GPU: a gradient is asked for, so the doubling scan runs."""

    def run(*arguments):
        asked = [
            x.clone().requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
            for x in arguments
        ]
        return function(*asked).detach()

    return run


def plain(function):
    return function


TOLERANCE = {"float64": 1e-12, "float32": 1e-6}
NUMPY = [pytest.param(Backend("numpy", "float64", np.array, plain, 1e-12, {}), id="numpy")]
JAX = [_jax(dtype, wrap, name) for dtype in TOLERANCE for wrap, name in ((plain, "jax"), (jax.jit, "jit"))]
TORCH = [_torch(dtype, plain, "torch") for dtype in TOLERANCE]
DOUBLING = [_torch(d, without_compiled_loops, "doubling", stop_target_gradients=False) for d in TOLERANCE]
BACKENDS = [*NUMPY, *JAX, *TORCH, *DOUBLING]


def close(ours, reference, tolerance, *inputs):
    """Within `tolerance` of the largest number around: where large numbers cancel, their rounding stays."""
    sizes = [float(np.abs(x).max(initial=0.0)) for x in (reference, *inputs)]
    np.testing.assert_allclose(ours, reference, rtol=0.0, atol=tolerance * max(1.0, *sizes))
