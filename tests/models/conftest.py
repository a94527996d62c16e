"""Settings of the tests with networks."""

from __future__ import annotations

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def compile_quickly():
    """Toy networks take longer to compile than to train: leave out the compiler's dearest passes.

    The benchmarks and the lab's tests run the programs as they are used.
    """
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
