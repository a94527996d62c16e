"""The rivals in benchmarks/returns.py compute what we compute. No test here looks at a time."""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks import returns as benchmark
from benchmarks import returns_tokens as tokens
from helpers import return_definitions as definitions


def test_rivals_compute_the_same():
    data = benchmark.rollout(20, 3)
    ordered = [data[name] for name in ("rewards", "values", "next_values", "terminated", "truncated")]
    discount = np.full((20, 3), benchmark.GAMMA)
    reference = definitions.each_trajectory(definitions.gae, [*ordered, discount, data["lambda_"]], (20, 3), 0)
    names = set()
    for title, programs in benchmark.backends(data, argparse.Namespace(only=None, compile=False, no_cpu=False)):
        for name, program in programs:
            result = benchmark.as_numpy(program())
            np.testing.assert_allclose(result, reference, rtol=2e-5, atol=2e-5, err_msg=f"{title}: {name}")
            names.add(name)
    assert {"ours", "associative scan", "rlax, vmap"} <= names


def test_rivals_that_score_all_tokens_compute_the_same():
    data, names = tokens.batch(4, 24), set()
    reference, *_ = (program()[0] for _, _, program in tokens.numpy_programs(*data))
    for title, programs in tokens.tables(data, no_cpu=False):
        for name, kind, program in programs:
            if kind == "all":
                result = benchmark.as_numpy(program()[0])
                np.testing.assert_allclose(result, reference, rtol=2e-5, atol=2e-5, err_msg=f"{title}: {name}")
                names.add(name)
    assert "ours" in names
